"""Where things stand: tables on the page are tables, and an answer names its page of a PDF."""

import pytest

from mundap import Index
from tests.documents.test_pdf import pdf
from tests.serving.browser import ask, expect, shot
from tests.serving.conftest import Server

LIMITS = """<html lang=en><title>Limits</title><body><h1>Limits</h1><p>What a database can hold.</p>
<table><tr><th>Item<th>Upper Limit<th>Comment</tr>
<tr><td>columns per table<td>1,600<td>limited by a page; see the note</tr>
<tr><td>columns per index<td>32<td></tr>
<tr><td>constraints_of_a_table_in_one_database_cluster<td>unlimited_number_of_them<td>of_the_size_of_a_page</tr>
<tr><td>field size<td>1 GB<td>😀 large</tr></table></body></html>"""


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    folder = tmp_path_factory.mktemp("places")
    (folder / "docs").mkdir()
    (folder / "docs" / "limits.html").write_text(LIMITS)
    (folder / "docs" / "pairs.csv").write_text("Mount Ring;1,234 m\nMount King;2,345 m\n")
    lines = [(50, 700, 12, "The lighthouse of Sandy Point was built in 1862 by Ada Merrow.")]
    (folder / "docs" / "harbour.pdf").write_bytes(pdf([(50, 700, 12, "Of harbours and ships.")], lines))
    Index.build([folder / "docs"], folder / "i", model="none")
    server = Server(["-m", "mundap", "serve", "-i", str(folder / "i"), "--port", "0"])
    yield server.address
    server.stop()


def test_rows_are_shown_as_a_table_with_the_words_marked(visit, places):
    page = visit(f"{places}/#/?q=columns+per+table")
    table = page.locator("#ranking table.rows").first
    expect(table.locator("th")).to_have_text(["Item", "Upper Limit", "Comment"])
    first, second, third = (table.locator("tbody tr").nth(number).locator("td") for number in (0, 1, 3))
    expect(first).to_have_text(["columns per table", "1,600", "limited by a page; see the note"])
    expect(second).to_have_text(["columns per index", "32", ""])
    expect(third).to_have_text(["field size", "1 GB", "😀 large"])
    expect(first.first.locator("mark")).to_have_text(["columns", "per", "table"])
    expect(page.locator("#ranking .hit").first).to_contain_text("What a database can hold.")
    shot(page, "table")


def test_rows_without_header_words_are_names_and_values(visit, places):
    page = visit(f"{places}/#/?q=Mount+King")
    row = page.locator("#ranking table.rows").first.locator("tr").nth(1).locator("td")
    expect(row).to_have_text(["Mount King", "2,345 m"])


def test_a_table_fits_on_a_phone(visit, places):
    page = visit(f"{places}/#/?q=columns+per+table", width=360, height=740)
    expect(page.locator("#ranking table.rows").first).to_be_visible()
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    card = page.locator("#ranking .hit").first.bounding_box()
    assert card["x"] + card["width"] <= 360
    shot(page, "table-phone")


def test_facts_have_korean_names(visit, places):
    page = visit(f"{places}/#/?q=columns+per+table", language="ko-KR")
    expect(page.locator("#ranking .fact").first).to_contain_text("수정일: 20")


def test_an_answer_from_a_pdf_names_its_page(visit, places):
    page = visit(places)
    ask(page, "When was the lighthouse of Sandy Point built?")
    expect(page.locator("#answer-text")).to_have_text("1862")
    expect(page.locator(".answer .source-line").first).to_contain_text("harbour.pdf")
    expect(page.locator(".answer .source-line .place").first).to_have_text("page 2")
    shot(page, "answer-pdf")
