"""From files to text: our readers beside other people's libraries, on documentation that exists in several editions.

    apt-get download developers-reference maint-guide debian-faq debian-policy debian-reference-en
    apt-get download installation-guide-amd64
    for file in *.deb; do dpkg -x "$file" docs; done
    python benchmarks/extraction.py docs [--peer LIBRARY=PYTHON ...]
    python benchmarks/extraction.py docs --processes 2

Each PYTHON is that of an environment with the library (extraction_peer.py has the names); ours is always there. Times
are CPU seconds, so that other work on the machine counts little. The manuals' plain text editions say what is right:
`found` is the share of their runs of six words that the extracted text has (words apart, hyphens, order, no running
heads in sentences), `extra` the share of the extracted runs that they have not (menus, page heads, glued words; ours
counts link texts and numbers of sections alike).
"""

import argparse
import gzip
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from common import report
from glue import Glue

MANUALS: dict[str, tuple[str, str, str]] = {
    "developers-reference": ("developers-reference.pdf", "*.html", "developers-reference.txt.gz"),
    "doc/debian/FAQ": ("debian-faq.en.pdf.gz", "*.en.html", "debian-faq.en.txt.gz"),
    "doc/maint-guide": ("maint-guide.en.pdf", "html/*.en.html", "maint-guide.en.txt.gz"),
    "doc/installation-guide-amd64/en": ("install.en.pdf.gz", "*.html", "install.en.txt.gz"),
    "doc/debian-policy": ("policy.pdf.gz", "policy.html/*.html", "policy.txt.gz"),
    "debian-reference": ("debian-reference.en.pdf", "*.en.html", "debian-reference.en.txt.gz"),
}
"""Folders below usr/share, with the PDF, HTML and text editions."""

KINDS: dict[str, list[str]] = {
    "pdf": "mundap pypdfium2 pypdf pdfminer.six pymupdf docling-parse kreuzberg markitdown unstructured".split(),
    "html": "mundap lxml selectolax beautifulsoup4 trafilatura kreuzberg markitdown unstructured".split(),
    "others": "mundap kreuzberg markitdown unstructured".split(),
}
FILES = Path(__file__).resolve().parents[1] / "tests" / "documents" / "files"
_RUN = 6


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--peer", action="append", default=[], metavar="LIBRARY=PYTHON")
    parser.add_argument("--seconds", type=float, default=60, help="CPU seconds that a library gets for each kind")
    parser.add_argument("--processes", type=int, metavar="N", help="only our reader of web pages, in N processes")
    options = parser.parse_args()
    pythons = {"mundap": sys.executable, **dict(one.split("=", 1) for one in options.peer)}
    with tempfile.TemporaryDirectory() as folder:
        manuals = _manuals(options.folder / "usr" / "share", Path(folder))
        if options.processes:
            report("extraction", {"html_in_processes": _in_processes(_jobs("html", manuals), options.processes)})
            return
        glue = Glue([one["text"] for one in manuals], least=3)
        results: dict[str, Any] = {}
        for kind, libraries in KINDS.items():
            jobs = _jobs(kind, manuals)
            for name in libraries:
                if name in pythons:
                    first, rows = _run(name, pythons[name], kind, jobs, options.seconds)
                    figures = _others(rows) if kind == "others" else _figures(kind, manuals, rows, glue)
                    results.setdefault(kind, {})[name] = {**first, **figures}
                    sys.stderr.write(f"{kind} {name}: {json.dumps(results[kind][name])}\n")
    report("extraction", results)
    for kind, found in results.items():
        sys.stdout.write(_table(kind, found))


def _manuals(share: Path, scratch: Path) -> list[dict[str, Any]]:
    """The editions of each manual; what is packed is unpacked for those who cannot."""
    found = []
    for number, (folder, (pdf, html, text)) in enumerate(MANUALS.items()):
        path = share / folder / pdf
        if not path.exists():
            continue
        if path.suffix == ".gz":
            unpacked = scratch / f"{number}.pdf"
            unpacked.write_bytes(gzip.decompress(path.read_bytes()))
            path = unpacked
        with gzip.open(share / folder / text, "rt", encoding="utf-8", errors="replace") as file:
            reference = file.read()
        pages = sorted(str(one) for one in (share / folder).glob(html) if one.is_file())
        found.append({"pdf": [str(path)], "html": pages, "text": reference, "runs": _runs(reference)})
    if not found:
        sys.exit(f"{share}: none of the manuals is there")
    return found


def _jobs(kind: str, manuals: list[dict[str, Any]]) -> list[str]:
    if kind == "others":
        return [str(path) for path in sorted(FILES.iterdir()) if path.name != "make.py"]
    jobs = [path for manual in manuals for path in manual[kind]]
    if kind == "html":
        random.Random(1).shuffle(jobs)
    return jobs


