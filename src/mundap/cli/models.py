"""`mundap models`: what ships, and how other checkpoints become model folders."""

from dataclasses import asdict
from pathlib import Path

import click

from mundap.cli import shared


@click.group()
def models() -> None:
    """List, export and convert models."""


@models.command("list")
@shared.JSON
def list_models(as_json: bool) -> None:
    """The models that come with the package."""
    from mundap.models import folder

    configs = [folder.open_config(folder.find(name)) for name in folder.shipped()]
    if as_json:
        shared.print_json([asdict(config) for config in configs])
    for config in () if as_json else configs:
        kind = "reader"
        if isinstance(config, folder.EncoderConfig):
            kind = f"encoder, {config.dimension} dimensions, {config.pooling}, {config.similarity}"
        click.echo(f"{config.name}: {kind}, {config.max_length} tokens, from {config.source} ({config.license})")


@models.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The model folder to make.")
@click.option("--name", default="", help="What to call it. [default: the checkpoint's name]")
@click.option("--precision", "precisions", multiple=True, type=click.Choice(["int8", "fp32"]), help="[default: both]")
@click.option("--title", type=click.Choice(["pair", "prefix"]), default="pair", show_default=True,
              help="How a passage's title joins its text.")  # fmt: skip
@click.option("--weight", type=shared.Number(0, 1), default=0.7, show_default=True, help="Dense share in hybrid.")
@click.option("--scripts", type=click.Choice(["", "latin"]), default="", help="`latin` if it knows no other writing.")
@click.option("--license", "license_name", default="", help="Licence of the weights, for the record.")
@shared.JSON
def export(
    checkpoint: Path,
    out: Path,
    name: str,
    precisions: tuple[str, ...],
    title: str,
    weight: float,
    scripts: str,
    license_name: str,
    as_json: bool,
) -> None:
    """Turn a Hugging Face or sentence-transformers directory into a model folder (needs mundap[train]).

    An encoder, or a reader: one of ours, a DPRReader or any extractive-QA model. Prints the lowest cosine between our
    vectors and torch's, or for a reader the largest difference between our probabilities and torch's.

    \b
    Example:
      mundap models export ./all-MiniLM-L6-v2 -o my-model && mundap index docs/ --model my-model
    """
    from mundap.models.export import PRECISIONS
    from mundap.models.export import export as run
    from mundap.models.export_reader import export_reader
    from mundap.models.reader_checkpoint import is_reader

    reading = is_reader(checkpoint)
    if reading:
        parity = export_reader(checkpoint, out, name, precisions or PRECISIONS, scripts, license_name)
    else:
        parity = run(checkpoint, out, name, precisions or PRECISIONS, weight, scripts, title, license_name)
    if as_json:
        shared.print_json({"path": str(out), "kind": "reader" if reading else "encoder", "parity": parity})
        return
    said = "probabilities differ from torch's by at most" if reading else "cosine with torch at least"
    for precision, value in parity.items():
        click.echo(f"{out}: {precision}, {said} {value:.6f}")


@models.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The folder to make.")
@click.option("--to", "layout", type=click.Choice(["sentence-transformers", "dpr"]), default="sentence-transformers",
              show_default=True, help="`dpr`: Hugging Face's DPRQuestionEncoder and DPRContextEncoder.")  # fmt: skip
@click.option("--passage", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="The passage encoder, if SOURCE is the question encoder of a pair.")  # fmt: skip
@click.option("--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="For an original DPR .cp file: the folder of the BERT it was trained from.")  # fmt: skip
@shared.JSON
def convert(source: Path, out: Path, layout: str, passage: Path | None, base: Path | None, as_json: bool) -> None:
    """Convert a checkpoint between layouts (needs mundap[train]).

    Reads Hugging Face, sentence-transformers and DPR directories, ANCE's, and original DPR .cp files, of which
    nothing but the weights is read. A pair goes into OUT/question and OUT/passage, which `export` and `train` take.
    A reader becomes one of ours, or with --to dpr Hugging Face's DPRReader.

    \b
    Examples:
      mundap models convert dpr-question -o pair --passage dpr-context
      mundap models convert hf_bert_base.cp --base bert-base-uncased -o pair --to dpr
    """
    from mundap.errors import UsageError
    from mundap.models import checkpoint, layouts, reader_checkpoint

    if source.is_file() and base is None:
        raise UsageError(f"{source} has no vocabulary: give the folder of the BERT it was trained from with --base")
    if reader_checkpoint.is_reader(source):
        loaded = reader_checkpoint.open_reader(source, base=base)
        layout = layout if layout == "dpr" else "mundap"
        reader_checkpoint.write_reader(loaded, out, layout)
        parts = ["reader"]
    else:
        towers = checkpoint.open_towers(source, passage, base)
        layouts.write(towers, out, layout)
        parts = list(towers)
    if as_json:
        shared.print_json({"path": str(out), "layout": layout, "towers": parts})
    else:
        click.echo(f"{out}: {layout}, {' and '.join(parts)}")
