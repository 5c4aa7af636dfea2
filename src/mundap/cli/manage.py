"""`mundap delete`, `compact`, `info` and `verify`."""

import sys
from typing import Any

import click

from mundap.cli import shared
from mundap.errors import UsageError


@click.command()
@click.argument("ids", nargs=-1)
@shared.changed_index
@click.option(
    "--source",
    "sources",
    multiple=True,
    metavar="GLOB",
    help="Delete what came from these files (repeatable).",
)
@shared.STRICT
@shared.JSON
def delete(
    ids: tuple[str, ...],
    sources: tuple[str, ...],
    index_path: str | None,
    out: str | None,
    strict: bool,
    as_json: bool,
) -> None:
    """Delete documents by id, or by the files they came from.

    \b
    Examples:
      mundap delete en/sala-baker.md
      mundap delete -i i --source 'drafts/*'
    """
    from mundap.index import build, locate

    if not ids and not sources:
        raise UsageError("nothing to delete: give document ids or --source GLOB")
    report = build.delete(locate.to_read(shared.one_index(index_path, out)), ids, sources)
    if as_json:
        shared.print_json(
            {
                "removed": report.removed,
                "documents": report.documents,
                "passages": report.passages,
                "skipped": [one.as_dict() for one in report.skipped],
                "seconds": round(report.seconds, 3),
            }
        )
    else:
        shared.tell_skipped(report.skipped, report.skipped_count)
        left = f"{shared.count(report.documents, 'document')}, {shared.count(report.passages, 'passage')} left"
        click.echo(f"{shared.count(report.removed, 'passage')} deleted; {left}")
    shared.finish(report, strict)


@click.command()
@shared.changed_index
@shared.JSON
def compact(index_path: str | None, out: str | None, as_json: bool) -> None:
    """Rewrite an index without deleted passages, in as few segments as is sensible."""
    from mundap.index import build, locate
    from mundap.index.index import Index

    where = locate.to_read(shared.one_index(index_path, out))
    report = build.compact(where)
    facts = {
        "passages": report.passages,
        "segments": Index(where).info()["segments"],
        "seconds": round(report.seconds, 3),
    }
    if as_json:
        shared.print_json(facts)
    else:
        click.echo(f"{where}: {facts['passages']:,} passages in {facts['segments']} segments, {facts['seconds']} s")


@click.command()
@shared.READ
@shared.JSON
def info(index_path: str | None, as_json: bool) -> None:
    """Show what an index holds and how it was made."""
    from mundap.index.index import Index

    facts = Index(index_path).info()
    if as_json:
        shared.print_json(facts)
        return
    facts["path"] = shared.clean(facts["path"])
    settings: dict[str, Any] = facts.pop("settings")
    for name, value in facts.items():
        click.echo(f"{name:>11}  {value:,}" if isinstance(value, int) else f"{name:>11}  {value}")
    cut = f"{settings['words']} words, overlap {settings['overlap']}" + (
        ", by sentence" if settings["sentences"] else ""
    )
    if settings["chunks"]:
        cut += f", at most {settings['chunks']} of a document"
    click.echo(f"{'passages of':>11}  {cut}")


@click.command()
@shared.READ
@shared.JSON
def verify(index_path: str | None, as_json: bool) -> None:
    """Check every file of an index against its checksum, and that its parts fit together. Exit 0 if whole."""
    from mundap.index import locate
    from mundap.index.verify import verify as check

    where = locate.to_read(index_path)
    problems = check(where)
    if as_json:
        shared.print_json({"path": str(where), "whole": not problems, "problems": problems})
    elif problems:
        for problem in problems:
            shared.note(problem)
        shared.note(f"{where} is damaged. Restore the files from a copy, or rebuild with `mundap index --fresh`.")
    else:
        click.echo(f"{where} is whole.")
    if problems:
        sys.exit(1)