def _run(name: str, python: str, kind: str, jobs: list[str], seconds: float) -> tuple[dict[str, Any], list[Any]]:
    """What a library costs before any file, and what it makes of each."""
    command = [python, str(Path(__file__).with_name("extraction_peer.py")), name, str(seconds)]
    lines = "".join(json.dumps([kind, path]) + "\n" for path in jobs)
    environment = {**os.environ, "PYTHONPATH": os.environ.get("PYTHONPATH", "") if name == "mundap" else ""}
    done = subprocess.run(command, input=lines, capture_output=True, text=True, env=environment)
    if done.returncode:
        sys.exit(f"{name}: {done.stderr[-500:]}")
    first, *rows = [json.loads(line) for line in done.stdout.splitlines()]
    return first, rows


def _in_processes(jobs: list[str], processes: int) -> dict[str, Any]:
    """Web pages, eight times over, through the processes in which `mundap index` reads files.

    Two cores that are idle take as long as the busier of the two: this process, or a half of the readers' work.
    """
    from mundap.documents import SourceFile
    from mundap.documents.readers import Readers

    files = [SourceFile(Path(path), path, f"{path}#{again}") for again in range(8) for path in jobs]
    megabytes = sum(file.path.stat().st_size for file in files) / 1e6
    began, before = time.perf_counter(), os.times()
    with Readers(processes=processes) as readers:
        for number, file in enumerate(files, 1):
            for _ in readers.read(file, files[number:]):
                pass
        seconds = time.perf_counter() - began
    after = os.times()  # those of the readers count once they have ended
    here = after.user + after.system - before.user - before.system
    readers_time = after.children_user + after.children_system - before.children_user - before.children_system
    return {
        "processes": processes,
        "megabytes": round(megabytes, 1),
        "seconds": round(seconds, 2),
        "cpu_seconds_here": round(here, 2),
        "cpu_seconds_of_readers": round(readers_time, 2),
        "megabytes_a_second": round(megabytes / seconds, 1),
        "megabytes_a_second_on_idle_cores": round(megabytes / max(here, readers_time / processes), 1),
    }


def _runs(text: str) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[place : place + _RUN]) for place in range(len(words) - _RUN + 1)}


def _figures(kind: str, manuals: list[dict[str, Any]], rows: list[Any], glue: Glue) -> dict[str, Any]:
    """Speed over all files that were read, quality over all manuals that were read to their end."""
    texts = {row["path"]: row["text"] for row in rows}
    errors = sorted({row["error"] for row in rows if row["error"]})
    seconds = sum(row["seconds"] for row in rows)
    if not any(texts.values()):
        return {"files": 0, "errors": errors[:2]}
    figures: dict[str, Any] = {"files": len(rows), "errors": errors[:2]}
    if kind == "pdf":
        figures["pages_a_cpu_second"] = round(sum(map(_pages, texts)) / seconds, 1)
    else:
        figures["megabytes_a_cpu_second"] = round(sum(Path(path).stat().st_size for path in texts) / 1e6 / seconds, 2)
    right = wanted = extra = made = words = glued = 0
    for manual in manuals:
        read = [texts[path] for path in manual[kind] if path in texts]
        if len(read) == len(manual[kind]):
            runs = _runs("\n".join(read))
            right += len(runs & manual["runs"])
            wanted += len(manual["runs"])
            extra += len(runs - manual["runs"])
            made += len(runs)
    for text in texts.values():
        words += len(text.split())
        glued += len(glue.find(text))
    if wanted:
        figures["found"] = round(100 * right / wanted, 1)
        figures["extra"] = round(100 * extra / max(1, made), 1)
    figures["glued_in_10000_words"] = round(1e4 * glued / words, 2)
    return figures


def _pages(path: str) -> int:
    import pypdfium2

    opened = pypdfium2.PdfDocument(path)
    try:
        return len(opened)
    finally:
        opened.close()


def _others(rows: list[Any]) -> dict[str, Any]:
    """How many of the test files, one a format, a library reads, and how long it takes for all."""
    unread = [Path(row["path"]).name for row in rows if not row["text"].strip()]
    seconds = round(sum(row["seconds"] for row in rows), 2)
    return {"formats_read": len(rows) - len(unread), "of": len(rows), "unread": unread, "cpu_seconds": seconds}


def _table(kind: str, found: dict[str, Any]) -> str:
    names = [key for key in next(iter(found.values())) if key not in ("errors", "unread")]
    lines = [f"\n| {kind} | {' | '.join(name.replace('_', ' ') for name in names)} |", "|---" * (len(names) + 1) + "|"]
    for library, figures in found.items():
        cells = [str(figures.get(name, "")) for name in names]
        lines.append(f"| {library} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
