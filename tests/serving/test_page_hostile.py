"""Documents, names and questions that mean harm; the token; documents that come in and go out."""

import json
import re
from urllib.parse import quote

import pytest

from mundap import Index
from tests.conftest import make_model, make_reader
from tests.serving.browser import ask, expect, shot

TOKEN = "s3cret-<b>-token"
SCRIPT = "<script>window.harmed = 1</script><img src=x onerror='window.harmed = 1'><svg onload='window.harmed = 1'>"
OVERRIDE = "\u202eevil\u202d"
LONG = "villain" + "x" * 3000
EMOJI = "🎬👩\u200d🚀𝔘𝔫𝔦🎞️"


@pytest.fixture(scope="module")
def site(tmp_path_factory, start):
    """A server that is writable and needs a token, over documents that mean harm."""
    folder = tmp_path_factory.mktemp("hostile")
    docs = folder / "docs"
    docs.mkdir()
    row = {"_id": "a/../<b>?#&%2e", "title": SCRIPT, "text": f"{EMOJI} {SCRIPT} {EMOJI} the villain of the film."}
    (docs / "rows.jsonl").write_text(json.dumps({**row, "metadata": {"kind": "<i>x</i>"}}) + "\n")
    (docs / "rtl.txt").write_text(f"river {OVERRIDE} \u2066 the king of the river")
    (docs / "long.txt").write_text(f"{LONG} {'m' * 2000} mountain")
    (docs / "many.txt").write_text(
        "".join(f"{EMOJI} line {n} of the music\n" for n in range(3000)) + "the lord of the moon\n"
    )
    Index.build([docs], folder / "i", model=str(make_model(folder / "model")))
    Index.build([docs / "rtl.txt"], folder / "words", model="none")
    reader = make_reader(folder / "reader")
    return start({"docs": folder / "i", "<words>": folder / "words"}, reader, token=TOKEN, writable=True).address


def unharmed(page):
    assert page.evaluate("window.harmed") is None
    assert page.locator("main script, main img, main [onload], main b:has(script)").count() == 0  # not for a moment


def test_the_token_is_asked_for_and_kept_for_the_tab(visit, site):
    page = visit(site, tolerant=True)  # a 401 is an error to the console
    page.wait_for_selector("#token[open]")
    page.keyboard.type("wrong")
    page.keyboard.press("Enter")
    page.get_by_text("That token was not accepted.").wait_for()
    shot(page, "token")
    page.keyboard.type(TOKEN)
    page.keyboard.press("Enter")
    page.wait_for_selector("h1")
    page.reload()
    page.wait_for_selector("h1")
    expect(page.locator("#token")).to_be_hidden()
    assert page.evaluate("JSON.stringify(localStorage)").find("s3cret") == -1

    other = visit(site, tolerant=True)
    other.wait_for_selector("#token[open]")
    other.keyboard.press("Escape")
    other.get_by_text("No token, no answers").wait_for()


def test_text_is_text(visit, site):
    page = visit(site, token=TOKEN)
    ask(page, f"villain of the film {SCRIPT}")
    expect(page.locator("#answer-text").first).to_have_text("villain")
    expect(page.locator("blockquote mark").first).to_have_text(
        "villain"
    )  # offsets count code points, and emoji stand before it
    expect(page.locator("blockquote").first).to_contain_text(SCRIPT)
    expect(page.locator(".from a").first).to_contain_text("<script>")
    expect(page.get_by_role("button", name="kind: <i>x</i>").first).to_be_visible()
    unharmed(page)
    shot(page, "hostile")
    page.click("#open-document")
    page.wait_for_selector(".document-text mark")
    expect(page.locator(".document-text mark").first).to_have_text("villain")
    expect(page.locator(".document-text").first).to_contain_text(SCRIPT)
    unharmed(page)
    page.goto(f"{site}/#/documents")
    page.goto(f"{site}/#/?q={quote(SCRIPT)}&where={quote('<b>=<i>')}&source={quote(SCRIPT)}")
    page.wait_for_selector(".chip")
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    unharmed(page)
    page.click(".brand")
    page.wait_for_selector(".recent")
    expect(page.locator(".recent").first).to_contain_text(SCRIPT)
    unharmed(page)


