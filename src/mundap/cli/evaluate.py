"""`mundap evaluate` and `mundap compare`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from mundap.cli import shared

if TYPE_CHECKING:
    from mundap.evaluation.retrieval import RetrievalFigures
    from mundap.evaluation.significance import Difference

_CUTS = click.option("-k", "cuts", multiple=True, type=click.IntRange(1, 100_000), metavar="K…",
                     help="Values of k. [default: 1 5 20 100; with judgements 10 100 1000]")  # fmt: skip
_QUESTIONS = click.option("-q", "--questions", metavar="FILE", type=shared.INPUT, help="Questions with answers, in any "
                          "format that `mundap data make` reads; - is standard input.")  # fmt: skip
_QRELS = click.option(
    "--qrels", metavar="FILE", type=shared.INPUT, help="Relevance judgements: BEIR's, TREC's or MS MARCO's."
)
_LEVEL = click.option("--level", type=click.IntRange(1), default=1, show_default=True,
                      help="Lowest grade that counts as relevant (TREC DL passages: 2).")  # fmt: skip
_DOUBTS = ("notes", "skipped", "skipped_count")
_REPORT = click.option("--report", metavar="DIR", help="Write an HTML page with plots.")


class _ManyValues(click.Command):
    """A command whose options `-k` and `--mode` take several values: `-k 1 5 20`, `-k 1,5,20` or `-k 1 -k 5`."""

    _MANY = ("-k", "--mode")

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Repeat the option before each of its values, as click expects."""
        spread: list[str] = []
        option, values = "", 0
        for word in [*args, "-"]:
            if option and not word.startswith("-") and self._fits(option, word):
                for value in filter(None, word.split(",")):
                    spread += [option, value]
                    values += 1
                continue
            if option and not values:
                spread.append(option)  # without a value: click says so
            option, values = (word, 0) if word in self._MANY else ("", 0)
            if not option:
                spread.append(word)
        return super().parse_args(ctx, spread[:-1])

    def _fits(self, option: str, word: str) -> bool:
        """Whether a word can be a value of the option; if not, it is an argument."""
        if option == "-k":
            return word.replace(",", "").isdigit()
        kind = next(one.type for one in self.params if option in one.opts)
        if not isinstance(kind, click.Choice):
            return True
        return all(value in kind.choices for value in word.split(","))


@click.group()
def evaluate() -> None:
    """Measure how well questions are answered."""


@evaluate.command(cls=_ManyValues)
@shared.READ
@_QUESTIONS
@click.option("--format", "form", type=shared.QUESTION_FORMATS, help="Format of the questions. [default: detected]")
@click.option("--beir", metavar="DIR", help="A BEIR folder: its queries and qrels.")
@click.option("--split", help="Which qrels of the BEIR folder. [default: test]")
@_QRELS
@_LEVEL
@click.option("--mode", "modes", multiple=True, type=shared.MODE,
              metavar="MODE…", help="bm25, dense, hybrid, or several. [default: hybrid]")  # fmt: skip
@_CUTS
@click.option(
    "--candidates",
    metavar="RUN",
    help="Do not search: rerank the passages of this run, as in the papers' rerank columns.",
)
@click.option(
    "--run",
    "runs",
    multiple=True,
    metavar="FILE",
    help="Do not search: evaluate this run, TREC's or DPR's json (repeatable).",
)
@shared.MATCH
@click.option(
    "--gold/--no-gold", default=True, show_default=True, help="Also measure by gold passage, where it is known."
)
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Use only N questions, sampled at random.")
@click.option("--seed", default=0, show_default=True, help="Random seed of the sample.")
@shared.FUSING
@shared.BM25
@shared.RERANK
@shared.READER
@click.option("-o", "--out", metavar="FILE", help="Write the run: .json or .jsonl in DPR's format, else TREC's; "
              "with several modes, one file each (run.MODE.json).")  # fmt: skip
