"""`mundap tour`."""

import sys
import tempfile
from collections.abc import Iterator
from gettext import gettext as _
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mundap.cli import shared

if TYPE_CHECKING:
    import numpy as np

    from mundap.index.index import Index

_QUESTION = "Who is the bad guy in Lord of the Rings?"
_TO_READ = "How tall is the Eiffel Tower?"


@click.command()
@click.option("-i", "--index", "index_path", metavar="DIR", help="An index of the example encyclopaedia. "
              "[default: one is made, and removed at the end]")  # fmt: skip
@click.option("--corpus", metavar="DIR", help="The example encyclopaedia. [default: examples/encyclopedia]")
@click.option("--no-pause", is_flag=True, help="Do not wait for Enter after each step.")
def tour(index_path: str | None, corpus: str | None, no_pause: bool) -> None:
    """Walk through how a question finds its answer: TF-IDF, BM25, dense vectors, training, hybrid, the reader.

    Every number is computed while you watch, on the example encyclopaedia. Each step shows the command that does the
    same with your own text. With --lang ko, or where the environment is Korean, it speaks Korean.

    \b
    Examples:
      mundap tour
      mundap --lang ko tour
      mundap tour --no-pause | less
    """
    from mundap.index.index import Index

    pause = sys.stdin.isatty() and sys.stdout.isatty() and not no_pause
    with tempfile.TemporaryDirectory(prefix="mundap-tour-") as folder:
        if index_path is None:
            shared.note(_("Making an index of the example encyclopaedia …"))
            index = Index.build([_corpus(corpus)], Path(folder) / "index")
        else:
            index = Index(index_path)
        steps = (_tfidf(), _bm25(index), _dense(index), _in_batch(index), _nll(index), _hybrid(index), _reader(index))
        for number, lines in enumerate(steps, 1):
            title = next(lines)
            click.echo(click.style(f"\n{number}. {title}\n", bold=True))
            for line in lines:
                click.echo(line)
            if pause and number < len(steps):
                click.prompt(_("Enter goes on"), default="", show_default=False, prompt_suffix=" ")


def _corpus(given: str | None) -> Path:
    from mundap.errors import UsageError

    here = Path("examples/encyclopedia")
    for folder in (Path(given),) if given else (here, Path(__file__).parents[3] / here):
        if folder.is_dir():
            return folder
    raise UsageError("the example encyclopaedia is not here: it comes with the source. Name its folder with --corpus.")


def _text(words: str) -> Iterator[str]:
    yield from shared.wrapped(words)
    yield ""


def _command(command: str) -> str:
    return click.style(f"  $ {command}", fg="cyan")


def _tfidf() -> Iterator[str]:
    from mundap.tour import figures

    yield _("TF-IDF: a word weighs more the fewer documents have it")
    words = _(
        "TF x ln(N / DF). Three documents, cut at spaces. A word that is in all of them tells nothing: "
        "ln(3/3) = 0. A word in one of them weighs ln(3/1) = 1.1, in two ln(3/2) = 0.4."
    )
    yield from _text(words)
    for document in figures.DOCUMENTS:
        yield f"    {document}"
    yield ""
    for term, weight in figures.tfidf().items():
        yield f"    {weight:4.1f}  {'█' * round(weight * 10)} {term}"
    yield ""
    yield _command("mundap data make -i INDEX -q QUESTIONS --tfidf 1 -o train.jsonl")


def _bm25(index: "Index") -> Iterator[str]:
    yield _("BM25: TF-IDF that knows how long a passage is")
    words = _(
        "Repeated words count less and less, and long passages are discounted. Strong on names and rare "
        "words, blind to synonyms. Korean is cut into morphemes: particles go, stems stay."
    )
    yield from _text(words)
    for text in (_QUESTION, "비빔밥으로 유명한 도시는?"):
        yield f"    {text}  ->  {' '.join(index.analyzer.question_terms(text))}"
        yield from _ranking(index, text, "bm25")
    yield _command(f'mundap search --mode bm25 -k 3 "{_QUESTION}"')


def _dense(index: "Index") -> Iterator[str]:
    from mundap.encoder.runtime import Encoder

    yield _("Dense vectors: passages that mean the same are near each other")
    encoder = index.encoder or Encoder.from_pretrained()
    vector = encoder.encode_questions([_QUESTION])[0]
    words = _(
        "The encoder turns the question into {n} numbers, and every passage into as many. The "
        "similarity is their inner product. `bad guy` finds `villain`, a word it does not share."
    )
    yield from _text(words.format(n=len(vector)))
    yield f"    [{', '.join(f'{number:.3f}' for number in vector[:6])}, …]"
    yield from _ranking(index, _QUESTION, "dense")
    yield _command(f'mundap search --mode dense -k 3 "{_QUESTION}"')


