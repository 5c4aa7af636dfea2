"""`mundap ask`."""

import sys
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared

if TYPE_CHECKING:
    from mundap.index.index import Index
    from mundap.reader.explain import Row
    from mundap.records import Answer, Answered

_HELP = "Type a question and press Enter; Ctrl-C drops it; an empty line, or Ctrl-D, ends."
_LONGEST = 300  # characters of an answer on the screen: what is written without a space may have any number
_AROUND = 2000  # and of what stands before and after it


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
    from mundap.reader.explain import rows

    where = shared.filters(**filters)
    index = Index(index_path)
    model = Reader.from_pretrained(reader or READER)
    model.rank_by(ranking, retrieval_weight)
    shared.tell_unfitted(model.config)
    options = {"k": k, "answers": answers, "threshold": threshold, "mode": mode, "filters": where}

    def once(text: str) -> None:
        found = answer(index, text, model, **options)
        if as_json:
            why = {"explain": [row.as_dict() for row in rows(index, model, found, where)]} if explain else {}
            shared.print_json({**found.as_dict(), **why}, compact=not question)
            return
        _show(index, found)
        if found.more:
            _tell_more(found, model.config.threshold if threshold is None else threshold)
        if explain and len(index) and not found.note:
            _explain(rows(index, model, found, where))

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
            if not text:
                return
            once(text)
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:  # as in a shell: it drops the line, or the answer, and not the conversation
            click.echo()
        except MundapError as error:
            shared.note(f"mundap: {error}")


def _show(index: "Index", found: "Answered") -> None:
    if not len(index):
        click.echo("No answer: the index is empty.")
        return
    if found.note:
        _only_found(found)
    elif found.no_answer:
        guess = found.guess
        least = f" The best guess is {_short(guess.text)!r} ({_percent(guess.confidence)})." if guess else ""
        click.echo(f"{click.style('No answer found.', bold=True)}{least}")
        if guess:
            _passage(index, guess)
    for number, one in enumerate(found.answers, 1):
        label = f"{number}. " if len(found.answers) > 1 else ""
        also = f", in {one.support} passages" if one.support > 1 else ""
        text = click.style(_short(one.text), bold=True, fg="green")
        click.echo(f"{label}{text}  ({_percent(one.confidence)} sure{also})")
        _passage(index, one)


def _only_found(found: "Answered") -> None:
    """The best passage, where nothing could be read."""
    click.echo(f"{click.style('No answer', bold=True)}: {found.note}. The best passage found:")
    for hit in found.hits[:1]:
        for line in shared.wrapped(shared.clean(hit.passage.text), 4):
            click.echo(f"    {line}")
        click.echo(click.style(shared.clean(f"    {hit.passage.source}  {hit.passage.title}"), dim=True))
        click.echo()


def _tell_more(found: "Answered", least: float) -> None:
    """Say that there are more answers, where more were asked for than are sure enough."""
    shows = "it" if found.more == 1 else "them"
    text = f"{found.more} more less sure than {_percent(least)}: --threshold 0 shows {shows}."
    click.echo(click.style(text, dim=True))


def _short(text: str) -> str:
    return shared.clean(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _passage(index: "Index", answer: "Answer") -> None:
    """The passage with the span highlighted, and where it stands."""
    from mundap.reader.source import line_of

    passage = answer.hit.passage
    start, end = answer.start - passage.start, answer.end - passage.start
    first, last = max(0, start - _AROUND), end + _AROUND
    before = f"{'…' if first else ''}{shared.clean(passage.text[first:start])}"
    after = f"{shared.clean(passage.text[end:last])}{'…' if last < len(passage.text) else ''}"
    span = _short(passage.text[start:end])
    marked = click.style(span, fg="black", bg="yellow") if shared.coloured() else f"[{span}]"
    for line in shared.wrapped(f"{before}{marked}{after}", 4):
        click.echo(f"    {line}")
    number = line_of(index, answer)
    place = f"{passage.source}:{number}" if number else passage.source
    click.echo(click.style(shared.clean(f"    {place}  {passage.title}"), dim=True))
    click.echo()


def _explain(rows: "list[Row]") -> None:
    """A table of what was read: which words were found, the ranks, what the reader thinks."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    from mundap.reader.explain import DEEPEST

    table = Table(title="What was read", title_justify="left", expand=False)
    for name, justify in (("", "right"), ("passage", "left"), ("words found", "left"), ("bm25", "right"),
                          ("dense rank", "right"), ("selected", "right"), ("best span", "left")):  # fmt: skip
        table.add_column(name, justify=justify)  # type: ignore[arg-type]
    dense = any(row.dense is not None for row in rows)
    for row in rows:
        table.add_row(
            str(row.hit.rank),
            escape(shared.clean(row.hit.passage.title)[:30]),
            escape(shared.clean(", ".join(row.words[:6]))),
            f"{row.hit.bm25:.1f}" if row.hit.bm25 is not None else "",
            str(row.dense or f"> {DEEPEST}") if dense else "",
            f"{row.selection:.2f}" if row.best else "",
            escape(shared.clean(row.best.text)[:40]) if row.best else "",
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)
