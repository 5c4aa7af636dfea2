"""Marked-up text for manuals: AsciiDoc and man pages. Read line by line, with their marks taken off."""

import re
from collections.abc import Iterator

from mundap.documents.blocks import Builder, Table, first_heading, make_document
from mundap.documents.files import SourceFile, decode
from mundap.records import Document

ADORNMENT = re.compile(r"^([=\-`:'\"~^_*+#<>.!$%&(),/;?@\[\]\\{|}])\1{2,}\s*$")
"""A line of marks, under or above a heading."""


class Paragraphs:
    """Builds blocks of lines: collects those of a paragraph, an item or code until it is complete."""

    def __init__(self, built: Builder) -> None:
        self.built = built
        self.lines: list[str] = []
        self.kind = "text"
        self.begun = 0

    def take(self, line: str, number: int, kind: str = "") -> None:
        """Add a line; with a kind it begins a new block."""
        if kind:
            self.flush()
            self.kind = kind
        if not self.lines:
            self.begun = number
        self.lines.append(line)

    def flush(self) -> None:
        """The lines so far are a block."""
        lines = self.lines
        if self.kind != "code":
            lines = [" ".join(line.split()) for line in lines]
        text = "\n".join(lines)
        self.built.add(self.kind, text, self.begun)
        self.lines = []
        self.kind = "text"


def inline(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    """A line without its marks, by the rules of its format."""
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


_ASCIIDOC_INLINE = (
    (re.compile(r"(?:link|xref|mailto|linkgit|https?|image|kbd|btn|menu):{1,2}[^\s\[\]]{0,500}\[([^\]\n]*)\]"), r"\1"),
    (re.compile(r"<<[^<>,\n]+(?:,\s*([^<>\n]+))?>>"), r"\1"),
    (re.compile(r"(?<!\w)`\+?([^`\n]+?)\+?`(?!\w)"), r"\1"),
    (re.compile(r"(?<!\w)\*{1,2}([^*\n]+)\*{1,2}(?!\w)"), r"\1"),
    (re.compile(r"(?<!\w)_{1,2}([^_\n]+)_{1,2}(?!\w)"), r"\1"),
    (re.compile(r"(?<!\w)['+]([^'+\n]+)['+](?!\w)"), r"\1"),
    (re.compile(r"\{(?:nbsp|empty|zwsp)\}"), " "),
    (re.compile(r"\[\[[^\]\n]*\]\]|\(\(\([^)\n]*\)\)\)"), ""),
)
_ASCIIDOC_TERM = re.compile(r"^\s*(\S[^\n]*?)(?:::{1,2}|;;)(?:\s+(\S.*))?$")
_ASCIIDOC_UNREAD = re.compile(r"^(?::!?[\w-]+!?:|\[[^\]]*\]$|ifn?def::|endif::|include::)")
_ASCIIDOC_ITEM = re.compile(r"^\s*(?:[*.-]{1,5}|\d{1,3}\.)\s+(?=\S)")
_ASCIIDOC_CELL = re.compile(r"(?:^|\s)[\w.+<>^]*\|")
_ASCIIDOC_FENCES = {
    "----": "code", "....": "code", "```": "code", "====": "", "****": "", "____": "", "--": "", "////": "hidden",
}  # fmt: skip


def read_asciidoc(file: SourceFile) -> Iterator[Document]:
    """AsciiDoc: headings, paragraphs, lists, definitions, listings, tables."""
    reader = _AsciiDoc()
    for number, line in enumerate(decode(file.read()).splitlines(), 1):
        reader.take(line, number)
    reader.end()
    yield make_document(file, reader.built, "asciidoc", first_heading(reader.built))


class _AsciiDoc:
    """Takes the lines of a file."""

    def __init__(self) -> None:
        self.built = Builder()
        self.block = Paragraphs(self.built)
        self.fence = ""  # the line that will end what is fenced, and what that is
        self.fenced = ""
        self.attributes = ""  # as the last line in brackets has them
        self.table: list[tuple[int, str]] | None = None

    def take(self, line: str, number: int) -> None:
        """The next line."""
        bare = line.strip()
        if self.fence:
            self._inside(line, number)
        elif bare.startswith("|==="):
            self._border()
        elif self.table is not None:
            self.table.append((number, bare))
        elif not self._opens(bare):
            if bare.startswith("[") and bare.endswith("]"):
                self.attributes = bare
            _asciidoc_line(self.built, self.block, line, number)

    def end(self) -> None:
        """There are no more lines."""
        self.block.flush()
        if self.table:
            _add_asciidoc_table(self.built, self.table, self.attributes)

    def _inside(self, line: str, number: int) -> None:
        if line.strip() == self.fence:
            self.block.flush()
            self.fence = ""
        elif self.fenced == "code":
            self.block.take(line, number)

    def _opens(self, bare: str) -> bool:
        """Whether a line opens a fenced block. Under a single line of text it is rather an underline."""
        mark = bare[:4] if _ASCIIDOC_FENCE.match(bare) else bare
        is_underline = len(self.block.lines) == 1 and self.block.kind == "text" and mark != "--"
        if mark not in _ASCIIDOC_FENCES or is_underline:
            return False
        self.block.flush()
        self.fenced = _ASCIIDOC_FENCES[mark]
        if self.fenced:
            self.fence = bare
        if self.fenced == "code":
            self.block.kind = "code"
        return True

    def _border(self) -> None:
        """A table begins or ends."""
        self.block.flush()
        if self.table is None:
            self.table = []
            return
        _add_asciidoc_table(self.built, self.table, self.attributes)
        self.table, self.attributes = None, ""


_ASCIIDOC_FENCE = re.compile(r"^([-.=*_/])\1{3,}$")
_SECOND_LINE = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}


