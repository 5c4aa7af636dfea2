"""Every format by a small file of the program that writes it: its words, their kinds, sections and places."""

import io
import json
import zipfile
from pathlib import Path

import pytest

from mundap.documents import FORMATS, SUFFIXES, SourceFile, detect, read
from mundap.documents.files import NoDocument
from mundap.records import Block, Document, Skipped

FILES = Path(__file__).parent / "files"


def documents(path: Path, form=None):
    found = list(read(SourceFile(path, path.name, path.name), form))
    assert all(isinstance(one, Document) for one in found), found
    return found


def blocks(document):
    return [(one.kind, document.text[one.start : one.end]) for one in document.blocks]


def block(document, words) -> Block:
    return next(one for one in document.blocks if words in document.text[one.start : one.end])


def reason(path: Path, data: bytes = b"") -> str:
    if data:
        path.write_bytes(data)
    (skipped,) = read(SourceFile(path, path.name, path.name))
    assert isinstance(skipped, Skipped)
    return skipped.reason


@pytest.mark.parametrize(
    ("name", "title", "kind", "words", "section", "page", "line"),
    [
        ("report.docx", "Expedition report", "row", "Island: Jeju; Height: 1,947 m; Inhabitants: 676,000", "The journey > Provisions", 0, 0),
        ("report.docx", "Expedition report", "item", "two barrels of kimchi", "The journey > Provisions", 0, 0),
        ("harbour.pptx", "Harbour plans", "item", "The new quay costs 12 million won.", "Costs", 2, 0),
        ("harbour.pptx", "Harbour plans", "text", "Mention that the ferry pays a third of it.", "Costs", 2, 0),
        ("harbour.pptx", "Harbour plans", "row", "Berth: North pier; Depth: 11 metres", "Berths", 3, 0),
        ("stock.xlsx", "Stock", "row", "Sort: Sejak; Price: 48.5; Harvested: 2024-05-09", "Tea", 0, 2),
        ("stock.xlsx", "Stock", "row", "Name: Choi Yuna; Town: Boseong", "Staff", 0, 2),
        ("stock.csv", "stock", "row", "Sort: Sejak; Price: 48; Note: first, and best", "", 0, 2),
        ("bees.odt", "bees", "item", "veil", "Beekeeping", 0, 0),
        ("bees.odt", "bees", "row", "Flower: Chestnut; Month: June", "Beekeeping", 0, 0),
        ("bees.odp", "bees", "text", "The meeting is on 2 June.", "When", 2, 0),
        ("tales.epub", "Tales of the shore", "text", "It came from the north in October.", "The storm", 2, 1),
        ("notes.rtf", "Pilot notes", "text", "Café opens at six. 서울 is far.", "", 0, 0),
        ("notes.rtf", "Pilot notes", "row", "Light: East; Colour: green", "", 0, 0),
        ("ferry.eml", "Ferry tickets", "text", "the ferry leaves at 07:40 from pier 3.", "", 0, 0),
        ("tides.ipynb", "Tides", "text", "High water comes twice a day.", "Tides", 1, 3),
        ("tides.ipynb", "Tides", "code", "print(12.4)", "Tides", 2, 0),
        ("guide.rst", "Sailing guide", "item", "bowline, for loops", "Sailing guide > Knots", 0, 9),
        ("guide.rst", "Sailing guide", "text", "See the chart and make sail.", "Sailing guide", 0, 4),
        ("guide.rst", "Sailing guide", "text", "Never tie a wet rope.", "Sailing guide > Knots", 0, 12),
        ("guide.adoc", "Rope guide", "item", "hemp:\nA rope of plant fibres.", "Rope guide > Kinds", 0, 8),
        ("guide.adoc", "Rope guide", "row", "Rope: hemp; Strength: 900 kg", "Rope guide > Kinds", 0, 18),
        ("sail.1", "sail(1)", "item", "-r, --reef:\nTake in a reef.", "Options", 0, 6),
        ("sail.1", "sail(1)", "code", "sail -r 2", "Examples", 0, 13),
        ("paper.tex", "On tides", "text", "The moon pulls the water.", "Moon", 0, 7),
        ("paper.tex", "On tides", "item", "neap: the weak one", "Moon", 0, 10),
        ("paper.tex", "On tides", "row", "Port: Incheon; Range: 9 m", "Moon", 0, 12),
        ("film.srt", "film", "text", "Nobody saw him again.", "", 3, 11),
        ("tide.py", "tide.py", "text", "Return metres above the chart datum at an hour.", "def height", 0, 5),
        ("tide.c", "tide.c", "text", "The lamp burns for six hours\nafter sunset.", "", 0, 9),
    ],
)  # fmt: skip
def test_a_block_of_each_format(name, title, kind, words, section, page, line):
    (document,) = documents(FILES / name)
    assert document.title == title
    found = block(document, words)
    assert document.text[found.start : found.end] == words
    assert found[2:] == (kind, section, page, line)


