"""One library's part of extraction.py, run by the Python that has the library.

    PYTHON benchmarks/extraction_peer.py LIBRARY SECONDS < JOBS

JOBS is a line of JSON for each file: a list of its kind and its path. For each, a line of JSON comes back: the text,
and the CPU seconds it took. After SECONDS of CPU time no other file is begun. The first line tells what the library
costs before any file.
"""

import contextlib
import importlib
import io
import json
import os
import sys
import sysconfig
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NOT_ITS_OWN = ("pip", "setuptools", "_distutils_hack", "pkg_resources")  # every new environment has these


def main() -> None:
    """Read the jobs, one after the other."""
    name, budget = sys.argv[1], float(sys.argv[2])
    out = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # libraries print
    started = time.process_time()
    module, extract = LIBRARIES[name]
    importlib.import_module(module)
    facts = {"cpu_seconds_to_import": round(time.process_time() - started, 2), "installed_megabytes": _installed()}
    _tell(out, facts)
    began = time.process_time()
    for line in sys.stdin:
        kind, path = json.loads(line)
        if time.process_time() - began > budget:
            break
        started = time.process_time()
        text, error = "", ""
        try:
            text = extract(kind, Path(path))
        except Exception as problem:  # what a library cannot read is a result too
            error = f"{type(problem).__name__}: {str(problem)[:100]}"
        _tell(out, {"path": path, "seconds": time.process_time() - started, "text": text, "error": error})


def _tell(out: io.TextIOBase | Any, row: dict[str, Any]) -> None:
    out.write(json.dumps(row) + "\n")
    out.flush()


def _installed() -> int:
    """Megabytes of all packages of this Python's environment, but for what every environment has."""
    size = 0
    for folder in {sysconfig.get_path("purelib"), sysconfig.get_path("platlib")}:
        for path in Path(folder).rglob("*"):
            if path.is_file() and path.relative_to(folder).parts[0].split("-")[0] not in NOT_ITS_OWN:
                size += path.stat().st_size
    return round(size / 1e6)


def _mundap(kind: str, path: Path) -> str:
    from mundap.documents import SourceFile, read
    from mundap.records import Document

    return "\n".join(one.text for one in read(SourceFile(path, path.name, str(path))) if isinstance(one, Document))


def _lxml(kind: str, path: Path) -> str:
    from lxml import html

    return str(html.fromstring(path.read_bytes()).text_content())


def _selectolax(kind: str, path: Path) -> str:
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(path.read_bytes())
    tree.strip_tags(["script", "style", "nav", "footer"])
    return tree.body.text(separator=" ") if tree.body else ""


def _beautiful_soup(kind: str, path: Path) -> str:
    from bs4 import BeautifulSoup

    return BeautifulSoup(path.read_bytes(), "lxml").get_text(" ")


def _trafilatura(kind: str, path: Path) -> str:
    import trafilatura

    return trafilatura.extract(path.read_text("utf-8", "replace"), include_tables=True, favor_recall=True) or ""


def _pypdf(kind: str, path: Path) -> str:
    from pypdf import PdfReader

    return "\n".join(page.extract_text() for page in PdfReader(path).pages)


def _pypdfium2(kind: str, path: Path) -> str:
    import pypdfium2

    opened = pypdfium2.PdfDocument(path)
    return "\n".join(page.get_textpage().get_text_range() for page in opened)


def _pdfminer(kind: str, path: Path) -> str:
    from pdfminer.high_level import extract_text

    return extract_text(path)


def _pymupdf(kind: str, path: Path) -> str:
    import pymupdf

    with pymupdf.open(path) as opened:
        return "\n".join(page.get_text() for page in opened)


def _docling_parse(kind: str, path: Path) -> str:
    from docling_core.types.doc.page import TextCellUnit
    from docling_parse.pdf_parser import DoclingPdfParser

    opened = DoclingPdfParser(loglevel="fatal").load(path_or_stream=str(path))
    lines = []
    for _, page in opened.iterate_pages():
        lines += [cell.text for cell in page.iterate_cells(unit_type=TextCellUnit.LINE)]
    return "\n".join(lines)


def _kreuzberg(kind: str, path: Path) -> str:
    import kreuzberg

    return kreuzberg.extract_file_sync(path).content


def _markitdown(kind: str, path: Path) -> str:
    from markitdown import MarkItDown

    return MarkItDown().convert(path).text_content


def _unstructured(kind: str, path: Path) -> str:
    with contextlib.redirect_stdout(io.StringIO()):
        if kind == "html":
            from unstructured.partition.html import partition_html

            return "\n\n".join(str(one) for one in partition_html(filename=str(path)))
        from unstructured.partition.auto import partition

        return "\n\n".join(str(one) for one in partition(filename=str(path), strategy="fast"))


LIBRARIES: dict[str, tuple[str, Callable[[str, Path], str]]] = {
    "mundap": ("mundap.documents", _mundap),
    "lxml": ("lxml.html", _lxml),
    "selectolax": ("selectolax.lexbor", _selectolax),
    "beautifulsoup4": ("bs4", _beautiful_soup),
    "trafilatura": ("trafilatura", _trafilatura),
    "pypdf": ("pypdf", _pypdf),
    "pypdfium2": ("pypdfium2", _pypdfium2),
    "pdfminer.six": ("pdfminer.high_level", _pdfminer),
    "pymupdf": ("pymupdf", _pymupdf),
    "docling-parse": ("docling_parse.pdf_parser", _docling_parse),
    "kreuzberg": ("kreuzberg", _kreuzberg),
    "markitdown": ("markitdown", _markitdown),
    "unstructured": ("unstructured.partition.auto", _unstructured),
}

if __name__ == "__main__":
    main()
