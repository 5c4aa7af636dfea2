"""What the commands share: options that mean the same everywhere, and how results are printed."""

import json
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from mundap.records import Skipped

if TYPE_CHECKING:
    from mundap.index.build import Progress, Report, Watcher

READ = click.option(
    "-i",
    "--index",
    "index_path",
    metavar="DIR",
    help="The index. [default: .mundap/ here or in the nearest parent]",
)
WRITE = click.option(
    "-o", "--out", metavar="DIR", help="The index to write. [default: .mundap/ here or in the nearest parent]"
)
JSON = click.option("--json", "as_json", is_flag=True, help="Print JSON.")
STRICT = click.option("--strict", is_flag=True, help="Fail (exit 1) if anything was skipped.")


class BadIndexOption(click.UsageError):
    """-i and -o were both given and differ."""


def changed_index(function: Callable[..., Any]) -> Callable[..., Any]:
    """Commands that change an index take it by -i or by -o: both mean the same one."""
    return READ(WRITE(function))


def one_index(index_path: str | None, out: str | None) -> str | None:
    """The index given by -i or -o."""
    if index_path and out and index_path != out:
        raise BadIndexOption("-i and -o name two indexes: give one")
    return index_path or out


def print_json(value: Any) -> None:
    """One JSON document on stdout."""
    click.echo(json.dumps(value, ensure_ascii=False, indent=2))


def note(message: str) -> None:
    """A line for people, on stderr."""
    click.echo(message, err=True)


def clean(text: str) -> str:
    """Text from a document or a file's name, safe to show: escape codes and line breaks become spaces."""
    return "".join(character if character.isprintable() else " " for character in text)


def count(number: int, what: str) -> str:
    """A number with its noun."""
    return f"{number:,} {what}" if number == 1 else f"{number:,} {what}s"


def tell_skipped(skipped: Sequence[Skipped], total: int) -> None:
    """Say what could not be read, and why."""
    for one in skipped[:20]:
        note(clean(f"skipped {one.source}: {one.reason}"))
    if total > 20:
        note(f"… and {total - 20:,} more. Use --json to see them.")


def finish(report: "Report", strict: bool) -> None:
    """Exit with 3 if something was skipped, 1 if that is not acceptable."""
    if report.skipped_count:
        sys.exit(1 if strict else 3)


@contextmanager
def progress_bar(what: str) -> "Iterator[Watcher]":
    """A bar with rate and time left on stderr; nothing at all when that is not a terminal."""
    if not sys.stderr.isatty():
        yield lambda _: None
        return
    from rich import progress as rich
    from rich.console import Console

    columns = (
        rich.SpinnerColumn(),
        rich.TextColumn("{task.description}"),
        rich.BarColumn(),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[passages]:,} passages, {task.fields[rate]}/s"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task(what, total=None, passages=0, rate="-")

        def watch(now: "Progress") -> None:
            elapsed = bar.tasks[0].elapsed or 0
            rate = f"{now.passages / elapsed:,.0f}" if elapsed > 0.5 else "-"
            bar.update(task, completed=now.bytes, total=now.total or None, passages=now.passages, rate=rate)

        yield watch