def _asciidoc_line(built: Builder, block: Paragraphs, line: str, number: int) -> None:
    bare = line.strip()
    if not bare or bare == "+":
        block.flush()
    elif _asciidoc_heading(built, block, line, number):
        return
    elif bare.startswith("//") or _ASCIIDOC_UNREAD.match(bare):
        block.flush()
    elif term := _ASCIIDOC_TERM.match(line):
        _asciidoc_term(block, term.group(1), term.group(2) or "", number)
    elif item := _ASCIIDOC_ITEM.match(line):
        block.take(inline(line[item.end() :], _ASCIIDOC_INLINE), number, "item")
    else:
        block.take(inline(line, _ASCIIDOC_INLINE), number)


def _asciidoc_heading(built: Builder, block: Paragraphs, line: str, number: int) -> bool:
    """Add a heading, if a line is one or underlines one."""
    if heading := re.match(r"^(={1,6}|#{1,6})\s+(\S.*)$", line):
        block.flush()
        built.heading(inline(heading.group(2), _ASCIIDOC_INLINE), len(heading.group(1)), number)
        return True
    under = ADORNMENT.match(line.strip())
    if under and len(block.lines) == 1 and under.group(1) in _SECOND_LINE:
        title, block.lines = block.lines[0], []
        built.heading(inline(title, _ASCIIDOC_INLINE), _SECOND_LINE[under.group(1)], number - 1)
        return True
    return False


def _asciidoc_term(block: Paragraphs, name: str, meaning: str, number: int) -> None:
    name = inline(name, _ASCIIDOC_INLINE)
    if block.kind == "item" and len(block.lines) == 1 and block.lines[0].endswith(":"):
        # Several terms with one meaning.
        name = f"{block.lines.pop()[:-1]}, {name}"
    block.take(f"{name}: {inline(meaning, _ASCIIDOC_INLINE)}".rstrip(), number, "item")


def _add_asciidoc_table(built: Builder, lines: list[tuple[int, str]], attributes: str) -> None:
    """A table, whose rows may stand on a line each, or their cells."""
    table = Table(built)
    rows = _asciidoc_rows(lines, attributes)
    first = next((line for _, line in lines if line), "")
    has_header = "header" in attributes or len(_ASCIIDOC_CELL.findall(first)) > 1
    for position, (number, cells) in enumerate(rows):
        words = [inline(" ".join(cell.split()), _ASCIIDOC_INLINE) for cell in cells]
        if position == 0 and has_header:
            table.header(words, number)
        else:
            table.plain(words, number)
    table.end()


def _asciidoc_rows(lines: list[tuple[int, str]], attributes: str) -> list[tuple[int, list[str]]]:
    """The rows of a table: a row is complete when it has as many cells as the first line, or as the table says."""
    rows: list[tuple[int, list[str]]] = []
    width = 0
    for number, line in lines:
        rest, *cells = _ASCIIDOC_CELL.split(line)
        if rows and rest.strip():  # the last cell goes on
            rows[-1][1][-1] += f" {rest}"
        if not cells:
            continue
        width = width or max(len(cells), _asciidoc_columns(attributes))
        if rows and len(rows[-1][1]) < width:
            rows[-1][1].extend(cells)
        else:
            rows.append((number, cells))
    return rows


def _asciidoc_columns(attributes: str) -> int:
    """How many columns `[cols="1,2"]` or `[cols="3*"]` names; 0 if it says nothing of them."""
    found = re.search(r"cols\s*=\s*(?:\"([^\"]*)\"|([^,\]]*))", attributes)
    if found is None:
        return 0
    columns = found.group(1) or found.group(2) or ""
    repeated = re.match(r"\s*(\d{1,3})\*", columns)
    return int(repeated.group(1)) if repeated else len(re.split("[,;]", columns))


