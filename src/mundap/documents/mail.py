"""E-mail: single messages (.eml) and mailboxes (.mbox)."""

import email
import email.policy
from collections.abc import Iterator
from email.errors import MessageError
from email.message import EmailMessage
from email.utils import parsedate_to_datetime
from itertools import islice
from typing import Any

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import MAX_LINE, SourceFile, Unreadable, decode
from mundap.documents.html import add_html, parse_html
from mundap.documents.plain import text_blocks
from mundap.records import Document, Skipped

_MOST_PARTS = 1000
_LONGEST_HEADER = 2000  # characters: the library takes time by their square, and nobody writes longer ones


class _Policy(email.policy.EmailPolicy):
    """The library's own, with headers cut before they are looked into."""

    def header_source_parse(self, sourcelines: Any) -> tuple[str, str]:
        """The name and the value of a header."""
        name, value = super().header_source_parse(sourcelines)
        return name, value[:_LONGEST_HEADER]


_POLICY = _Policy()


def read_eml(file: SourceFile) -> Iterator[Document]:
    """One message."""
    yield _message(file, file.read())


def read_mbox(file: SourceFile) -> Iterator[Document | Skipped]:
    """The messages of a mailbox, each a document of its own."""
    number = 0
    for data in _messages(file):
        number += 1
        try:
            yield _message(file, data, f"{file.id}#{number}")
        except (Unreadable, MessageError) as error:
            yield Skipped(f"{file.source}#{number}", str(error))
        except MemoryError:
            raise
        except Exception as error:  # whatever the library makes of one message, the next ones are read
            yield Skipped(f"{file.source}#{number}", f"cannot be read ({type(error).__name__}: {str(error)[:200]})")
    if not number:
        raise Unreadable("no message in it")


def _messages(file: SourceFile) -> Iterator[bytes]:
    """Messages begin with a line `From `, after an empty one."""
    lines: list[bytes] = []
    size = 0
    blank = True
    with file.open() as stream:
        while line := stream.readline(MAX_LINE):
            if blank and line.startswith(b"From "):
                if any(one.strip() for one in lines):
                    yield b"".join(lines)
                lines, size = [], 0
                continue
            blank = not line.strip()
            size += len(line)
            if size <= MAX_LINE:  # what is beyond that is an attachment
                lines.append(line)
    if any(one.strip() for one in lines):
        yield b"".join(lines)


def _message(file: SourceFile, data: bytes, name: str = "") -> Document:
    built = Builder()
    try:
        message: Any = email.message_from_bytes(data, policy=_POLICY)
        subject = _header(message, "subject")
        _add_body(built, message)
    except RecursionError:
        raise Unreadable("messages in messages, nested too deep") from None
    facts = {"author": _header(message, "from"), "to": _header(message, "to"), "date": _date(message)}
    if not built.blocks and not subject:
        raise Unreadable("no text in it")
    if not built.blocks:
        built.add("text", subject)
    return make_document(file, built, "email", subject or "(no subject)", facts, name)


def _header(message: EmailMessage, name: str) -> str:
    try:
        return " ".join(str(message.get(name, "")).split())[:500]
    except (ValueError, LookupError, AttributeError, IndexError, TypeError):  # the library trips over odd headers
        return ""


def _date(message: EmailMessage) -> str:
    try:
        return str(parsedate_to_datetime(_header(message, "date")).date())
    except (ValueError, TypeError):
        return ""


def _add_body(built: Builder, message: EmailMessage) -> None:
    """The text of a message; of two versions of it, the plain one."""
    texts = _texts(message)
    for text in texts["text/plain"]:
        for block in text_blocks(text):
            if text[block.start] != ">":  # quoted: the message that is quoted says it
                built.add(block.kind, text[block.start : block.end])
    if built.blocks:
        return
    for text in texts["text/html"]:
        tree = parse_html(text)
        if tree is not None:
            add_html(built, tree)


def _texts(message: EmailMessage) -> dict[str, list[str]]:
    """The texts of a message by their kinds, without attachments."""
    found: dict[str, list[str]] = {"text/plain": [], "text/html": []}
    for part in islice(message.walk(), _MOST_PARTS + 1):
        if part.is_multipart() or part.get_content_disposition() == "attachment":
            continue
        kind = part.get_content_type()
        if kind in found:
            found[kind].append(_content(part))
    return found


def _content(part: Any) -> str:
    try:
        return str(part.get_content())
    except (LookupError, ValueError, AttributeError):  # an encoding that does not exist, or broken base64
        data = part.get_payload(decode=True)
        return decode(data) if isinstance(data, bytes) else ""
