"""`mundap train`."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared
from mundap.errors import UsageError


@click.group()
def train() -> None:
    """Train models (needs mundap[train])."""


@train.command()
@click.argument("recipe", required=False, metavar="[RECIPE.toml]")
@click.option("--train", "train_paths", multiple=True, metavar="FILE", help="Training examples (repeatable).")
@click.option("--dev", "dev_paths", multiple=True, metavar="FILE", help="Examples to validate on (repeatable).")
@click.option("--start", metavar="DIR", help="The checkpoint to start from: Hugging Face or sentence-transformers.")
@click.option("-o", "--out", metavar="DIR", help="The folder of the run: checkpoints, log, model.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Any key of a recipe, such as batch=64 (repeatable).")  # fmt: skip
@shared.JSON
def retriever(
    recipe: str | None,
    train_paths: tuple[str, ...],
    dev_paths: tuple[str, ...],
    start: str | None,
    out: str | None,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Train a dual encoder on files that `mundap data make` wrote.

    A run that was stopped, or killed, goes on from its last checkpoint when the same command is given again. With
    `torchrun --nproc-per-node 2 -m mundap train retriever recipe.toml` several processes share each batch, and all
    passages of it are negatives for all questions. All keys of a recipe: docs/training.md.

    \b
    Examples:
      mundap train retriever recipe.toml
      mundap train retriever --train train.jsonl --dev dev.jsonl --start ./bert-base -o run --set batch=16
    """
    from mundap.training import recipe as recipes
    from mundap.training import retriever as trainer

    overrides = _settings(settings)
    given = {"train": list(train_paths), "dev": list(dev_paths), "start": start, "out": out}
    overrides |= {key: value for key, value in given.items() if value}
    chosen = recipes.load(recipes.Recipe, recipe, overrides)
    with _watching() as watch:
        done = trainer.train(chosen, watch)
    _tell(done, as_json)


@train.command()
@shared.READ
@click.option("--start", required=True, metavar="DIR", help="The checkpoint to start from.")
@click.option("-o", "--out", required=True, metavar="DIR", help="The folder of the run.")
@click.option("--keep", type=click.FloatRange(0, 1), default=0.1, show_default=True,
              help="How often the sentence stays in its passage.")  # fmt: skip
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="Any key of a recipe (repeatable).")
@shared.JSON
def ict(index_path: str | None, start: str, out: str, keep: float, settings: tuple[str, ...], as_json: bool) -> None:
    """Pre-train on an index alone: a sentence is the question, the passage it comes from the answer.

    The inverse cloze task of ORQA. The examples are kept in OUT/ict.jsonl, the last tenth to validate on.

    \b
    Example:
      mundap train ict -i i --start ./bert-base -o pretrained --set batch=64
    """
    from mundap.training import ict as task
    from mundap.training import recipe as recipes
    from mundap.training import retriever as trainer

    made = task.write_examples(index_path, Path(out), keep)
    overrides = {"hard": 0, "mask": False, **_settings(settings)}
    overrides |= {"train": [str(made[0])], "dev": [str(made[1])], "start": start, "out": out}
    with _watching() as watch:
        done = trainer.train(recipes.load(recipes.Recipe, None, overrides), watch)
    _tell(done, as_json)


@train.command()
@click.argument("recipe", required=False, metavar="[RECIPE.toml]")
@click.option("--train", "train_paths", multiple=True, metavar="FILE", help="What to learn from (repeatable).")
@click.option("--dev", "dev_paths", multiple=True, metavar="FILE", help="What to validate on (repeatable).")
@click.option("--start", metavar="DIR", help="The checkpoint to start from: an encoder, or a reader.")
@click.option("-o", "--out", metavar="DIR", help="The folder of the run: checkpoints, log, model.")
@click.option("--selection-only", is_flag=True, help="Learn to choose passages and nothing else: a reranker.")
@click.option("--set", "settings", multiple=True, metavar="KEY=VALUE",
              help="Any key of a recipe, such as passages=24 (repeatable).")  # fmt: skip
