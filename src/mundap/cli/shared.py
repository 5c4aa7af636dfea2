"""What the commands share: options that mean the same everywhere, and how results are printed."""

import json
import math
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from gettext import gettext as _
from gettext import ngettext
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar, get_args

import click

from mundap.records import Skipped

if TYPE_CHECKING:
    from mundap.index.corpus import Filters
    from mundap.index.index import Index
    from mundap.index.ingest import Progress, Report, Watcher
    from mundap.models.folder import ReaderConfig

T = TypeVar("T")

READ = click.option(
    "-i",
    "--index",
    "index_path",
    metavar="DIR",
    help="The index. [default: .mundap/ here or in the nearest parent]",
)
READ_ANYWHERE = click.option(
    "-i",
    "--index",
    "index_path",
    metavar="DIR|ADDRESS",
    help="The index: a folder, or an engine's address such as milvus://host:19530/name. [default: "
    ".mundap/ here or in the nearest parent]",
)
WRITE = click.option(
    "-o",
    "--out",
    metavar="DIR|ADDRESS",
    help="The index to write: a folder, or an engine's address. [default: .mundap/ here or in the nearest parent]",
)
READER = click.option("--reader", metavar="NAME|DIR", help="The reader. [default: the built-in one]")
RERANK = click.option(
    "--rerank",
    is_flag=True,
    help="Rerank the hits with a reader, which sees question and passage together, as a cross-encoder does.",
)


class Registry(click.Choice[str]):
    """The choices in a registry (a dict, a tuple or a Literal), imported only when they are needed.

    Args:
        module: The module of the registry.
        name: Its name there.
        extra: Further choices, before the others.
    """

    def __init__(self, module: str, name: str, *extra: str) -> None:
        self._module, self._name, self._extra = module, name, extra
        self.case_sensitive = True

    @property
    def choices(self) -> Sequence[str]:  # type: ignore[override]
        """All of them."""
        found = getattr(import_module(self._module), self._name)
        return (*self._extra, *(get_args(found) or found))


class _InputFile(click.ParamType[str]):
    """A file to read. `-` is standard input; that and a pipe are copied first, as files are read more than once."""

    name = "file"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """The path of the file, or of its copy, which goes away with the command."""
        path = Path(value)
        if value != "-" and (not path.exists() or path.is_file() or path.is_dir()):
            return str(value)
        folder = tempfile.TemporaryDirectory(prefix="mundap-")
        if ctx is not None:
            ctx.call_on_close(folder.cleanup)
        copy = Path(folder.name) / ("stdin" if value == "-" else path.name)
        with copy.open("wb") as target:
            if value == "-":
                shutil.copyfileobj(sys.stdin.buffer, target)
            else:
                with path.open("rb") as source:
                    shutil.copyfileobj(source, target)
        return str(copy)


class Number(click.FloatRange):
    """A finite number within bounds, if it has any. click lets nan pass, since no comparison with it holds."""

    def _describe_range(self) -> str:
        if self.min is None and self.max is None:
            return ""  # click would say x<=None
        return super()._describe_range()

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """The number, or a usage error."""
        number = super().convert(value, param, ctx)
        if not math.isfinite(number):
            self.fail(_("{value} is not a finite number.").format(value=value), param, ctx)
        return number


JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
STRICT = click.option("--strict", is_flag=True, help="Fail (exit 1) if anything was skipped.")


def _in_environment(name: str) -> Callable[[click.Context, click.Parameter, Any], Any]:
    """Keep an option where all rooms, and the processes that they start, look for it, before anything does."""

    def keep(context: click.Context, parameter: click.Parameter, value: Any) -> Any:
        if value is not None:
            os.environ[name] = str(value)
        return value

    return keep


THREADS = click.option(
    "--threads",
    type=click.IntRange(1),
    is_eager=True,
    expose_value=False,
    callback=_in_environment("MUNDAP_THREADS"),
    help="How many threads and processes work at a time. [default: one per core, or MUNDAP_THREADS]",
)
DEVICE = click.option(
    "--device",
    metavar="NAME",
    is_eager=True,
    callback=_in_environment("MUNDAP_DEVICE"),
    help="Where passages are encoded: cpu, cuda, or cuda:1 for the second GPU, which needs onnxruntime-gpu. "
    "[default: cpu, or MUNDAP_DEVICE]",
)
RAY = click.option("--ray", "cluster", is_flag=False, flag_value="local", metavar="[=ADDRESS]",
                   help="Encode over a Ray cluster; without an address, over the cores of this machine.")  # fmt: skip


INPUT = _InputFile()
MODE = Registry("mundap.index.modes", "MODES")
FUSION = Registry("mundap.index.modes", "FUSIONS")
PRECISION = Registry("mundap.models.folder", "Precision")
QUESTION_FORMATS = Registry("mundap.datasets.queries", "FORMATS")
MATCH = click.option(
    "--match",
    type=Registry("mundap.text.answers", "Mode", "auto"),
    default="auto",
    show_default=True,
    help="How answers are matched. auto: regex for TREC tables and answers that look like patterns; where many are "
    "Korean, Japanese or Chinese, cjk for those and string for the rest; else string, the papers' rule.",
)

