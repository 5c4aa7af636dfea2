"""`mundap data`: make, check and convert training data; passages from Wikipedia."""

import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared
from mundap.disk import apart, disk_errors, json_bytes, replacing
from mundap.errors import MundapError, UsageError

_FORMS = click.Choice(["dpr-json", "dpr-jsonl", "tevatron", "beir", "triples"])


@click.group()
def data() -> None:
    """Make, check and convert training data; passages from Wikipedia."""


@data.command()
@shared.READ
@click.option("--questions", "-q", "paths", multiple=True, required=True, metavar="FILE",
              help="Question-answer pairs (repeatable).")  # fmt: skip
@click.option("--format", "form", type=shared.QUESTION_FORMS, help="Of the questions. [default: tell from each file]")
@click.option("-o", "--out", required=True, metavar="FILE",
              help=".jsonl or .json: DPR's training format; .tsv: triples; + .gz.")  # fmt: skip
@click.option("--to", "form_out", type=_FORMS, help="The output's format. [default: by its name]")
@shared.MATCH
@click.option("--bm25", type=click.IntRange(0, 1000), default=30, show_default=True, help="Hard negatives by BM25.")
@click.option("--tfidf", type=click.IntRange(0, 1000), default=0, show_default=True, help="Hard negatives by TF-IDF.")
@click.option("--dense", type=click.IntRange(0, 1000), default=0, show_default=True,
              help="Hard negatives by the index's own encoder.")  # fmt: skip
@click.option("--random", type=click.IntRange(0, 1000), default=0, show_default=True, help="Random negatives.")
@click.option("--depth", type=click.IntRange(1, 10_000), default=100, show_default=True,
              help="Without a gold passage: how many of BM25's passages are searched for the answer.")  # fmt: skip
@click.option("--evidence", type=click.Choice(["bm25", "overlap"]), default="bm25", show_default=True,
              help="Which of those with the answer: the highest, or the one with the most words of the "
              "question.")  # fmt: skip
@click.option("--shortest", default=25, show_default=True, help="The fewest characters of such a passage.")
@click.option("--longest", default=1500, show_default=True, help="The most.")
@click.option("--names/--no-names", default=True, show_default=True, help="It must share a name with the question.")
@click.option("--duplicate", type=shared.Number(0, 1, min_open=True), default=0.7, show_default=True,
              help="A passage that shares this much of its text with a positive is no negative.")  # fmt: skip
@click.option("--seed", default=0, show_default=True, help="Of the random negatives.")
@click.option("--exclude", multiple=True, metavar="FILE", help="Leave out the questions of this file, such as a "
              "test set (repeatable).")  # fmt: skip
