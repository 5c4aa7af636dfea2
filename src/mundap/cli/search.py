"""`mundap search`."""

import sys
from collections.abc import Iterator, Mapping, Sequence
from gettext import gettext as _
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared
from mundap.errors import UsageError

if TYPE_CHECKING:
    from mundap.index.index import Index
    from mundap.index.modes import Mode
    from mundap.reader.choice import LanguageReaders
    from mundap.records import Hit, Passage, SearchResult

MAX_QUESTION = 100_000


@click.command()
@click.argument("question", nargs=-1)
@shared.READ_ANYWHERE
@click.option("-k", default=10, show_default=True, type=click.IntRange(1, 100_000), help="How many passages.")
@click.option("--mode", type=shared.Registry("mundap.index.modes", "MODES", "all"), help="`all` shows the others "
              "side by side. [default: hybrid]")  # fmt: skip
@shared.FUSING
@shared.BM25
@click.option("--candidates", type=click.IntRange(1, 100_000), default=2000, show_default=True,
              help="How many hits of each ranking hybrid search fuses.")  # fmt: skip
@shared.FILTERS
@click.option("--by-document", is_flag=True, help="One hit per document: its best passage.")
@shared.RERANK
@shared.READER
@shared.JSON
def search(
    question: tuple[str, ...],
    index_path: str | None,
    k: int,
    mode: Any,
    documents: tuple[str, ...],
    sources: tuple[str, ...],
    facts: tuple[str, ...],
    rerank: bool,
    reader: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Find the passages that answer a question. Plain text: no query syntax.

    Without a question on the command line, questions are read from standard input, one per line; --json then writes
    one JSON object per line. --source matches the path as hits show it.

    \b
    Examples:
      mundap search "Who is the bad guy in Lord of the Rings?"
      mundap search -i i --mode all -k 3 "서울의 인구는?"
      mundap search --source 'docs/*.md' --where language=ko "…"
    """
    from mundap.engines import open_index

    filters = shared.filters(documents, sources, facts)
    options |= shared.given_bm25(options)
    index = open_index(index_path)
    shared.tell_unfinished(index)
    model = _reranker(rerank, reader)
    if not question and sys.stdin.isatty():
        raise UsageError('no question. Type it after the command: mundap search "…"')
    if question:
        _one(index, " ".join(question), k, mode, as_json, model, {"filters": filters, **options})
        return 0
    return _many(index, k, mode, as_json, model, {"filters": filters, **options})


def _one(
    index: "Index",
    question: str,
    k: int,
    mode: Any,
    as_json: bool,
    reader: "LanguageReaders | None",
    options: dict[str, Any],
) -> None:
    from mundap.index.modes import MODES
    from mundap.pipeline.search import search as search_index

    if mode == "all":
        results = {name: search_index(index, [question], k, name, reader, **options)[0] for name in MODES}
        _compare_modes(results, as_json)
        return
    mode = mode or index.default_mode
    result = search_index(index, [question], k, mode, reader, **options)[0]
    if as_json:
        shared.print_json(result.as_dict())
        return
    _listing(index, question, result.hits)
    _show_note(result.note)
    if not result.hits:
        click.echo(_("Nothing found.") + _why(index, options["filters"], mode))


def _compare_modes(results: "Mapping[Mode, SearchResult]", as_json: bool) -> None:
    """What each mode found for the same question."""
    first = results["hybrid"]
    if not as_json:
        _side_by_side(first.question, {name: result.hits for name, result in results.items()})
        _show_note(first.note)
        return
    listed = {name: result.as_dict()["hits"] for name, result in results.items()}
    told: dict[str, Any] = {"query": first.question, "modes": listed}
    if first.note:
        told["note"] = first.note
    shared.print_json(told)


def _show_note(note: str) -> None:
    from mundap.cli import translated

    if note:
        shared.note(f"mundap: {translated(note)}.")


def _why(index: "Index", filters: Any, mode: str) -> str:
    if filters and not index.matching(filters):
        why = " " + _("No passage matches the filters.")
        if filters.sources:
            why += " " + _("(--source matches the path as hits show it.)")
        return why
    if mode == "bm25":
        return " " + _("No word of the question is in the index.")
    return ""


def _many(
    index: "Index", k: int, mode: Any, as_json: bool, reader: "LanguageReaders | None", options: dict[str, Any]
) -> int:
    """Search for questions from standard input, in batches, one result per line."""
    import itertools

    from mundap.pipeline.search import search as search_index
    from mundap.records import SearchResult

    if mode == "all":
        raise UsageError("--mode all shows one question: give it on the command line")
    mode = mode or index.default_mode
    lines = map(_decoded, sys.stdin.buffer)
    bad = False
    while batch := list(itertools.islice(lines, 256)):
        good = [line for line in batch if 0 < len(line) <= MAX_QUESTION]
        results = []
        if good:
            results = search_index(index, good, k, mode, reader, **options)
        found = dict(zip(good, results, strict=True))
        for line in batch:
            result = found.get(line, SearchResult(line[:100], mode, ()))
            _show_line(index, line, result, as_json)
        bad = bad or max(map(len, batch)) > MAX_QUESTION
    if bad:
        return 3
    return 0


def _decoded(line: bytes) -> str:
    return line.decode("utf-8", "replace").strip()


def _show_line(index: "Index", line: str, result: "SearchResult", as_json: bool) -> None:
    import json

    if as_json:
        click.echo(json.dumps(_as_line(line, result), ensure_ascii=False))
        return
    if not line:
        return
    click.echo(click.style(f"? {shared.clean(line[:200])}", bold=True))
    _listing(index, line[:1000], result.hits)
    _show_note(result.note)


def _as_line(line: str, result: "SearchResult") -> dict[str, Any]:
    answer = result.as_dict()
    if len(line) > MAX_QUESTION:
        answer["error"] = f"longer than {MAX_QUESTION} characters"
    return answer


def _listing(index: "Index", question: str, hits: "Sequence[Hit]") -> None:
    """Hits as text, with the question's words highlighted on a terminal."""
    for hit in hits:
        passage = hit.passage
        detail = ""
        if hit.bm25 is not None and hit.dense is not None:
            detail = f" (bm25 {hit.bm25:.3f}, dense {hit.dense:.3f})"
        title = shared.clean(f"{hit.rank:2d}. {passage.title}")
        click.echo(f"{click.style(title, bold=True)}  {hit.score:.3f}{detail}")
        where = shared.clean(f"    {passage.where()}  [{passage.start}:{passage.end}]  {passage.id}")
        click.echo(click.style(where, dim=True))
        for piece in _pieces(passage):
            for line in shared.wrapped(_highlighted(index, question, piece), 4):
                click.echo(f"    {line}")
        click.echo()


def _pieces(passage: "Passage") -> Iterator[str]:
    """The text of a passage, each row of a table by itself."""
    end = 0
    for start, stop in passage.rows():
        if before := passage.text[end:start].strip():
            yield before
        yield passage.text[start:stop]
        end = stop
    if rest := passage.text[end:].strip():
        yield rest


def _highlighted(index: "Index", question: str, text: str) -> str:
    text = shared.clean(text)
    if not shared.coloured():
        return " ".join(text.split())
    parts: list[str] = []
    end = 0
    for start, stop in index.analyzer.matches(text, question):
        parts += [text[end:start], click.style(text[start:stop], fg="yellow", bold=True)]
        end = stop
    return " ".join("".join([*parts, text[end:]]).split())


def _side_by_side(question: str, found: "Mapping[Mode, tuple[Hit, ...]]") -> None:
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=escape(shared.clean(question)), title_justify="left", show_lines=False, expand=True)
    table.add_column("", justify="right", width=2)
    for name in found:
        table.add_column(name, ratio=1)
    for rank in range(max(map(len, found.values()), default=0)):
        cells = []
        for hits in found.values():
            hit = None
            if rank < len(hits):
                hit = hits[rank]
            cells.append(f"{escape(shared.clean(hit.passage.title))} [dim]{hit.score:.2f}[/dim]" if hit else "")
        table.add_row(str(rank + 1), *cells)
    Console(width=None if sys.stdout.isatty() else 110).print(table)


def _reranker(wanted: bool, name: str | None) -> "LanguageReaders | None":
    """The reader for `--rerank`, if that was asked for.

    Raises:
        UsageError: A reader is named, and nothing is to be read.
    """
    if not wanted:
        if name:
            raise UsageError(
                "--reader is for --rerank: without it nothing is read. Add --rerank, or leave out --reader"
            )
        return None
    from mundap.reader.choice import LanguageReaders

    return LanguageReaders.from_pretrained(name)
