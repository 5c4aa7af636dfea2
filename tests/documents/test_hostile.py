"""Documents of newer formats that are made to cost much: small files that name a lot, and one that hides the others."""

import io
import json
import time
import zipfile

import pytest

from mundap.documents import SourceFile, read
from mundap.documents.readers import Limits, Readers
from mundap.records import Document, Skipped
from tests.documents.test_parsers import word

RELATIONS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
OFFICE = "http://schemas.openxmlformats.org"


def packed(**parts):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in parts.items():
            archive.writestr(name, text)
    return out.getvalue()


def found(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    return list(read(SourceFile(path, name, name)))


def related(kind, targets):
    rows = "".join(f'<Relationship Id="r{n}" Type="{RELATIONS}/{kind}" Target="{to}"/>' for n, to in enumerate(targets))
    return f'<Relationships xmlns="{OFFICE}/package/2006/relationships">{rows}</Relationships>'


def slides(times):
    drawn = f'xmlns:p="{OFFICE}/presentationml/2006/main" xmlns:a="{OFFICE}/drawingml/2006/main"'
    ids = "".join(f'<p:sldId r:id="r{n}"/>' for n in range(times))
    text = "<p:sp><p:txBody><a:p><a:r><a:t>the river</a:t></a:r></a:p></p:txBody></p:sp>"
    return packed(**{
        "ppt/presentation.xml": f'<p:presentation {drawn} xmlns:r="{RELATIONS}">{ids}</p:presentation>',
        "ppt/_rels/presentation.xml.rels": related("slide", ["slides/1.xml"] * times),
        "ppt/slides/1.xml": f"<p:sld {drawn}>{text}</p:sld>",
    })  # fmt: skip


def sheets(rows, times=1, text="the river"):
    name = f'xmlns="{OFFICE}/spreadsheetml/2006/main"'
    listed = "".join(f'<sheet name="s{n}" r:id="r{n}"/>' for n in range(times))
    cells = '<row><c t="s"><v>0</v></c><c t="s"><v>0</v></c></row>' * rows
    return packed(**{
        "xl/workbook.xml": f'<workbook {name} xmlns:r="{RELATIONS}"><sheets>{listed}</sheets></workbook>',
        "xl/_rels/workbook.xml.rels": related("worksheet", ["worksheets/1.xml"] * times),
        "xl/worksheets/1.xml": f"<worksheet {name}><sheetData>{cells}</sheetData></worksheet>",
        "xl/sharedStrings.xml": f"<sst {name}><si><t>{text}</t></si></sst>",
    })  # fmt: skip


def book(times):
    items = "".join(f'<item id="c{n}" href="1.xhtml"/>' for n in range(times))
    spine = "".join(f'<itemref idref="c{n}"/>' for n in range(times))
    return packed(**{
        "META-INF/container.xml": '<container><rootfiles><rootfile full-path="book.opf"/></rootfiles></container>',
        "book.opf": f"<package><manifest>{items}</manifest><spine>{spine}</spine></package>",
        "1.xhtml": "<html><body><p>the river runs to the sea</p></body></html>",
    })  # fmt: skip


@pytest.mark.parametrize(("name", "data"), [("a.pptx", slides(500)), ("a.xlsx", sheets(1, 500)), ("a.epub", book(500))])
def test_a_part_that_is_named_very_often_is_read_once(tmp_path, name, data):
    (document,) = found(tmp_path, name, data)
    assert document.text.count("the river") == (2 if name == "a.xlsx" else 1)


def test_a_sheet_that_points_to_one_long_text_very_often(tmp_path):
    data = sheets(4000, text="a river " * 4000)
    assert len(data) < 100_000  # a quarter of a gigabyte of text
    (skipped,) = found(tmp_path, "a.xlsx", data)
    assert isinstance(skipped, Skipped)
    assert "characters of text" in skipped.reason


def nested(depth):
    """A message in a message in a message."""
    head = "".join(f'Content-Type: multipart/mixed; boundary="b{n}"\n\n--b{n}\n' for n in range(depth))
    return f"From: a@b.c\nSubject: deep\n{head}Content-Type: text/plain\n\nfar below\n".encode()


def test_one_message_of_a_mailbox_hides_no_other(tmp_path):
    plain = b"From: a@b.c\nSubject: s\n\nthe river\n\n"
    mailbox = b"From x\n" + plain + b"From x\n" + nested(3000) + b"\nFrom x\n" + plain
    first, deep, last = found(tmp_path, "a.mbox", mailbox)
    assert isinstance(deep, Skipped)
    assert deep.source == "a.mbox#2"
    assert (first.text, last.text, last.id) == ("the river", "the river", "a.mbox#3")


@pytest.mark.parametrize("name", ["Subject", "To", "Content-Type", "Content-Disposition"])
def test_a_header_without_end_costs_little(tmp_path, name):
    data = f"From: a@b.c\n{name}: {'=?utf-8?q?a?= <a@b>, ' * 30_000}\n\nthe river runs to the sea\n".encode()
    began = time.process_time()
    (document,) = found(tmp_path, "a.eml", data)
    assert time.process_time() - began < 5
    assert "the river" in document.text


def test_a_cell_that_spans_very_many_columns_takes_little_memory(tmp_path):
    cell = '<w:tc><w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr><w:p><w:r><w:t>wide</w:t></w:r></w:p></w:tc>'
    path = tmp_path / "wide.docx"
    path.write_bytes(word(f"<w:tbl><w:tr>{cell}{cell}</w:tr></w:tbl>"))
    with Readers(limits=Limits(memory=700 << 20, memory_factor=0)) as readers:
        (document,) = readers.read(SourceFile(path, path.name, path.name))
    assert isinstance(document, Document), document
    assert document.text == "wide"


def test_merge_keys_of_front_matter_are_not_unfolded(tmp_path):
    lines = ["a0: &a0 {" + ", ".join(f"k{n}: v" for n in range(9)) + "}"]
    lines += [f"a{n}: &a{n} {{<<: [{', '.join([f'*a{n - 1}'] * 9)}]}}" for n in range(1, 8)]
    data = ("---\n" + "\n".join(lines) + "\n---\nthe river\n").encode()
    began = time.process_time()
    (document,) = found(tmp_path, "a.md", data)
    assert time.process_time() - began < 5
    assert document.text == "the river"


def test_large_metadata_is_sent_in_small_pieces(tmp_path):
    path = tmp_path / "a.jsonl"
    path.write_text("".join(json.dumps({"_id": str(n), "text": "a", "note": "x" * 100_000}) + "\n" for n in range(40)))
    with Readers(limits=Limits()) as readers:
        reading = readers.read(SourceFile(path, path.name, path.name))
        first = next(reading)
        sent = readers.position
        assert isinstance(first, Document)
        assert len(list(reading)) == 39
    assert sent < path.stat().st_size / 2


@pytest.mark.parametrize(
    ("name", "piece"), [("a.c", "/* the sea "), ("a.tex", "\\section{the sea "), ("a.rst", "=  =\na  b\n")]
)
def test_what_begins_again_and_again_and_never_ends_costs_little(tmp_path, name, piece):
    began = time.thread_time()
    found(tmp_path, name, ("/* One comment of this program. */\n" + 60_000 * piece).encode())
    # Of this thread alone: other tests leave threads behind. LaTeX takes 4.5 s on a slow machine, twice that for twice
    # the text.
    assert time.thread_time() - began < 12


def test_numbers_that_are_no_dates_and_no_strings(tmp_path):
    name = f'xmlns="{OFFICE}/spreadsheetml/2006/main"'
    with zipfile.ZipFile(io.BytesIO(sheets(1))) as archive:
        parts = {one: archive.read(one) for one in archive.namelist()}
    cells = '<c s="0"><v>2990000</v></c><c s="0"><v>45421</v></c><c t="s"><v>-1</v></c><c s="0"><v>1e400</v></c>'
    parts["xl/styles.xml"] = f'<styleSheet {name}><cellXfs><xf numFmtId="14"/></cellXfs></styleSheet>'.encode()
    parts["xl/worksheets/1.xml"] = f"<worksheet {name}><sheetData><row>{cells}</row></sheetData></worksheet>".encode()
    (document,) = found(tmp_path, "a.xlsx", packed(**parts))
    assert document.text == "2990000; 2024-05-09; inf"


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.eml", b"Subject: x\nContent-Type: message/rfc822\n\n" * 2000 + b"hello", "nested too deep"),
        ("a.epub", packed(**{"META-INF/container.xml": "<container/>"}), "does not say where the book is"),
    ],
)
def test_files_that_nobody_writes_have_a_clear_reason(tmp_path, name, data, reason):
    (skipped,) = found(tmp_path, name, data)
    assert reason in skipped.reason


def test_a_web_page_that_calls_itself_a_sheet(tmp_path):
    (document,) = found(tmp_path, "a.xlsx", b"<html><table><tr><th>Sort<th>Price<tr><td>Sejak<td>48</table></html>")
    assert document.text == "Sort: Sejak; Price: 48"
