"""Documents that are ZIP archives of XML (Office, OpenDocument, EPUB), opened with limits on everything in them."""

import io
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any

from mundap.documents.files import MAX_FILE, Unreadable

_MOST_PARTS = 20_000
_MOST_XML = 128 << 20  # bytes of one part; parsed it takes several times as much
_MOST_RATIO = 300  # of unpacked to packed: text packs ten times smaller, a bomb a thousand times
_SMALL = 20 << 20  # unpacked bytes below which the ratio does not matter
_MOST_TEXT = 16 << 20
_TEXT_RATIO = 4  # of text to XML: there is less of it, unless a cell is a reference to a long string
OLD_OFFICE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
"""How old Office files begin, and new ones with a password."""


class Archive:
    """An opened archive.

    Args:
        data: The file's content.
        what: What it should be, for messages: `DOCX`.

    Raises:
        Unreadable: It is no such file, is protected by a password, or would unpack to far more than it should.
    """

    def __init__(self, data: bytes, what: str) -> None:
        self.what = what
        if data.startswith(OLD_OFFICE):
            raise Unreadable(f"password-protected, or in an old Office format: save it as {what} without a password")
        try:
            self._zip = zipfile.ZipFile(io.BytesIO(data))
        except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError, EOFError) as error:
            raise Unreadable(f"not a readable {what} file ({error})") from error
        self.names = set(self._zip.namelist())
        entries = self._zip.infolist()
        unpacked = sum(entry.file_size for entry in entries)
        if len(entries) > _MOST_PARTS or unpacked > MAX_FILE:
            raise Unreadable(f"unpacks to more than {MAX_FILE >> 20} MB or {_MOST_PARTS:,} parts")
        if unpacked > _SMALL and unpacked > _MOST_RATIO * max(len(data), 1):
            raise Unreadable(f"a ZIP bomb: {len(data):,} bytes that unpack to {unpacked:,}")
        if any(entry.flag_bits & 1 for entry in entries):
            raise Unreadable(f"password-protected {what} file: save a copy without the password")
        self.most_text = _MOST_TEXT + _TEXT_RATIO * unpacked  # characters that it can honestly have

    def read(self, name: str) -> bytes:
        """A part of the archive.

        Raises:
            Unreadable: It is not there, damaged or too large.
        """
        try:
            with self._zip.open(name) as part:
                data = part.read(_MOST_XML + 1)  # what the archive says of its sizes may be wrong
        except KeyError:
            raise Unreadable(f"not a readable {self.what} file (it has no {name})") from None
        except (zipfile.BadZipFile, zlib.error, EOFError, NotImplementedError, RuntimeError, OSError) as error:
            raise Unreadable(f"damaged {self.what} file ({name}: {error})") from error
        if len(data) > _MOST_XML:
            raise Unreadable(f"{name} in it is larger than {_MOST_XML >> 20} MB")
        return data

    def xml(self, name: str) -> Any:
        """A part as an element tree."""
        return _parse_xml(self.read(name), f"{self.what} file ({name})")

    def optional(self, name: str) -> Any:
        """The same; None if there is no such part."""
        return self.xml(name) if name in self.names else None

    def rows(self, name: str, tag: str) -> Iterator[Any]:
        """The elements of one name in a part that may be large, one at a time."""
        from lxml import etree

        data = self.read(name)
        _refuse_entities(data, f"{self.what} file ({name})")
        try:
            for _, element in etree.iterparse(
                io.BytesIO(data), tag=tag, resolve_entities=False, no_network=True, load_dtd=False
            ):
                yield element
                element.clear()
                while element.getprevious() is not None:
                    del element.getparent()[0]
        except etree.LxmlError as error:
            raise Unreadable(f"damaged {self.what} file ({name}: {error})") from error

    def related(self, part: str) -> dict[str, tuple[str, str]]:
        """Which parts another one of an Office file refers to: id -> (kind, name)."""
        folder, _, name = part.rpartition("/")
        tree = self.optional(f"{folder}/_rels/{name}.rels")
        found = {}
        for one in tree if tree is not None else ():
            kind = one.get("Type", "").rpartition("/")[2]
            found[one.get("Id", "")] = (kind, _resolved(folder, one.get("Target", "")))
        return found


def _resolved(folder: str, target: str) -> str:
    """A name inside an archive, seen from a folder of it."""
    parts = [] if target.startswith("/") else folder.split("/")
    for part in target.split("/"):
        if part == ".." and parts:
            parts.pop()
        elif part not in ("", ".", ".."):
            parts.append(part)
    return "/".join(part for part in parts if part)


def _parse_xml(data: bytes, what: str) -> Any:
    """An element tree, without entities, network and endless nesting.

    Raises:
        Unreadable: It is not XML.
    """
    from lxml import etree

    _refuse_entities(data, what)
    parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, remove_comments=True)
    try:
        return etree.fromstring(data, parser)
    except (etree.LxmlError, ValueError) as error:
        raise Unreadable(f"not a readable {what} ({error})") from error


def _refuse_entities(data: bytes, what: str) -> None:
    """A few entities that name each other grow without end; no writer of documents uses them."""
    if b"<!ENTITY" in data[:100_000]:
        raise Unreadable(f"{what} declares XML entities, which no such file needs")


def local(element: Any) -> str:
    """The name of an element without its namespace."""
    tag = element.tag
    return tag.rpartition("}")[2] if isinstance(tag, str) else ""
