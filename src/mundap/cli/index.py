"""`mundap index` and `mundap add`."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared

_FORMS = ("text", "markdown", "html", "pdf", "docx", "jsonl", "tsv", "json", "wikipedia")


def _reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    for option in (
        click.option(
            "--ignore",
            multiple=True,
            metavar="PATTERN",
            help="Leave files out, as in .gitignore (repeatable).",
        ),
        click.option(
            "--format",
            "form",
            type=click.Choice(_FORMS),
            help="Read every file as this. [default: tell from each]",
        ),
        shared.STRICT,
        shared.JSON,
    ):
        function = option(function)
    return function


@click.command()
@click.argument("paths", nargs=-1, required=True)
@shared.WRITE
@click.option("--words", type=int, help="The most words in a passage. [default: 100]")
@click.option("--overlap", type=int, help="Words repeated from the passage before. [default: 0]")
@click.option("--sentences/--no-sentences", default=None, help="End passages where sentences end. [default: no]")
@click.option("--chunks", type=int, help="The most passages of a document, such as 4 with --words 350. [default: all]")
@click.option("--language", metavar="CODE", help="Language of the stemmer: en, de, fr, es … [default: en]. Korean, "
              "Japanese and Chinese are recognised by themselves.")  # fmt: skip
@click.option("--model", metavar="NAME|DIR", help="The encoder; `none` for BM25 alone. [default: retriever]")
@click.option(
    "--dense",
    type=click.Choice(["auto", "exact", "ivf", "hnsw"]),
    help="Kind of vector index. [default: auto]",
)
@click.option("--fresh", is_flag=True, help="Build anew; the old index serves until the new one is done.")
@_reading_options
def index(paths: tuple[str, ...], out: str | None, fresh: bool, strict: bool, as_json: bool, **options: Any) -> None:
    """Index files and folders, or bring an index up to date with them.

    Only new and changed files are read; files that are gone are dropped. A build that was killed goes on
    where it was when the same command is run again.

    \b
    Examples:
      mundap index docs/                      into .mundap/
      mundap index notes/ paper.pdf -o i      into i/
      mundap index psgs_w100.tsv.gz --model none
      cat corpus.jsonl | mundap index - -o i
    """
    from mundap.index import build, locate

    with shared.progress_bar("indexing") as watch:
        report = build.build(paths, locate.to_write(out), build.Options(**options), fresh, watch)
    _tell(report, locate.to_write(out), strict, as_json)


@click.command()
@click.argument("paths", nargs=-1, required=True)
@shared.changed_index
@_reading_options
def add(
    paths: tuple[str, ...],
    index_path: str | None,
    out: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add files to an existing index, or read them again if they changed.

    \b
    Examples:
      mundap add new.md
      mundap add more/ -o i
    """
    from mundap.index import build, locate

    where = locate.to_read(shared.one_index(index_path, out))
    with shared.progress_bar("adding") as watch:
        report = build.add(paths, where, build.Options(**options), watch)
    _tell(report, where, strict, as_json)


def _tell(report: Any, where: Path, strict: bool, as_json: bool) -> None:
    if as_json:
        shared.print_json(report.as_dict())
    else:
        shared.tell_skipped(report.skipped, report.skipped_count)
        if report.renamed:
            shared.note(f"{shared.count(report.renamed, 'row')} filed as FILE#ID: another file has the same id")
        held = f"{shared.count(report.documents, 'document')}, {shared.count(report.passages, 'passage')}"
        click.echo(f"{_shown(where)}: {held}")
        changes = f"{report.added:,} added, {report.removed:,} removed"
        files = f"{shared.count(report.unchanged, 'file')} unchanged, {report.skipped_count:,} skipped"
        click.echo(f"{changes}, {files}, in {report.seconds:.1f} s")
    shared.finish(report, strict)


def _shown(where: Path) -> Path:
    """A path as short as possible from here."""
    try:
        return where.resolve().relative_to(Path.cwd())
    except ValueError:
        return where
