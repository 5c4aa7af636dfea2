"""`mundap data`: make, check and convert training data; passages from Wikipedia."""

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared
from mundap.disk import apart, disk_errors, json_bytes, replacing
from mundap.errors import MundapError, UsageError
from mundap.records import Context, Question, Skipped

if TYPE_CHECKING:
    from mundap.datasets.examples import Texts
    from mundap.index.index import Index
    from mundap.mining.make import MiningReport

_FORMATS = shared.Registry("mundap.datasets.examples", "FORMATS")
_WRITABLE = shared.Registry("mundap.datasets.examples", "WRITABLE")


@click.group()
def data() -> None:
    """Make, check and convert training data; passages from Wikipedia."""


@data.command()
@shared.READ
@click.option("--questions", "-q", "paths", multiple=True, required=True, metavar="FILE", type=shared.INPUT,
              help="Question-answer pairs; - is standard input (repeatable).")  # fmt: skip
@click.option(
    "--format", "form", type=shared.QUESTION_FORMATS, help="Format of the questions. [default: detected in each file]"
)
@click.option("--qrels", metavar="FILE", type=shared.INPUT, help="Relevance judgements: the judged passages are the "
              "positives (MS MARCO, BEIR, TREC).")  # fmt: skip
@click.option("--level", type=click.IntRange(1), default=1, show_default=True,
              help="Lowest grade that makes a judged passage a positive.")  # fmt: skip
@click.option("-o", "--out", required=True, metavar="FILE",
              help=".jsonl or .json: DPR's training format; .tsv: triples; + .gz.")  # fmt: skip
@click.option("--to", "form_out", type=_WRITABLE, help="The output's format. [default: by its name]")
@shared.MATCH
@click.option(
    "--bm25",
    type=click.IntRange(0, 1000),
    default=30,
    show_default=True,
    help="Hard negatives per question, found by BM25.",
)
@click.option(
    "--tfidf",
    type=click.IntRange(0, 1000),
    default=0,
    show_default=True,
    help="Hard negatives per question, found by TF-IDF.",
)
@click.option("--dense", type=click.IntRange(0, 1000), default=0, show_default=True,
              help="Hard negatives per question, found by the index's encoder.")  # fmt: skip
@click.option("--random", type=click.IntRange(0, 1000), default=0, show_default=True, help="Random negatives.")
@click.option("--depth", type=click.IntRange(1, 10_000), default=100, show_default=True,
              help="Without a gold passage: how many BM25 hits to search for the answer.")  # fmt: skip
@click.option("--evidence", type=shared.Registry("mundap.mining.positives", "Choice"), default="bm25",
              show_default=True, help="Which hit with the answer becomes the positive: the highest ranked, or the "
              "one that shares most words with the question.")  # fmt: skip
@click.option("--shortest", default=25, show_default=True, help="Minimum length of such a passage, in characters.")
@click.option("--longest", default=1500, show_default=True, help="Maximum length of such a passage, in characters.")
@click.option("--names/--no-names", default=True, show_default=True, help="Such a passage must share a name with the "
              "question, or a content word where the question shows no names.")  # fmt: skip
@click.option("--duplicate", type=shared.Number(0, 1, min_open=True), default=0.7, show_default=True,
              help="A passage that shares at least this much of its text with a positive is not used as a "
              "negative.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Random seed for drawing negatives.")
@click.option("--exclude", multiple=True, metavar="FILE", type=shared.INPUT, help="Leave out the questions of this "
              "file, such as a test set (repeatable).")  # fmt: skip