@shared.JSON
def reader(
    recipe: str | None,
    train_paths: tuple[str, ...],
    dev_paths: tuple[str, ...],
    start: str | None,
    out: str | None,
    selection_only: bool,
    settings: tuple[str, ...],
    as_json: bool,
) -> None:
    """Train a reader: which passage has the answer, and where in it.

    Files are those that `mundap data make` writes, SQuAD-shaped ones, or DPR's retrieval results. Everything else is
    as for `mundap train retriever`: a run that was stopped goes on, torchrun shares the work.

    \b
    Examples:
      mundap train reader recipe.toml
      mundap train reader --train train.jsonl --dev dev.jsonl --start ./MiniLM -o run --set passages=24 --set cache=16
      mundap train reader --selection-only --train ranking.jsonl --start ./MiniLM -o reranker
    """
    from mundap.training import reader as trainer
    from mundap.training import recipe as recipes

    overrides = _settings(settings)
    given = {"train": list(train_paths), "dev": list(dev_paths), "start": start, "out": out}
    overrides |= {key: value for key, value in given.items() if value}
    if selection_only:
        overrides = {"metric": "rank", **overrides, "selection_only": True}
    chosen = recipes.load(recipes.ReaderRecipe, recipe, overrides)
    with _watching() as watch:
        done = trainer.train(chosen, watch)
    _tell(done, as_json)


@train.command()
@shared.READ
@click.option("-q", "--questions", required=True, metavar="FILE", help="Questions that the reader was not trained on.")
@click.option("--reader", "folder", required=True, metavar="DIR", help="The reader; its config is changed.")
@click.option("-k", default=10, show_default=True, type=click.IntRange(1, 1000), help="How many passages are read.")
@click.option("--limit", type=click.IntRange(1), metavar="N", help="Only N of the questions, drawn at random.")
@shared.JSON
def confidence(index_path: str | None, questions: str, folder: str, k: int, limit: int | None, as_json: bool) -> None:
    """Fit a reader's confidence, and the threshold below which it says nothing, on held-back questions.

    Each question is asked twice, once without the passages that have the answer. Printed figures are cross-fitted.

    \b
    Example:
      mundap train confidence -i i -q dev.json --reader my-reader
    """
    from mundap.evaluation.answers import Task, fit_confidence
    from mundap.index import locate

    task = Task(questions, index=str(locate.to_read(index_path)), reader=folder, cuts=(k,), limit=limit)
    found = fit_confidence(task, lambda items, what, total: shared.counted(items, what, "questions", total))
    if as_json:
        shared.print_json(found)
    else:
        for name, value in found.items():
            click.echo(f"{name.replace('_', ' ')}: {value}")


def _settings(settings: tuple[str, ...]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for setting in settings:
        key, mark, value = setting.partition("=")
        if not mark:
            raise UsageError(f"--set {setting}: write it as KEY=VALUE")
        found[key.strip()] = value.strip()
    return found


def _tell(done: Any, as_json: bool) -> None:
    from mundap.training.loop import is_first

    if not is_first():
        return
    if as_json:
        shared.print_json(asdict(done))
        return
    click.echo(f"{done.model}: the best of {done.steps:,} steps is {done.best_step:,} ({done.stopped})")
    for label, figures in done.figures.items():
        before = done.before.get(label, {})
        cells = (f"{name} {before.get(name, float('nan')):.2f} -> {value:.2f}" for name, value in figures.items())
        click.echo(f"  {label}: {', '.join(cells)}")


@contextmanager
def _watching() -> Iterator[Any]:
    """Loss, rank, rate, speed and time left, on stderr."""
    import sys

    if not sys.stderr.isatty():
        yield lambda progress: None
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
            state = f"loss {now.loss:.3f}, rank {now.rank:.1f}, rate {now.rate:.1e}, {speed}"
            bar.update(task, completed=now.step, total=now.steps, state=state)

        yield watch