def test_every_message_of_a_mailbox_is_a_document():
    found = documents(FILES / "list.mbox")
    assert [(one.id, one.title, one.metadata["date"]) for one in found] == [
        ("list.mbox#1", "Quay 0", "2024-05-06"),
        ("list.mbox#2", "Quay 1", "2024-05-06"),
    ]
    assert found[1].text == "It opens again on Thursday."


def test_facts_that_files_say_of_themselves():
    authors = {
        name: documents(FILES / name)[0].metadata.get("author")
        for name in ("report.docx", "bees.odt", "tales.epub", "paper.tex")
    }
    assert authors == {
        "report.docx": "Kim Minji",
        "bees.odt": "Jung Haneul",
        "tales.epub": "Han Areum",
        "paper.tex": "Kim Séo",
    }


def test_every_suffix_has_a_format():
    assert set(SUFFIXES.values()) <= set(FORMATS)


@pytest.mark.parametrize(
    ("name", "real", "form"),
    [
        ("a.txt", "report.docx", "docx"),
        ("a.docx", "stock.xlsx", "xlsx"),
        ("a.doc", "notes.rtf", "rtf"),
        ("a", "tales.epub", "epub"),
        ("a", "list.mbox", "mbox"),
    ],
)
def test_the_first_bytes_count_more_than_a_wrong_suffix(tmp_path, name, real, form):
    path = tmp_path / name
    path.write_bytes((FILES / real).read_bytes())
    assert detect(SourceFile(path, name, name)) == form


@pytest.mark.parametrize("name", ["a.png", "a.css", "a.woff2", "jquery.min.js", "a.zip"])
def test_what_is_no_document_is_left_out_quietly(tmp_path, name):
    path = tmp_path / name
    path.write_bytes(b"whatever it is")
    (skipped,) = read(SourceFile(path, name, name))
    assert skipped.expected
    with pytest.raises(NoDocument):
        detect(SourceFile(path, name, name))


