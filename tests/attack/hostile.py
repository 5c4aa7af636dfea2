"""Documents that are made to eat the machine: each is read within its limits or skipped, and the next one is read."""

import io
import json
import random
import resource
import time
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from mundap.documents import SourceFile
from mundap.documents.readers import Limits, Readers
from mundap.records import Document
from tests.attack.children import Effort, Totals, child, quiet
from tests.documents.test_hostile import book, nested, sheets, slides

_SHORT = (
    "span.docx",
    "merge.md",
    "objects.jsonl",
    "strings.xlsx",
    "slides.pptx",
    "spine.epub",
    "headers.eml",
    "deep.mbox",
)
_LIMITS = Limits(memory=1 << 30, memory_factor=0, seconds=20.0, seconds_a_megabyte=0.0)


def attack(work: Path, chance: random.Random, effort: Effort) -> dict[str, Totals]:
    """Read each of them, and a good file after it."""
    totals = Totals()
    folder = work / "hostile"
    folder.mkdir()
    good = folder / "good.txt"
    good.write_text("all is well")
    bombs = dict(_bombs())
    names = list(_SHORT if effort.short else bombs)
    chance.shuffle(names)
    for name in effort.some(names):
        path = folder / name
        path.write_bytes(bombs[name])
        with quiet():
            code, said = child(lambda path=path: _read(path, good), 900)
        verdict = "survived" if code == 0 and said["after"] == "all is well" else "stuck"
        totals.judge(verdict, f"{name}: {code} {said}")
    return {"hostile documents": totals}


def _read(path: Path, good: Path) -> dict[str, Any]:
    began = time.monotonic()
    with Readers(limits=_LIMITS) as readers:
        found = [
            one.text[:20] if isinstance(one, Document) else one.reason
            for one in readers.read(SourceFile(path, path.name, path.name))
        ]
        (after,) = readers.read(SourceFile(good, good.name, good.name))
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss < 1 << 20, "the main process took a gigabyte"
    text = after.text if isinstance(after, Document) else after.reason
    return {"found": found[:3], "after": text, "seconds": time.monotonic() - began}


def _docx(body: str) -> bytes:
    names = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
    kinds = "http://schemas.openxmlformats.org/package/2006"
    main = "application/vnd.openxmlformats-officedocument.wordprocessingml.document.main+xml"
    link = "http://schemas.openxmlformats.org/officeDocument/2006/relationships/officeDocument"
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", f'<Types xmlns="{kinds}/content-types"><Default Extension="rels" '
                         'ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
                         f'<Override PartName="/word/document.xml" ContentType="{main}"/></Types>')  # fmt: skip
        archive.writestr("_rels/.rels", f'<Relationships xmlns="{kinds}/relationships"><Relationship Id="r" '
                         f'Type="{link}" Target="word/document.xml"/></Relationships>')  # fmt: skip
        archive.writestr("word/document.xml", f'<w:document xmlns:w="{names}"><w:body>{body}</w:body></w:document>')
    return packed.getvalue()


def _bombs() -> Iterator[tuple[str, bytes]]:
    cell = "<w:tc><w:tcPr>{}</w:tcPr><w:p><w:r><w:t>x</w:t></w:r></w:p></w:tc>"
    span = cell.format('<w:gridSpan w:val="2000000000"/>')
    yield "span.docx", _docx(f"<w:tbl><w:tblPr/><w:tblGrid/><w:tr>{span}</w:tr></w:tbl>")
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(9)) + "}"]
    lines += [f"a{n}: &a{n} {{" + ", ".join(f"k{m}: *a{n - 1}" for m in range(9)) + "}" for n in range(1, 9)]
    lines += ["m: {<<: [" + ", ".join("*a8" for _ in range(50)) + "]}"]
    yield "merge.md", ("---\n" + "\n".join(lines) + "\n---\ntext\n").encode()
    yield "deep.json", b"[" * 200_000
    yield "objects.jsonl", b"[" + b'{"a":1},' * 6_000_000 + b"1]\n"
    merged = cell.format("<w:vMerge/>")
    yield "merged.docx", _docx(f"<w:tbl><w:tblPr/><w:tblGrid/>{f'<w:tr>{merged * 20}</w:tr>' * 2000}</w:tbl>")
    yield "zeros.docx", _docx("<w:p><w:r><w:t>" + "0" * (100 << 20) + "</w:t></w:r></w:p>")
    yield "nested.html", b"<div>" * 200_000 + b"text"
    yield "attributes.html", b"<p " + b" ".join(b"a%d=1" % n for n in range(200_000)) + b">text</p>"
    yield "brackets.md", b"[" * 100_000 + b"a" + b"](b)" * 100_000
    yield "quotes.md", b">" * 20_000 + b" text"
    yield "numbers.json", json.dumps({"data": [{"text": "a", "n": 1}]}).replace("1", "9" * 5000).encode()
    yield "strings.xlsx", sheets(40_000, text="a river " * 4000)
    yield "slides.pptx", slides(50_000)
    yield "spine.epub", book(50_000)
    yield "headers.eml", b"Subject: " + b"=?utf-8?q?a?= <a@b>, " * 50_000 + b"\n\nthe river\n"
    yield "deep.mbox", b"From x\n" + nested(3000) + b"\nFrom x\nSubject: s\n\nthe river\n"
    yield "deep.ipynb", b'{"cells": ' + b'[{"a": ' * 100_000
    yield "deep.rtf", b"{\\rtf1 " + b"{" * 1_000_000
    yield "null.txt", b"\0" * (10 << 20)
    yield (
        "trailer.pdf",
        b"%PDF-1.4\n1 0 obj<</Kids[1 0 R]/Type/Pages/Count 9>>endobj trailer<</Root 1 0 R/Prev 0>>startxref 0",
    )
