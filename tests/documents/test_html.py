"""Web pages as people see them: words apart, white space as in a browser, no menus, structure kept."""

import tempfile
from pathlib import Path

from mundap.documents.files import SourceFile
from mundap.documents.html import read_html


def page(body: str, head: str = ""):
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "x.html"
        path.write_text(f"<html><head>{head}</head><body>{body}</body></html>")
        return next(read_html(SourceFile(path, "x.html", "x.html")))


def texts(document):
    return [document.text[one.start : one.end] for one in document.blocks]


def test_white_space_is_as_in_a_browser():
    document = page("<p>One\n   two <b>three</b>,\n\n\tfour<br>five</p><p>six</p>seven<div>eight</div>")
    assert texts(document) == ["One two three, four five", "six", "seven", "eight"]


def test_what_frames_a_page_is_left_out():
    frames = (
        '<nav><a href="/">Home</a></nav><div class="navheader"><table><tr><td>Prev</td><td>Next</td></tr></table></div>'
        '<ul class="docnav"><li>Prev</li></ul><div role="navigation">menu</div><div id="cookie-banner">We use cookies.</div>'
        "<script>evil()</script><style>p {}</style><footer>Imprint</footer><form>Search</form><div hidden>unseen</div>"
    )
    assert texts(page(f"{frames}<p>The only words.</p>{frames}and these")) == ["The only words.", "and these"]


def test_a_page_that_is_nothing_but_frames_is_still_read():
    assert texts(page("<nav><p>Everything is in a menu here.</p></nav>")) == ["Everything is in a menu here."]


def test_headings_make_sections_and_lists_stay_lists():
    document = page(
        "<h1>Tea</h1><p>Hot.</p><h2>Green¶</h2><ul><li>Sejak<ul><li>first</li></ul></li><li>Ujeon</li></ul><h2>Black</h2>x"
    )
    assert [(one.kind, one.section) for one in document.blocks] == [
        ("heading", "Tea"),
        ("text", "Tea"),
        ("heading", "Tea > Green"),
        ("item", "Tea > Green"),
        ("item", "Tea > Green"),
        ("item", "Tea > Green"),
        ("heading", "Tea > Black"),
        ("text", "Tea > Black"),
    ]


def test_a_term_stays_with_its_meaning():
    body = "<dl><dt>maint</dt><dd>The last release.</dd><dt>next</dt><dt>seen</dt><dd><p>For testing.</p><p>Second.</p></dd></dl><p>End.</p>"
    document = page(body)
    assert texts(document) == ["maint: The last release.", "next, seen: For testing.", "Second.", "End."]
    assert [one.section for one in document.blocks] == ["", "next, seen", "next, seen", ""]


def test_rows_have_their_header_words_and_cells_are_not_glued():
    table = (
        "<table><caption>Limits</caption><thead><tr><th>Item</th><th>Upper limit</th></tr></thead>"
        "<tr><td>columns<p>per table</p></td><td>1,600</td></tr><tr><td colspan=99999>all</td></tr></table>"
    )
    assert texts(page(table)) == ["Limits", "Item: columns per table; Upper limit: 1,600", "Item: all"]
    assert texts(page("<table><tr><td>pi</td><td>3.14</td></tr><tr><td>e</td><td>2.72</td></tr></table>")) == [
        "pi: 3.14",
        "e: 2.72",
    ]


def test_code_keeps_its_lines():
    document = page("<p>Run</p><pre>\n$ ls\n  -l\n</pre><p>done</p>")
    assert texts(document) == ["Run", "$ ls\n  -l", "done"]
    assert document.blocks[1].kind == "code"


def test_a_page_of_a_book_names_the_book():
    head = '<title>Appendix K. Limits</title><link rel="home" title="PostgreSQL">'
    assert page("<h2>Appendix K. Limits</h2><p>x</p>", head).title == "PostgreSQL > Appendix K. Limits"


def test_the_line_of_each_block():
    document = page("\n<p>one</p>\n\n<p>two\nlines</p>")
    assert [one.line for one in document.blocks] == [2, 4]


def test_what_is_not_shown_is_left_out_and_code_keeps_its_lines():
    document = page(
        '<p>Seen <span style="display: none">never</span><ruby>漢<rt>kan</rt></ruby>'
        '<a class="headerlink" href="#x">¶</a> here.</p><pre>one<br>two <b>three</b></pre>'
    )
    assert texts(document) == ["Seen 漢 here.", "one\ntwo three"]


def test_a_cell_with_a_page_of_text_is_no_row():
    words = "A sentence of five words. " * 50
    document = page(f"<table><tr><th>Name</th><th>Text</th></tr><tr><td>quay</td><td>{words}</td></tr></table>")
    assert [one.kind for one in document.blocks] == ["text"]


def test_the_type_of_a_parameter_is_not_glued_to_its_name():
    term = "<dt><strong>inplace</strong><span class='classifier'>bool, default False</span></dt>"
    assert texts(page(f"<dl>{term}<dd>Modify it.</dd></dl>")) == ["inplace : bool, default False: Modify it."]
