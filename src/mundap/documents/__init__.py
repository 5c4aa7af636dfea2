"""From files to documents. `find` lists what there is to read, `read` reads one file, `Splitter` cuts."""

import zipfile
from collections.abc import Callable, Iterator
from dataclasses import replace

from mundap.documents import (
    latex,
    mail,
    markup,
    notebook,
    office,
    opendocument,
    pdf,
    plain,
    rows,
    rst,
    rtf,
    source_code,
)
from mundap.documents.archive import OLD_OFFICE
from mundap.documents.files import STREAM_ERRORS, NoDocument, SourceFile, Unreadable, explain
from mundap.documents.html import read_html
from mundap.documents.split import Splitter
from mundap.documents.trec import read_trec
from mundap.documents.walk import find
from mundap.documents.wikipedia import is_index, looks_like_dump, read_wikipedia
from mundap.records import Document, Skipped

__all__ = ["FORMATS", "SUFFIXES", "SourceFile", "Splitter", "detect", "find", "read"]

Reader = Callable[[SourceFile], Iterator[Document | Skipped]]

FORMATS: dict[str, Reader] = {
    "text": plain.read_text,
    "markdown": plain.read_markdown,
    "html": read_html,
    "pdf": pdf.read_pdf,
    "docx": office.read_docx,
    "pptx": office.read_pptx,
    "xlsx": office.read_xlsx,
    "csv": rows.read_csv,
    "opendocument": opendocument.read_opendocument,
    "epub": opendocument.read_epub,
    "rtf": rtf.read_rtf,
    "email": mail.read_eml,
    "mbox": mail.read_mbox,
    "notebook": notebook.read_notebook,
    "rst": rst.read_rst,
    "asciidoc": markup.read_asciidoc,
    "man": markup.read_man,
    "latex": latex.read_latex,
    "subtitles": plain.read_subtitles,
    "code": source_code.read_code,
    "jsonl": rows.read_jsonl,
    "tsv": rows.read_tsv,
    "json": rows.read_json,
    "trec": read_trec,
    "wikipedia": read_wikipedia,
}
"""The readers by the names that `--format` takes."""

SUFFIXES: dict[str, str] = {
    ".md": "markdown",
    ".markdown": "markdown",
    ".html": "html",
    ".htm": "html",
    ".xhtml": "html",
    ".pdf": "pdf",
    ".docx": "docx",
    ".docm": "docx",
    ".pptx": "pptx",
    ".pptm": "pptx",
    ".xlsx": "xlsx",
    ".xlsm": "xlsx",
    ".csv": "csv",
    ".odt": "opendocument",
    ".odp": "opendocument",
    ".ods": "opendocument",
    ".epub": "epub",
    ".rtf": "rtf",
    ".eml": "email",
    ".mbox": "mbox",
    ".ipynb": "notebook",
    ".rst": "rst",
    ".adoc": "asciidoc",
    ".asciidoc": "asciidoc",
    ".tex": "latex",
    ".latex": "latex",
    ".srt": "subtitles",
    ".vtt": "subtitles",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".tsv": "tsv",
    ".json": "json",
    **dict.fromkeys(
        ".py .pyi .js .mjs .ts .tsx .jsx .java .c .h .cc .cpp .hpp .cs .go .rs .rb .php .swift .kt .scala .sh .bash "
        ".sql .lua .pl .pm .hs .jl .ps1".split(),
        "code",
    ),
}
"""The format of each suffix. Without one of these a file is told by its first bytes, else it is plain text."""

NOT_DOCUMENTS = frozenset(
    ".png .jpg .jpeg .gif .bmp .tif .tiff .webp .ico .svg .xpm .xbm .psd .heic .avif .css .scss .less .map .woff "
    ".woff2 .ttf .otf .eot .mp3 .mp4 .m4a .wav .ogg .flac .avi .mkv .mov .webm .zip .tar .tgz .7z .rar .jar .war .deb "
    ".rpm .iso .so .o .a .dll .dylib .exe .pyc .pyo .class .wasm .whl .bin .db .sqlite .sqlite3 .parquet .arrow .npy "
    ".npz .onnx .pt .safetensors .pickle .pkl .inv .doctree .mo .lock".split()
)
"""Suffixes of files that nobody expects to be read."""

_IN_ARCHIVES = ("docx", "pptx", "xlsx", "opendocument", "epub")
_ZIPPED = (
    ("word/document.xml", "docx"),
    ("ppt/presentation.xml", "pptx"),
    ("xl/workbook.xml", "xlsx"),
    ("META-INF/container.xml", "epub"),
    ("content.xml", "opendocument"),
)


