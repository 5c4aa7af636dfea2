"""LaTeX: sections, paragraphs, items and tables, without commands."""

import re
import unicodedata
from collections.abc import Iterator

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import Lines, SourceFile, decode
from mundap.records import Document

_BRACE = re.compile("[{}]")
_LONGEST_ARGUMENT = 2000  # characters of a title
_OPENING = "\\begin{document}"
_COMMENT = re.compile(r"(?<!\\)%[^\n]*")
_LEVELS = {"part": 1, "chapter": 1, "section": 2, "subsection": 3, "subsubsection": 4, "paragraph": 5}
_MARK = re.compile(
    r"\\(?P<level>part|chapter|section|subsection|subsubsection|paragraph)\*?\s*(?:\[[^\]]{0,300}\])?\s*\{"
    r"|\\(?P<item>item)\b(?:\s*\[(?P<term>[^\]]{0,300})\])?"
    r"|\\begin\{(?P<code>verbatim|lstlisting|minted|Verbatim)\*?\}"
    r"|\\begin\{(?P<table>tabularx?|longtable|tabular\*)\}"
    r"|\\begin\{(?P<hidden>tikzpicture|thebibliography|comment)\}"
    r"|\\(?P<title>title|author)\s*\{"
    r"|(?P<blank>\n[ \t]*\n)"
    r"|\\(?:begin|end)\{[^{}\n]{1,60}\}(?:\[[^\]\n]{0,200}\])?"
)
_DROPPED = re.compile(
    r"\\(?:cite\w*|label|ref|eqref|pageref|autoref|cref|includegraphics|input|include|bibliography\w*|usepackage|"
    r"documentclass|vspace|hspace|setlength|newcommand|renewcommand|index|pagestyle|footnotemark|graphicspath|hypersetup)"
    r"\*?(?:\s*\[[^\]]{0,300}\])*(?:\s*\{[^{}]{0,500}\}){0,3}"
)
_ACCENT = re.compile(r"\\([`'^\"~=.cvHuk])\s*\{?\\?([A-Za-z])\}?")
_ACCENTS = {"`": "\u0300", "'": "\u0301", "^": "\u0302", '"': "\u0308", "~": "\u0303", "=": "\u0304", ".": "\u0307",
            "c": "\u0327", "v": "\u030c", "H": "\u030b", "u": "\u0306", "k": "\u0328"}  # fmt: skip
_LETTERS = {"ss": "ß", "ae": "æ", "AE": "Æ", "oe": "œ", "OE": "Œ", "o": "ø", "O": "Ø", "aa": "å", "AA": "Å", "l": "ł",
            "L": "Ł", "ldots": "…", "dots": "…", "LaTeX": "LaTeX", "TeX": "TeX", "textbackslash": "\\"}  # fmt: skip
_COMMAND = re.compile(r"\\([A-Za-z]+)\*?[ ]?(?:\[[^\]\n]{0,200}\])?")


def read_latex(file: SourceFile) -> Iterator[Document]:
    """The text of a LaTeX file."""
    reader = _Reader(_COMMENT.sub("", decode(file.read()).replace("\r\n", "\n")))
    reader.run()
    facts = {"author": _plain(reader.facts["author"])}
    yield make_document(file, reader.built, "latex", _plain(reader.facts["title"]), facts)


class _Reader:
    """Goes through the text once, from mark to mark."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.lines = Lines(text)
        self.built = Builder()
        self.facts = {"title": "", "author": ""}
        self.kind = "text"  # of what comes next
        self.term = ""  # that it is about
        self.start = 0  # up to here all is read
        opening = text.find(_OPENING)
        self.body = opening + len(_OPENING) if opening >= 0 else 0

    def run(self) -> None:
        """Read all of it."""
        for match in _MARK.finditer(self.text):
            if match.start() >= self.start:
                self._add(match.start())
                self._mark(match)
        self._add(len(self.text))

    def _add(self, end: int) -> None:
        """Add what stands before a mark."""
        start = max(self.start, self.body)
        written = self.text[start:end]
        if words := _plain(written):
            lead = len(written) - len(written.lstrip())
            text = f"{self.term}: {words}" if self.term else words
            self.built.add(self.kind, text, self.lines.at(start + lead))

    def _mark(self, match: re.Match[str]) -> None:
        self.start, self.term = match.end(), ""
        if match["title"]:
            self.facts[match["title"]], self.start = _argument(self.text, match.end())
        elif match["level"]:
            words, self.start = _argument(self.text, match.end())
            self.built.heading(_plain(words), _LEVELS[match["level"]], self.lines.at(match.start()))
            self.kind = "text"
        elif match["item"]:
            self.kind, self.term = "item", _plain(match["term"] or "")
        elif name := match["code"] or match["hidden"] or match["table"]:
            self._environment(match, name)
        elif not match["blank"]:
            self.kind = "text"

    def _environment(self, match: re.Match[str], name: str) -> None:
        """What is read as a whole: code, a table, or what is left out."""
        end = self.text.find(f"\\end{{{name}", self.start)
        if end < 0:
            end = len(self.text)
        inside, line = self.text[self.start : end], self.lines.at(self.start)
        if match["code"]:
            self.built.add("code", inside, line)
        elif match["table"]:
            _add_table(self.built, inside, line)
        self.start, self.kind = end, "text"


def _add_table(built: Builder, inside: str, line: int) -> None:
    """A table row by row; the first row has the header words if all its cells are filled."""
    header: list[str] = []
    # The columns are described before the first row.
    rows = re.sub(r"^\s*(?:\{[^{}]*\}\s*){0,2}\{(?:[^{}]|\{[^{}]*\})*\}", "", inside).split("\\\\")
    for number, row in enumerate(rows):
        row = re.sub(r"\\[hc]line\b|\\(?:top|mid|bottom)rule", "", row)
        cells = [_plain(cell) for cell in re.split(r"(?<!\\)&", row)]
        if number == 0 and len(cells) > 1 and all(cells):
            header = cells
        else:
            built.row(header, cells, line)


def _argument(text: str, start: int) -> tuple[str, int]:
    """What is in the braces that have been opened, and where they close."""
    depth = 1
    for brace in _BRACE.finditer(text, start, start + _LONGEST_ARGUMENT):
        depth += 1 if brace.group() == "{" else -1
        if not depth:
            return text[start : brace.start()], brace.end()
    return "", start


def _plain(text: str) -> str:
    """Text without commands, with the letters they stand for."""
    text = _DROPPED.sub(" ", text)
    text = _ACCENT.sub(lambda match: unicodedata.normalize("NFC", match[2] + _ACCENTS[match[1]]), text)
    text = _COMMAND.sub(lambda match: _LETTERS.get(match[1], ""), text)
    text = text.replace("``", "“").replace("''", "”").replace("---", "—").replace("--", "–").replace("~", " ")
    text = re.sub(r"\\[,;:!\\]", " ", re.sub(r"(?<!\\)[{}]", "", text))
    text = re.sub(r"\\([%&_#$ {}])", r"\1", text)
    return " ".join(text.split()).replace(" ,", ",").replace(" .", ".")
