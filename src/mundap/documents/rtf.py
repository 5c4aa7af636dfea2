"""Rich Text Format."""

import re
from collections.abc import Iterator
from typing import NamedTuple

from mundap.documents.blocks import Builder, Table, make_document
from mundap.documents.files import SourceFile, Unreadable
from mundap.records import Document

_TOKEN = re.compile(
    rb"\\([a-zA-Z]{1,32})(-?\d{1,10})?[ ]?|\\'([0-9a-fA-F]{2})|\\([^a-zA-Z])|([{}])|[\r\n]+|([^\\{}\r\n]+)"
)
_HIDDEN = frozenset(
    b"fonttbl colortbl stylesheet pict object header footer headerl headerr footerl footerr themedata datastore info "
    b"generator listtable listoverridetable rsidtbl latentstyles xmlnstbl fldinst bkmkstart bkmkend filetbl "
    b"revtbl".split()
)
_LETTERS = {b"emdash": "—", b"endash": "–", b"bullet": "•", b"lquote": "‘", b"rquote": "’", b"ldblquote": "“",
            b"rdblquote": "”", b"tab": " ", b"line": " "}  # fmt: skip
_SYMBOLS = {b"~": " ", b"_": "-", b"\\": "\\", b"{": "{", b"}": "}"}
_STATES = frozenset((b"uc", b"ansicpg", b"f", b"fcharset", b"title"))
_DEEPEST = 10_000
_PAGES = {0: "cp1252", 128: "cp932", 129: "cp949", 134: "gbk", 136: "cp950", 161: "cp1253", 162: "cp1254",
          177: "cp1255", 178: "cp1256", 186: "cp1257", 204: "cp1251", 222: "cp874", 238: "cp1250"}  # fmt: skip
"""The encodings that fonts say they have."""


def read_rtf(file: SourceFile) -> Iterator[Document]:
    """Paragraphs and table rows of an RTF file."""
    data = file.read()
    if not data.lstrip().startswith(b"{\\rtf"):
        raise Unreadable("not a readable RTF file")
    reader = _Reader(data)
    reader.run()
    yield make_document(file, reader.built, "rtf", reader.title)


class _Group(NamedTuple):
    """What holds until a brace is closed: whether its text is shown, what follows a Unicode letter, the encoding."""

    hidden: bool
    fallback: int
    name: str
    encoding: str


class _Reader:
    """Goes through the file once."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.built = Builder()
        self.title = ""
        self.group = _Group(False, 1, "", "cp1252")
        self.font = -1
        self.fonts: dict[int, str] = {}
        self.parts: list[str] = []
        self.raw = bytearray()  # bytes of an older encoding, of which a letter may take two
        self.cells: list[str] = []
        self.table: Table | None = None
        self.outline = -1
        self.skip = 0  # characters after \\u that stand for it where Unicode is not known

    def run(self) -> None:
        """Read all of it."""
        stack: list[_Group] = []
        for match in _TOKEN.finditer(self.data):
            word, number, code, symbol, brace, text = match.groups()
            if brace:
                self._brace(brace, stack)
            elif word:
                self._word(word, int(number) if number else None)
            elif code:
                self._byte(int(code, 16))
            elif symbol:
                self._symbol(symbol)
            elif text:
                self._take(text.decode("latin-1")[self.skip :])
                self.skip = max(0, self.skip - len(text))
        self._paragraph()
        if self.table:
            self.table.end()

    def _brace(self, brace: bytes, stack: list[_Group]) -> None:
        """A group begins or ends; what it changed ends with it."""
        if brace == b"{":
            stack.append(self.group)
            if len(stack) > _DEEPEST:
                raise Unreadable(f"nested more than {_DEEPEST:,} levels deep")
            return
        if self.group.name == "title":
            self.title = self._text().strip()
        if stack:
            self._decode()
            self.group = stack.pop()

    def _word(self, word: bytes, value: int | None) -> None:
        """A control word. Those that change the state count in text that is not shown, too."""
        if word in _HIDDEN:
            self.group = self.group._replace(hidden=True, name=word.decode())
        elif word in _STATES:
            self._state(word, value or 0)
        elif word == b"u" and value is not None:
            self._take(chr(value % 0x10000))
            self.skip = self.group.fallback
        elif word == b"bin" and value:
            raise Unreadable("binary data inside: save it as DOCX")
        elif not self.group.hidden:
            self._control(word, value or 0)

    def _state(self, word: bytes, value: int) -> None:
        """What the title is, what stands for a Unicode letter, and the encoding."""
        if word == b"uc":
            self.group = self.group._replace(fallback=max(0, min(value, 10)))
        elif word == b"ansicpg" and value:
            self.group = self.group._replace(encoding=f"cp{value}")
        elif word == b"f":
            self._use_font(value)
        elif word == b"fcharset" and self.group.name == "fonttbl" and value in _PAGES:
            self.fonts[self.font] = _PAGES[value]
        elif word == b"title" and self.group.name == "info":
            self.parts, self.raw = [], bytearray()
            self.group = self.group._replace(name="title")

    def _use_font(self, number: int) -> None:
        self.font = number
        if not self.group.hidden and number in self.fonts:
            self._decode()
            self.group = self.group._replace(encoding=self.fonts[number])

    def _byte(self, value: int) -> None:
        if self.skip:
            self.skip -= 1
        elif not self.group.hidden:
            self.raw.append(value)

    def _symbol(self, symbol: bytes) -> None:
        if symbol == b"*":
            self.group = self.group._replace(hidden=True)
        elif symbol in _SYMBOLS:
            self._take(_SYMBOLS[symbol])

    def _take(self, text: str) -> None:
        if not self.group.hidden or self.group.name == "title":
            self._decode()
            self.parts.append(text)

    def _decode(self) -> None:
        if self.raw:
            try:
                self.parts.append(self.raw.decode(self.group.encoding, "replace"))
            except LookupError:
                self.parts.append(self.raw.decode("cp1252", "replace"))
            self.raw = bytearray()

    def _text(self) -> str:
        self._decode()
        text = "".join(self.parts)
        self.parts = []
        # A letter beyond the first plane comes as two halves.
        return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

    def _control(self, word: bytes, value: int) -> None:
        if word in (b"par", b"sect", b"page"):
            self._paragraph()
        elif word == b"cell":
            self.cells.append(" ".join(self._text().split()))
        elif word == b"row":
            self._row()
        elif word == b"pard":
            self.outline = -1
        elif word == b"outlinelevel":
            self.outline = value
        elif word in _LETTERS:
            self._take(_LETTERS[word])

    def _paragraph(self) -> None:
        text = " ".join(self._text().split())
        if self.cells:  # a paragraph inside a cell
            return
        if text and self.table:
            self.table.end()
            self.table = None
        if 0 <= self.outline < 9:
            self.built.heading(text, self.outline + 1)
        elif text.startswith(("• ", "· ", "- ")):
            self.built.add("item", text)
        else:
            self.built.add("text", text)

    def _row(self) -> None:
        self.table = self.table or Table(self.built)
        self.table.row(self.cells)
        self.cells = []
