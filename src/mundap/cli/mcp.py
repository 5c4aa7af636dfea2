"""`mundap mcp`."""

import sys
from typing import Any

import click

from mundap.cli import shared
from mundap.cli.serve import named, token


@click.command()
@click.option("-i", "--index", "indexes", multiple=True, metavar="[NAME=]DIR", help="An index, optionally with a "
              "name (repeatable). [default: .mundap/ here or in the nearest parent]")  # fmt: skip
@click.option("--http", is_flag=True, help="Serve over HTTP, at /mcp, instead of standard input and output.")
@click.option("--host", default="127.0.0.1", show_default=True, help="With --http: the address to listen on. Needs a "
              "token unless it is this machine only.")  # fmt: skip
@click.option("--port", default=8765, show_default=True, type=click.IntRange(0, 65535), help="With --http: the port "
              "to listen on; 0 for any free one.")  # fmt: skip
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), help="With --http: a file with the token "
              "that clients must send. [default: the environment variable MUNDAP_TOKEN]")  # fmt: skip
@shared.READER
def mcp(indexes: tuple[str, ...], http: bool, token_file: str | None, reader: str | None, **options: Any) -> None:
    """Offer tools to AI assistants: search, ask, fetch passages and documents (Model Context Protocol).

    The assistant starts this command itself and talks to it over standard input and output; docs/assistants.md shows
    the settings. With --http it is a server for several assistants.

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
            shared.note(
                "Waiting for an assistant, which usually starts this command itself: see docs/assistants.md. "
                "Ctrl-C quits."
            )
        tools.serve_stdio(settings)
