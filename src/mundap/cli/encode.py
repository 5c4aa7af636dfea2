"""`mundap encode`."""

from pathlib import Path
from typing import Any

import click

from mundap.cli import shared
from mundap.cli.index import SPLIT, reading_options
from mundap.errors import UsageError


@click.command()
@click.argument("paths", nargs=-1, required=True)
@click.option("-o", "--out", required=True, metavar="DIR", help="Folder for the vectors.")
@click.option("--shard", default="1/1", show_default=True, metavar="N/ALL", help="Which shard, such as 3/64.")
@click.option("--words", type=int, help="Maximum words per passage. [default: 100]")
@click.option("--overlap", type=int, help="Words repeated from the previous passage. [default: 0]")
@click.option("--split", type=SPLIT, help="As for `mundap index`. [default: sentences]")
@click.option("--chunks", type=int, help="Maximum passages per document. [default: all]")
@click.option("--model", metavar="NAME|DIR", help="The encoder. [default: retriever]")
@shared.DEVICE
@shared.THREADS
@reading_options
def encode(
    paths: tuple[str, ...],
    out: str,
    shard: str,
    split: str | None,
    device: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Encode one shard of the passages; `mundap index --vectors` builds an index from all shards.

    Run it on as many machines as you like, one shard each; they need not know of each other. Files and options must be
    the same everywhere. A shard that already exists is skipped.

    \b
    Examples:
      mundap encode docs/ --shard 3/64 -o vectors/
      mundap encode docs/ -o vectors/ --device cuda
      mundap index docs/ --vectors vectors/ -o i
    """
    from mundap.engines.shards import Work, encode_shard
    from mundap.index.build import Options
    from mundap.models.device import providers

    if device is not None:
        providers(device)  # before anything is read: is it there?
    del strict  # what cannot be read is reported by `mundap index`, which reads it too
    number, _, total = shard.partition("/")
    if not number.isdigit() or not total.isdigit():
        raise UsageError(f"--shard {shard}: write it as 3/64")
    if split is not None:
        options["sentences"] = split == "sentences"
    work = Work(paths, Options(**options), Path(out).resolve(), int(total))
    with shared.passages_bar("encoding") as tell:
        facts = encode_shard(work, int(number), tell)
    if as_json:
        shared.print_json({"path": str(work.path(facts.shard)), "passages": facts.passages, "model": facts.model})
    else:
        click.echo(f"{work.path(facts.shard)}: {shared.count(facts.passages, 'passage')}")
