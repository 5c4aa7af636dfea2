"""Marked-up text for manuals: reStructuredText, AsciiDoc, man pages. Read line by line, with their marks taken off."""

import re
from collections.abc import Iterator

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import SourceFile, decode
from mundap.records import Document

_ADORNMENT = re.compile(r"^([=\-`:'\"~^_*+#<>.!$%&(),/;?@\[\]\\{|}])\1{2,}\s*$")
_ITEM = re.compile(r"^\s*(?:[-*+•]|\(?(?:\d{1,3}|#|[a-zA-Z])[.)])\s+(?=\S)")
_RST_INLINE = (
    (re.compile(r":[\w:+.-]{1,40}:`(?:[!~])?([^`<]*?)\s*(?:<[^`>]*>)?`"), r"\1"),
    (re.compile(r"``([^`]+)``"), r"\1"),
    (re.compile(r"`([^`<]+?)\s*(?:<[^`>]*>)?`_{0,2}"), r"\1"),
    (re.compile(r"\*\*([^*\n]+)\*\*"), r"\1"),
    (re.compile(r"(?<![\w*])\*([^*\n]+)\*(?![\w*])"), r"\1"),
    (re.compile(r"\|([^|\n]+)\|_{0,2}"), r"\1"),
    (re.compile(r"\[#?[\w*-]{0,30}\]_"), ""),
    (re.compile(r"\\(.)"), r"\1"),
)
_DIRECTIVE = re.compile(r"^\.\.\s+(?:\|[^|]+\|\s+)?([\w:-]+)::\s*(.*)$")
_READ_DIRECTIVES = frozenset(
    "note warning tip important caution danger hint attention seealso admonition topic versionadded versionchanged "
    "deprecated rubric glossary list-table sidebar epigraph class function method attribute data option envvar confval "
    "py:class py:function py:method describe".split()
)
_CODE_DIRECTIVES = frozenset(("code", "code-block", "sourcecode", "literalinclude", "parsed-literal", "doctest"))


class _Lines:
    """Collects the lines of a paragraph until it is complete."""

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
        text = "\n".join(self.lines)
        if self.kind != "code":
            text = " ".join(text.split())
        self.built.add(self.kind, text, self.begun)
        self.lines = []
        self.kind = "text"


def read_rst(file: SourceFile) -> Iterator[Document]:
    """ReStructuredText: headings by their underlines, paragraphs, lists, literal blocks, notes."""
    built = Builder()
    block = _Lines(built)
    lines = decode(file.read()).splitlines()
    levels: list[str] = []
    literal = hidden = -1  # the indent of the line that began a literal block, or one that is not read
    for number, line in enumerate(lines, 1):
        indent = len(line) - len(line.lstrip())
        if not line.strip():
            if literal < 0:
                block.flush()
            elif block.lines:
                block.take("", number)
            continue
        if hidden >= 0 and indent > hidden:
            continue
        hidden = -1
        if literal >= 0:
            if indent > literal:
                block.take(line, number)
                continue
            block.flush()
            literal = -1
        if match := _ADORNMENT.match(line):
            _rst_heading(built, block, match.group(1), lines, number, levels)
        elif line.lstrip().startswith(".. ") or line.strip() == "..":
            block.flush()
            literal, hidden = _directive(block, line.strip(), number, indent)
        elif re.match(r"^\s*:[\w -]{1,40}:(?:\s|$)", line):
            _field(block, line, number)
        else:
            text = _inline(line, _RST_INLINE)
            if line.rstrip().endswith("::"):
                text = text.rstrip()[:-1] if line.strip() != "::" else ""
                block.take(text, number, "item" if _ITEM.match(line) else "")
                block.flush()
                literal, block.kind = indent, "code"
            else:
                block.take(_ITEM.sub("", text), number, "item" if _ITEM.match(line) else "")
    block.flush()
    yield make_document(file, built, "rst", _first_heading(built))


