"""The command line: one file per verb, which parses, calls one function and prints."""

import gettext
import inspect
import os
import sys
from collections.abc import Iterable
from difflib import get_close_matches
from gettext import gettext as _
from importlib import import_module
from pathlib import Path
from typing import Any
from unicodedata import east_asian_width

import click

from mundap.errors import Message, MundapError, UsageError
from mundap.version import __version__

_VERBS = {
    "index": ("mundap.cli.index", "index", "Index files and folders, or bring an index up to date."),
    "add": ("mundap.cli.index", "add", "Add files to an index."),
    "encode": ("mundap.cli.encode", "encode", "Encode one shard of the passages, to share the work among machines."),
    "plan": ("mundap.cli.plan", "plan", "Estimate memory, disk, machines and hours for a number of passages."),
    "ask": ("mundap.cli.ask", "ask", "Answer a question, with the source."),
    "search": ("mundap.cli.search", "search", "Find passages for a question."),
    "delete": ("mundap.cli.manage", "delete", "Delete documents by id or by source."),
    "compact": ("mundap.cli.manage", "compact", "Rewrite an index without deleted passages."),
    "info": ("mundap.cli.manage", "info", "Show what an index holds."),
    "list": ("mundap.cli.manage", "list_", "List the documents of an index, and what was skipped."),
    "verify": ("mundap.cli.manage", "verify", "Check every file of an index."),
    "backup": ("mundap.cli.manage", "backup", "Copy an index, even while it is written to."),
    "doctor": ("mundap.cli.doctor", "doctor", "Check the installation, the models and the index."),
    "serve": ("mundap.cli.serve", "serve", "Serve search and answers over HTTP, with a web page."),
    "mcp": ("mundap.cli.mcp", "mcp", "Offer search and answers to AI assistants (Model Context Protocol)."),
    "data": ("mundap.cli.data", "data", "Make, check and convert training data; passages from Wikipedia."),
    "evaluate": ("mundap.cli.evaluate", "evaluate", "Measure how well questions are answered."),
    "compare": ("mundap.cli.evaluate", "compare", "Compare two runs, question by question."),
    "train": ("mundap.cli.train", "train", "Train models."),
    "reproduce": ("mundap.cli.reproduce", "reproduce", "Repeat experiments of the papers."),
    "bench": ("mundap.cli.bench", "bench", "Measure how an index grows on this machine."),
    "models": ("mundap.cli.models", "models", "List, export and convert models."),
    "tour": ("mundap.cli.tour", "tour", "See how a question finds its answer, step by step."),
    "completion": ("mundap.cli.completion", "completion", "Print a shell completion script."),
}

_MESSAGES = Path(__file__).parent.parent / "locale"

_WELCOME = """mundap {version}: answers from your own text, without an LLM.

Three commands to begin with:

  mundap index docs/           index a folder (text, Markdown, HTML, PDF, DOCX, JSON lines ...)
  mundap ask "a question"      answer it, and show the source
  mundap info                  see what the index holds

`mundap --help` lists all commands, `mundap COMMAND --help` explains one.
"""


class _HelpByColumns(click.HelpFormatter):
    """Wrap help by columns: click counts characters, but a Hangul syllable is two columns wide.

    A filler after each wide character makes the count right; it is taken out again when the line is written.
    """

    _FILLER = "\ue000"

    def write_text(self, text: str) -> None:
        super().write_text(self._filled(text))

    def write_dl(self, rows: Iterable[tuple[str, str]], *args: Any, **options: Any) -> None:
        super().write_dl([(name, self._filled(text)) for name, text in rows], *args, **options)

    def write(self, string: str) -> None:
        super().write(string.replace(self._FILLER, ""))

    def _filled(self, text: str) -> str:
        return "".join(one + self._FILLER if east_asian_width(one) in "WF" else one for one in text)


