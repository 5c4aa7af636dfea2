"""Two rules of docs/architecture.md that an import contract cannot hold."""

import ast
import itertools
import re
from functools import cache
from pathlib import Path

import pytest

SOURCE = Path(__file__).parent.parent / "src" / "mundap"
WITH_TORCH = (
    "encoder/network.py",
    "encoder/checkpoints.py",
    "encoder/layouts.py",
    "encoder/export.py",
    "encoder/imports.py",
    "reader/network.py",
    "reader/checkpoints.py",
    "reader/export.py",
    "reader/unpack.py",
    "models/weights.py",
    "models/unpack.py",
    "models/fp32.py",
    "models/int8.py",
    "training/",
    "experiments/",
)
# These may name options, of the command line or of a child process; pages.py has a style sheet, with its --variables.
WITH_FLAGS = ("cli/", "serving/", "training/ance/run.py", "experiments/__init__.py", "pages.py")
HEAVY = {"torch", "transformers", "onnx"}
FLAG = re.compile(r"(?<![\w-])--[a-z]|(?<![\w-])-[a-zA-Z](?![\w-])")
# A whole command to type is no option, and neither is an argument of a child process.
COMMAND = re.compile(r"`(?:mundap|ray) [^`]*`|pip install .*|ulimit -[a-z]|^-[a-zA-Z]$")


@cache
def modules():
    files = sorted(SOURCE.rglob("*.py"))
    return [(path.relative_to(SOURCE).as_posix(), ast.parse(path.read_text("utf-8"))) for path in files]


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name.partition(".")[0] for alias in node.names)
        elif isinstance(node, ast.ImportFrom) and not node.level:
            yield (node.module or "").partition(".")[0]


def messages(tree):
    """Every string of a module but its docstrings."""
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
    parents = [node for node in ast.walk(tree) if isinstance(node, documented)]
    strings = [statement.value for node in parents for statement in node.body if isinstance(statement, ast.Expr)]
    parts = [node.values for node in ast.walk(tree) if isinstance(node, ast.JoinedStr)]
    passed_over = {id(one) for one in (*strings, *itertools.chain.from_iterable(parts))}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            yield node.lineno, "".join(one.value if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in passed_over:
            yield node.lineno, node.value


def test_torch_is_imported_only_where_the_architecture_says():
    found = {name for name, tree in modules() if HEAVY & set(imported(tree))}
    assert {name for name in found if not name.startswith(WITH_TORCH)} == set()


def names_option(text):
    return FLAG.search(COMMAND.sub("", text)) is not None


def test_a_library_message_names_no_option_of_the_command_line():
    found = []
    for name, tree in modules():
        if not name.startswith(WITH_FLAGS):
            found += [f"{name}:{line}: {text}" for line, text in messages(tree) if names_option(text)]
    assert found == []


@pytest.mark.parametrize("text", ["use --fresh", "give it with -i INDEX", "name one with -i.", "`--json`"])
def test_an_option_is_seen(text):
    assert names_option(text)


@pytest.mark.parametrize("text", ["a -- b", "well-known", "x --", "-1", "from - to", "run `mundap verify --repair`."])
def test_what_is_no_option(text):
    assert not names_option(text)