def _rst_heading(built: Builder, block: _Lines, mark: str, lines: list[str], number: int, levels: list[str]) -> None:
    """A line of marks: under a heading, above one, or between two parts."""
    above = block.lines[0] if len(block.lines) == 1 else ""
    if above and not above.startswith(" "):
        overlined = number > 2 and bool(_ADORNMENT.match(lines[number - 3]))
        style = mark * 2 if overlined else mark
        if style not in levels:
            levels.append(style)
        block.lines = []
        built.heading(above.strip(), levels.index(style) + 1, number - 1)
    else:
        block.flush()


def _directive(block: _Lines, text: str, number: int, indent: int) -> tuple[int, int]:
    """What follows `..`: returns the indent of a literal block and that of one that is not read, or -1."""
    match = _DIRECTIVE.match(text)
    if match is None:  # a comment, a target, a footnote
        note = re.match(r"^\.\.\s+\[[^\]]+\]\s+(.*)", text)
        if note:
            block.take(_inline(note.group(1), _RST_INLINE), number)
            return -1, -1
        return -1, indent
    name, argument = match.groups()
    if name in _CODE_DIRECTIVES:
        block.kind = "code"
        return indent, -1
    if name not in _READ_DIRECTIVES:
        return -1, indent
    if argument:
        block.take(_inline(argument, _RST_INLINE), number)
        if name not in ("note", "warning", "tip", "important", "versionadded", "versionchanged", "deprecated"):
            block.flush()
    return -1, -1


def _field(block: _Lines, line: str, number: int) -> None:
    """A field `:name: value`; options of directives have no words."""
    name, _, value = line.strip().strip(":").partition(":")
    if value.strip() and " " in value.strip():
        block.take(f"{name}: {_inline(value.strip(), _RST_INLINE)}", number, "item")


def _inline(text: str, rules: tuple[tuple[re.Pattern[str], str], ...]) -> str:
    for pattern, replacement in rules:
        text = pattern.sub(replacement, text)
    return text


def _first_heading(built: Builder) -> str:
    for block in built.blocks:
        if block.kind == "heading":
            return built.text()[block.start : block.end]
    return ""


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
_ASCIIDOC_FENCES = {
    "----": "code", "....": "code", "```": "code", "====": "", "****": "", "____": "", "--": "", "////": "hidden",
}  # fmt: skip


def read_asciidoc(file: SourceFile) -> Iterator[Document]:
    """AsciiDoc: headings, paragraphs, lists, definitions, listings, tables."""
    built = Builder()
    block = _Lines(built)
    fence, header, in_table = "", list[str](), False
    for number, line in enumerate(decode(file.read()).splitlines(), 1):
        bare = line.strip()
        opened = bare[:4] if _ASCIIDOC_FENCE.match(bare) else bare
        if fence:
            if bare == fence:
                block.flush()
                fence = ""
            elif _ASCIIDOC_FENCES[fence[:4] if len(fence) > 3 else fence] == "code":
                block.take(line, number)
        elif bare.startswith("|==="):
            block.flush()
            in_table, header = not in_table, []
        elif in_table:
            header = _asciidoc_row(built, bare, header, number)
        elif opened in _ASCIIDOC_FENCES and not (len(block.lines) == 1 and block.kind == "text" and opened != "--"):
            block.flush()
            block.kind = "code" if _ASCIIDOC_FENCES[opened] == "code" else "text"
            fence = bare if _ASCIIDOC_FENCES[opened] in ("code", "hidden") else ""
        else:
            _asciidoc_line(built, block, line, number)
    block.flush()
    yield make_document(file, built, "asciidoc", _first_heading(built))


_ASCIIDOC_FENCE = re.compile(r"^([-.=*_/])\1{3,}$")
_SECOND_LINE = {"=": 1, "-": 2, "~": 3, "^": 4, "+": 5}


