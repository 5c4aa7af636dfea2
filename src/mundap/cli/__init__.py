"""The command line: one file a verb; each parses, calls one function and prints."""

import os
import sys
from importlib import import_module
from typing import Any

import click

from mundap.version import __version__

_VERBS = {
    "index": ("mundap.cli.index", "index", "Index files and folders, or bring an index up to date."),
    "add": ("mundap.cli.index", "add", "Add files to an index."),
    "ask": ("mundap.cli.ask", "ask", "Answer a question, with the source."),
    "search": ("mundap.cli.search", "search", "Find passages for a question."),
    "delete": ("mundap.cli.manage", "delete", "Delete documents by id or by source."),
    "compact": ("mundap.cli.manage", "compact", "Rewrite an index without deleted passages."),
    "info": ("mundap.cli.manage", "info", "Show what an index holds."),
    "verify": ("mundap.cli.manage", "verify", "Check every file of an index."),
    "serve": ("mundap.cli.serve", "serve", "Serve questions over HTTP, with a page for people."),
    "mcp": ("mundap.cli.mcp", "mcp", "Give assistants tools (Model Context Protocol)."),
    "data": ("mundap.cli.data", "data", "Make, check and convert training data; passages from Wikipedia."),
    "evaluate": ("mundap.cli.evaluate", "evaluate", "Measure how well questions are answered."),
    "compare": ("mundap.cli.evaluate", "compare", "Compare two runs, question by question."),
    "train": ("mundap.cli.train", "train", "Train models."),
    "reproduce": ("mundap.cli.reproduce", "reproduce", "Repeat experiments of the papers."),
    "models": ("mundap.cli.models", "models", "List, export and convert models."),
    "completion": ("mundap.cli.completion", "completion", "Print a shell completion script."),
}

_WELCOME = f"""mundap {__version__}: answers from your own text, without an LLM.

Three commands to begin with:

  mundap index docs/           index a folder (text, Markdown, HTML, PDF, DOCX, JSON lines ...)
  mundap ask "a question"      answer it, and show where the answer stands
  mundap info                  see what the index holds

`mundap --help` lists all commands, `mundap COMMAND --help` explains one.
"""


class _Verbs(click.Group):
    """A group whose commands are imported when they are run: a search does not load the PDF reader."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            return None
        module, name, _ = _VERBS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, _, summary) in _VERBS.items()])


@click.group(cls=_Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mundap")
@click.pass_context
def main(context: click.Context) -> None:
    """Answers from your own text, without an LLM.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but something was skipped.
    """
    from mundap.cli.shared import coloured

    if not coloured():
        context.color = False  # click then leaves the codes out of whatever is printed
    if context.invoked_subcommand is None:
        click.echo(_WELCOME, nl=False)


def run(arguments: Any = None) -> None:
    """The program: errors become one message on stderr and an exit code, never a traceback."""
    from mundap.errors import MundapError, UsageError

    words = sys.argv[1:] if arguments is None else list(arguments)
    # Bytes that are not UTF-8 arrive as lone surrogates, which nothing can store or print.
    words = [word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for word in words]
    try:
        code = main(words, prog_name="mundap", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except UsageError as error:
        _fail(error, 2)
    except MundapError as error:
        _fail(error, 1)
    except (KeyboardInterrupt, click.Abort):
        _fail("stopped. Run the same command again to go on.", 130)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except OSError as error:
        _fail(f"{error.filename or 'input or output'}: {error.strerror or error}", 1)


def _fail(message: object, code: int) -> None:
    click.echo(f"mundap: {message}", err=True)
    sys.exit(code)