RIGHT = click.option(
    "--right",
    type=Registry("mundap.text.scores", "Right"),
    default="exact",
    show_default=True,
    help="What counts as right when confidence is fitted or measured. exact: exact match. close: also an answer with "
    "more or less text at its ends, if the shorter is at least half as long as the longer.",
)


class _BadIndexOption(click.UsageError):
    """-i and -o were both given and differ."""


def changed_index(function: Callable[..., Any]) -> Callable[..., Any]:
    """Commands that change an index take it by -i or by -o: both mean the same one."""
    return READ_ANYWHERE(WRITE(function))


def one_index(index_path: str | None, out: str | None) -> str | None:
    """The index given by -i or -o."""
    if index_path and out and index_path != out:
        raise _BadIndexOption("-i and -o name two indexes: give one")
    return index_path or out


def FILTERS(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that filter passages: `--document`, `--source`, `--where`."""
    options = (
        ("--document", "documents", "ID", "Only in this document (repeatable)."),
        ("--source", "sources", "GLOB", "Only from these files (repeatable)."),
        (
            "--where",
            "facts",
            "KEY=VALUE",
            "Only passages with this metadata, such as language=ko or 'modified>2024'; `mundap info` lists "
            "the keys (repeatable).",
        ),
    )
    for name, variable, metavar, text in reversed(options):
        function = click.option(name, variable, multiple=True, metavar=metavar, help=text)(function)
    return function


def FUSING(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how hybrid search fuses its two rankings: `--fusion`, `--weight`, `--lambda`."""
    options = (
        click.option(
            "--fusion",
            type=FUSION,
            default="zscore",
            show_default=True,
            help="How hybrid search fuses BM25 and dense scores.",
        ),
        click.option("--weight", type=Number(0, 1), help="Weight of the dense score in zscore. [default: the model's]"),
        click.option(
            "--lambda",
            "scale",
            type=Number(),
            default=1.1,
            show_default=True,
            help="For linear: BM25 + lambda * sim.",
        ),
    )
    for option in reversed(options):
        function = option(function)
    return function


def BM25(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options for the parameters of BM25: `--k1`, `--b`. By default those of the index."""
    k1 = click.option("--k1", type=Number(0, 1000), help="BM25 k1: term frequency saturation. "
                      "[default: the index's]")  # fmt: skip
    b = click.option("--b", type=Number(0, 1), help="BM25 b: length normalisation. [default: the index's]")  # fmt: skip
    return k1(b(function))


def given_bm25(options: dict[str, Any]) -> dict[str, float]:
    """Take the values of those options, if given, out of the others."""
    values = {name: options.pop(name) for name in ("k1", "b") if name in options}
    return {name: value for name, value in values.items() if value is not None}


def RANKING(function: Callable[..., Any]) -> Callable[..., Any]:
    """Options that say how spans of different passages are compared: `--ranking`, `--retrieval-weight`."""
    ranking = click.option(
        "--ranking",
        type=Registry("mundap.models.folder", "RankingRule"),
        help="`selection`: the best span of the best passage, as in the DPR paper. `product`: spans of all passages "
        "compete. [default: the reader's]",
    )
    weight = click.option(
        "--retrieval-weight",
        type=Number(0, 100),
        help="How much the retrieval score counts in `product`. [default: the reader's]",
    )
    return ranking(weight(function))


def filters(documents: Sequence[str], sources: Sequence[str], facts: Sequence[str]) -> "Filters":
    """The filters that those options describe. Sources lose a leading ./."""
    import re

    from mundap.errors import UsageError
    from mundap.index.matching import Filters

    values: dict[str, str] = {}
    ranges: list[tuple[str, str, str]] = []
    for fact in facts:
        match = re.fullmatch(r"([^=<>]+?)\s*(<=|>=|=|<|>)\s*(.*)", fact, re.DOTALL)
        if match is None:
            message = "--where {fact}: write it as KEY=VALUE, or with one of < <= > >=, as in 'modified>2024'"
            raise UsageError(message, fact=fact)
        key, sign, value = match.groups()
        if sign == "=":
            values[key] = value
        else:
            ranges.append((key, sign, value))
    patterns = tuple(source.removeprefix("./") for source in sources)
    return Filters(tuple(documents), patterns, values, tuple(ranges))


def tell_unfinished(index: "Index") -> None:
    """Warn if passages may be missing: a folder shows what was committed, an engine what has arrived."""
    if reason := getattr(index, "unfinished", ""):
        note(f"mundap: the index is not finished: {reason}")


def tell_unfitted(reader: "ReaderConfig") -> None:
    """Warn if a reader's confidence was never fitted: its percentages mean little, and it answers everything."""
    if reader.confidence:
        return
    warning = _("the confidence of the reader {name} was never fitted: percentages are a rough guess.")
    if not reader.threshold:
        warning = _(
            "the confidence of the reader {name} was never fitted: percentages are a rough guess, and every question "
            "gets an answer."
        )
    cure = _("Fit it on questions that it was not trained on: mundap train confidence -i INDEX -q FILE --reader DIR")
    note(f"mundap: {warning.format(name=clean(reader.name))} {cure}")


def coloured() -> bool:
    """Whether to colour the output: on a terminal, unless NO_COLOR is set (https://no-color.org)."""
    return sys.stdout.isatty() and not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"


def wrapped(text: str, indent: int = 0) -> list[str]:
    """Lines that fit the terminal; escape codes take no columns and wide characters two."""
    from rich.console import Console
    from rich.text import Text

    width = min(100, shutil.get_terminal_size((100, 24)).columns) - indent
    system: Any = None
    if coloured():
        system = "standard"
    console = Console(width=max(width, 20), color_system=system, force_terminal=coloured())
    with console.capture() as captured:
        console.print(Text.from_ansi(text))
    return [line.rstrip() for line in captured.get().rstrip("\n").split("\n")]


def print_json(value: Any, compact: bool = False) -> None:
    """One JSON document on stdout, on a line of its own if `compact`."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=None if compact else 2))


def note(message: str) -> None:
    """A line for people, on stderr."""
    click.echo(message, err=True)


def clean(text: str) -> str:
    """Text from a document or a file's name, safe to show: escape codes and line breaks become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def plural(number: int, what: str) -> str:
    """A number with its noun, in English: for lines that are not translated."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def count(number: int, what: str) -> str:
    """A number with its noun, in the user's language."""
    return ngettext(f"{{n:,}} {what}", f"{{n:,}} {what}s", number).format(n=number)


def tell_skipped(skipped: Sequence[Skipped], total: int) -> None:
    """Say what could not be read, and why."""
    from mundap.cli import translated

    for one in skipped[:20]:
        note(clean(_("skipped {source}: {reason}").format(source=one.source, reason=translated(one.reason))))
    if total > 20:
        note(_("… and {n:,} more. Use --json to see them.").format(n=total - 20))


def finish(report: "Report", strict: bool) -> None:
    """Exit with 3 if something was skipped, 1 if that is not acceptable."""
    if report.skipped_count:
        sys.exit(1 if strict else 3)


@contextmanager
def _bar(what: str, unit: str, total: int | None = None) -> Iterator[Callable[..., None]]:
    """A bar with rate and time left on stderr; nothing at all when that is not a terminal.

    Yields a function that is told how many units are done, how much of what total the bar shows, and what else to say.
    """
    if not sys.stderr.isatty():
        yield lambda *ignored: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[done]:,} " + _(unit) + ", {task.fields[rate]}/s"),
        rich.TimeRemainingColumn(),
        rich.TextColumn("{task.fields[also]}"),
    )
    # The time left is told from the rate of the last minute.
    with rich.Progress(*columns, console=Console(stderr=True), transient=True, speed_estimate_period=60) as bar:
        task = bar.add_task(_(what), total=total, done=0, rate="-", also="")

        def show(done: int, shown: int, total: int | None, also: str = "") -> None:
            elapsed = bar.tasks[0].elapsed or 0
            rate = "-"
            if elapsed > 0.5:
                rate = f"{done / elapsed:,.0f}"
            bar.update(task, completed=shown, total=total, done=done, rate=rate, also=also)

        yield show


