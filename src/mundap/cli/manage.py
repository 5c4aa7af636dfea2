"""`mundap delete`, `compact`, `info`, `list`, `verify` and `backup`."""

import sys
from gettext import gettext as _
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared
from mundap.errors import UsageError

if TYPE_CHECKING:
    from mundap.index.catalog import Listed
    from mundap.index.index import Index


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
    from mundap.engines import build

    if not ids and not sources:
        raise UsageError("nothing to delete: give document ids or --source GLOB")
    report = build.delete(shared.one_index(index_path, out), ids, sources)
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
        told = _("{gone} deleted; {documents}, {passages} left").format(
            gone=shared.count(report.removed, "passage"),
            documents=shared.count(report.documents, "document"),
            passages=shared.count(report.passages, "passage"),
        )
        click.echo(told)
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
        told = _("{where}: {passages:,} passages in {segments} segments, {seconds} s")
        click.echo(told.format(where=where, **facts))


@click.command()
@shared.READ_ANYWHERE
@shared.JSON
def info(index_path: str | None, as_json: bool) -> None:
    """Show what an index holds and how it was made."""
    from mundap.engines import open_index

    facts = open_index(index_path).info()
    if as_json:
        shared.print_json(facts)
        return
    facts["path"] = shared.clean(facts["path"])
    settings: dict[str, Any] = facts.pop("settings")
    known: dict[str, dict[str, int]] = facts.pop("facts", {})  # an engine does not count the values
    for name, value in facts.items():
        click.echo(f"{_label(name)}  {_fact(value)}")
    cut = _("{words} words, overlap {overlap}").format(**settings)
    if settings["sentences"]:
        cut += _(", by sentence")
    if settings["chunks"]:
        cut += _(", at most {chunks} of a document").format(**settings)
    click.echo(f"{_label('passages of')}  {cut}")
    for name, values in known.items():
        shown = ", ".join(f"{shared.clean(value)} {number:,}" for value, number in list(values.items())[:8])
        more = ""
        if len(values) > 8:
            more = _(" and {n} more").format(n=len(values) - 8)
        click.echo(f"{shared.clean(name):>11}  {shown}{more}")


def _fact(value: Any) -> str:
    if value is None:
        return "none"
    if isinstance(value, int):
        return f"{value:,}"
    if isinstance(value, list):
        return ", ".join(value)
    return str(value)


def _label(name: str) -> str:
    """A label in the user's language, eleven columns wide; a Hangul syllable takes two."""
    from rich.cells import cell_len

    label = _(name)
    return " " * (11 - cell_len(label)) + label


@click.command("list")
@click.argument("words", nargs=-1)
@shared.READ_ANYWHERE
@shared.FILTERS
@click.option("--sort", type=shared.Registry("mundap.index.catalog", "Sort"), default="id",
              show_default=True, help="Sort by this field; numbers and dates in descending order.")  # fmt: skip
@click.option(
    "-n", "--most", type=click.IntRange(1), default=100, show_default=True, help="The most documents to list."
)
@click.option("--skipped", is_flag=True, help="List the files that could not be read, and why.")
@shared.JSON
def list_(
    words: tuple[str, ...],
    index_path: str | None,
    sort: str,
    most: int,
    skipped: bool,
    as_json: bool,
    **filters: Any,
) -> None:
    """List the documents of an index, or those with certain words in their name or title.

    \b
    Examples:
      mundap list
      mundap list --sort size -n 10
      mundap list handbook --where language=ko
      mundap list --skipped
    """
    from mundap.engines import is_address, open_index

    if skipped and index_path is not None and is_address(index_path):
        raise UsageError("--skipped: an engine does not record skipped files; `mundap index` reports them")
    index = open_index(index_path)
    if skipped:
        _list_skipped(index, as_json)
        return
    found, total = index.listing(" ".join(words), shared.filters(**filters), sort, most)
    if as_json:
        shared.print_json({"total": total, "documents": [one.as_dict() for one in found]})
        return
    if not found:
        shared.note(_("Nothing found."))
    for one in found:
        click.echo(shared.clean(_row(one)).rstrip())
    if total > len(found):
        shared.note(_("… and {n:,} more. Use -n to see them.").format(n=total - len(found)))


def _row(one: "Listed") -> str:
    title = one.title
    if title in one.id:
        title = ""
    place = f"{one.passages:>7,}  {one.size // 1000 + 1:>7,} kB  {one.modified:10}  {one.language:2}"
    return f"{place}  {one.id}  {title}"


def _list_skipped(index: "Index", as_json: bool) -> None:
    from mundap.cli import translated

    found = index.skipped()
    if as_json:
        shared.print_json([one.as_dict() for one in found])
        return
    for one in found:
        click.echo(shared.clean(f"{one.source}: {translated(one.reason)}"))
    if not found:
        shared.note(_("Nothing was skipped."))


@click.command()
@shared.READ
@click.option("--repair", is_flag=True, help="Rebuild what can be derived from the passages: the BM25 index and the "
              "approximate vector index.")  # fmt: skip
@shared.JSON
def verify(index_path: str | None, repair: bool, as_json: bool) -> None:
    """Check every file of an index against its checksum, and that its parts fit together. Exit 0 if it is intact.

    \b
    Examples:
      mundap verify
      mundap verify -i i --repair
    """
    from mundap.cli import translated
    from mundap.index import build, locate
    from mundap.index.verify import verify as check
    from mundap.index.verify import verify_model

    where = locate.to_read(index_path)
    damage = check(where, with_model=False)
    repaired = False
    if damage and repair:
        for problem in damage:
            shared.note(translated(problem))
        build.repair(where)
        repaired, damage = True, check(where, with_model=False)
    problems = [*damage, *verify_model(where)]
    if as_json:
        shared.print_json({"path": str(where), "whole": not problems, "repaired": repaired, "problems": problems})
    elif problems:
        for problem in problems:
            shared.note(translated(problem))
        told = _(
            "{where} is intact, but its model is not. Install the model again or put its folder back; or rebuild with "
            "another one: `mundap index --fresh --model NAME`."
        )
        if damage:
            told = _(
                "{where} is damaged. Try `mundap verify --repair`, restore the files from a copy, or rebuild with "
                "`mundap index --fresh`."
            )
        shared.note(told.format(where=where))
    elif repaired:
        click.echo(_("{where} was repaired and is intact.").format(where=where))
    else:
        click.echo(_("{where} is intact.").format(where=where))
    if problems:
        sys.exit(1)


@click.command()
@shared.READ
@click.option("-o", "--out", required=True, metavar="DIR", help="A new folder for the copy.")
@shared.JSON
def backup(index_path: str | None, out: str, as_json: bool) -> None:
    """Copy one consistent state of an index, even while others write to it. The copy is checked.

    To restore it, put the copy where the index was.

    \b
    Examples:
      mundap backup -o /mnt/backup/notes-2026-11-17
      mundap search -i /mnt/backup/notes-2026-11-17 "a question"
    """
    from mundap.index import locate
    from mundap.index.copy import backup as copy

    where = locate.to_read(index_path)
    manifest = copy(where, Path(out))
    size = sum(entry.bytes for entry in manifest.files())
    if as_json:
        shared.print_json({"path": out, "generation": manifest.generation, "bytes": size})
    else:
        told = _("{out}: a copy of generation {generation} of {where}, {size:,.1f} MB")
        click.echo(told.format(out=out, generation=manifest.generation, where=where, size=size / 1e6))
