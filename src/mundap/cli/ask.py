"""`mundap ask`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared

if TYPE_CHECKING:
    from mundap.index.index import Index
    from mundap.models.reader import Reader
    from mundap.records import Answer, Answered

_HELP = "Type a question and press Enter; an empty line, or Ctrl-D, ends."


@click.command()
@click.argument("question", nargs=-1)
@shared.READ
@click.option("-k", default=10, show_default=True, type=click.IntRange(1, 1000), help="How many passages are read.")
@click.option("-n", "--answers", default=1, show_default=True, type=click.IntRange(1, 100), help="Answers at most.")
@click.option("--threshold", type=shared.Number(0, 1), help="The least confidence of an answer. [default: the "
              "reader's, measured]")  # fmt: skip
@click.option("--mode", type=click.Choice(["bm25", "dense", "hybrid"]), help="How to search. [default: hybrid]")
@shared.READER
@shared.RANKING
@click.option("--explain", is_flag=True, help="Show why: words found, ranks, what the reader thinks.")
@shared.FILTERS
@shared.JSON
def ask(
    question: tuple[str, ...],
    index_path: str | None,
    k: int,
    answers: int,
    threshold: float | None,
    mode: Any,
    reader: str | None,
    ranking: str | None,
    retrieval_weight: float | None,
    explain: bool,
    as_json: bool,
    **filters: Any,
) -> int:
    """Answer a question from an index, with the source, or say that there is no answer in it.

    Without a question: type questions one after another, or, if standard input is not a terminal, they are read from
    it, one a line.

    \b
    Examples:
      mundap ask "Who wrote Middlemarch?"
      mundap ask -i i -n 3 --explain "How long is the Danube?"
      mundap ask --json "…"
    """
    from mundap.index.index import Index
    from mundap.models.folder import READER
    from mundap.models.reader import Reader
    from mundap.reader.ask import ask as answer

    index = Index(index_path)
    model = Reader.from_pretrained(reader or READER)
    model.rank_by(ranking, retrieval_weight)
    options = {"k": k, "answers": answers, "threshold": threshold, "mode": mode, "filters": shared.filters(**filters)}

    def once(text: str) -> None:
        found = answer(index, text, model, **options)
        if as_json:
            shared.print_json(found.as_dict(), compact=not question)
        else:
            _show(index, model, found, explain)

    if question:
        once(" ".join(question))
    elif sys.stdin.isatty():
        _converse(once)
    else:
        return _each_line(once, as_json)
    return 0


def _each_line(once: Any, as_json: bool) -> int:
    """Questions from standard input; one that cannot be asked is said and does not stop the rest."""
    from mundap.errors import UsageError
    from mundap.records import Answered

    bad = False
    for raw in sys.stdin.buffer:
        line = raw.decode("utf-8", "replace").strip()
        if not line:
            continue
        if not as_json:
            click.echo(click.style(f"? {shared.clean(line[:200])}", bold=True))
        try:
            once(line)
        except UsageError as error:
            bad = True
            if as_json:
                shared.print_json({**Answered(line[:100], ()).as_dict(), "error": str(error)}, compact=True)
            else:
                shared.note(f"mundap: {error}")
    return 3 if bad else 0


def _converse(once: Any) -> None:
    """Questions and answers in turn, with the arrow keys for what was asked before."""
    import contextlib

    from mundap.errors import MundapError

    with contextlib.suppress(ImportError):  # Windows has none; then there are no arrow keys
        import readline  # noqa: F401
    shared.note(_HELP)
    while True:
        try:
            text = input("? ").strip()
        except EOFError:
            click.echo()
            return
        if not text:
            return
        try:
            once(text)
        except MundapError as error:
            shared.note(f"mundap: {error}")


def _show(index: "Index", reader: "Reader", found: "Answered", explain: bool) -> None:
    if not len(index):
        click.echo("No answer: the index is empty.")
        return
    if found.note:
        _only_found(found)
    elif found.no_answer:
        guess = found.guess
        least = f" The best guess is {shared.clean(guess.text)!r} ({_percent(guess.confidence)})." if guess else ""
        click.echo(f"{click.style('No answer found.', bold=True)}{least}")
        if guess:
            _passage(index, guess)
    for number, one in enumerate(found.answers, 1):
        label = f"{number}. " if len(found.answers) > 1 else ""
        also = f", in {one.support} passages" if one.support > 1 else ""
        text = click.style(shared.clean(one.text), bold=True, fg="green")
        click.echo(f"{label}{text}  ({_percent(one.confidence)} sure{also})")
        _passage(index, one)
    if explain and not found.note:
        _explain(index, reader, found)


def _only_found(found: "Answered") -> None:
    """The best passage, where nothing could be read."""
    click.echo(f"{click.style('No answer', bold=True)}: {found.note}. The best passage found:")
    for hit in found.hits[:1]:
        for line in shared.wrapped(shared.clean(hit.passage.text), 4):
            click.echo(f"    {line}")
        click.echo(click.style(shared.clean(f"    {hit.passage.source}  {hit.passage.title}"), dim=True))
        click.echo()


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _passage(index: "Index", answer: "Answer") -> None:
    """The passage with the span highlighted, and where it stands."""
    from mundap.reader.source import line_of

    passage = answer.hit.passage
    start, end = answer.start - passage.start, answer.end - passage.start
    parts = [passage.text[:start], passage.text[start:end], passage.text[end:]]
    before, span, after = (" ".join(shared.clean(part).split(" ")) for part in parts)
    marked = click.style(span, fg="black", bg="yellow") if sys.stdout.isatty() else f"[{span}]"
    for line in shared.wrapped(f"{before}{marked}{after}", 4):
        click.echo(f"    {line}")
    number = line_of(index, answer)
    place = f"{passage.source}:{number}" if number else passage.source
    click.echo(click.style(shared.clean(f"    {place}  {passage.title}"), dim=True))
    click.echo()


def _explain(index: "Index", reader: "Reader", found: "Answered") -> None:
    """A table of what was read: which words were found, the ranks, what the reader thinks."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from mundap.reader.ask import choose, scores

    scored = scores(reader, found.question, found.hits)
    best: dict[str, Answer] = {}
    for answer in choose(reader, found.hits, scored):
        best.setdefault(answer.hit.passage.id, answer)
    ranked = index.search(found.question, 100, "dense") if index.encoder else []
    dense = {hit.passage.id: hit.rank for hit in ranked}
    table = Table(title="What was read", title_justify="left", expand=False)
    for name, justify in (("", "right"), ("passage", "left"), ("words found", "left"), ("bm25", "right"),
                          ("dense rank", "right"), ("selected", "right"), ("best span", "left")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    for hit in found.hits:
        passage = hit.passage
        spans = index.analyzer.matches(passage.text, found.question)
        words = dict.fromkeys(shared.clean(passage.text[start:stop]).lower() for start, stop in spans)
        chosen = best.get(passage.id)
        table.add_row(
            str(hit.rank),
            escape(shared.clean(passage.title)[:30]),
            escape(", ".join(list(words)[:6])),
            f"{hit.bm25:.1f}" if hit.bm25 is not None else "",
            str(dense.get(passage.id, "> 100")) if dense else "",
            f"{chosen.selection:.2f}" if chosen else "",
            escape(shared.clean(chosen.text)[:40]) if chosen else "",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)
