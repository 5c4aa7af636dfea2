"""`mundap index` and `mundap add`."""

from collections.abc import Callable
from gettext import gettext as _
from pathlib import Path
from typing import Any

import click

from mundap.cli import shared
from mundap.documents.walk import LINK
from mundap.errors import UsageError

SPLIT = click.Choice(["sentences", "words"])


def reading_options(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how files are read."""
    for option in (
        click.option(
            "--ignore",
            multiple=True,
            metavar="PATTERN",
            help="Leave files out, as in .gitignore (repeatable).",
        ),
        click.option(
            "--format",
            "form",
            type=shared.Registry("mundap.documents", "FORMATS"),
            help="Read every file in this format. [default: detected in each]",
        ),
        click.option("--follow-links", is_flag=True, help="Follow symbolic links that lead out of the given folders."),
        shared.STRICT,
        shared.JSON,
    ):
        function = option(function)
    return function


@click.command()
@click.argument("paths", nargs=-1, required=True)
@shared.WRITE
@click.option("--words", type=int, help="Approximate words per passage. [default: 100]")
@click.option("--overlap", type=int, help="Words repeated from the previous passage. [default: 0]")
@click.option("--split", type=SPLIT, help="`sentences`: passages end where a "
              "sentence, a list item or a table row ends. `words`: every 100 words, as in the papers. "
              "[default: sentences]")  # fmt: skip
@click.option("--chunks", type=int, help="Maximum passages per document, such as 4 with --words 350. [default: all]")
@click.option("--language", metavar="CODE", help="Language of the stemmer: en, de, fr, es … [default: auto, the "
              "language of each passage].")  # fmt: skip
@click.option("--model", metavar="NAME|DIR", help="The encoder; `none` for BM25 alone. [default: retriever]")
@click.option(
    "--dense",
    type=shared.Registry("mundap.index.dense", "KINDS"),
    help="Kind of vector index. [default: auto]",
)
@click.option("--k1", type=shared.Number(0, 1000), help="BM25 k1: term frequency saturation. [default: 1.2]")
@click.option("--b", type=shared.Number(0, 1), help="BM25 b: length normalisation. [default: 0.75]")
@click.option(
    "--recall",
    type=shared.Number(0, 1),
    metavar="SHARE",
    help="Tune an approximate index on a sample to find this share of the exact top 100, such as 0.98; 0: chosen by "
    "size. Can be changed later.",
)
@click.option(
    "--dry-run",
    is_flag=True,
    help="Read the files and estimate passages, time, memory and disk of the index; write nothing.",
)
@click.option("--vectors", type=click.Path(exists=True), metavar="DIR", help="Take ready-made vectors: shards of "
              "`mundap encode`, npy, safetensors, files of DPR or Tevatron.")  # fmt: skip
@shared.RAY
@shared.DEVICE
@shared.THREADS
@click.option("--fresh", is_flag=True, help="Rebuild from scratch; the old index serves until the new one is done.")
@click.option(
    "--force", is_flag=True, help="With --fresh: commit even if the new index has less than half of the documents."
)
@reading_options
def index(
    paths: tuple[str, ...],
    out: str | None,
    vectors: str | None,
    cluster: str | None,
    device: str | None,
    fresh: bool,
    force: bool,
    split: str | None,
    dry_run: bool,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Index files and folders, or bring an index up to date with them.

    Only new and changed files are read; files that are gone are dropped. Run the same
    command again to resume a build that was killed.

    \b
    Examples:
      mundap index docs/                      into .mundap/
      mundap index notes/ paper.pdf -o i      into i/
      mundap index psgs_w100.tsv.gz --model none
      cat corpus.jsonl | mundap index - -o i
      mundap index docs/ -o milvus://host:19530/docs
      mundap index corpus/ -o i --ray=ray://head:10001
      mundap index psgs_w100.tsv.gz --dry-run
    """
    from mundap.engines import build, is_address
    from mundap.index.build import Options

    _check_makers(vectors, cluster, device)
    if split is not None:
        options["sentences"] = split == "sentences"
    if options["recall"] and out is not None and is_address(out):
        raise UsageError("--recall tunes an index in a folder; an engine has settings of its own")
    if dry_run:
        _foretell(paths, out, Options(**options), fresh, as_json)
        return
    with shared.progress_bar(_("indexing")) as watch:
        if cluster is not None:
            report = build.build_on_cluster(paths, out, Options(**options), cluster, fresh, watch, force)
        else:
            ready = None
            if vectors is not None:
                ready = Path(vectors)
            report = build.build(paths, out, Options(**options), fresh, watch, force, ready)
    _tell(report, out, strict, as_json)


def _check_makers(vectors: str | None, cluster: str | None, device: str | None) -> None:
    """Who makes the vectors: there is one that can, before anything is read."""
    if cluster is not None and vectors is not None:
        raise UsageError("--ray makes vectors, --vectors takes ready-made ones: give one of them")
    if device is None:
        return
    if cluster is not None:
        raise UsageError("--device is for this machine: with --ray, set MUNDAP_DEVICE on the machines of the cluster")
    from mundap.models.device import providers

    providers(device)


@click.command()
@click.argument("paths", nargs=-1, required=True)
@shared.changed_index
@shared.THREADS
@reading_options
def add(
    paths: tuple[str, ...],
    index_path: str | None,
    out: str | None,
    strict: bool,
    as_json: bool,
    **options: Any,
) -> None:
    """Add files to an existing index, or read them again if they changed.

    \b
    Examples:
      mundap add new.md
      mundap add more/ -o i
    """
    from mundap.engines import build
    from mundap.index.build import Options

    where = shared.one_index(index_path, out)
    with shared.progress_bar(_("adding")) as watch:
        report = build.add(paths, where, Options(**options), watch)
    _tell(report, where, strict, as_json)


def _foretell(paths: tuple[str, ...], out: str | None, options: Any, fresh: bool, as_json: bool) -> None:
    """Print the estimate of a build."""
    from mundap.cli.plan import tell_need
    from mundap.engines import is_address
    from mundap.engines.forecast import forecast
    from mundap.index import locate

    if out is not None and is_address(out):
        raise UsageError("--dry-run is for an index in a folder; for an engine see `mundap plan`")
    with shared.passages_bar(_("reading")) as tell:
        made = forecast(paths, locate.to_write(out), options, fresh, tell)
    if as_json:
        shared.print_json(made.as_dict())
        return
    click.echo(f"{shared.plural(made.passages, 'passage')}, model {made.model}, vector index: {made.dense}")
    for need in made.needs:
        tell_need(need)
    if not made.fits:
        shared.note(f"mundap: only {made.free / 1e9:,.1f} GB are free where the index goes.")
    if made.memory is not None and not made.fits_memory:
        shared.note(f"mundap: only {made.memory / 1e9:,.1f} GB of memory are free.")


def _tell(report: Any, where: str | None, strict: bool, as_json: bool) -> None:
    from mundap.cli import translated

    if as_json:
        shared.print_json(report.as_dict())
    else:
        shared.tell_skipped(report.skipped, report.skipped_count)
        _tell_left_out(report.left_out)
        if report.renamed:
            rows = shared.count(report.renamed, "row")
            shared.note(_("{rows} filed as FILE#ID: another file has the same id").format(rows=rows))
        held = f"{shared.count(report.documents, 'document')}, {shared.count(report.passages, 'passage')}"
        if report.path is not None:
            where = str(_shown(report.path))
        click.echo(f"{where}: {held}")
        changes = _("{added:,} added, {removed:,} removed, {files} unchanged, {skipped:,} skipped, in {seconds:.1f} s")
        click.echo(
            changes.format(
                added=report.added,
                removed=report.removed,
                files=shared.count(report.unchanged, "file"),
                skipped=report.skipped_count,
                seconds=report.seconds,
            )
        )
        if report.note:
            shared.note(f"mundap: {translated(report.note)}.")
    shared.finish(report, strict)


def _tell_left_out(reasons: dict[str, int]) -> None:
    """Say in a line or two which files are not documents."""
    links = reasons.get(LINK, 0)
    others = sum(reasons.values()) - links
    if others:
        told = _("{files} left out: pictures, styles, binaries and the like")
        shared.note(told.format(files=shared.count(others, "file")))
    if links:
        told = _("{links} not followed. Use --follow-links to read what is behind.")
        shared.note(told.format(links=shared.count(links, "symbolic link")))


def _shown(folder: Path) -> Path:
    """A path as short as possible from here."""
    try:
        return folder.resolve().relative_to(Path.cwd())
    except ValueError:
        return folder
