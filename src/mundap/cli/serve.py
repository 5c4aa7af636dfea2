"""`mundap serve`."""

import os
from gettext import gettext as _
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared


@click.command()
@click.option("-i", "--index", "indexes", multiple=True, metavar="[NAME=]DIR", help="An index, optionally with a "
              "name (repeatable). [default: .mundap/ here or in the nearest parent]")  # fmt: skip
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on. Needs a token unless "
              "it is this machine only.")  # fmt: skip
@click.option(
    "--port",
    default=8000,
    show_default=True,
    type=click.IntRange(0, 65535),
    help="The port to listen on; 0 for any free one.",
)
@click.option("--writable", is_flag=True, help="Let clients add and delete documents.")
@click.option("--token-file", type=click.Path(exists=True, dir_okay=False), help="A file with the token that clients "
              "must send. [default: the environment variable MUNDAP_TOKEN]")  # fmt: skip
@click.option("--proxy", default="", metavar="ADDRESS", help="Trust this proxy's X-Forwarded-For header to identify "
              "clients.")  # fmt: skip
@click.option(
    "--name",
    "names",
    multiple=True,
    metavar="HOST",
    help="Another host name of this server; needed behind a proxy without a token (repeatable).",
)
@click.option("--rate", type=shared.Number(0), help="Requests per second and client; 0 for no limit. [default: 50]")
@click.option("--at-once", type=click.IntRange(0), help="Concurrent requests per client; 0 for no limit. [default: 32]")
@click.option("--timeout", "seconds", type=shared.Number(0.1), help="Seconds a request may take. [default: 30]")
@click.option("--max-upload", type=click.IntRange(1), metavar="MB", help="The largest upload. [default: 32]")
@click.option("--cache", type=click.IntRange(0), metavar="MB", help="Memory for cached answers. [default: 64]")
@shared.READER
def serve(
    indexes: tuple[str, ...],
    token_file: str | None,
    reader: str | None,
    max_upload: int | None,
    cache: int | None,
    **options: Any,
) -> None:
    """Serve search and answers over HTTP: an API and a web page.

    \b
    Examples:
      mundap serve                            the index here, at http://127.0.0.1:8000
      mundap serve -i docs=i -i wiki=w        two indexes
      mundap serve --host 0.0.0.0 --token-file token
    """
    from mundap.errors import ExtraMissing

    try:
        from mundap.serving import server
    except ModuleNotFoundError as error:
        raise ExtraMissing("mundap serve", "serve") from error
    from mundap.models.folder import READER, ReaderConfig, find
    from mundap.serving.settings import Limits, Settings

    given = {name: options.pop(name) for name in ("rate", "at_once", "seconds")}
    for name, megabytes in (("upload", max_upload), ("cache", cache)):
        given[name] = None if megabytes is None else megabytes << 20
    limits = Limits(**{name: value for name, value in given.items() if value is not None})
    settings = Settings(named(indexes), token=token(token_file), reader=reader, limits=limits, **options)
    shared.tell_unfitted(ReaderConfig.load(find(settings.reader or READER)))
    server.serve(settings, lambda address: click.echo(_("Serving at {address}").format(address=address)))


def named(indexes: tuple[str, ...]) -> dict[str, Path | str]:
    """Folders and addresses by name; by default the name of the folder or collection."""
    from mundap.engines import is_address
    from mundap.errors import UsageError
    from mundap.index import locate

    found: dict[str, Path | str] = {}
    for given in indexes or (str(locate.to_read(None)),):
        name, equals, where = given.partition("=")
        if not equals or "://" in name:  # an address may have options, with = in them
            where = given
            name = _name_of(where)
        if not name or name in found:
            raise UsageError(f"two indexes are called {name!r}: name them, as in -i NAME={where}")
        found[name] = where if is_address(where) else Path(where)
    return found


def _name_of(where: str) -> str:
    from mundap.engines import Address, is_address
    from mundap.index import locate

    if is_address(where):
        return Address.parse(where).collection
    place = Path(where).resolve()
    if place.name == locate.NAME:
        return place.parent.name
    return place.name


def token(file: str | None) -> str | None:
    """The token that clients must send: from a file or the environment, as others can see the command line."""
    if file:
        given = Path(file).read_text("utf-8")
    else:
        given = os.environ.get("MUNDAP_TOKEN", "")
    return given.strip() or None
