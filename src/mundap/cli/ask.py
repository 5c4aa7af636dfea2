"""`mundap ask`."""

import sys
from gettext import gettext as _
from gettext import ngettext
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared

if TYPE_CHECKING:
    from mundap.index.index import Index
    from mundap.pipeline.explain import PassageExplanation
    from mundap.records import Answer, AskResult

_HELP = "Type a question and press Enter. Each is answered on its own, without the questions before it. /help, /quit."
_MORE_HELP = """Ask in whole sentences, such as: When was the harbour built?
Each question is answered on its own: write names instead of "it" and "there".
Ctrl-C drops a line or an answer. /quit, an empty line or Ctrl-D ends.
"""
_LONGEST = 300  # characters of an answer on the screen: what is written without a space may have any number
_AROUND = 2000  # and of what stands before and after it


@click.command()
@click.argument("question", nargs=-1)
@shared.READ_ANYWHERE
@click.option("-k", default=10, show_default=True, type=click.IntRange(1, 1000), help="Number of passages to read.")
@click.option(
    "-n", "--answers", default=1, show_default=True, type=click.IntRange(1, 100), help="Maximum number of answers."
)
@click.option(
    "--threshold", type=shared.Number(0, 1), help="Give no answer below this confidence. [default: the reader's]"
)
@click.option("--mode", type=shared.MODE, help="How to search. [default: hybrid]")
@shared.FUSING
@shared.BM25
@shared.READER
@shared.RANKING
@click.option("--explain", is_flag=True, help="Show why: the words found, and the scores of search and reader.")
@shared.FILTERS
@shared.JSON
def ask(
    question: tuple[str, ...],
    index_path: str | None,
    k: int,
    answers: int,
    threshold: float | None,
    mode: Any,
    fusion: Any,
    weight: float | None,
    scale: float,
    reader: str | None,
    ranking: str | None,
    retrieval_weight: float | None,
    explain: bool,
    as_json: bool,
    **others: Any,
) -> int:
    """Answer a question from an index, with the source, or say that there is no answer in it.

    Without a question on the command line, questions are read from standard input, one per line; on a terminal, type
    one after another.

    \b
    Examples:
      mundap ask "Through how many countries does the Danube pass?"
      mundap ask -i i -n 3 --explain "How long is the Danube?"
      mundap ask --json "…"
    """
    from mundap.engines import open_index
    from mundap.pipeline.ask import ask as ask_index
    from mundap.pipeline.explain import explain as explain_result
    from mundap.reader.choice import LanguageReaders

    bm25 = shared.given_bm25(others)
    where = shared.filters(**others)
    index = open_index(index_path)
    shared.tell_unfinished(index)
    model = LanguageReaders.from_pretrained(reader, ranking=ranking, retrieval_weight=retrieval_weight)
    shared.tell_unfitted(model.default.config)
    options = {"k": k, "answers": answers, "threshold": threshold, "mode": mode, "filters": where}
    options |= {"fusion": fusion, "weight": weight, "scale": scale, **bm25}

    def answer(text: str) -> None:
        result = ask_index(index, text, model, **options)
        explanations = []
        if explain:
            explanations = explain_result(index, model, result)
        if as_json:
            found = result.as_dict()
            if explain:
                found["explain"] = [one.as_dict() for one in explanations]
            shared.print_json(found, compact=not question)
            return
        _show(index, result)
        if result.more:
            _show_more(result)
        if explanations:
            _show_explanations(explanations)

    if question:
        answer(" ".join(question))
    elif sys.stdin.isatty():
        _converse(answer)
    else:
        return _answer_lines(answer, as_json)
    return 0


def _answer_lines(answer: Any, as_json: bool) -> int:
    """Answer questions from standard input; an invalid one is reported and does not stop the rest."""
    from mundap.cli import translated
    from mundap.errors import UsageError
    from mundap.records import AskResult

    bad = False
    for raw in sys.stdin.buffer:
        line = raw.decode("utf-8", "replace").strip()
        if not line:
            continue
        if not as_json:
            click.echo(click.style(f"? {shared.clean(line[:200])}", bold=True))
        try:
            answer(line)
        except UsageError as error:
            bad = True
            if as_json:
                shared.print_json({**AskResult(line[:100], ()).as_dict(), "error": str(error)}, compact=True)
            else:
                shared.note(f"mundap: {translated(error)}")
    if bad:
        return 3
    return 0