def read(file: SourceFile, form: str | None = None) -> Iterator[Document | Skipped]:
    """Yield the documents of a file; for what cannot be read, the reason instead.

    Args:
        file: What to read.
        form: A name in `FORMATS`; by default detected from the file's name and first bytes.
    """
    try:
        for found in FORMATS[form or detect(file)](file):
            yield found if isinstance(found, Skipped) else _storable(found)
    except NoDocument as error:
        yield Skipped(file.source, str(error), expected=True)
    except STREAM_ERRORS as error:
        yield Skipped(file.source, explain(error))
    except MemoryError:  # the reader of files says what is to be done
        raise
    except Exception as error:  # one bad file must not stop a build, whatever a parser makes of it
        yield Skipped(file.source, f"cannot be read ({type(error).__name__}: {str(error)[:200]})")


def detect(file: SourceFile) -> str:
    """Detect a file's format from its name and first bytes.

    Raises:
        NoDocument: It is a picture, a font, a program or the like.
        Unreadable: It is in an old format.
    """
    name = file.path.name.lower()
    if file.suffix in NOT_DOCUMENTS or name.endswith(".min.js"):
        raise NoDocument(f"{file.suffix} files are not documents")
    if is_index(file.path.name):
        return "wikipedia"
    with file.open() as stream:
        head = stream.read(4096)
    known = "rst" if name.endswith(".rst.txt") else SUFFIXES.get(file.suffix)  # Sphinx shows its sources so
    return _by_magic(file, head, known) or known or _by_content(file, head)


def _by_magic(file: SourceFile, head: bytes, known: str | None) -> str | None:
    """The format of a file whose first bytes leave no doubt, whatever its name says."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    if start.startswith(b"%PDF-"):
        return "pdf"
    if start.startswith(b"{\\rtf"):
        return "rtf"
    if head.startswith(OLD_OFFICE) and known not in _IN_ARCHIVES:  # those have a reason of their own
        raise Unreadable("an old Office file: save it as DOCX, XLSX or PPTX")
    if head.startswith(b"PK\x03\x04"):
        return _zipped(file) or known
    if known in _IN_ARCHIVES and start.lower().startswith((b"<!doctype html", b"<html")):
        return "html"  # as many programs write "Excel" files
    if head.startswith(
        (b"\x89PNG", b"\xff\xd8\xff", b"GIF8", b"\x7fELF", b"OggS", b"SQLite format 3", b"wOF", b"MZ\x90")
    ):
        raise NoDocument("binary file, not text")
    return None


def _zipped(file: SourceFile) -> str | None:
    try:
        with zipfile.ZipFile(file.path) as archive:
            names = set(archive.namelist())
    except (zipfile.BadZipFile, ValueError, NotImplementedError, OSError):
        return None
    for name, form in _ZIPPED:
        if name in names:
            return form
    raise NoDocument("an archive: unpack it first")


def _by_content(file: SourceFile, head: bytes) -> str:
    """The format of a file whose name does not tell."""
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n").lower()
    signs = {
        "wikipedia": looks_like_dump(head),
        "html": start.startswith((b"<!doctype html", b"<html")),
        "trec": start.startswith(b"<doc>") and b"<docno>" in start,
        "jsonl": start.startswith(b'{"') and not file.suffix,
        "tsv": start.startswith(b"id\ttext"),
        "mbox": head.startswith(b"From ") and b"\nDate:" in head,
        "man": _looks_like_man(head),
        "code": head.startswith(b"#!") and b"python" in head[:80],
    }
    return next((form for form, is_there in signs.items() if is_there), "text")


def _looks_like_man(head: bytes) -> bool:
    return head.startswith((b".TH ", b'.\\"', b"'\\\"", b".Dd ")) or b"\n.TH " in head or b"\n.Sh NAME" in head


def _storable(document: Document) -> Document:
    """JSON may hold lone surrogates, which no file can: they become the replacement character."""
    sections = [block.section for block in document.blocks]
    try:
        parts = [document.id, document.title, document.text, *document.metadata, *document.metadata.values()]
        "".join(parts + sections).encode()
        return document
    except UnicodeEncodeError:
        facts = {_clean(key): _clean(value) for key, value in document.metadata.items()}
        blocks = tuple(block._replace(section=_clean(block.section)) for block in document.blocks)
        return replace(
            document,
            id=_clean(document.id),
            text=_clean(document.text),
            title=_clean(document.title),
            metadata=facts,
            blocks=blocks,
        )


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode()