_MAN_ESCAPES = (
    (re.compile(r"\\f(?:\[[^\]]*\]|\(..|.)"), ""),
    (re.compile(r"\\s[+-]?\d{1,2}"), ""),
    (re.compile(r"\\\*?\((?:lq|rq|Lq|Rq)|\\\*?\[(?:lq|rq)\]"), '"'),
    (re.compile(r"\\\((?:aq|cq|oq)|\\\[(?:aq|cq|oq)\]"), "'"),
    (re.compile(r"\\\(em|\\\[em\]"), "—"),
    (re.compile(r"\\\(en|\\\[en\]"), "–"),
    (re.compile(r"\\\((?:bu|\[bu\])|\\\[bu\]"), "•"),
    (re.compile(r"\\\((?:co|\[co\])"), "©"),
    (re.compile(r"\\\[[^\]]*\]|\\\(.."), ""),
    (re.compile(r"\\[~ 0]"), " "),
    (re.compile(r"\\-"), "-"),
    (re.compile(r'\\".*$'), ""),
    (re.compile(r"\\e"), r"\\\\"),
    (re.compile(r"\\[&|^/,:%c!zd{}]"), ""),
)
_MAN_HEADINGS = {"SH": 2, "Sh": 2, "SS": 3, "Ss": 3}
_MAN_WORDS = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_MAN_FONTS = frozenset("B I R SB SM BI BR IB IR RB RI".split())
_MAN_PARAGRAPHS = frozenset("PP P LP HP Pp RS RE sp fi EE".split())
_MAN_DROPPED = frozenset(
    "TH Dd Dt Os de ie el if ds nr rm so ad na hy nh in ti ta ne ft UE ME PD IX tr ll pl fam als am Bl El Ed Re Rs Bk "
    "Ek Xo Xc".split()
)
_MDOC_FLAGS = {
    "Fl": "-",
    **dict.fromkeys("Cm Ar Pa Nm Xr Em Sy Ic Li Dv Ev Va Op Dq Sq Ql Pq Qq No Ns".split(), ""),
}


def read_man(file: SourceFile) -> Iterator[Document]:
    """A manual page (man or mdoc): sections, options with what they mean, examples."""
    built = Builder()
    block = Paragraphs(built)
    name, term = "", False
    for number, line in enumerate(decode(file.read()).splitlines(), 1):
        if line.startswith((".", "'")) and len(line) > 1:
            macro, _, rest = line[1:].lstrip().partition(" ")
            words = _man_words(rest)
            if macro in ("TH", "Dt") and words:
                name = f"{words[0].lower()}({words[1]})" if len(words) > 1 else words[0].lower()
            term = _man_macro(built, block, macro, words, number, term)
        elif line.startswith('\\"') or not line.strip():
            block.flush()
        else:
            text = inline(line, _MAN_ESCAPES)
            term = _man_text(block, text, number, term)
    block.flush()
    yield make_document(file, built, "man", name)


def _man_words(text: str) -> list[str]:
    found = []
    for match in _MAN_WORDS.finditer(text):
        quoted, plain = match.groups()
        found.append(inline(plain if quoted is None else quoted.replace('""', '"'), _MAN_ESCAPES))
    return found


def _man_text(block: Paragraphs, text: str, number: int, term: bool) -> bool:
    """Take a line of text; the first one after .TP is a term. Returns whether one is still awaited."""
    if term:
        block.take(f"{text.strip()}:", number, "item")
    elif text.strip():
        block.take(text, number)
    return False


def _man_macro(built: Builder, block: Paragraphs, macro: str, words: list[str], number: int, term: bool) -> bool:
    """Obey a macro; returns whether the next line is a term."""
    text = " ".join(words)
    if macro in _MAN_HEADINGS:
        block.flush()
        built.heading(text.title() if text.isupper() else text, _MAN_HEADINGS[macro], number)
    elif macro in ("TP", "TQ"):
        block.flush()
        return True
    elif macro in ("IP", "It"):
        block.take(_man_term(words), number, "item")
    elif macro in _MAN_PARAGRAPHS:
        block.flush()
    elif macro in ("nf", "EX", "Bd"):
        block.flush()
        block.kind = "code"
    elif macro in _MAN_DROPPED:
        return term
    elif shown := _man_shown(macro, words):
        return _man_text(block, shown, number, term)
    return term and macro in _MAN_FONTS  # alone on its line, it is for the next one


def _man_term(words: list[str]) -> str:
    """The beginning of an item: what it is about, unless that is a bullet."""
    if not words or words[0] in ("•", "-", "\\(bu"):
        return ""
    return f"{_mdoc(words)}:"


def _man_shown(macro: str, words: list[str]) -> str:
    """The words of a macro that changes only how they look, or that is not known."""
    if macro in _MAN_FONTS:
        alternates = len(macro) == 2 and macro not in ("SB", "SM")
        return ("" if alternates else " ").join(words)
    if macro == "Nd":
        return _mdoc(["—", *words])
    if macro in ("UR", "MT", "Lk") or macro in _MDOC_FLAGS:
        return _mdoc([macro, *words])
    return " ".join(words) if macro.isalpha() else ""


def _mdoc(words: list[str]) -> str:
    """Words among which mdoc has more macros: `Fl v Ar file` is `-v file`."""
    parts: list[str] = []
    prefix = ""
    for word in words:
        if word in _MDOC_FLAGS:
            prefix = _MDOC_FLAGS[word]
        else:
            parts.append(prefix + word)
            prefix = ""
    return " ".join(parts)