@contextmanager
def progress_bar(what: str) -> "Iterator[Watcher]":
    """Progress of a build: passages, against the bytes there are to read."""
    from mundap.cli import translated

    def watch(now: "Progress") -> None:
        if now.warning and now.warning not in told:
            told.append(now.warning)
            note(f"mundap: {clean(translated(now.warning))}")
        skipped = ""
        if now.skipped:
            reason = clean(translated(now.reason))[:40]
            skipped = _("{n:,} skipped, mostly: {reason}").format(n=now.skipped, reason=reason)
        show(now.passages, now.bytes, now.total or None, skipped)

    told: list[str] = []

    with _bar(what, "passages") as show:
        yield watch


@contextmanager
def passages_bar(what: str) -> Iterator[Callable[[int], None]]:
    """Progress where nobody knows how many passages there are."""
    with _bar(what, "passages") as show:
        yield lambda done: show(done, done, None)


@contextmanager
def pages_bar(what: str) -> Iterator[Callable[[int, int, int], None]]:
    """Progress through dumps: pages, against the bytes there are to read."""
    with _bar(what, "pages") as show:
        yield show


def counted(items: Iterable[T], what: str, unit: str, total: int | None = None) -> Iterator[T]:
    """The items, with a bar that counts them as they go by."""
    with _bar(what, unit, total) as show:
        for done, item in enumerate(items, 1):
            yield item
            show(done, done, total)
