"""The skeleton of every report."""

import re

from mundap.pages import page, write_page


def test_a_page_escapes_its_title_and_loads_nothing(tmp_path):
    text = page("a <b> & c", ["<h1>heading</h1>"])
    assert "<title>a &lt;b&gt; &amp; c</title>" in text
    assert "<h1>heading</h1></body>" in text
    assert not re.search(r"https?:|<script|<link|src=|@import|url\(", text)


def test_a_page_is_written_with_its_folder(tmp_path):
    path = write_page(tmp_path / "new" / "index.html", "t", ["\ud800 한국어"])
    assert path.read_text("utf-8").count("한국어") == 1
