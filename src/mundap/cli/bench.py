"""`mundap bench`."""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mundap.cli import shared
from mundap.errors import UsageError

if TYPE_CHECKING:
    from mundap.bench.vectors import Bank

_ROWS = (
    ("build_seconds", "build, s"),
    ("build_memory_mb", "its memory, MB"),
    ("memory_mb", "memory searching, MB"),
    ("bytes_a_vector", "bytes a vector"),
    ("probes", "lists probed"),
    ("lists", "of"),
    ("recall", "recall@100"),
    ("batch_questions_a_second", "questions/s, batches"),
    ("batch_new_questions_a_second", "never asked before"),
    ("one_questions_a_second", "questions/s, one by one"),
    ("one_median_ms", "median, ms"),
    ("one_new_median_ms", "never asked before"),
    ("one_cpu_ms", "CPU ms, one"),
)


@click.group()
def bench() -> None:
    """Measure how fast this machine is, and how an index grows on it."""


@bench.command()
@click.option(
    "--passages", multiple=True, required=True, metavar="N", help="Number of passages: 100k, 1M, 21M (repeatable)."
)
@click.option(
    "-o", "--out", required=True, metavar="DIR", help="The folder for vectors and results; the same one resumes a run."
)
@click.option(
    "--texts",
    multiple=True,
    type=click.Path(exists=True),
    metavar="PATH",
    help="Real text whose vectors the generated ones imitate (repeatable). [default: the examples of the repository]",
)
@shared.READ
@click.option("--seed", default=0, show_default=True, type=click.IntRange(0), help="Random seed of the vectors.")
@shared.JSON
def scale(
    passages: tuple[str, ...], out: str, texts: tuple[str, ...], index_path: str | None, seed: int, as_json: bool
) -> None:
    """Build and search a vector index of any size, without that much text.

    Vectors are drawn to resemble those of real text: topics as uneven, neighbours as near. They are built and searched
    with the same code as any index. Results of an earlier run are kept. With several sizes, DIR/scale.html plots the
    growth.

    \b
    Examples:
      mundap bench scale --passages 100k -o bench/
      mundap bench scale --passages 10k --passages 100k --passages 1M -o bench/ --texts psgs_w100.tsv
    """
    from mundap.bench.scale import measure, write_plot
    from mundap.engines.plan import number_of

    folder = Path(out)
    bank = _bank(folder, texts, index_path)
    results = [measure(folder, bank, size, seed, shared.note) for size in sorted(map(number_of, passages))]
    plot = None
    if len(results) > 1:
        plot = str(write_plot(folder / "scale.html", results))
    if as_json:
        shared.print_json({"results": results, "plot": plot})
        return
    for key, title in (("passages", "passages"), *_ROWS):
        click.echo(f"{title:<24}" + "".join(f"{one[key]:>14,}" for one in results))
    if plot:
        click.echo(plot)


def _bank(folder: Path, texts: tuple[str, ...], index_path: str | None) -> "Bank":
    """The real vectors to imitate: of an index, of some texts, or of the examples."""
    from mundap.bench.bank import from_index, from_texts
    from mundap.bench.scale import open_bank

    if texts and index_path:
        raise UsageError("--texts and -i both say where real vectors come from: give one of them")
    make: Callable[[], Bank] = partial(from_texts, texts)
    sources = texts
    if index_path:
        make = partial(from_index, Path(index_path))
        sources = (index_path,)
    origin = "\n".join(str(Path(one).resolve()) for one in sources)
    return open_bank(folder, make, origin, shared.note)
