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
                click.prompt(_("Press Enter to go on"), default="", show_default=False, prompt_suffix=" ")


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

    yield _("TF-IDF: the fewer documents have a word, the more it weighs")
    words = _(
        "The weight is TF x ln(N / DF): how often the word occurs in the document, times the logarithm of all "
        "documents over those that have it. Three documents, split at spaces: a word in all of them says nothing, "
        "ln(3/3) = 0. A word in two weighs ln(3/2) = 0.4, in one ln(3/1) = 1.1."
    )
    yield from _text(words)
    for document, meaning in zip(figures.DOCUMENTS, figures.MEANINGS, strict=True):
        said = _(meaning)
        yield f"    {document}" if said == document else f"    {document}  ({said})"
    yield ""
    for term, weight in figures.tfidf().items():
        yield f"    {weight:4.1f}  {'█' * round(weight * 10)} {term}"
    yield ""
    yield _command("mundap data make -i INDEX -q QUESTIONS --tfidf 1 -o train.jsonl")


def _bm25(index: "Index") -> Iterator[str]:
    yield _("BM25: TF-IDF that knows how long a passage is")
    words = _(
        "Each further occurrence of a word counts less (k1), and long passages are discounted (b). BM25 is strong on "
        "names and rare words and blind to synonyms. Korean is split into morphemes: particles go, stems stay."
    )
    yield from _text(words)
    yield "    IDF x TF (k1 + 1) / (TF + k1 (1 - b + b |p| / avg |p|))"
    yield ""
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
        "The encoder turns the question into {n} numbers, and every passage into as many. Their inner product is the "
        "similarity. The question says `bad guy`, the passage `villain`: BM25 sees two words, the vectors one meaning."
    )
    yield from _text(words.format(n=len(vector)))
    yield f"    [{', '.join(f'{number:.3f}' for number in vector[:6])}, …]"
    yield from _ranking(index, _QUESTION, "dense")
    yield _command(f'mundap search --mode dense -k 3 "{_QUESTION}"')


def _in_batch(index: "Index") -> Iterator[str]:
    from mundap.tour import figures

    yield _("In-batch negatives: the passages of the other questions are wrong answers for free")
    found = figures.batch(index)
    size = len(found.questions)
    words = _(
        "A batch of {n} questions and their passages gives {n} x {n} similarities. On the diagonal each question meets "
        "its own passage, the positive. The other {wrong} pairs are negatives, and no passage had to be encoded for "
        "them."
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

    yield _("The loss by hand: the positive should get nearly all of the probability")
    found = figures.batch(index)
    words = _(
        "The negative log-likelihood of the positive: -ln( e^(s+ / T) / sum of e^(s / T) ). A cosine is at most 1, so "
        "it is divided by a temperature T = {temperature}. For the first question of the batch:"
    )
    yield from _text(words.format(temperature=figures.TEMPERATURE))
    scores = found.similarity[0] / figures.TEMPERATURE
    loss, flat = figures.losses(found.similarity), figures.losses(found.similarity, 1.0)
    yield "    s / T   " + "  ".join(f"{score:.2f}" for score in scores)
    terms = [f"e^{score:.2f}" for score in scores]
    yield f"    P(+)    {terms[0]} / ({' + '.join(terms)}) = {np.exp(-loss[0]):.4f}"
    yield f"    loss    -ln {np.exp(-loss[0]):.4f} = {loss[0]:.4f}"
    yield ""
    words = _(
        "The mean over the batch is {mean:.4f}. A model that knows nothing has ln {n} = {chance:.4f}; with T = 1 this "
        "one would have {flat:.4f}, hardly better."
    )
    yield from _text(
        words.format(mean=loss.mean(), n=len(loss), chance=np.log(len(loss)), flat=flat.mean()),
    )
    yield _command('mundap train retriever recipe.toml   # loss = "nll"')


def _hybrid(index: "Index") -> Iterator[str]:
    yield _("Hybrid: both rankings, each question's scores on one scale")
    words = _(
        "BM25 scores and similarities cannot be added as they are: they are on different scales. Each list is shifted "
        "and scaled to mean 0 and standard deviation 1 (z), then mixed: (1 - w) z(BM25) + w z(dense). The weight w = "
        "{weight} was fitted on held-out questions."
    )
    weight = 0.0
    if index.encoder:
        weight = index.encoder.config.fusion_weight
    yield from _text(words.format(weight=weight))
    yield from _ranking(index, _QUESTION, "hybrid")
    yield _command(f'mundap search --mode all -k 3 "{_QUESTION}"')


def _reader(index: "Index") -> Iterator[str]:
    from mundap.pipeline.ask import ask
    from mundap.tour import figures

    yield _("The reader: 10 starts x 10 ends, and the best possible pair is the answer")
    spans = figures.seminar()
    words = _(
        "The reader gives every token two probabilities: that the answer starts there, and that it ends there. The 10 "
        "best of each make 100 pairs. A pair whose end is before its start, or too far behind it, is dropped: {n} are "
        "left. Ranked by the product:"
    )
    yield from _text(words.format(n=len(spans)))
    for span in spans[:5]:
        starts, ends = figures.STARTS[span.start], figures.ENDS[span.end]
        yield f"    {span.start:2d}-{span.end:<2d}  {starts:.2f} x {ends:.2f} = {span.score:.4f}"
    yield ""
    yield _("And now a real question, read in real passages:")
    yield ""
    question = _(_TO_READ)
    found = ask(index, question)
    if found.note:  # no reader for that language is installed
        question = _TO_READ
        found = ask(index, question)
    best = found.guess
    if found.answers:
        best = found.answers[0]
    if best is not None:
        answer = click.style(shared.clean(best.text), bold=True)
        sure = _("{percent} sure").format(percent=f"{100 * best.confidence:.0f} %")
        yield f"    {question}  ->  {answer}  ({sure}; {shared.clean(best.hit.passage.title)})"
    yield ""
    yield _command(f'mundap ask --explain "{question}"')


def _ranking(index: "Index", question: str, mode: str) -> Iterator[str]:
    if mode != "bm25" and index.encoder is None:
        yield "    " + _("(this index has no vectors)")
        return
    from rich.cells import set_cell_size

    for hit in index.search(question, 3, mode):  # type: ignore[arg-type]
        shown = shared.clean(f"{hit.passage.title}: {' '.join(hit.passage.text.split())}")
        yield f"    {hit.rank}. {hit.score:7.3f}  {set_cell_size(shown, 78).rstrip()} …"
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
