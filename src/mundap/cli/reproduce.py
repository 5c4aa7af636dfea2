"""`mundap reproduce`."""

from pathlib import Path

import click

from mundap.cli import shared


@click.command()
@click.argument("name", required=False, metavar="[EXPERIMENT]")
@shared.READ
@click.option("--train", "train_path", metavar="FILE", help="Examples with hard negatives (`mundap data make`).")
@click.option("--test", "test_path", metavar="FILE", help="Held-back questions with answers.")
@click.option("--start", metavar="DIR", help="The checkpoint to start from.")
@click.option("--scale", default="small", show_default=True, type=click.Choice(["tiny", "small"]),
              help="tiny shows that it runs; small is for two cores: an hour (ance), 20 minutes (joint).")  # fmt: skip
@click.option("--in-batch", is_flag=True, help="Of ance: after the warm-up, try BM25's and ANCE's negatives together "
              "with the batch's too, a fifth more runs.")  # fmt: skip
@click.option("--reader", metavar="DIR", help="Of joint: the checkpoint that readers start from.  [default: --start]")
@click.option("-o", "--out", metavar="DIR", help="Where everything goes.")
@shared.JSON
def reproduce(
    name: str | None,
    index_path: str | None,
    train_path: str | None,
    test_path: str | None,
    start: str | None,
    scale: str,
    in_batch: bool,
    reader: str | None,
    out: str | None,
    as_json: bool,
) -> None:
    """Repeat an experiment of the papers on your own data; without a name, list them (needs mundap[train]).

    OUT/report.html shows the tables and plots, OUT/results.json has the numbers. An experiment that was stopped goes
    on when the same command is given again.

    \b
    Examples:
      mundap reproduce ance -i pool --train train.jsonl --test dev.json --start ./MiniLM -o ance
      mundap reproduce joint -i pool --train train.jsonl --test dev.json --start ./MiniLM --reader ./reader -o joint
    """
    from mundap import reproduce as experiments
    from mundap.errors import UsageError
    from mundap.index import locate

    if name is None:
        for one, experiment in experiments.EXPERIMENTS.items():
            click.echo(f"{one}: {experiment.summary}")
        return
    if not (train_path and test_path and start and out):
        raise UsageError("give --train, --test, --start and --out")
    size = experiments.experiment(name).scales[scale]
    paths = (locate.to_read(index_path), Path(train_path), Path(test_path), Path(start), Path(out))
    task = experiments.Task(*paths, size, in_batch, Path(reader) if reader else None)
    found = experiments.run(name, task, lambda line: click.echo(line, err=True))
    if as_json:
        shared.print_json(found)
        return
    for arm, figures in found["arms"].items():
        cells = ", ".join(
            f"{figure.replace('_', ' ')} {value['mean']:.3g}"
            for kind in ("retrieval", "answers")
            for figure, value in figures.get(kind, {}).items()
        )
        click.echo(f"{arm}: {cells}")
    click.echo(found["verdict"])
    click.echo(found["report"])