@_REPORT
@shared.JSON
def retrieval(as_json: bool, report: str | None, **options: Any) -> int:
    """Measure retrieval: top-k accuracy by answers, or nDCG, MRR, recall and MAP by judgements.

    A question counts as answered if one of the top k passages contains an answer. Accuracy is in percent, the
    other metrics from 0 to 1. Anything skipped, missing or unknown is reported and counts as wrong.

    \b
    Examples:
      mundap evaluate retrieval -i i -q nq-test.csv --mode bm25 dense hybrid -k 1 5 20 100 --report out
      mundap evaluate retrieval -i i --beir scifact --mode bm25 --json
      mundap evaluate retrieval --run run.trec --qrels qrels.txt
      mundap evaluate retrieval -i i -q nq-test.csv --candidates bm25.trec --mode dense
    """
    found = _measure(**options)
    if report:
        what = options["beir"] or options["questions"] or options["runs"][0]
        _write(found, report, f"Retrieval on {Path(what).name}")
    if as_json:
        shared.print_json(found.as_dict())
    else:
        _tell(found)
    if found.skipped:
        return 3
    return 0


def _measure(index_path: str | None, match: Any, **options: Any) -> "RetrievalFigures":
    from mundap.evaluation.retrieval import RetrievalTask, measure

    options["folder"] = options.pop("beir", None)
    fusing = _fusing(options)
    task = RetrievalTask(index=index_path, match=None if match == "auto" else match, fusing=fusing, **options)
    return measure(task, lambda items, what, total: shared.counted(items, what, "questions", total))


def _fusing(options: dict[str, Any]) -> dict[str, Any]:
    """Take the options of hybrid search and BM25 out of the others."""
    bm25 = shared.given_bm25(options)
    return {name: options.pop(name) for name in ("fusion", "weight", "scale") if name in options} | bm25


def _write(found: "RetrievalFigures", folder: str, title: str, k: int | None = None) -> None:
    from mundap.evaluation.report import write_report

    page = write_report(folder, found.systems, found.cuts, k or _middle(found.cuts), title, found.differences)
    shared.note(f"wrote {page}")