def test_direction_and_length_stay_inside(visit, site):
    page = visit(site, token=TOKEN, width=360)
    ask(page, "king of the river")
    expect(page.locator("#answer-text").first).to_have_text("king")
    # An override that is never closed turns nothing around outside of its own element.
    places = "one => [...one.children].map(part => Math.round(part.getBoundingClientRect().left))"
    lefts = page.locator(".hit-head", has_text="rtl").first.evaluate(places)
    assert lefts[0] <= lefts[1]
    assert page.eval_on_selector("blockquote", "one => getComputedStyle(one).unicodeBidi") == "isolate"
    ask(page, "mountain villain")
    for address in (page.url, f"{site}/#/document?id=long.txt", f"{page.url}&tab=compare"):
        page.goto(address)
        page.wait_for_selector(".document-text, #results:not([aria-busy]) .hit")
        assert page.evaluate("document.documentElement.scrollWidth") <= 360


def test_another_index_without_vectors(visit, site):
    page = visit(site, token=TOKEN)
    page.select_option("#index", "<words>")
    page.get_by_text("1 document · 1 passage").wait_for()
    ask(page, "river villain")
    expect(page.get_by_role("tab")).to_have_text(["Words"])
    expect(page.locator(".hit")).to_have_count(1)
    page.select_option("#index", "docs")  # the same question to the other
    page.wait_for_selector("#tab-dense")
    expect(page).to_have_url(re.compile("index=docs"))
    expect(page.locator(".hit").nth(1)).to_be_visible()
    page.goto(f"{site}/#/evaluate?index={quote('<words>')}")
    page.wait_for_selector("#first_file")
    expect(page.get_by_role("radio")).to_have_count(1)


def test_a_long_document_opens_at_the_span(visit, site):
    page = visit(site, token=TOKEN)
    page.goto(f"{site}/#/?q={quote('lord of the moon')}&source={quote('*many.txt')}")
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    expect(page.locator("#answer-text").first).to_have_text("lord")
    page.click("#open-document")
    page.wait_for_selector(".document-text mark")
    expect(page.locator(".document-text mark").first).to_have_text("lord")
    expect(page.locator(".document-text mark")).to_be_in_viewport()
    expect(page.locator(".block").nth(10)).to_be_attached()


def test_documents_come_in_and_go_out(visit, site, tmp_path):
    page = visit(f"{site}/#/documents", token=TOKEN)
    good, bad = tmp_path / "<img src=x onerror=harmed=1>.md", tmp_path / "broken.pdf"
    good.write_text("# Ring\n\nthe villain of the ring is a moon\n")
    bad.write_bytes(b"%PDF-1.4 no")
    before = int(page.text_content(".figures dd"))
    page.set_input_files("#files", [good, bad])
    page.wait_for_selector(".uploads .good")
    page.wait_for_selector(".uploads .bad")
    assert "Added: 1 passage" in page.text_content(".uploads .good")
    assert "not a readable PDF" in page.text_content(".uploads .bad")
    assert int(page.text_content(".figures dd")) == before + 1
    unharmed(page)
    shot(page, "upload")
    page.click(".uploads .good a")
    page.wait_for_selector(".document-text")
    page.get_by_role("button", name="Remove from the index").click()
    shot(page, "remove")
    page.get_by_role("button", name="Cancel").click()
    page.get_by_role("button", name="Remove from the index").click()
    page.get_by_role("button", name="Remove", exact=True).click()
    page.wait_for_selector(".figures")
    assert int(page.text_content(".figures dd")) == before


def test_documents_can_be_dropped_anywhere(visit, site):
    page = visit(site, token=TOKEN)
    page.wait_for_selector("h1")
    drop = """kind => {
      const data = new DataTransfer();
      data.items.add(new File(['the king of the sun'], 'dropped.txt', { type: 'text/plain' }));
      document.body.dispatchEvent(new DragEvent(kind, { dataTransfer: data, bubbles: true, cancelable: true }));
    }"""
    page.evaluate(drop, "dragover")
    expect(page.locator("#drop")).to_be_visible()
    page.evaluate(drop, "drop")
    page.wait_for_selector(".uploads .good")
    expect(page.locator("#drop")).to_be_hidden()
    page.goto(f"{site}/#/?q={quote('king of the sun')}&source={quote('*dropped.txt')}")
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    expect(page.locator("#answer-text").first).to_have_text("king")