@click.option("--dropped", metavar="FILE", help="Write the questions that were left out, and why, as JSON lines.")
@shared.JSON
def make(
    index_path: str | None,
    paths: tuple[str, ...],
    form: str | None,
    qrels: str | None,
    level: int,
    out: str,
    form_out: str | None,
    match: str,
    exclude: tuple[str, ...],
    dropped: str | None,
    as_json: bool,
    **options: Any,
) -> int:
    """Make training examples from question-answer pairs and an index.

    Reads tab-separated and JSON-lines pairs, SQuAD, KorQuAD, TyDi, NQ-open, TriviaQA, WebQuestions, WikiMovies and
    CuratedTREC files, DPR training files (their negatives are mined again), and MS MARCO or BEIR queries with --qrels.

    The positive is the passage of the index with the text or id of the gold passage; without one, the best passage
    with the answer that BM25 finds for question and answer. Hard negatives are passages that a retriever ranks high
    and that do not contain an answer.

    \b
    Examples:
      mundap data make -i i --questions train.json -o train.jsonl
      mundap data make -i i -q webquestions.json -o wq.jsonl --bm25 10 --random 10 --dropped dropped.jsonl
      mundap data make -i i -q train.jsonl -o harder.jsonl --bm25 0 --dense 30
      mundap data make -i i -q queries.train.tsv --qrels qrels.train.tsv -o msmarco.jsonl
    """
    from mundap.datasets import examples, queries
    from mundap.index.index import Index
    from mundap.mining.make import MiningReport
    from mundap.text.scores import normalize

    form_out = form_out or examples.format_for(out)
    apart(out, *paths, *exclude, qrels)
    if dropped:
        apart(dropped, out, *paths, *exclude, qrels)
    mode = _one_match(paths, form, match)
    excluded: set[str] = set()
    for path in exclude:
        excluded.update(normalize(question.text) for question in queries.read_all(path, unanswerable=True)[0])
    index = Index(index_path)
    report = MiningReport()
    asked = shared.counted(_asked(paths, form, qrels, level, report), "making", "questions")
    failure: MundapError | None = None
    with _telling(dropped) as tell:
        try:
            _make(index, asked, _rules(mode, options), report, tell, excluded, out, form_out)
        except MundapError as error:  # what was dropped is written all the same: it shows why
            failure = error
    if failure:
        raise failure
    _tell_made(report, out, mode, as_json)
    if report.skipped:
        return 3
    return 0


def _one_match(paths: Sequence[str], form: str | None, match: str) -> str:
    """The rule that matches the answers of all files."""
    from mundap.datasets import queries

    if match != "auto":
        return match
    modes = {queries.choose_match(path, form) for path in paths}
    if len(modes) > 1:
        raise UsageError(f"the files need different --match values ({', '.join(sorted(modes))}): make them one by one")
    return modes.pop()


def _asked(
    paths: Sequence[str], form: str | None, qrels: str | None, level: int, report: "MiningReport"
) -> Iterator[Question | Skipped]:
    """The questions of all files, with the relevant passages from the qrels."""
    from mundap.datasets import beir, queries
    from mundap.datasets.detect import detect
    from mundap.mining.make import with_gold

    judged: dict[str, dict[str, int]] = {}
    if qrels:
        judged, skipped = beir.read_qrels(qrels)
        report.skipped += skipped

    def read() -> Iterator[Question | Skipped]:
        for path in paths:
            told = form
            if told is None and qrels and not detect(path).is_json:
                told = "queries"
            yield from queries.read(path, told, unanswerable=True)

    yield from with_gold(queries.unique(read()), judged, level)


def _make(
    index: "Index",
    asked: Iterable[Question | Skipped],
    rules: Any,
    report: "MiningReport",
    tell: Callable[[Question, str], Any],
    excluded: Collection[str],
    out: str,
    form: str,
) -> None:
    from mundap.datasets import examples
    from mundap.mining.make import make as make_examples

    with examples.writing(out, form) as write:
        for example in make_examples(index, asked, rules, report, tell, excluded):
            write(example)
        if not report.kept:
            asked_for = shared.plural(report.questions, "question")
            raise MundapError(f"no example could be made of {asked_for}{_most(report)}")


def _most(report: "MiningReport") -> str:
    """The most frequent reason for dropping a question."""
    if report.dropped:
        return f": {report.dropped.most_common(1)[0][0]}"
    if report.skipped:
        return f": {report.skipped[0].source}: {report.skipped[0].reason}"
    return ""


def _rules(mode: Any, options: dict[str, Any]) -> Any:
    from mundap.mining.make import Rules
    from mundap.mining.negatives import Counts
    from mundap.mining.positives import EvidenceRules

    counts = Counts(options["bm25"], options["tfidf"], options["dense"], options["random"])
    evidence = EvidenceRules(
        options["depth"], options["shortest"], options["longest"], options["names"], options["evidence"]
    )
    return Rules(mode, counts, evidence, options["duplicate"], options["seed"])


@contextmanager
def _telling(path: str | None) -> Iterator[Callable[[Question, str], Any]]:
    """A function that writes each dropped question with the reason, if a file was given."""
    if path is None:
        yield lambda question, why: None
        return
    with disk_errors(Path(path)), replacing(Path(path)) as file:
        yield lambda question, why: file.write(
            json_bytes({"id": question.id, "question": question.text, "why": why}) + b"\n"
        )


