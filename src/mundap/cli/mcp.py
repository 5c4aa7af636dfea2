"""`mundap mcp`."""

import sys
from typing import Any

import click

from mundap.cli import shared
from mundap.cli.serve import named, token


@click.command()
@click.option("-i", "--index", "indexes", multiple=True, metavar="[NAME=]DIR", help="An index, under a name of your "
              "own if you like (repeatable). [default: .mundap/ here or in the nearest parent]")  # fmt: skip
@click.option("--http", is_flag=True, help="Serve over HTTP, at /mcp, instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen at. Beyond "
              "this machine a token is needed.")  # fmt: skip
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="With --http: the "
              "port to listen at; 0 for any free one.")  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), help="With --http: a file with the token "
              "clients must show. [default: the environment variable MUNDAP_TOKEN]")  # fmt: skip
@shared.READER
def mcp(indexes: tuple[str, ...], http: bool, token_file: str | None, reader: str | None, **options: Any) -> None:
    """Give assistants tools: search, ask, and fetch passages and documents (Model Context Protocol).

    An assistant starts this itself, and talks to it through standard input and output; see docs/assistants.md for what
    to write into its settings. With --http it is a server that several can use.

    \b
    Examples:
      mundap mcp -i /home/me/notes/.mundap
      mundap mcp -i docs=i -i wiki=w --http
    """
    from mundap.errors import ExtraMissing

    try:
        from mundap.serving import mcp as tools
    except ModuleNotFoundError as error:
        raise ExtraMissing("mundap mcp", "mcp") from error
    from mundap.serving.settings import Settings

    settings = Settings(named(indexes), token=token(token_file), reader=reader, **options)
    if http:
        from mundap.serving import server

        server.serve(settings, lambda address: click.echo(f"Serving at {address}{tools.PATH}"), tools.create_app)
    else:
        if sys.stdin.isatty():
            shared.note("Waiting for an assistant, which should start this itself: docs/assistants.md. Ctrl-C ends.")
        tools.serve_stdio(settings)