def _asciidoc_line(built: Builder, block: _Lines, line: str, number: int) -> None:
    bare = line.strip()
    under = _ADORNMENT.match(bare)
    if not bare or bare == "+":
        block.flush()
    elif heading := re.match(r"^(={1,6}|#{1,6})\s+(\S.*)$", line):
        block.flush()
        built.heading(_inline(heading.group(2), _ASCIIDOC_INLINE), len(heading.group(1)), number)
    elif under and len(block.lines) == 1 and under.group(1) in _SECOND_LINE:
        title, block.lines = block.lines[0], []
        built.heading(_inline(title, _ASCIIDOC_INLINE), _SECOND_LINE[under.group(1)], number - 1)
    elif bare.startswith("//") or re.match(r"^(?::!?[\w-]+!?:|\[[^\]]*\]$|ifn?def::|endif::|include::)", bare):
        block.flush()
    elif term := _ASCIIDOC_TERM.match(line):
        _asciidoc_term(block, term.group(1), term.group(2) or "", number)
    elif item := re.match(r"^\s*(?:[*.-]{1,5}|\d{1,3}\.)\s+(?=\S)", line):
        block.take(_inline(line[item.end() :], _ASCIIDOC_INLINE), number, "item")
    else:
        block.take(_inline(line, _ASCIIDOC_INLINE), number, "")


def _asciidoc_term(block: _Lines, name: str, meaning: str, number: int) -> None:
    name = _inline(name, _ASCIIDOC_INLINE)
    if block.kind == "item" and len(block.lines) == 1 and block.lines[0].endswith(":"):
        # Several terms with one meaning.
        name = f"{block.lines.pop()[:-1]}, {name}"
    block.take(f"{name}: {_inline(meaning, _ASCIIDOC_INLINE)}".rstrip(), number, "item")


def _asciidoc_row(built: Builder, line: str, header: list[str], number: int) -> list[str]:
    """Take a line of a table; returns the header, which is its first line."""
    if not line:
        return header
    cells = [_inline(cell.strip(), _ASCIIDOC_INLINE) for cell in re.split(r"(?:^|\s)[\w.+<>^]*\|", line)][1:]
    if not header and len(cells) > 1:
        return cells
    built.row(header if len(cells) == len(header) else [], cells, number)
    return header


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
_MAN_WORDS = re.compile(r'"((?:[^"]|"")*)"|(\S+)')
_MAN_FONTS = frozenset("B I R SB SM BI BR IB IR RB RI".split())
_MAN_PARAGRAPHS = frozenset("PP P LP HP Pp RS RE sp".split())
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
    block = _Lines(built)
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
            text = _inline(line, _MAN_ESCAPES)
            term = _man_text(block, text, number, term)
    block.flush()
    yield make_document(file, built, "man", name)


def _man_words(text: str) -> list[str]:
    found = []
    for match in _MAN_WORDS.finditer(text):
        quoted, plain = match.groups()
        found.append(_inline(plain if quoted is None else quoted.replace('""', '"'), _MAN_ESCAPES))
    return found


def _man_text(block: _Lines, text: str, number: int, term: bool) -> bool:
    """Take a line of text; the first one after .TP is a term. Returns whether one is still awaited."""
    if term:
        block.take(f"{text.strip()}:", number, "item")
    elif text.strip():
        block.take(text, number)
    return False


def _man_macro(built: Builder, block: _Lines, macro: str, words: list[str], number: int, term: bool) -> bool:
    """Obey a macro; returns whether the next line is a term."""
    text = " ".join(words)
    if macro in ("SH", "Sh", "SS", "Ss"):
        block.flush()
        built.heading(text.title() if text.isupper() else text, 2 if macro in ("SH", "Sh") else 3, number)
    elif macro in ("TP", "TQ"):
        block.flush()
        return True
    elif macro == "IP" or macro == "It":
        block.take(f"{_mdoc(words)}:" if words and words[0] not in ("•", "-", "\\(bu") else "", number, "item")
    elif macro in _MAN_PARAGRAPHS:
        block.flush()
    elif macro in ("nf", "EX", "Bd"):
        block.flush()
        block.kind = "code"
    elif macro in ("fi", "EE"):
        block.flush()
    elif macro in _MAN_DROPPED:
        return term
    elif shown := _man_shown(macro, words):
        return _man_text(block, shown, number, term)
    return term and macro in _MAN_FONTS  # alone on its line, it is for the next one


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