def _middle(cuts: Sequence[int]) -> int:
    """The k for the lists of answered questions: 20 if it is one of the cuts."""
    for usual in (20, 10):
        if usual in cuts:
            return usual
    return cuts[len(cuts) // 2]


def _tell(found: "RetrievalFigures") -> None:
    systems, cuts = found.systems, found.cuts
    shared.tell_skipped(found.skipped, len(found.skipped))
    for note in found.notes:
        shared.note(shared.clean(note))
    scale, places, unit = systems[0].scale, 1, f"accuracy in %, match: {found.match}"
    if systems[0].judged:
        places, unit = 4, "0 to 1"
    click.echo(f"{shared.plural(len(systems[0].outcomes), 'question')}; {unit}")
    width = max(6, *(len(system.name) for system in systems))
    _row("", list(systems[0].figures(cuts)), width)
    for system in systems:
        _row(system.name, [f"{value:.{places}f}" for value in system.figure_means(cuts).values()], width)
    for name, row in found.differences.items():
        apart = [_difference(one, scale, places) for one in row.values()]
        _row(name, apart, width, f"  less {systems[0].name}")
    if len(systems) > 1:
        click.echo("* p < .05, paired by question")
    _tell_gold(found, width)


def _row(name: str, cells: Sequence[str], width: int, note: str = "") -> None:
    click.echo(f"{name:{width}}" + "".join(f"{cell:>12}" for cell in cells) + note)


def _difference(one: "Difference", scale: float, places: int) -> str:
    star = " "
    if one.p < 0.05:
        star = "*"
    return f"{scale * one.mean:+.{places}f}{star}"


def _tell_gold(found: "RetrievalFigures", width: int) -> None:
    """Print accuracy by gold passage, where that is known."""
    for system in found.systems:
        known = sum(outcome.gold is not None for outcome in system.outcomes)
        if known:
            cells = [f"{value:.1f}" for value in system.gold_accuracy(found.cuts).values()]
            _row(system.name, cells, width, f"  by gold passage ({known:,} questions)")


@evaluate.command(cls=_ManyValues)
@shared.READ
@click.option("-q", "--questions", "--data", required=True, metavar="FILE", type=shared.INPUT, help="Questions with "
              "answers: SQuAD's shape, DPR's files, or any other that `mundap data make` reads; - is standard "
              "input.")  # fmt: skip
@click.option("--format", "form", type=shared.QUESTION_FORMATS, help="Format of the questions. [default: detected]")
@click.option("--predictions", metavar="FILE", help="Score these predictions (SQuAD's JSON, or one row each) "
              "instead of reading.")  # fmt: skip
@click.option("--run", metavar="FILE", help="Read the passages of these results (DPR's json) instead of searching.")
@click.option("--gold", is_flag=True, help="Read each question's own passage; no index is needed.")
@shared.READER
@shared.RANKING
@click.option("-k", "cuts", multiple=True, type=click.IntRange(1, 1000), metavar="K…",
              help="Numbers of passages to read; EM and F1 are reported for the last. [default: 1 5 10]")  # fmt: skip
@click.option("--mode", type=shared.MODE, help="How to search. [default: hybrid]")
@shared.FUSING
@shared.BM25
@shared.MATCH
@click.option(
    "--removed",
    is_flag=True,
    help="Ask again with the documents that contain the answer removed, and count how often it still answers.",
)
@shared.RIGHT
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Use only N questions, sampled at random.")
@click.option("--seed", default=0, show_default=True, help="Random seed of the sample.")
@click.option("--precision", type=shared.PRECISION, help="Precision of the reader's weights.")
@click.option(
    "-o", "--out", metavar="FILE", help="Write the predictions as SQuAD's JSON: an answer for each question id."
)
@shared.JSON
def answers(as_json: bool, index_path: str | None, gold: bool, match: Any, **options: Any) -> int:
    """Measure answers: exact match and F1 in percent, as SQuAD defines them (KorQuAD's for Korean).

    With -i (or the index here) questions are asked as `mundap ask` does; the oracle is the share with the answer among
    the passages found, the upper bound for a reader. Questions without an answer (SQuAD 2.0, or an empty list of
    answers) are reported separately: how many were answered anyway, and SQuAD 2.0's figures over all questions.

    \b
    Examples:
      mundap evaluate answers --data dev-v1.1.json --predictions preds.json
      mundap evaluate answers --data dev-v1.1.json --gold
      mundap evaluate answers -i i -q nq-test.csv -k 1 5 10 20 --removed --json
    """
    from mundap.errors import UsageError
    from mundap.evaluation.answers import AnswersTask, measure
    from mundap.index import locate

    named = index_path or options["run"] or options["predictions"]
    if gold and named:
        raise UsageError("--gold reads each question's own passage: leave out -i, --run and --predictions")
    if not gold and not named:
        index_path = str(locate.to_read(None))
    fusing = _fusing(options)
    task = AnswersTask(index=index_path, match=None if match == "auto" else match, fusing=fusing, **options)
    found = measure(task, lambda items, what, total: shared.counted(items, what, "questions", total))
    if as_json:
        shared.print_json(found.as_dict())
    else:
        shared.tell_skipped(found.skipped, len(found.skipped))
        _tell_answers(found.as_dict())
    if found.skipped:
        return 3
    return 0


def _tell_answers(facts: dict[str, Any]) -> None:
    from mundap.text.scores import labels

    for note in facts["notes"]:
        shared.note(shared.clean(note))
    rules = facts["questions_by_match"]
    if len(rules) > 1:
        match = ", ".join(f"{rule} {count:,}" for rule, count in rules.items())
    else:
        match = facts["match"]
    click.echo(f"{shared.plural(facts['questions'], 'question')}, match: {match}")
    exact, overlap = labels(rules or ["string"])
    click.echo(f"{exact} {facts['exact_match']:.2f}, {overlap} {facts['f1']:.2f}")
    for name, label in (("exact_match_by_passages", "exact match"), ("oracle", "oracle")):
        if name in facts:
            click.echo(f"{label} by passages read: " + ", ".join(f"{k}: {v:.1f}" for k, v in facts[name].items()))
    for name, value in facts.get("confidence", {}).items():
        click.echo(f"  {name.replace('_', ' ')}: {value}")
    if "unanswerable" in facts:
        refused = facts["unanswerable"]
        asked = shared.plural(refused["questions"], "question")
        click.echo(f"{asked} without an answer: {refused['answered_though_unanswerable']:.1f} % answered all the same")
        click.echo(
            f"all questions, by SQuAD 2.0's rule: exact match {refused['squad2_exact_match']:.2f}, "
            f"F1 {refused['squad2_f1']:.2f}"
        )


@click.command(cls=_ManyValues)
@click.argument("first")
@click.argument("second")
@shared.READ
@_QUESTIONS
@click.option("--format", "form", type=shared.QUESTION_FORMATS, help="Format of the questions. [default: detected]")
@_QRELS
@_LEVEL
@_CUTS
@click.option(
    "--at", type=click.IntRange(1), help="A question counts as answered if an answer is within this rank. [default: 20]"
)
@shared.MATCH
@click.option("--show", default=5, show_default=True, help="How many questions of each kind to print.")
@_REPORT
@shared.JSON
def compare(
    first: str, second: str, at: int | None, show: int, report: str | None, as_json: bool, **options: Any
) -> int:
    """Compare two runs: how significant the difference is, and which questions only one of them answers.

    Runs are DPR result files, which include questions and answers, or TREC runs, which need --qrels, or --questions
    and the index. For each question that only one of them answers, the passage is shown with the share of the
    question's words in it: BM25 finds by words, dense retrieval by meaning.

    \b
    Examples:
      mundap evaluate retrieval -i i -q test.csv --mode bm25 dense -o run.json
      mundap compare run.bm25.json run.dense.json
      mundap compare a.trec b.trec --qrels qrels.txt --json
    """
    from mundap.evaluation.compare import comparison

    measured = _measure(runs=(first, second), **options)
    k = at or _middle(measured.cuts)
    found = comparison(measured.systems, measured.cuts, k, measured.differences)
    if report:
        _write(measured, report, " and ".join(found["systems"]), k)
    if as_json:
        whole = measured.as_dict()
        shared.print_json({**found, "match": measured.match, **{k: whole[k] for k in _DOUBTS}})
    else:
        _tell(measured)
        _tell_changed(found, show)
    if measured.skipped:
        return 3
    return 0


def _tell_changed(found: dict[str, Any], show: int) -> None:
    first, second = found["systems"]
    click.echo(
        f"\nWithin the top {found['k']}: both {found['both']:,}, only {first} {found['only_first']:,}, "
        f"only {second} {found['only_second']:,}, neither {found['neither']:,}"
    )
    for name in found["systems"]:
        cases = [case for case in found["changed"] if case["found_by"] == name]
        share = found["word_overlap"][name]
        if not cases:
            continue
        words = ""
        if share is not None:
            words = f"; the passages found have {100 * share:.0f} % of the questions' words"
        click.echo(click.style(f"\nOnly {name}: {shared.plural(len(cases), 'question')}{words}", bold=True))
        for case in cases[:show]:
            answers = ""
            if case["answers"]:
                answers = f"  [{'; '.join(case['answers'][:3])}]"
            click.echo(shared.clean(f"  ? {case['question'] or case['id']}{answers}"))
            _tell_passage(f"{case['rank']}.", case["passage"])
            place = ""
            if case["other_rank"]:
                place = f", which has it at rank {case['other_rank']}"
            _tell_passage(f"instead of (the first of {case['missed_by']}{place})", case["instead"])


def _tell_passage(label: str, passage: dict[str, Any] | None) -> None:
    if passage is None:
        return
    share = passage["word_overlap"]
    words = ""
    if share is not None:
        words = f" ({100 * share:.0f} % of the words)"
    text = " ".join((passage["text"] or passage["id"]).split())
    click.echo(shared.clean(f"    {label} {passage['title']}{words}: {text[:160]}{'…' if len(text) > 160 else ''}"))
