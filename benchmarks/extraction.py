"""From files to text: speed and quality of our readers beside other people's, on real documentation.

    apt-get download debian-handbook postgresql-doc-15 git-doc python3.11-doc maint-guide developers-reference
    for file in *.deb; do dpkg -x "$file" docs; done
    python benchmarks/extraction.py docs

Compared are trafilatura (`pip install trafilatura`) for HTML and pypdf for PDF, where they are installed. Times are CPU
seconds of this process, so that other work on the machine hardly counts.
"""

import argparse
import random
import re
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from common import report
from mundap.documents import SourceFile, Splitter, read
from mundap.records import Document

_GLUED = re.compile(r"[a-z]{2,}[.,;:!?][A-Z][a-z]{2,}|[A-Za-z]{30,}")
_ADDRESS = re.compile(r"\S*(?:://|\.(?:com|org|net|html|py|conf)\b|_|/)\S*")


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=300, help="of each kind at most")
    options = parser.parse_args()
    results: dict[str, Any] = {}
    for kind, others in (("html", {"trafilatura": _trafilatura}), ("pdf", {"pypdf": _pypdf}), ("txt", {})):
        paths = _some(options.folder, kind, options.files)
        if paths:
            results[kind] = _compare(kind, paths, others)
    documents = [one for kind in ("html", "pdf", "txt") for one in _read(_some(options.folder, kind, options.files))]
    results["passages"] = _passages(documents)
    report("extraction", results)


def _some(folder: Path, kind: str, most: int) -> list[Path]:
    paths = sorted(folder.rglob(f"*.{kind}"))
    random.Random(1).shuffle(paths)
    return paths[:most]


def _read(paths: Iterable[Path]) -> list[Document]:
    found = []
    for path in paths:
        for one in read(SourceFile(path, str(path), str(path))):
            if isinstance(one, Document):
                found.append(one)
    return found


def _compare(kind: str, paths: list[Path], others: dict[str, Callable[[Path], str]]) -> dict[str, Any]:
    megabytes = sum(path.stat().st_size for path in paths) / 1e6
    started = time.process_time()
    documents = _read(paths)
    seconds = time.process_time() - started
    pages = sum(max(block.page for block in one.blocks) for one in documents)
    rows = {"mundap": _figures([one.text for one in documents], megabytes, pages, seconds)}
    for name, extract in others.items():
        some = paths[: max(1, len(paths) // 10)] if kind == "html" else paths
        size = sum(path.stat().st_size for path in some) / 1e6
        started = time.process_time()
        try:
            texts = [extract(path) for path in some]
        except ImportError:
            continue
        rows[name] = _figures(texts, size, pages, time.process_time() - started)
    return {"files": len(paths), "megabytes": round(megabytes, 2), **rows}


def _figures(texts: list[str], megabytes: float, pages: int, seconds: float) -> dict[str, Any]:
    words = sum(len(text.split()) for text in texts)
    glued = sum(_glued(text) for text in texts)
    figures = {"megabytes_a_second": round(megabytes / seconds, 2), "words": words, "glued": glued}
    if pages:
        figures["pages_a_second"] = round(pages / seconds, 1)
    return figures


def _glued(text: str) -> int:
    """Words that look like two: `seen.The`, or longer than any."""
    return len(_GLUED.findall(_ADDRESS.sub(" ", text)))


def _trafilatura(path: Path) -> str:
    import trafilatura

    return trafilatura.extract(path.read_text("utf-8", "replace"), include_tables=True, favor_recall=True) or ""


def _pypdf(path: Path) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def _passages(documents: list[Document]) -> dict[str, Any]:
    """How passages begin and end: in the middle of a word or of a table row, or with words glued together."""
    splitter = Splitter(sentences=True)
    counts = {"passages": 0, "cut_in_a_word": 0, "cut_in_a_row": 0, "with_glued_words": 0, "words": 0}
    started = time.process_time()
    for document in documents:
        text = document.text
        ends = {block.end for block in document.blocks if block.kind == "row"}
        inside = [(block.start, block.end) for block in document.blocks if block.kind == "row"]
        for start, end in splitter.spans(text, document.blocks):
            counts["passages"] += 1
            counts["words"] += len(text[start:end].split())
            before, after = text[max(0, start - 1) : start + 1], text[end - 1 : end + 1]
            counts["cut_in_a_word"] += (len(before) == 2 and before.isalnum()) or (len(after) == 2 and after.isalnum())
            if inside and end not in ends:
                counts["cut_in_a_row"] += any(left < end < right for left, right in inside)
            counts["with_glued_words"] += _glued(text[start:end]) > 0
    return {**counts, "seconds": round(time.process_time() - started, 2)}


if __name__ == "__main__":
    main()