def _tell_made(report: Any, out: str, mode: str, as_json: bool) -> None:
    if as_json:
        shared.print_json({"out": out, "match": mode, **report.as_dict()})
        return
    shared.tell_skipped(report.skipped, len(report.skipped))
    click.echo(f"{out}: {shared.plural(report.kept, 'example')} of {shared.plural(report.questions, 'question')}")
    click.echo(f"  positives: {report.from_gold:,} gold, {report.from_search:,} searched for (match: {mode})")
    click.echo(f"  negatives: {report.hard:,} hard, {report.negatives:,} random")
    for why, number in report.dropped.most_common():
        click.echo(f"  dropped {number:,}: {why}")
    if report.few:
        click.echo(f"  {shared.plural(report.few, 'example')} with fewer hard negatives than asked for")
    if report.patterns and mode != "regex":
        click.echo(
            f"  {shared.plural(report.patterns, 'question')} with answers like regular expressions: --match regex?"
        )
    if report.unchecked:
        click.echo(f"  {shared.plural(report.unchecked, 'example')} without answers: their negatives may answer them")
    click.echo(f"  in {report.seconds:.1f} s")


@data.command()
@click.argument("path", metavar="FILE", type=shared.INPUT)
@click.option("--format", "form", type=_FORMATS, help="[default: tell from the content]")
@click.option("--match", type=shared.Registry("mundap.text.answers", "Mode"), default="string", show_default=True,
              help="How answers are matched.")  # fmt: skip
@shared.STRICT
@shared.JSON
def check(path: str, form: str | None, match: Any, strict: bool, as_json: bool) -> int:
    """Check a file of training examples, row by row.

    Errors are rows that cannot be trained on; warnings are likely to hurt training: a negative that contains the
    answer, a positive that does not. Exit code 1 if there are errors (--strict: or warnings).

    \b
    Examples:
      mundap data check train.jsonl
      mundap data check biencoder-nq-train.json --json
    """
    from mundap.mining.check import check as look

    findings = look(path, form, match)
    failed = bool(findings.error_counts or (strict and findings.warning_counts))
    if as_json:
        shared.print_json({"ok": not failed, **findings.as_dict()})
        return int(failed)
    for kind, found, counts in (
        ("error", findings.errors, findings.error_counts),
        ("warning", findings.warnings, findings.warning_counts),
    ):
        for one in found[:20]:
            click.echo(shared.clean(f"{one.source}: {kind}: {one.reason}"))
        if counts.total() > 20:
            click.echo(f"… {counts.total():,} {kind}s in all:")
            for what, number in counts.most_common():
                click.echo(f"  {number:,} x {what}")
    shape = f"{findings.positives:,} positives, {findings.hard:,} hard negatives, {findings.negatives:,} others"
    rows = shared.plural(findings.rows, "row")
    click.echo(f"{path} ({findings.form}): {findings.usable:,} of {rows} usable; {shape}")
    return int(failed)


@data.command()
@click.argument("path", metavar="FILE", type=shared.INPUT)
@click.option("-o", "--out", required=True, metavar="FILE|DIR", help="Output file; for BEIR, a folder.")
@click.option("--from", "form", type=_FORMATS, help="[default: tell from the content]")
@click.option("--to", "form_out", type=_WRITABLE, help="[default: by the output's name]")
@click.option("-q", "--questions", metavar="FILE", type=shared.INPUT, help="For triples of ids: the queries.")
@click.option("-i", "--index", "index_path", metavar="DIR", help="For triples of ids: the index of the passages.")
@shared.STRICT
@shared.JSON
def convert(
    path: str,
    out: str,
    form: str | None,
    form_out: str | None,
    questions: str | None,
    index_path: str | None,
    strict: bool,
    as_json: bool,
) -> int:
    """Convert training examples between DPR json and jsonl, Tevatron, BEIR and triples.

    Files are streamed; to read BEIR, the judged texts are held in memory. Fields that a format cannot hold are left
    out: triples keep the first positive of each example and no answers; BEIR and Tevatron keep no scores.

    \b
    Examples:
      mundap data convert biencoder-nq-train.json.gz -o nq.jsonl
      mundap data convert nq.jsonl -o nq-tevatron.jsonl --to tevatron
      mundap data convert nq.jsonl -o nq-beir --to beir
      mundap data convert qidpidtriples.tsv -q queries.train.tsv -i i -o msmarco.jsonl
    """
    from mundap.datasets import examples

    form_out = form_out or examples.format_for(out)
    apart(out, path, questions)
    texts = None
    if questions:
        texts = _texts(questions, index_path)
    kept, skipped, silent = 0, [], 0
    with examples.writing(out, form_out) as write:
        for found in shared.counted(examples.read_examples(path, form, texts), "converting", "examples"):
            if isinstance(found, Skipped):
                skipped.append(found)
                continue
            kept += 1
            silent += form_out == "triples" and not (found.hard or found.negatives)
            write(found)
        if not kept:
            raise _no_example(path, skipped)
    _tell_converted(out, form_out, kept, silent, skipped, as_json)
    if not skipped:
        return 0
    if strict:
        return 1
    return 3


