"""Files as LibreOffice 7.4 writes them: a text with a table and a list, a sheet, slides."""

from pathlib import Path

import pytest

from mundap.documents import SourceFile, read
from mundap.records import Document

FILES = Path(__file__).parent / "files"


def text_of(name: str) -> str:
    path = FILES / name
    (document,) = read(SourceFile(path, path.name, path.name), None)
    assert isinstance(document, Document), document
    return document.text


@pytest.mark.parametrize("name", ["libreoffice.odt", "libreoffice.docx", "libreoffice.rtf"])
def test_a_text_keeps_its_headings_table_and_list(name):
    lines = text_of(name).splitlines()
    assert lines[0] == "The harbour office"
    assert "It was opened in 1911 by the engineer Han Seo-yeon." in lines[2]
    assert lines[6:8] == ["Day: Monday; Opens: 08:30; Closes: 17:00", "Day: Saturday; Opens: 10:00; Closes: 13:00"]
    assert lines[-1].endswith("Light the lamp at dusk.")


def test_a_pdf_keeps_its_words_apart():
    assert "Monday 08:30 17:00" in text_of("libreoffice.pdf")


@pytest.mark.parametrize("name", ["libreoffice.ods", "libreoffice.xlsx"])
def test_the_rows_of_a_sheet_have_their_header_words(name):
    assert text_of(name).splitlines()[1] == "Port: Busan; High tide: 09:47; Range in metres: 1.2"


def test_slides_have_their_notes_and_no_page_numbers():
    text = text_of("libreoffice.odp")
    assert "Dredging takes until August." in text
    assert "Mention that the ferry pays a third of it." in text
    assert "<number>" not in text


def test_subtitles_of_the_web():
    text = text_of("film.vtt")
    assert "The lamp of the lighthouse was lit in 1911." in " ".join(text.split())
    assert "WEBVTT" not in text
    assert "-->" not in text
