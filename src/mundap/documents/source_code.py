"""Programs: what their comments and docstrings say, under the names of what they are about."""

import ast
import io
import re
import tokenize
from collections.abc import Iterator

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import NoDocument, SourceFile, decode
from mundap.documents.plain import text_blocks
from mundap.records import Document

_HASH = frozenset(".sh .bash .zsh .rb .pl .pm .r .ps1 .tcl .awk .ex .exs .jl".split())
_DASH = frozenset(".sql .lua .hs .elm .ada .adb .vhd".split())
_C_COMMENT = re.compile(r"/\*(.*?)\*/|(?m:^[ \t]*///?(?!/)[ \t]?([^\n]*)$)", re.DOTALL)
_HASH_COMMENT = re.compile(r"(?m)^[ \t]*#+[ \t]?(?!!)(.*)$")
_DASH_COMMENT = re.compile(r"(?m)^[ \t]*--+[ \t]?(.*)$")
_STARS = re.compile(r"(?m)^[ \t]*\*+[ \t]?")
_LICENCE = re.compile(r"copyright|licen[sc]ed? under|SPDX-|all rights reserved", re.IGNORECASE)
_FEWEST = 4  # words: fewer are a marker, not a sentence


def read_code(file: SourceFile) -> Iterator[Document]:
    """The comments of a program; of Python also the docstrings."""
    text = decode(file.read())
    built = Builder()
    if file.suffix in (".py", ".pyi"):
        _add_python(built, text)
    else:
        _add_comments(built, text, file.suffix)
    if not built.blocks:
        raise NoDocument("a program without comments")
    yield make_document(file, built, "code", file.id.rpartition("/")[2])


def _add_python(built: Builder, text: str) -> None:
    try:
        tree = ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        _add_comments(built, text, ".sh")
        return
    _add_docstring(built, tree, 1)
    waiting: list[tuple[ast.AST, int]] = [(one, 1) for one in reversed(tree.body)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            kind = "class" if isinstance(node, ast.ClassDef) else "def"
            built.section(f"{kind} {node.name}", level)
            _add_docstring(built, node, node.lineno)
            waiting += [(one, level + 1) for one in reversed(node.body)]
    built.section("", 1)
    _add_python_comments(built, text)


def _add_docstring(
    built: Builder, node: ast.Module | ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef, line: int
) -> None:
    words = ast.get_docstring(node)
    if not words:
        return
    first = node.body[0].lineno if node.body else line
    first += _empty_lines(ast.get_docstring(node, clean=False) or "")
    for block in text_blocks(words):
        built.add(block.kind, words[block.start : block.end], first + block.line - 1)


def _empty_lines(text: str) -> int:
    """How many lines stand before the first word, which are left out."""
    return text[: len(text) - len(text.lstrip())].count("\n")


def _add_python_comments(built: Builder, text: str) -> None:
    """Comments that stand on lines of their own; neighbouring lines are one."""
    lines: list[str] = []
    begun = last = 0
    try:
        for token in tokenize.generate_tokens(io.StringIO(text).readline):
            if token.type != tokenize.COMMENT or token.line[: token.start[1]].strip():
                continue
            if lines and token.start[0] != last + 1:
                _add_comment(built, "\n".join(lines), begun)
                lines = []
            begun, last = begun if lines else token.start[0], token.start[0]
            lines.append(token.string.lstrip("#").strip())
    except (tokenize.TokenError, SyntaxError):
        pass
    _add_comment(built, "\n".join(lines), begun)


def _add_comments(built: Builder, text: str, suffix: str) -> None:
    if suffix in _HASH:
        pattern = _HASH_COMMENT
    elif suffix in _DASH:
        pattern = _DASH_COMMENT
    else:
        pattern = _C_COMMENT
        text = _without_open_ends(text)
    lines: list[str] = []
    begun = line = counted = end = 0
    for match in pattern.finditer(text):
        words = _STARS.sub("", next((group for group in match.groups() if group is not None), ""))
        if lines and text[end : match.start()].strip(" \t\r") not in ("\n", ""):
            _add_comment(built, "\n".join(lines), begun)
            lines = []
        if not lines:
            line += text.count("\n", counted, match.start())
            counted, begun = match.start(), line + 1 + _empty_lines(words)
        lines.append(words.strip())
        end = match.end()
    _add_comment(built, "\n".join(lines), begun)


def _without_open_ends(text: str) -> str:
    """A program in which no comment begins that never ends: to look for the end of each would take for ever."""
    last = text.rfind("*/") + 2
    return text[:last] + text[last:].replace("/*", "  ") if last > 1 else text.replace("/*", "  ")


def _add_comment(built: Builder, text: str, line: int) -> None:
    if _LICENCE.search(text[:600]):
        return
    for block in text_blocks(text):
        words = text[block.start : block.end]
        if len(words.split()) >= _FEWEST:
            built.add("text" if block.kind == "heading" else block.kind, words, line + block.line - 1)