class _Verbs(click.Group):
    """A group whose commands are imported when they are run: a search does not load the PDF reader."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in _VERBS:
            near = get_close_matches(cmd_name, _VERBS, 1, 0.5)
            if near:
                ctx.fail(_("No such command {name!r}. Did you mean {near!r}?").format(name=cmd_name, near=near[0]))
            return None
        module, name, _summary = _VERBS[cmd_name]
        command: click.Command = getattr(import_module(module), name)
        _translate(command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section(_("Commands")):
            formatter.write_dl([(name, _(verb[2])) for name, verb in _VERBS.items()])


def _translate(command: click.Command) -> None:
    """Put the help of a command into the language of the user, looked up by its English words."""
    if command.help:
        command.help = _(inspect.cleandoc(command.help))
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.help:
            parameter.help = _(parameter.help)
    if isinstance(command, click.Group):
        for part in command.commands.values():
            _translate(part)


def _speak(context: click.Context, parameter: click.Parameter, language: str | None) -> None:
    """Choose the language of all messages, including click's: gettext looks at this variable first."""
    if language:
        os.environ["LANGUAGE"] = language
        _translate(context.command)
        about_help = context.command.get_help_option(context)
        if about_help is not None:  # click has made it already, in the language of the environment
            about_help.help = _("Show this message and exit.")


@click.group(cls=_Verbs, invoke_without_command=True, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="mundap")
@click.option("--lang", metavar="CODE", is_eager=True, expose_value=False, callback=_speak,
              help="Language of the messages: en, ko. [default: from LANG]")  # fmt: skip
@click.pass_context
def main(context: click.Context) -> None:
    """Answers from your own text, without an LLM.

    Exit codes: 0 done, 1 failed, 2 wrong usage, 3 done but something was skipped.
    """
    from mundap.cli.shared import coloured

    if not coloured():
        context.color = False  # click then leaves the codes out of whatever is printed
    if context.invoked_subcommand is None:
        click.echo(_(_WELCOME).format(version=__version__), nl=False)


def run(arguments: Any = None) -> None:
    """The program: errors become one message on stderr and an exit code, never a traceback."""
    gettext.bindtextdomain("mundap", _MESSAGES)
    gettext.textdomain("mundap")
    click.Context.formatter_class = _HelpByColumns
    _translate(main)
    if arguments is None:
        words = sys.argv[1:]
    else:
        words = list(arguments)
    # Bytes that are not UTF-8 arrive as lone surrogates, which nothing can store or print.
    words = [word.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace") for word in words]
    try:
        code = main(words, prog_name="mundap", standalone_mode=False)
        sys.stdout.flush()
        sys.exit(code if isinstance(code, int) else 0)
    except click.ClickException as error:
        error.show()
        sys.exit(error.exit_code)
    except BrokenPipeError:
        # The reader of our output went away (`| head`): nothing is wrong, and nothing more can be said to it.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(0)
    except (MundapError, MemoryError, OverflowError, RecursionError, KeyboardInterrupt, click.Abort, OSError) as error:
        message, code = _told(error)
        click.echo(f"mundap: {message}", err=True)
        sys.exit(code)


def translated(said: "MundapError | str") -> str:
    """What an error, a message or the reason for something says, in the language of the user."""
    if not isinstance(said, (MundapError, Message)):
        return _reason(said)
    if not said.message:
        return str(said)
    message = _(said.message)
    facts = {name: translated(fact) if isinstance(fact, Message) else fact for name, fact in said.facts.items()}
    if facts:
        return message.format(**facts)
    return message


def _reason(text: str) -> str:
    """Translate plain text, such as a reason from another process, but not the detail in brackets at its end."""
    known = ""
    if text:
        known = _(text)
    if known != text:
        return known
    head, bracket, detail = text.partition(" (")
    return f"{_(head) if head else ''}{bracket}{detail}"


def _told(error: BaseException) -> tuple[str, int]:
    """The message and the exit code for an error."""
    if isinstance(error, UsageError):
        return translated(error), 2
    if isinstance(error, MundapError):
        return translated(error), 1
    if isinstance(error, MemoryError):
        told = _("out of memory. What was there before is unharmed; free some memory and run the same command again.")
        return told, 1
    if isinstance(error, OverflowError | RecursionError):
        told = _("a number is too large, or the input is nested too deeply ({error}). Check the file or option.")
        return told.format(error=error), 1
    if isinstance(error, OSError):
        return f"{error.filename or _('input or output')}: {error.strerror or error}", 1
    return _("stopped. Run the same command again to resume."), 130
