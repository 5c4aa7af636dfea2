"""`mundap plan`."""

from typing import TYPE_CHECKING

import click

from mundap.cli import shared

if TYPE_CHECKING:
    from mundap.engines.plan import Need


@click.command()
@click.option("--passages", required=True, metavar="N", help="Number of passages, such as 500k, 21M or 1B.")
@click.option(
    "--dimension", default=384, show_default=True, type=click.IntRange(1, 65_536), help="Dimension of the vectors."
)
@click.option(
    "--cores",
    default=2,
    show_default=True,
    type=click.IntRange(1, 10**6),
    help="CPU cores for encoding, over all machines.",
)
@click.option("--gpus", default=0, show_default=True, type=click.IntRange(0, 10**6), help="GPUs for encoding.")
@click.option("--rate", type=shared.Number(0.001), help="Passages/s one core encodes, if you measured it.")
@click.option("--gpu-rate", type=shared.Number(0.001), help="Passages/s one GPU encodes, if you measured it.")
@click.option(
    "--memory", default=64.0, show_default=True, type=shared.Number(1), help="Memory of each serving machine, in GB."
)
@click.option("--replicas", default=1, show_default=True, type=click.IntRange(1, 100), help="Replicas in Milvus.")
@shared.JSON
def plan(
    passages: str,
    dimension: int,
    cores: int,
    gpus: int,
    rate: float | None,
    gpu_rate: float | None,
    memory: float,
    replicas: int,
    as_json: bool,
) -> None:
    """Estimate memory, disk, machines and hours for a number of 100-word passages, and show the arithmetic.

    The measured figures it is based on are listed below the result, with their origin; other machines differ.

    \b
    Examples:
      mundap plan --passages 21M
      mundap plan --passages 1B --cores 512 --memory 256
    """
    from mundap.engines.plan import ENCODING, GPU, Machines, figures, number_of
    from mundap.engines.plan import plan as reckon

    machines = Machines(cores, gpus, rate or ENCODING.value, gpu_rate or GPU.value, memory, replicas)
    made = reckon(number_of(passages), dimension, machines)
    if as_json:
        shared.print_json(made.as_dict())
        return
    click.echo(f"{made.passages:,} passages, vectors of {made.dimension} dimensions")
    for title, needs in (("To make it", made.making), ("In a folder", made.embedded), ("In Milvus", made.milvus)):
        click.echo(f"\n{title}")
        for need in needs:
            tell_need(need)
    click.echo("\nFigures")
    for figure in figures():
        click.echo(f"  {figure.value:>10,g} {figure.unit}: {figure.origin}")


def tell_need(need: "Need") -> None:
    """One line of a plan."""
    if not need.unit or need.amount >= 100:
        shown = f"{need.amount:,.0f}"
    else:
        shown = f"{need.amount:,.1f}"
    click.echo(f"  {need.name:<20} {shown:>10} {need.unit:<6} = {need.arithmetic}")
