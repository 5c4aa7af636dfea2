"""Write docs/commands.md from the program's own help. A test checks that it is up to date."""

import sys
from pathlib import Path

import click

from mundap.cli import main

HEAD = "# Commands\n\nMade by `python docs/commands.py` from the program's own help.\n"


def text() -> str:
    """The whole page."""
    parts = [HEAD, _section(main, "mundap")]
    context = click.Context(main, info_name="mundap")
    for name in main.list_commands(context):
        command = main.get_command(context, name)
        if command is None:
            continue
        parts.append(_section(command, f"mundap {name}"))
        if isinstance(command, click.Group):
            parts += [_section(sub, f"mundap {name} {key}") for key, sub in command.commands.items()]
    return "\n".join(parts)


def _section(command: click.Command, path: str) -> str:
    names = ["-h", "--help"]
    context = click.Context(command, info_name=path, terminal_width=100, max_content_width=100, help_option_names=names)
    return f"## {path}\n\n```text\n{command.get_help(context)}\n```\n"


if __name__ == "__main__":
    page = Path(__file__).with_suffix(".md")
    page.write_text(text(), "utf-8")
    sys.stdout.write(f"{page}\n")
