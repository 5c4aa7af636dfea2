"""`mundap reproduce`."""

import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared


@click.command()
@click.argument("name", required=False, metavar="[EXPERIMENT|list|all]")
@click.option("--data", metavar="DIR", help="A folder with index/ or corpus.*, and NAME-train.* and NAME-test.* of "
              "every data set.  [default: the bundled examples]")  # fmt: skip
@shared.READ
@click.option(
    "--train", "train_path", metavar="FILE", help="Training questions; with -i and --test, instead of --data."
)
@click.option("--test", "test_path", metavar="FILE", help="Held-out questions with answers.")
@click.option("--base-model", metavar="DIR", help="The base checkpoint of every run.")
@click.option(
    "--reader", metavar="DIR", help="The base checkpoint of readers (qa, joint, ict).  [default: --base-model]"
)
@click.option("--scale", default="small", show_default=True, metavar="SCALE",
              help="tiny shows that it runs; small is for two cores; full has the papers' sizes.")  # fmt: skip
@click.option("--keep-models", is_flag=True, help="Keep the trained models.")
@click.option("-o", "--out", metavar="DIR", help="The output folder; use the same one for several experiments.")
@shared.JSON
def reproduce(
    name: str | None,
    data: str | None,
    index_path: str | None,
    train_path: str | None,
    test_path: str | None,
    base_model: str | None,
    reader: str | None,
    scale: str,
    keep_models: bool,
    out: str | None,
    as_json: bool,
) -> None:
    """Repeat a table or figure of the papers on the data you have (needs the extra `train`).

    OUT/EXPERIMENT/report.html shows the figures beside the paper's, with plots and recipes; results.json and
    results.md beside it have the same. An experiment that was stopped resumes when the same command is given again, and
    those with the same OUT share data and runs. Of `all`, those that cannot be made with the data are skipped (exit 3).

    \b
    Examples:
      mundap reproduce list
      mundap reproduce negatives --base-model ./MiniLM -o tables
      mundap reproduce table2 --data my-data --base-model ./MiniLM -o tables
      mundap reproduce joint -i pool --train train.json --test dev.json --base-model ./MiniLM --reader ./reader -o both
      mundap reproduce all --data my-data --base-model ./MiniLM -o tables
    """
    from mundap import experiments
    from mundap.errors import UsageError

    if name in (None, "list"):
        _list(as_json)
        return
    names = _names(str(name))
    if not base_model:
        raise UsageError("give --base-model")
    if not out:
        raise UsageError("give --out")
    from mundap.experiments.lab import Inputs
    from mundap.experiments.scales import scale as scale_named

    size = scale_named(scale)
    files = _files(data, index_path, train_path, test_path, Path(out))
    reader_path = None
    if reader:
        reader_path = Path(reader)

    def run(one: str) -> dict[str, Any]:
        kept = keep_models or one != names[-1]  # a later table may have the same arms
        inputs = Inputs(files, Path(base_model), Path(out) / one, size, reader_path, kept, Path(out))
        found = experiments.run(one, inputs, shared.note)
        if not as_json:
            _tell(found)
        return found

    if name == "all":
        _run_all(names, run, as_json)
        return
    found = run(names[0])
    if as_json:
        shared.print_json(found)


def _run_all(names: Sequence[str], run: Callable[[str], dict[str, Any]], as_json: bool) -> None:
    """Run what can be run with the data. If that is not everything, the exit code says so."""
    from mundap.errors import Message
    from mundap.experiments.data import UnsuitableData
    from mundap.records import Skipped

    found = []
    for name in names:
        try:
            found.append(run(name))
        except UnsuitableData as error:
            shared.tell_skipped([Skipped(name, Message(error.message, **error.facts))], 1)
    if as_json:
        shared.print_json(found)
    if len(found) < len(names):
        sys.exit(3)


def _names(name: str) -> list[str]:
    """The experiment of that name, or all."""
    from mundap.experiments import EXPERIMENTS, experiment

    if name == "all":
        return list(EXPERIMENTS)
    experiment(name)  # raises if there is none of that name
    return [name]


def _files(data: str | None, index_path: str | None, train: str | None, test: str | None, out: Path) -> Any:
    from mundap.errors import UsageError
    from mundap.experiments.data import DataFiles, bundled_data, find_data
    from mundap.index import locate

    if bool(train) != bool(test) or (data and train):
        raise UsageError("give --data, or -i with --train and --test, or none of these for the bundled examples")
    if train and test:
        return DataFiles((locate.to_read(index_path),), {"own": (Path(train), Path(test))})
    if data:
        return find_data(Path(data))
    out.mkdir(parents=True, exist_ok=True)
    return bundled_data(out)


def _list(as_json: bool) -> None:
    from dataclasses import asdict

    from mundap.experiments import EXPERIMENTS
    from mundap.experiments.scales import SCALES

    if as_json:
        rows = {name: asdict(one) for name, one in EXPERIMENTS.items()}
        sizes = {name: {"time": one.time, "disk": one.disk} for name, one in SCALES.items()}
        shared.print_json({"experiments": rows, "scales": sizes})
        return
    width = max(map(len, EXPERIMENTS))
    for name, one in EXPERIMENTS.items():
        needs = ""
        if one.data:
            needs = f" ({one.data})"
        click.echo(f"{name:{width}}  ~{one.minutes:2} min  ~{one.gigabytes:.1f} GB  {one.summary}{needs}")
    click.echo()
    for name, size in SCALES.items():
        click.echo(f"--scale {name}: {size.time}; {size.disk}")


def _tell(found: dict[str, Any]) -> None:
    click.echo(found["title"])
    for arm, row in found["arms"].items():
        cells = []
        for figure, value in row.items():
            paper = ""
            if "paper" in value:
                paper = f" [{value['paper']:.3g}]"
            if "mean" in value:
                cells.append(f"{figure.replace('_', ' ')} {value['mean']:.3g}{paper}")
        click.echo(f"  {arm}: {', '.join(cells)}")
    for one in found["claims"]:
        click.echo(f"{one['claim']}: {one['verdict']} ({one['difference']:+.3g}, p {one['p_holm']:.2g})")
    click.echo(found["report"])