def _in_batch(index: "Index") -> Iterator[str]:
    from mundap.tour import figures

    yield _("In-batch negatives: the other questions' passages are wrong answers for free")
    found = figures.batch(index)
    size = len(found.questions)
    words = _(
        "A batch of {n} questions and their passages gives {n} x {n} similarities. The diagonal is "
        "right, the other {wrong} are wrong: no passage was encoded twice."
    )
    yield from _text(words.format(n=size, wrong=size * size - size))
    for question, title in zip(found.questions, found.titles, strict=True):
        yield f"    {question}  ->  {title}"
    yield ""
    yield from _matrix(found.similarity)
    yield ""
    yield _command("mundap train retriever recipe.toml")


def _nll(index: "Index") -> Iterator[str]:
    import numpy as np

    from mundap.tour import figures

    yield _("The loss by hand: the right passage should be likelier than all others together")
    found = figures.batch(index)
    row = found.similarity[0]
    raised = np.exp(row.astype(np.float64))
    yield from _text(_("-log( e^right / sum of e^all ), for the first question of the batch:"))
    yield "    e^s     " + "  ".join(f"e^{score:.2f} = {value:.3f}" for score, value in zip(row, raised, strict=True))
    yield f"    P(+)    {raised[0]:.3f} / {raised.sum():.3f} = {raised[0] / raised.sum():.4f}"
    loss = figures.losses(found.similarity)
    yield f"    loss    -ln {raised[0] / raised.sum():.4f} = {loss[0]:.4f}"
    yield ""
    yield _("The mean over the batch is {mean:.4f}; knowing nothing it would be ln {n} = {chance:.4f}.").format(
        mean=float(loss.mean()), n=len(loss), chance=float(np.log(len(loss)))
    )
    yield ""
    yield _command('mundap train retriever recipe.toml   # loss = "nll"')


def _hybrid(index: "Index") -> Iterator[str]:
    yield _("Hybrid: both rankings, each question's scores on one scale")
    words = _(
        "BM25 scores and similarities cannot be added as they are. Each list is brought to mean 0 and "
        "deviation 1, then mixed with a weight that was measured."
    )
    yield from _text(words)
    yield from _ranking(index, _QUESTION, "hybrid")
    yield _command(f'mundap search --mode all -k 3 "{_QUESTION}"')


def _reader(index: "Index") -> Iterator[str]:
    from mundap.pipeline.ask import ask
    from mundap.tour import figures

    yield _("The reader: 10 starts x 10 ends, the best possible pair is the answer")
    spans = figures.seminar()
    words = _(
        "For each token the reader says how likely the answer starts there, and ends there. 100 pairs; "
        "an end before its start, or too far behind, is dropped: {n} are left. Ranked by the product:"
    )
    yield from _text(words.format(n=len(spans)))
    for span in spans[:5]:
        starts, ends = figures.STARTS[span.start], figures.ENDS[span.end]
        yield f"    {span.start:2d}-{span.end:<2d}  {starts:.2f} x {ends:.2f} = {span.score:.4f}"
    yield ""
    yield _("And now a real question, read in real passages:")
    found = ask(index, _TO_READ)
    best = found.answers[0] if found.answers else found.guess
    if best is not None:
        answer = click.style(shared.clean(best.text), bold=True)
        yield f"    {_TO_READ}  ->  {answer}  ({best.confidence:.0%}, {shared.clean(best.hit.passage.title)})"
    yield ""
    yield _command(f'mundap ask --explain "{_TO_READ}"')


def _ranking(index: "Index", question: str, mode: str) -> Iterator[str]:
    if mode != "bm25" and index.encoder is None:
        yield "    " + _("(this index has no vectors)")
        return
    for hit in index.search(question, 3, mode):  # type: ignore[arg-type]
        yield f"    {hit.rank}. {hit.score:7.3f}  {shared.clean(hit.passage.title)}"
    yield ""


def _matrix(similarity: "np.ndarray") -> Iterator[str]:
    """Similarities as numbers on shades, the diagonal in brackets."""
    values = similarity
    lowest, highest = float(values.min()), float(values.max())
    yield "          " + "".join(f"   p{column + 1}      " for column in range(values.shape[1]))
    for row in range(values.shape[0]):
        cells = []
        for column in range(values.shape[1]):
            share = (values[row, column] - lowest) / max(highest - lowest, 1e-9)
            shade = " ░▒▓█"[min(4, int(share * 5))] * 2
            left, right = ("[", "]") if row == column else (" ", " ")
            cells.append(f"{left}{shade} {values[row, column]:5.2f}{right}")
        yield f"      q{row + 1}  " + " ".join(cells)