def _converse(answer: Any) -> None:
    """Ask and answer in turn; the arrow keys recall earlier questions."""
    import contextlib

    from mundap.cli import translated
    from mundap.errors import MundapError

    with contextlib.suppress(ImportError):  # Windows has none; then there are no arrow keys
        import readline  # noqa: F401
    shared.note(_(_HELP))
    while True:
        try:
            text = input("? ").strip()
            if not text or text in ("/quit", "/exit", "/q"):
                return
            if text in ("/help", "/?"):
                shared.note(_(_MORE_HELP))
            elif text.startswith("/") and " " not in text:
                unknown = _("No such command: {name}. There are /help and /quit.")
                shared.note(unknown.format(name=shared.clean(text)))
            else:
                answer(text)
        except EOFError:
            click.echo()
            return
        except KeyboardInterrupt:  # as in a shell: it drops the line, or the answer, and not the conversation
            click.echo()
        except MundapError as error:
            shared.note(f"mundap: {translated(error)}")


def _show(index: "Index", found: "AskResult") -> None:
    if not found.hits and not len(index):
        click.echo(_("No answer: the index is empty."))
        return
    if found.note:
        _only_found(found)
    elif not found.answers:
        guess = found.guess
        click.echo(click.style(_("No answer found."), bold=True), nl=not guess)
        if guess:
            least = _("The best guess is {answer!r} ({percent}).")
            click.echo(" " + least.format(answer=_short(guess.text), percent=_percent(guess.confidence)))
            _passage(index, guess)
    for number, one in enumerate(found.answers, 1):
        label = ""
        if len(found.answers) > 1:
            label = f"{number}. "
        text = click.style(_short(one.text), bold=True, fg="green")
        sure = _("{percent} sure").format(percent=_percent(one.confidence))
        if one.support > 1:
            sure += _(", in {n} passages").format(n=one.support)
        click.echo(f"{label}{text}  ({sure})")
        _passage(index, one)


def _only_found(found: "AskResult") -> None:
    """Show the best passage if nothing could be read."""
    from mundap.cli import translated

    click.echo(f"{click.style(_('No answer'), bold=True)}: {translated(found.note)}. {_('The best passage found:')}")
    for hit in found.hits[:1]:
        for line in shared.wrapped(shared.clean(hit.passage.text), 4):
            click.echo(f"    {line}")
        click.echo(click.style(shared.clean(f"    {hit.passage.source}  {hit.passage.title}"), dim=True))
        click.echo()


def _show_more(found: "AskResult") -> None:
    """Say how many answers are left out because their confidence is too low."""
    text = ngettext(
        "{n} more less sure than {percent}: --threshold 0 shows it.",
        "{n} more less sure than {percent}: --threshold 0 shows them.",
        found.more,
    ).format(n=found.more, percent=_percent(found.threshold))
    click.echo(click.style(text, dim=True))


def _short(text: str) -> str:
    return shared.clean(text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…")


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"


def _passage(index: "Index", answer: "Answer") -> None:
    """The passage with the answer highlighted, and its place in the source."""
    from mundap.pipeline.source import place_of

    passage = answer.hit.passage
    start, end = answer.start - passage.start, answer.end - passage.start
    first, last = max(0, start - _AROUND), end + _AROUND
    before = f"{'…' if first else ''}{shared.clean(passage.text[first:start])}"
    after = f"{shared.clean(passage.text[end:last])}{'…' if last < len(passage.text) else ''}"
    span = _short(passage.text[start:end])
    if shared.coloured():
        marked = click.style(span, fg="black", bg="yellow")
    else:
        marked = f"[{span}]"
    for line in shared.wrapped(f"{before}{marked}{after}", 4):
        click.echo(f"    {line}")
    click.echo(click.style(shared.clean(f"    {place_of(index, answer)}  {passage.title}"), dim=True))
    click.echo()


def _show_explanations(rows: "list[PassageExplanation]") -> None:
    """Print a table of the passages: matched words, retrieval scores, reader scores."""
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(title=_("What was read"), title_justify="left", expand=False)
    for name, justify in (("", "right"), ("passage", "left"), ("words found", "left"), ("bm25", "right"),
                          ("dense", "right"), ("selected", "right"), ("best span", "left")):  # fmt: skip
        table.add_column(_(name) if name else "", justify=justify)  # type: ignore[arg-type]
    for row in rows:
        selected, span = "", ""
        if row.best is not None:
            selected, span = f"{row.selection:.2f}", shared.clean(row.best.text)[:40]
        elif not row.read:
            span = _("(not read)")
        table.add_row(
            str(row.hit.rank),
            escape(shared.clean(row.hit.passage.title)[:30]),
            escape(shared.clean(", ".join(row.words[:6]))),
            _score(row.hit.bm25, 1),
            _score(row.hit.dense, 3),
            selected,
            escape(span),
        )
    Console(width=None if sys.stdout.isatty() else 120).print(table)


def _score(value: float | None, digits: int) -> str:
    if value is None:
        return ""
    return f"{value:.{digits}f}"
