"""LaTeX: sections, paragraphs, items and tables, without commands."""

import re
import unicodedata
from collections.abc import Iterator

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import Lines, SourceFile, decode
from mundap.records import Document

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
    text = _COMMENT.sub("", decode(file.read()).replace("\r\n", "\n"))
    built = Builder()
    facts = {"title": "", "author": ""}
    lines = Lines(text)
    kind, start, term = "text", 0, ""
    opening = text.find("\\begin{document}")
    body = opening + len("\\begin{document}") if opening >= 0 else 0
    for match in _MARK.finditer(text):
        if match.start() < start:
            continue
        if match.start() >= body:
            _add(built, kind, term, lines, max(start, body), match.start())
        start, term = match.end(), ""
        if match["title"]:
            facts[match["title"]], start = _argument(text, match.end())
        elif match["level"]:
            words, start = _argument(text, match.end())
            built.heading(plain(words), _LEVELS[match["level"]], lines.at(match.start()))
            kind = "text"
        elif match["item"]:
            kind, term = "item", plain(match["term"] or "")
        elif match["code"] or match["hidden"] or match["table"]:
            name = match["code"] or match["hidden"] or match["table"]
            end = text.find(f"\\end{{{name}", start)
            inside, after = text[start : end if end >= 0 else len(text)], end if end >= 0 else len(text)
            _add_inside(built, match, inside, lines.at(start))
            start, kind = after, "text"
        elif not match["blank"]:
            kind = "text"
    _add(built, kind, term, lines, max(start, body), len(text))
    yield make_document(file, built, "latex", plain(facts["title"]), {"author": plain(facts["author"])})


def _add(built: Builder, kind: str, term: str, lines: Lines, start: int, end: int) -> None:
    written = lines.text[start:end]
    words = plain(written)
    if words:
        lead = len(written) - len(written.lstrip())
        built.add(kind, f"{term}: {words}" if term else words, lines.at(start + lead))


def _add_inside(built: Builder, match: re.Match[str], inside: str, line: int) -> None:
    """Code as it stands, and a table row by row."""
    if match["code"]:
        built.add("code", inside, line)
    elif match["table"]:
        header: list[str] = []
        # The columns are described before the first row.
        rows = re.sub(r"^\s*(?:\{[^{}]*\}\s*){0,2}\{(?:[^{}]|\{[^{}]*\})*\}", "", inside).split("\\\\")
        for number, row in enumerate(rows):
            cells = [
                plain(cell) for cell in re.split(r"(?<!\\)&", re.sub(r"\\[hc]line\b|\\(?:top|mid|bottom)rule", "", row))
            ]
            if number == 0 and len(cells) > 1 and all(cells):
                header = cells
            else:
                built.row(header, cells, line)


def _argument(text: str, start: int) -> tuple[str, int]:
    """What is in the braces that have been opened, and where they close."""
    depth = 1
    for place in range(start, min(len(text), start + 2000)):
        if text[place] == "{":
            depth += 1
        elif text[place] == "}":
            depth -= 1
            if not depth:
                return text[start:place], place + 1
    return "", start


def plain(text: str) -> str:
    """Text without commands, with the letters they stand for."""
    text = _DROPPED.sub(" ", text)
    text = _ACCENT.sub(lambda match: unicodedata.normalize("NFC", match[2] + _ACCENTS[match[1]]), text)
    text = _COMMAND.sub(lambda match: _LETTERS.get(match[1], ""), text)
    text = text.replace("``", "“").replace("''", "”").replace("---", "—").replace("--", "–").replace("~", " ")
    text = re.sub(r"\\[,;:!\\]", " ", re.sub(r"(?<!\\)[{}]", "", text))
    text = re.sub(r"\\([%&_#$ {}])", r"\1", text)
    return " ".join(text.split()).replace(" ,", ",").replace(" .", ".")