@pytest.mark.parametrize("name", ["report.docx", "harbour.pptx", "stock.xlsx", "bees.odt", "tales.epub"])
def test_a_truncated_archive_and_one_with_a_password(tmp_path, name):
    data = (FILES / name).read_bytes()
    path = tmp_path / name
    assert "not a readable" in reason(path, data[: len(data) // 2])
    locked = bytearray(data)
    for mark, offset in ((b"PK\x03\x04", 6), (b"PK\x01\x02", 8)):  # the flag that an entry is encrypted
        place = -1
        while (place := locked.find(mark, place + 1)) >= 0:
            locked[place + offset] |= 1
    assert "password" in reason(path, bytes(locked))
    assert "password" in reason(path, b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600))


def test_a_zip_bomb_is_refused(tmp_path):
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("word/document.xml", b" " * (60 << 20))
    assert "ZIP bomb" in reason(tmp_path / "bomb.docx", out.getvalue())


def word(body: str, head: str = "") -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as archive:
        names = 'xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"'
        archive.writestr("word/document.xml", f"{head}<w:document {names}><w:body>{body}</w:body></w:document>")
    return out.getvalue()


def test_entities_are_refused(tmp_path):
    lol = "<!DOCTYPE x [<!ENTITY a 'lollol'><!ENTITY b '&a;&a;&a;&a;'>]>"
    assert "entities" in reason(tmp_path / "e.docx", word("<w:p><w:r><w:t>&b;</w:t></w:r></w:p>", lol))


def test_a_cell_that_spans_two_thousand_million_columns(tmp_path):
    cell = '<w:tc><w:tcPr><w:gridSpan w:val="2000000000"/></w:tcPr><w:p><w:r><w:t>wide</w:t></w:r></w:p></w:tc>'
    path = tmp_path / "g.docx"
    path.write_bytes(word(f"<w:tbl><w:tr>{cell}{cell}</w:tr></w:tbl>"))
    (document,) = documents(path)
    assert document.text == "wide"


def test_endless_nesting_of_a_docx_and_of_a_page(tmp_path):
    (tmp_path / "n.docx").write_bytes(word("<w:sdt>" * 5000 + "</w:sdt>" * 5000))
    assert reason(tmp_path / "n.docx")
    path = tmp_path / "n.html"
    path.write_text("<html><body>" + "<div>" * 50_000 + "deep words" + "</div>" * 50_000)
    found = list(read(SourceFile(path, path.name, path.name)))
    assert len(found) == 1


def test_repeated_cells_of_a_sheet_are_not_unrolled(tmp_path):
    table = "urn:oasis:names:tc:opendocument:xmlns:table:1.0"
    text = "urn:oasis:names:tc:opendocument:xmlns:text:1.0"
    cell = '<t:table-cell t:number-columns-repeated="99999999"><x:p>again</x:p></t:table-cell>'
    content = f'<o xmlns:t="{table}" xmlns:x="{text}"><t:table><t:table-row t:number-rows-repeated="99999999">{cell}</t:table-row></t:table></o>'
    path = tmp_path / "s.ods"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("content.xml", content)
    (document,) = documents(path)
    assert document.text.count("again") <= 200


def test_a_sheet_of_a_hundred_thousand_rows(tmp_path):
    path = tmp_path / "long.csv"
    path.write_text("Name;Number\n" + "".join(f"n{n};{n}\n" for n in range(100_000)))
    (document,) = documents(path)
    assert len(document.blocks) == 100_000
    assert document.text.endswith("Name: n99999; Number: 99999")


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("a.ipynb", b"{"),
        ("b.ipynb", json.dumps({"cells": 3}).encode()),
        ("c.ipynb", b'{"cells":' + b"[" * 100_000),
        ("d.rtf", b"no rtf"),
        ("e.mbox", b""),
        ("f.eml", b"\n\n"),
        ("g.xlsx", b"PK\x05\x06" + bytes(18)),
        ("h.rtf", b"{\\rtf1 " + b"{" * 20_000),
    ],
)
def test_bad_files_of_other_formats_have_a_reason(tmp_path, name, data):
    path = tmp_path / name
    path.write_bytes(data)
    (skipped,) = read(SourceFile(path, name, name))
    assert isinstance(skipped, Skipped)
    assert "Error" not in skipped.reason, skipped.reason


def test_front_matter_that_grows_without_end(tmp_path):
    path = tmp_path / "bomb.md"
    levels = ["a0: &a0 {x: 1}"] + [
        f"a{n}: &a{n} {{<<: [*a{n - 1}, *a{n - 1}, *a{n - 1}], y{n}: 1}}" for n in range(1, 25)
    ]
    path.write_text("---\ntitle: Fine\n" + "\n".join(levels) + "\n---\ntext")
    (document,) = documents(path)
    assert (document.title, document.text) == ("Fine", "text")


def test_right_to_left_and_vertical_text(tmp_path):
    path = tmp_path / "r.html"
    path.write_text(
        '<html dir="rtl"><body><p>القاهرة عاصمة مصر.</p><p style="writing-mode: vertical-rl">東京は首都です。</p></body></html>'
    )
    (document,) = documents(path)
    assert document.text == "القاهرة عاصمة مصر.\n\n東京は首都です。"


def test_a_markdown_table_has_its_header_in_each_row(tmp_path):
    path = tmp_path / "t.md"
    path.write_text("# Limits\n\n| Item | Limit |\n|---|---|\n| columns | 1,600 |\n| indexes | none |\n\nEnd of it.\n")
    (document,) = documents(path)
    assert blocks(document) == [
        ("heading", "Limits"),
        ("row", "Item: columns; Limit: 1,600"),
        ("row", "Item: indexes; Limit: none"),
        ("text", "End of it."),
    ]
    assert [one.line for one in document.blocks] == [1, 5, 6, 8]


