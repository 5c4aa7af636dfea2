"""`mundap train`."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared
from mundap.errors import UsageError
from mundap.records import Skipped

_SET = click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
                    help="Any key of a recipe, such as batch_size=64 (repeatable).")  # fmt: skip
_BASE_MODEL = click.option("--base-model", metavar="DIR",
                           help="The checkpoint to start from, such as a Hugging Face directory.")  # fmt: skip


@click.group()
def train() -> None:
    """Train models (needs the extra `train`)."""


def _run(function: Callable[..., Any]) -> Callable[..., Any]:
    """The options that all trainers share: a recipe, and flags that override it."""
    options = (
        click.argument("recipe", required=False, metavar="[RECIPE.toml]"),
        click.option("--train", "train_paths", multiple=True, metavar="FILE", help="A training set (repeatable)."),
        click.option("--dev", "dev_paths", multiple=True, metavar="FILE", help="A dev set (repeatable)."),
        _BASE_MODEL,
        click.option("-o", "--out", metavar="DIR", help="The folder of the run: checkpoints, log, report, model."),
        _SET,
        shared.JSON,
    )
    for option in reversed(options):
        function = option(function)
    return function


def _overrides(
    train_paths: Sequence[str],
    dev_paths: Sequence[str],
    base_model: str | None,
    out: str | None,
    settings: Sequence[str],
) -> dict[str, Any]:
    """The keys of a recipe that the flags override."""
    given = {"train": list(train_paths), "dev": list(dev_paths), "base_model": base_model, "output_dir": out}
    return _settings(settings) | {key: value for key, value in given.items() if value}


@train.command()
@_run
def retriever(recipe: str | None, as_json: bool, **flags: Any) -> None:
    """Train a dual encoder on files that `mundap data make` wrote.

    A run that was stopped, or killed, resumes from its last checkpoint when the same command is given again. With
    torchrun several processes share each batch, and all its passages are negatives for all its questions.
    docs/training.md explains every key of a recipe.

    \b
    Examples:
      mundap train retriever recipe.toml
      mundap train retriever --train train.jsonl --dev dev.jsonl --base-model ./bert-base -o run --set batch_size=16
      torchrun --nproc-per-node 2 -m mundap train retriever recipe.toml --base-model ./bert-base -o run
    """
    from mundap.training import recipe_files
    from mundap.training.api import train_retriever
    from mundap.training.recipe import RetrieverRecipe

    chosen = recipe_files.load(RetrieverRecipe, recipe, _overrides(**flags))
    with _watching() as callback:
        done = train_retriever(chosen, callback, _note)
    _tell(done, as_json)


@train.command()
@_run
@click.option("-i", "--index", "index_path", metavar="DIR", help="The corpus: an index, with or without vectors.")
@click.option("--only", type=click.Choice(["trainer", "inferencer"]),
              help="One of the two processes; the other is started elsewhere.")  # fmt: skip
@click.option("--device", default="", metavar="DEVICE", help="Device of the inferencer, such as cuda:1.")
@shared.RAY
def ance(
    recipe: str | None,
    as_json: bool,
    index_path: str | None,
    only: str | None,
    device: str,
    cluster: str | None,
    **flags: Any,
) -> None:
    """Train a dual encoder with negatives from the whole corpus, found with the model in training (ANCE).

    A trainer and an inferencer run side by side. The inferencer takes the newest weights, encodes corpus and
    questions, and publishes the nearest wrong passages; the trainer switches to them at its next batch and never
    waits. Either may be killed and restarted. Several inferencers, on this machine or on others that see the same
    folder, share the work. With `synchronous=true` a single process pauses to refresh, which makes runs reproducible.

    \b
    Examples:
      mundap train ance recipe.toml
      mundap train ance --train train.jsonl --dev dev.jsonl -i my-index --base-model ./bert-base -o run
      mundap train ance recipe.toml --only trainer
      mundap train ance recipe.toml --only inferencer --device cuda:1
      mundap train ance recipe.toml --only inferencer --ray=10.0.0.1:6379
    """
    from mundap.training import recipe_files
    from mundap.training.ance import run
    from mundap.training.recipe import AnceRecipe

    overrides = _overrides(**flags)
    if index_path:
        overrides["index"] = index_path
    chosen = recipe_files.load(AnceRecipe, recipe, overrides)
    if only == "inferencer":
        run.infer(chosen, device, _tell_negatives, cluster or "")
        return
    with _watching() as callback:
        done = run.train(chosen, callback, alone=only == "trainer", device=device, tell=_note, ray=cluster or "")
    _tell(done, as_json)


def _tell_negatives(now: Any) -> None:
    import sys

    if sys.stderr.isatty():
        click.echo(f"negatives for batch {now.step:,}: {now.what} ({now.done:,} of {now.total:,})", err=True)


@train.command()
@shared.READ
@click.option("--base-model", required=True, metavar="DIR", help="The checkpoint to start from.")
@click.option("-o", "--out", required=True, metavar="DIR", help="The folder of the run.")
@click.option("--keep", type=shared.Number(0, 1), default=0.1, show_default=True,
              help="Share of examples in which the sentence stays in its passage.")  # fmt: skip
@_SET
@shared.JSON
def ict(
    index_path: str | None, base_model: str, out: str, keep: float, settings: tuple[str, ...], as_json: bool
) -> None:
    """Pre-train on an index alone: a sentence is the question, the passage it comes from the positive.

    The inverse cloze task of ORQA. The examples are kept in OUT/ict.jsonl, the last tenth of them for validation.

    \b
    Example:
      mundap train ict -i i --base-model ./bert-base -o pretrained --set batch_size=64
    """
    from mundap.training.api import train_retriever
    from mundap.training.ict import write_examples

    train_file, dev_file = write_examples(index_path, Path(out), keep)
    overrides = {"hard_negatives": 0, "mask_false_negatives": False, **_settings(settings)}
    overrides |= {"train": str(train_file), "dev": str(dev_file), "base_model": base_model, "output_dir": out}
    with _watching() as callback:
        done = train_retriever(None, callback, _note, **overrides)
    _tell(done, as_json)


@train.command()
@_run
@click.option("--selection-only", is_flag=True, help="Train the passage selection alone: a reranker.")
def reader(recipe: str | None, as_json: bool, selection_only: bool, **flags: Any) -> None:
    """Train a reader to select the passage with the answer, and the span in it.

    Takes the files that `mundap data make` writes, SQuAD-shaped files, and DPR's retrieval results. As with `mundap
    train retriever`, a run that was stopped resumes, and torchrun shares the work.

    \b
    Examples:
      mundap train reader recipe.toml
      mundap train reader --train train.jsonl --dev dev.jsonl --base-model ./MiniLM -o run --set num_passages=24
      mundap train reader --selection-only --train ranking.jsonl --base-model ./MiniLM -o reranker
    """
    from mundap.training import recipe_files
    from mundap.training.api import train_reader
    from mundap.training.recipe import ReaderRecipe

    overrides = _overrides(**flags)
    if selection_only:
        overrides = {"metric": "rank", **overrides, "selection_only": True}
    chosen = recipe_files.load(ReaderRecipe, recipe, overrides)
    with _watching() as callback:
        done = train_reader(chosen, callback)
    _tell(done, as_json)


@train.command()
@shared.READ
@click.option("-q", "--questions", required=True, metavar="FILE", help="Questions the reader was not trained on.")
@click.option("--reader", required=True, metavar="DIR", help="The reader; its config is changed.")
@shared.RANKING
@click.option("-k", default=10, show_default=True, type=click.IntRange(1, 1000), help="Number of passages to read.")
@shared.RIGHT
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Use only N questions, sampled at random.")
@click.option(
    "--answered-though-removed",
    type=shared.Number(0, 1),
    default=0.07,
    show_default=True,
    metavar="SHARE",
    help="Lower the threshold as long as at most this share of the questions whose documents are removed is answered.",
)
@shared.JSON
def confidence(
    index_path: str | None, questions: str, k: int, answered_though_removed: float, as_json: bool, **options: Any
) -> int:
    """Fit a reader's confidence, and the threshold below which it gives no answer, on held-out questions.

    Each question is asked twice, the second time with the documents that contain the answer removed; few of those may
    be answered at the threshold. Printed figures are cross-fitted. Korean, and Japanese with Chinese, get a
    confidence of their own from 50 such questions on; the general one is fitted on all others.
    It also fits the early stop: how confident the answer from the first two passages must be to skip the rest.
    --ranking and --retrieval-weight, if given, are saved with the reader.

    \b
    Example:
      mundap train confidence -i i -q dev.json --reader my-reader
    """
    from mundap.evaluation.answers import AnswersTask
    from mundap.evaluation.confidence import fit
    from mundap.index import locate

    task = AnswersTask(questions, index=str(locate.to_read(index_path)), cuts=(k,), **options)
    found = fit(
        task, lambda items, what, total: shared.counted(items, what, "questions", total), answered_though_removed
    )
    if as_json:
        shared.print_json(found)
    else:
        skipped = [Skipped(**one) for one in found["skipped"]]
        shared.tell_skipped(skipped, len(skipped))
        for line in found["notes"]:
            shared.note(shared.clean(line))
        _tell_confidence({name: value for name, value in found.items() if name not in ("notes", "skipped", "groups")})
        for group, figures in found.get("groups", {}).items():
            click.echo(f"{group}:")
            _tell_confidence(figures, "  ")
    if found["skipped"]:
        return 3
    return 0


def _tell_confidence(figures: dict[str, Any], indent: str = "") -> None:
    for name, value in figures.items():
        click.echo(f"{indent}{name.replace('_', ' ')}: {value}")


def _settings(settings: Sequence[str]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        key, mark, value = setting.partition("=")
        if not mark:
            raise UsageError(f"--set {setting}: write it as KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _note(line: str) -> None:
    from mundap.training.loop import is_first

    if is_first():
        shared.note(line)


def _tell(done: Any, as_json: bool) -> None:
    from mundap.training.loop import is_first

    if not is_first():
        return
    if as_json:
        shared.print_json(asdict(done))
        return
    for label, reasons in done.left_out.items():
        for reason, count in list(reasons.items())[:5]:  # the most frequent ones: some have a row's own words in them
            shared.note(f"{shared.clean(label)}: {shared.plural(count, 'row')} left out: {shared.clean(reason)}")
    kept = f"step {done.best_step:,} of {done.steps:,}"
    if done.averaged:
        kept = f"the average of the last {done.averaged:,} of {done.steps:,} steps"
    click.echo(f"{done.model}: {kept} ({done.stopped})")
    for label, figures in done.figures.items():
        before = done.before.get(label, {})
        cells = (f"{name} {before.get(name, float('nan')):.2f} -> {value:.2f}" for name, value in figures.items())
        click.echo(f"  {label}: {', '.join(cells)}")


@contextmanager
def _watching() -> Iterator[Any]:
    """Show loss, rank, learning rate, speed and time left on stderr."""
    import sys

    if not sys.stderr.isatty():
        yield lambda now: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("step {task.completed:,}/{task.total:,}"),
        rich.BarColumn(),
        rich.TextColumn("{task.fields[state]}"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", total=1, state="")

        def watch(now: Any) -> None:
            speed = f"{now.examples_per_second:.1f} examples/s"
            state = f"loss {now.result.loss:.3f}, rank {now.result.rank:.1f}, lr {now.learning_rate:.1e}, {speed}"
            if now.result.negatives_age is not None:
                state += f", negatives {now.result.negatives_age} batches old"
            bar.update(task, completed=now.step, total=now.steps, state=state)

        yield watch
