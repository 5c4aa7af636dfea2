"""Plain text and Markdown."""

import re
from collections.abc import Iterator
from typing import Any

from mundap.documents.blocks import Builder, Table, make_document, name_as_title
from mundap.documents.files import SourceFile, Unreadable, decode
from mundap.records import Block, Document
from mundap.text.sections import SEPARATOR

_FRONT_MATTER = re.compile(r"\A---[ \t]*\r?\n(.*?)^(?:---|\.\.\.)[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
# Begins with a letter and takes what it takes for good: a million spaces must not cost a million squared.
_PARAGRAPH = re.compile(r"\S[^\n]*+(?:\n[^\S\n]*+\S[^\n]*+)*+")
_OLD_MAC_PARAGRAPH = re.compile(_PARAGRAPH.pattern.replace(r"\n", r"\r"))
_BULLET = re.compile(r"^[ \t]*(?:[-*+•‣◦]|\(?\d{1,3}[.)])[ \t]+(?=\S)", re.MULTILINE)
_UNDERLINED = re.compile(r"\A[ \t]*(\S[^\n]*)\r?\n[ \t]*([=\-~^\"'#*+])\2{2,}[ \t]*\r?\Z")
_SENTENCE_END = (".", ",", ";", ":", "!", "?", "。", "…", ")", "|", "다")
_LONGEST_HEADING = 80
_MOST_FRONT_MATTER = 20_000  # characters: more is not a description of a file


def read_text(file: SourceFile) -> Iterator[Document]:
    """Plain text, as it stands; the title is the file's name."""
    text = decode(file.read())
    blocks = text_blocks(text)
    if not blocks:
        raise Unreadable("no text in it")
    yield Document(file.id, text, name_as_title(file.id), file.source, {"type": "text"}, blocks=tuple(blocks))


def text_blocks(text: str) -> list[Block]:
    """Paragraphs between empty lines, list items, and headings as far as plain text shows them."""
    newline, pattern = "\n", _PARAGRAPH
    if "\r" in text and "\n" not in text:
        newline, pattern = "\r", _OLD_MAC_PARAGRAPH
    blocks: list[Block] = []
    path: list[tuple[str, str]] = []  # the mark under a heading, which tells its level, and its words
    section, line, counted = "", 1, 0
    for match in pattern.finditer(text):
        start, end = _trimmed(text, *match.span())
        line += text.count(newline, counted, start)
        counted = start
        paragraph = text[start:end]
        if heading := _UNDERLINED.match(paragraph):
            section = _enter(path, *heading.groups())
            blocks.append(Block(start, end, "heading", section, 0, line))
        elif len(paragraph) <= _LONGEST_HEADING and newline not in paragraph and _is_heading(paragraph):
            blocks.append(Block(start, end, "heading", section, 0, line))
        else:
            blocks += _with_items(text, start, end, section, line, newline)
    return blocks


def _enter(path: list[tuple[str, str]], words: str, mark: str) -> str:
    """Begin the section of a heading; one with the same mark under it ends. Returns the section's path."""
    marks = [one for one, _ in path]
    if mark in marks:
        del path[marks.index(mark) :]
    path.append((mark, words.strip()))
    return SEPARATOR.join(words for _, words in path)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    return start + len(piece) - len(piece.lstrip()), start + len(piece.rstrip())


def _is_heading(line: str) -> bool:
    """A short line that stands alone and ends like no sentence goes with what follows it."""
    return not line.endswith(_SENTENCE_END) and not _BULLET.match(line) and line[0].isalnum()


def _with_items(text: str, start: int, end: int, section: str, line: int, newline: str) -> list[Block]:
    """A paragraph, and each item of a list in it."""
    paragraph = text[start:end]
    starts = [match.start() + start for match in _BULLET.finditer(paragraph)]
    if not starts:
        return [Block(start, end, "text", section, 0, line)]
    found = []
    marks = [*([start] if starts[0] > start else []), *starts, end]
    for position in range(len(marks) - 1):
        left, right = _trimmed(text, marks[position], marks[position + 1])
        kind = "item" if marks[position] in starts else "text"
        found.append(Block(left, right, kind, section, 0, line + text.count(newline, start, left)))
    return found


def read_markdown(file: SourceFile) -> Iterator[Document]:
    """Markdown without its marks; YAML front matter gives title and metadata."""
    text = decode(file.read())
    facts, body = _front_matter(text)
    built = Builder()
    title = add_markdown(built, text[body:], text.count("\n", 0, body))
    yield make_document(file, built, "markdown", str(facts.pop("title", "") or title), facts)


def add_markdown(built: Builder, text: str, lines_before: int = 0) -> str:
    """Add the blocks of Markdown; returns its first heading of the first level."""
    return _Markdown(built, lines_before).run(text)


class _Markdown:
    """Goes through the tokens of Markdown and turns them into blocks."""

    def __init__(self, built: Builder, lines_before: int) -> None:
        self.built = built
        self.lines_before = lines_before
        self.title = ""
        self.kinds = ["text"]  # of the text that comes; the innermost is the last
        self.table = Table(built)
        self.cells: list[str] = []
        self.in_header = False
        self.line = 0

    def run(self, text: str) -> str:
        """Add all blocks; returns the title."""
        from markdown_it import MarkdownIt

        for token in MarkdownIt("commonmark").enable("table").parse(text):
            line = self.lines_before + token.map[0] + 1 if token.map else 0
            if token.type == "inline":
                self._words(_inline(token), line)
            elif token.type in ("fence", "code_block"):
                self.built.add("code", token.content, line + (token.type == "fence"))
            elif token.type == "html_block":
                _add_markup(self.built, token.content, line)
            else:
                self._mark(token.type, token.tag, line)
        return self.title

    def _words(self, words: str, line: int) -> None:
        kind = self.kinds[-1]
        if kind in ("th", "td"):
            self.cells.append(words)
        elif kind in ("text", "item"):
            self.built.add(kind, words, line)
        else:
            self.built.heading(words, int(kind[1]), line)
            if kind == "h1":
                self.title = self.title or words

    def _mark(self, kind: str, tag: str, line: int) -> None:
        if kind == "list_item_open":
            self.kinds.append("item")
        elif kind in ("heading_open", "th_open", "td_open"):
            self.kinds.append(tag)
        elif kind in ("list_item_close", "heading_close", "th_close", "td_close"):
            self.kinds.pop()
        else:
            self._table_mark(kind, line)

    def _table_mark(self, kind: str, line: int) -> None:
        if kind == "table_open":
            self.table = Table(self.built)
        elif kind in ("thead_open", "thead_close"):
            self.in_header = kind == "thead_open"
        elif kind == "tr_open":
            self.cells, self.line = [], line
        elif kind == "tr_close" and self.in_header:
            self.table.header(self.cells, self.line)
        elif kind == "tr_close":
            self.table.plain(self.cells, self.line)
        elif kind == "table_close":
            self.table.end()


def _add_markup(built: Builder, markup: str, line: int) -> None:
    """HTML among Markdown."""
    from mundap.documents.html import parse_html, words_of

    tree = parse_html(markup)
    if tree is not None:
        built.add("text", words_of(tree), line)


def _inline(token: Any) -> str:
    """The words of a paragraph: link texts without addresses, line breaks as they were."""
    parts = []
    for child in token.children or ():
        if child.type in ("text", "code_inline", "image"):
            parts.append(child.content)
        elif child.type in ("softbreak", "hardbreak"):
            parts.append("\n")
    return "".join(parts).strip()


def _front_matter(text: str) -> tuple[dict[str, Any], int]:
    """What the YAML at the beginning of a Markdown file says, and where the text behind it begins."""
    match = _FRONT_MATTER.match(text)
    if match is None:
        return {}, 0
    facts = _yaml(match.group(1))
    return ({}, 0) if facts is None else (facts, match.end())


def _yaml(text: str) -> dict[str, Any] | None:
    """The values of YAML front matter; None if it is only text between two horizontal rules."""
    import yaml

    # Aliases and merge keys let a few hundred bytes grow without end, and no description of a file needs them.
    if len(text) > _MOST_FRONT_MATTER or re.search(r"[&*]\w|<<\s*:", text):
        return _simple_facts(text)
    try:
        facts = yaml.safe_load(text)
    except (yaml.YAMLError, ValueError, RecursionError):
        return None
    return {str(key): value for key, value in facts.items()} if isinstance(facts, dict) and facts else None


def _simple_facts(text: str) -> dict[str, Any]:
    """Lines `key: value` alone."""
    facts = {}
    for line in text[:_MOST_FRONT_MATTER].splitlines():
        key, colon, value = line.partition(":")
        if colon and key.isidentifier() and value.strip() and not value.lstrip().startswith(("&", "*", "[", "{")):
            facts[key] = value.strip().strip("\"'")
    return facts


_TIME = re.compile(r"(?:(\d{1,3}):)?(\d{1,2}):\d{2}[.,]\d{3}\s*-->\s*(?:\d{1,3}:)?\d{1,2}:\d{2}")
_MARKS = re.compile(r"<[^<>]{1,80}>|\{\\[^{}]{1,80}\}")
_NOT_SAID = ("WEBVTT", "NOTE", "STYLE", "X-TIMESTAMP")


def read_subtitles(file: SourceFile) -> Iterator[Document]:
    """Subtitles (SubRip, WebVTT): what is said, sentence by sentence; its page is the minute."""
    built = Builder()
    spoken: list[str] = []
    begun = 0
    for number, line in enumerate(decode(file.read()).splitlines(), 1):
        text = _MARKS.sub("", line).strip()
        if time := _TIME.match(text):
            if spoken and spoken[-1].isdigit():  # the number before a time is not said by anybody
                spoken.pop()
            if _is_said(spoken):
                built.add("text", " ".join(spoken), begun)
                spoken = []
            if not spoken:
                begun = number + 1
                built.page = _minute(time)
        elif text and not text.startswith(_NOT_SAID) and text not in spoken[-1:]:
            spoken.append(text)
    built.add("text", " ".join(spoken), begun)
    yield make_document(file, built, "subtitles")


def _minute(time: re.Match[str]) -> int:
    """The minute of a time, from 1."""
    hours, minutes = time.groups()
    return 60 * int(hours or 0) + int(minutes) + 1


def _is_said(spoken: list[str]) -> bool:
    """Whether lines end with a sentence, or are enough for a paragraph."""
    return bool(spoken) and (spoken[-1].endswith((".", "!", "?", "…", '"')) or len(spoken) > 8)
