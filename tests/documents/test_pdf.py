"""PDFs as LaTeX, Sphinx and Office write them, in small: pages, running heads, hyphens, ligatures, columns."""

import io
from pathlib import Path

import pytest
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from mundap.documents import SourceFile, read


def pdf(*pages) -> bytes:
    """Pages of (x, y, size, text); a text that ends with TJ is written as it stands."""
    writer = PdfWriter()
    parts = {"/Type": "/Font", "/Subtype": "/Type1", "/BaseFont": "/Helvetica", "/Encoding": "/WinAnsiEncoding"}
    font = writer._add_object(DictionaryObject({NameObject(key): NameObject(value) for key, value in parts.items()}))
    for lines in pages:
        page = writer.add_blank_page(600, 800)
        fonts = DictionaryObject({NameObject("/F1"): font})
        page[NameObject("/Resources")] = DictionaryObject({NameObject("/Font"): fonts})
        stream = DecodedStreamObject()
        shown = []
        for x, y, size, text in lines:
            operator = text if text.endswith("TJ") else f"({text}) Tj"
            shown.append(f"BT /F1 {size} Tf {x} {y} Td {operator} ET")
        stream.set_data("\n".join(shown).encode("cp1252"))
        page[NameObject("/Contents")] = writer._add_object(stream)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def one(tmp_path: Path, data: bytes):
    path = tmp_path / "a.pdf"
    path.write_bytes(data)
    (found,) = read(SourceFile(path, "a.pdf", "a.pdf"))
    return found


def blocks(document):
    return [(one.kind, one.page, document.text[one.start : one.end]) for one in document.blocks]


def test_lines_become_paragraphs_with_their_page_and_running_heads_go(tmp_path):
    pages = [
        [
            (50, 780, 10, f"Harbour handbook   Chapter {number}"),
            (50, 700, 12, "The quay is long and the water before it is deep enough for"),
            (50, 686, 12, f"ships of number {number}."),
            (290, 20, 10, str(number + 10)),
        ]
        for number in range(1, 6)
    ]
    document = one(tmp_path, pdf(*pages))
    words = "The quay is long and the water before it is deep enough for ships of number"
    assert blocks(document) == [("text", number, f"{words} {number}.") for number in range(1, 6)]


def test_a_word_over_the_end_of_a_line_is_one_word(tmp_path):
    lines = [
        (50, 700, 12, "The maintainer of the harbour is a well-known man of the main-"),
        (50, 686, 12, "tenance department, and he is well-"),
        (50, 672, 12, "known for it in the whole town and in the villages around it."),
    ]
    text = one(tmp_path, pdf(lines)).text
    assert "of the maintenance department" in text
    assert "is well-known for it" in text


def test_larger_letters_are_headings_and_make_sections(tmp_path):
    lines = [
        (50, 740, 20, "Costs"),
        (50, 700, 12, "The new quay costs twelve million and will be ready in spring."),
        (50, 686, 12, "Nobody knows who pays."),
    ]
    document = one(tmp_path, pdf(lines))
    assert [(found.kind, found.section) for found in document.blocks] == [("heading", "Costs"), ("text", "Costs")]


def test_two_columns_that_are_written_row_by_row(tmp_path):
    lines = []
    for number in range(8):
        lines.append((50, 700 - 14 * number, 10, f"left column line {number} goes"))
        lines.append((320, 700 - 14 * number, 10, f"right column line {number} goes"))
    text = " ".join(one(tmp_path, pdf(lines)).text.split())
    assert text.index("left column line 7") < text.index("right column line 0")


@pytest.mark.parametrize("pages", [[[]], [[], []]])
def test_a_pdf_without_text_says_so(tmp_path, pages):
    assert "no text in this PDF" in one(tmp_path, pdf(*pages)).reason


def test_a_truncated_pdf_has_a_reason(tmp_path):
    data = pdf([(50, 700, 12, "words")])
    assert "not a readable PDF" in one(tmp_path, b"%PDF-1.4\n" + data[-40:]).reason


def test_words_that_are_placed_and_not_spaced_are_apart(tmp_path):
    """groff moves on by the width of a space and writes none; PDFium overlooks so narrow a gap."""
    words = "[(The shell will allow) -137 (them, and reads the next) -30 (command.)] TJ"
    letters = "[(H) -137 (A) -137 (R) -137 (B) -137 (O) -137 (U) -137 (R)] TJ"
    text = one(tmp_path, pdf([(50, 700, 12, words), (50, 600, 12, letters)])).text
    assert text == "The shell will allow them, and reads the nextcommand.\n\nHARBOUR"


def test_a_web_address_over_the_end_of_a_line_is_one(tmp_path):
    lines = (
        "Read it there, namely at the place (https://www.harbour.example/distrib/",
        "ftplist) or in the old archive of letters that is kept at https://www.",
        "pathname.example/fhs and, a third one of these, at https://www.harbour.example/doc/",
        "user-manuals#faq and at the page of ports, https://www.harbour.example/ports/",
        "for those who have other machines. The last one is at https://my-",
        "site.example/x but not the one that ends a sentence, https://x.example.",
        "There it ends.",
    )
    escaped = [line.replace("(", "\\(").replace(")", "\\)") for line in lines]
    found = one(tmp_path, pdf([(50, 700 - 14 * number, 12, line) for number, line in enumerate(escaped)]))
    for words in (
        "(https://www.harbour.example/distrib/ftplist) or",
        "at https://www.pathname.example/fhs and",
        "at https://www.harbour.example/doc/user-manuals#faq and",
        "https://www.harbour.example/ports/ for those",
        "at https://my-site.example/x but",
        "https://x.example. There it ends.",
    ):
        assert words in found.text.replace("\n\n", " ")