def _tell_converted(
    out: str, form_out: str, kept: int, silent: int, skipped: "Sequence[Skipped]", as_json: bool
) -> None:
    if as_json:
        shared.print_json(
            {
                "out": out,
                "format": form_out,
                "examples": kept,
                "without_negatives": silent,
                "skipped": [one.as_dict() for one in skipped[:1000]],
                "skipped_count": len(skipped),
            }
        )
        return
    shared.tell_skipped(skipped, len(skipped))
    click.echo(f"{out} ({form_out}): {shared.plural(kept, 'example')}, {len(skipped):,} skipped")
    if silent:
        click.echo(f"{shared.plural(silent, 'example')} without negatives make no triple")


def _no_example(path: str, skipped: "Sequence[Skipped]") -> MundapError:
    reasons = [f" ({one.source}: {one.reason})" for one in skipped[:1]]
    return MundapError(f"{path}: no example in it{''.join(reasons)}")


def _texts(questions: str, index_path: str | None) -> "Texts":
    """The texts behind the ids of triples."""
    from mundap.datasets import queries
    from mundap.datasets.detect import detect
    from mundap.datasets.examples import Texts
    from mundap.index.index import Index

    index = Index(index_path)
    form = None
    if not detect(questions).is_json:
        form = "queries"
    asked, _ = queries.read_all(questions, form, unanswerable=True)

    def passage(name: str) -> Context | None:
        found = index.passage(name)
        if found:
            return Context.of(found)
        return None

    return Texts({question.id: question for question in asked}, passage)


@data.command()
@click.argument("paths", nargs=-1, required=True, metavar="DUMP...")
@click.option("-o", "--out", required=True, metavar="FILE", help="The passages, as in psgs_w100.tsv; + .gz.")
@click.option("--words", type=click.IntRange(1, 10_000), default=100, show_default=True,
              help="Maximum words per passage.")  # fmt: skip
@click.option("--headings", is_flag=True, help="Keep the headings of sections.")
@click.option("--published", is_flag=True, help="Like the published psgs_w100: text starts with the title, "
              "italics become quotation marks, an article's last passage is filled up from its beginning.")  # fmt: skip
@shared.STRICT
@shared.JSON
def wikipedia(
    paths: tuple[str, ...], out: str, words: int, headings: bool, published: bool, strict: bool, as_json: bool
) -> int:
    """Make passages from Wikipedia dumps of any language.

    Reads *-pages-articles*.xml, plain or compressed (bz2, xz, gz, zst), in one file or many parts; folders are
    searched. Multistream files use all cores for decompression too. Tables, lists, infoboxes, references, redirects
    and disambiguation pages are left out. Run the same command again to resume a run that was killed.

    \b
    Examples:
      mundap data wikipedia enwiki-latest-pages-articles-multistream.xml.bz2 -o psgs.tsv
      mundap data wikipedia kowiki-*.xml-p*.bz2 -o psgs.tsv.gz --headings
    """
    from mundap.documents.wikipedia.articles import Style
    from mundap.documents.wikipedia.export import KINDS, export
    from mundap.documents.wikipedia.passages import Cut

    with shared.pages_bar("reading") as watch:
        report = export(paths, Path(out), Style(headings, quotes=published), Cut(words, published), watch)
    if as_json:
        shared.print_json({"out": out, **report.as_dict()})
    else:
        shared.tell_skipped(report.skipped, report.skipped_count)
        left = ", ".join(f"{kind} {report.counts[kind]:,}" for kind in KINDS[2:])
        kept = f"{shared.plural(report.passages, 'passage')} of {shared.plural(report.counts['articles'], 'article')}"
        click.echo(f"{out}: {kept}; {shared.plural(report.counts['pages'], 'page')} in all")
        click.echo(f"left out: {left}; skipped {report.skipped_count:,}")
        click.echo(f"{report.rate:,.0f} pages/s, {report.seconds:.1f} s")
    if report.skipped_count:
        if strict:
            return 1
        return 3
    return 0