@click.option("--dropped", metavar="FILE", help="Write the questions that were left out, and why, as JSON lines.")
@shared.JSON
def make(
    index_path: str | None,
    paths: tuple[str, ...],
    form: str | None,
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
    CuratedTREC files, and DPR training files (whose negatives are then mined anew).

    A question with a gold passage gets the passage of the index with that text; one without gets the best passage
    with the answer that BM25 finds for question and answer. Hard negatives are what a retriever ranks high and has
    no answer in it.

    \b
    Examples:
      mundap data make -i i --questions train.json -o train.jsonl
      mundap data make -i i -q webquestions.json -o wq.jsonl --bm25 10 --random 10 --dropped dropped.jsonl
      mundap data make -i i -q train.jsonl -o harder.jsonl --bm25 0 --dense 30
    """
    from mundap import questions
    from mundap.index.index import Index
    from mundap.text.scores import normalize
    from mundap.training import formats
    from mundap.training.make import Report
    from mundap.training.make import make as examples

    form_out = form_out or formats.form_for(out)
    apart(out, *paths, *exclude)
    if dropped:
        apart(dropped, out, *paths, *exclude)
    modes = {questions.choose_match(path, form) if match == "auto" else match for path in paths}
    if len(modes) > 1:
        raise UsageError(f"the files want different ways to match ({', '.join(sorted(modes))}): make them one by one")
    mode = modes.pop()
    excluded = {normalize(question.text) for path in exclude for question in questions.read_all(path)[0]}
    report = Report()
    with ExitStack() as stack:
        index = Index(index_path)
        tell = stack.enter_context(_telling(dropped)) if dropped else lambda question, why: None
        write = stack.enter_context(formats.writing(out, form_out))
        asked = questions.unique(found for path in paths for found in questions.read(path, form))
        stream = shared.counted(asked, "making", "questions")
        for example in examples(index, stream, _rules(mode, options), report, tell, excluded):
            write(example)
        if not report.kept:
            raise MundapError(
                f"no example could be made of {shared.count(report.questions, 'question')}{_most(report)}"
            )
    _tell_made(report, out, mode, as_json)
    return 3 if report.skipped else 0


def _most(report: Any) -> str:
    """What most of them were dropped for."""
    if report.dropped:
        return f": {report.dropped.most_common(1)[0][0]}"
    return f": {report.skipped[0].source}: {report.skipped[0].reason}" if report.skipped else ""


def _rules(mode: Any, options: dict[str, Any]) -> Any:
    from mundap.training.make import Rules
    from mundap.training.negatives import Counts
    from mundap.training.positives import Evidence

    counts = Counts(options["bm25"], options["tfidf"], options["dense"], options["random"])
    evidence = Evidence(
        options["depth"], options["shortest"], options["longest"], options["names"], options["evidence"]
    )
    return Rules(mode, counts, evidence, options["duplicate"], options["seed"])


@contextmanager
def _telling(path: str) -> Iterator[Any]:
    with disk_errors(Path(path)), replacing(Path(path)) as file:
        yield lambda question, why: file.write(
            json_bytes({"id": question.id, "question": question.text, "why": why}) + b"\n"
        )


def _tell_made(report: Any, out: str, mode: str, as_json: bool) -> None:
    if as_json:
        shared.print_json({"out": out, "match": mode, **report.as_dict()})
        return
    shared.tell_skipped(report.skipped, len(report.skipped))
    click.echo(f"{out}: {shared.count(report.kept, 'example')} of {shared.count(report.questions, 'question')}")
    click.echo(f"  positives: {report.from_gold:,} gold, {report.from_search:,} searched for (match: {mode})")
    click.echo(f"  negatives: {report.hard:,} hard, {report.negatives:,} random")
    for why, number in report.dropped.most_common():
        click.echo(f"  dropped {number:,}: {why}")
    if report.few:
        click.echo(f"  {shared.count(report.few, 'example')} with fewer hard negatives than asked for")
    if report.patterns and mode != "regex":
        click.echo(
            f"  {shared.count(report.patterns, 'question')} with answers like regular expressions: --match regex?"
        )
    if report.unchecked:
        click.echo(f"  {shared.count(report.unchecked, 'example')} without answers: their negatives may answer them")
    click.echo(f"  in {report.seconds:.1f} s")


@data.command()
@click.argument("path", metavar="FILE")
@click.option("--format", "form", type=_FORMS, help="[default: tell from the content]")
@click.option("--match", type=click.Choice(["string", "regex", "cjk"]), default="string", show_default=True,
              help="How answers are looked for.")  # fmt: skip
@shared.STRICT
@shared.JSON
def check(path: str, form: str | None, match: Any, strict: bool, as_json: bool) -> int:
    """Check a file of training examples, row by row.

    Errors are rows that cannot be trained on; warnings are what is likely to harm: a negative with the answer in it,
    a positive without. Exit code 1 if there are errors (--strict: or warnings).

    \b
    Examples:
      mundap data check train.jsonl
      mundap data check biencoder-nq-train.json --json
    """
    from mundap.training.check import check as look

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
    click.echo(f"{path} ({findings.form}): {findings.usable:,} of {shared.count(findings.rows, 'row')} usable; {shape}")
    return int(failed)


@data.command()
@click.argument("path", metavar="FILE")
@click.option("-o", "--out", required=True, metavar="FILE|DIR", help="What to write; BEIR is a folder.")
@click.option("--from", "form", type=_FORMS, help="[default: tell from the content]")
@click.option("--to", "form_out", type=_FORMS, help="[default: by the output's name]")
@shared.STRICT
@shared.JSON
def convert(path: str, out: str, form: str | None, form_out: str | None, strict: bool, as_json: bool) -> int:
    """Convert training examples between DPR json and jsonl, Tevatron, BEIR and triples.

    Files are streamed; to read BEIR, the judged texts are held in memory. What a format has no place for is left
    out: triples keep the first positive of each example and no answers; BEIR and Tevatron keep no scores.

    \b
    Examples:
      mundap data convert biencoder-nq-train.json.gz -o nq.jsonl
      mundap data convert nq.jsonl -o nq-tevatron.jsonl --to tevatron
      mundap data convert nq.jsonl -o nq-beir --to beir
    """
    from mundap.records import Skipped
    from mundap.training import formats

    form_out = form_out or formats.form_for(out)
    apart(out, path)
    kept, skipped, silent = 0, [], 0
    with formats.writing(out, form_out) as write:
        for found in shared.counted(formats.read_examples(path, form), "converting", "examples"):
            if isinstance(found, Skipped):
                skipped.append(found)
                continue
            kept += 1
            silent += form_out == "triples" and not (found.hard or found.negatives)
            write(found)
        if not kept:
            reason = f" ({skipped[0].source}: {skipped[0].reason})" if skipped else ""
            raise MundapError(f"{path}: no example in it{reason}")
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
    else:
        shared.tell_skipped(skipped, len(skipped))
        click.echo(f"{out} ({form_out}): {shared.count(kept, 'example')}, {len(skipped):,} skipped")
        if silent:
            click.echo(f"{shared.count(silent, 'example')} without negatives make no triple")
    if skipped:
        sys.exit(1 if strict else 3)
    return 0


@data.command()
@click.argument("paths", nargs=-1, required=True, metavar="DUMP...")
@click.option("-o", "--out", required=True, metavar="FILE", help="The passages, as in psgs_w100.tsv; + .gz.")
@click.option("--words", type=click.IntRange(1, 10_000), default=100, show_default=True,
              help="The most words in a passage.")  # fmt: skip
@click.option("--headings", is_flag=True, help="Keep the headings of sections.")
@click.option("--published", is_flag=True, help="As the published psgs_w100: the title first in the text, quotation "
              "marks for italics, the last passage of an article filled up from its beginning.")  # fmt: skip
@shared.STRICT
@shared.JSON
def wikipedia(
    paths: tuple[str, ...], out: str, words: int, headings: bool, published: bool, strict: bool, as_json: bool
) -> int:
    """Make passages from Wikipedia dumps of any language.

    Reads *-pages-articles*.xml, plain or compressed (bz2, xz, gz, zst), in one file or many parts; folders are
    searched. Multistream files use all cores for decompression too. Tables, lists, infoboxes, references, redirects
    and disambiguation pages are left out. A run that was killed goes on where it was when the same command is run
    again.

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
        kept = f"{shared.count(report.passages, 'passage')} of {shared.count(report.counts['articles'], 'article')}"
        click.echo(f"{out}: {kept}; {shared.count(report.counts['pages'], 'page')} in all")
        click.echo(f"left out: {left}; skipped {report.skipped_count:,}")
        click.echo(f"{report.rate:,.0f} pages/s, {report.seconds:.1f} s")
    if report.skipped_count:
        return 1 if strict else 3
    return 0