def test_the_digest_comes_from_the_reading(tmp_path, monkeypatch):
    from mundap.disk import checksum
    from mundap.documents import files

    path = tmp_path / "a.txt"
    path.write_text("some words\n" * 10_000)
    file = SourceFile(path, "a.txt", "a.txt")
    expected = bytes.fromhex(checksum(path))
    assert file.digest() == expected  # not read yet: it is read for this
    list(read(file))
    monkeypatch.setattr(files, "checksum", None)
    assert file.digest() == expected


@pytest.mark.parametrize("name", ["a.txt", "a.md", "a.rst", "a.adoc", "a.tex", "a.1", "a.html", "a.c", "a.srt"])
def test_a_megabyte_of_spaces_costs_little(tmp_path, name):
    path = tmp_path / name
    path.write_text("word\n" + " " * 1_000_000 + "\n" + " \t" * 200_000 + "end\n")
    assert len(list(read(SourceFile(path, name, name)))) == 1


def test_an_asciidoc_table_with_a_cell_on_each_line(tmp_path):
    path = tmp_path / "a.adoc"
    path.write_text(
        '= Peaks\n\n[cols="1,2", options="header"]\n|===\n|Name\n|Height\n\n|Ring\n|12 metres\nor more\n|King\n|13\n|===\n\n'
        "|===\n|Name |Place\n\n|Ring |North\n|King\n|South\n|===\n\nAfter.\n"
    )
    (found,) = documents(path)
    assert blocks(found) == [
        ("heading", "Peaks"),
        ("row", "Name: Ring; Height: 12 metres or more"),
        ("row", "Name: King; Height: 13"),
        ("row", "Name: Ring; Place: North"),
        ("row", "Name: King; Place: South"),
        ("text", "After."),
    ]


def test_notes_above_the_table_of_a_sheet_are_not_its_header(tmp_path):
    note, header = ("Lots of people", "", "", "who died"), ("Name", "Job", "Age", "Town")
    rows = (note, header, ("Ada", "actor", "69", "Busan"), ("Bo", "", "9", "Jeju"))
    written = ""
    for row in rows:
        cells = "".join(f'<c t="inlineStr"><is><t>{cell}</t></is></c>' for cell in row)
        written += f"<row>{cells}</row>"
    with zipfile.ZipFile(FILES / "stock.xlsx") as old, zipfile.ZipFile(tmp_path / "a.xlsx", "w") as new:
        for name in old.namelist():
            data = old.read(name).decode()
            if name.endswith("sheet1.xml"):
                data = data[: data.index("<sheetData>") + 11] + written + data[data.index("</sheetData>") :]
            new.writestr(name, data)
    (found,) = documents(tmp_path / "a.xlsx")
    assert blocks(found)[:3] == [
        ("text", "Lots of people who died"),
        ("row", "Name: Ada; Job: actor; Age: 69; Town: Busan"),
        ("row", "Name: Bo; Age: 9; Town: Jeju"),
    ]


def test_a_table_of_contents_is_left_out(tmp_path):
    gallery = '<w:sdtPr><w:docPartObj><w:docPartGallery w:val="Table of Contents"/></w:docPartObj></w:sdtPr>'
    entry = "<w:p><w:r><w:t>The journey 3</w:t></w:r></w:p>"
    text = "<w:p><w:r><w:t>We left Busan.</w:t></w:r></w:p>"
    path = tmp_path / "a.docx"
    path.write_bytes(word(f"<w:sdt>{gallery}<w:sdtContent>{entry}</w:sdtContent></w:sdt>{text}"))
    (found,) = documents(path)
    assert found.text == "We left Busan."
    with zipfile.ZipFile(FILES / "bees.odt") as old, zipfile.ZipFile(tmp_path / "b.odt", "w") as new:
        for name in old.namelist():
            data = old.read(name)
            listed = b"<text:table-of-content><text:index-body><text:p>Beekeeping 3</text:p></text:index-body></text:table-of-content>"
            new.writestr(name, data.replace(b"<office:text>", b"<office:text>" + listed))
    (found,) = documents(tmp_path / "b.odt")
    assert found.text.startswith("Beekeeping\n\nA hive")
