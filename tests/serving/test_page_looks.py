"""What the page looks like to everybody: contrast, names, width, languages, and no line of style or script inline."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest

from tests.serving.browser import expect, shot

PAGE = Path(__file__).parents[2] / "src/mundap/serving/page"
VILLAIN = quote("Who is the bad guy in Lord of the Rings?")
HIGH = quote("How high is the top of Kilimanjaro?")
VIEWS = {
    "start": ("#/", "h1"),
    "answer": (f"#/?q={HIGH}", ".answer"),
    "sides": (f"#/?q={VILLAIN}&tab=compare", ".columns"),
    "document": ("#/document?id=en/kilimanjaro.md&start=155&end=167", "mark"),
    "documents": ("#/documents", "#catalog tbody tr"),
    "evaluate": ("#/evaluate", "#compare"),
    "api": ("docs", ".endpoint"),
}

# WCAG 2: every piece of visible text against what is behind it.
CONTRAST = """() => {
  const parse = (text) => text.match(/[\\d.]+/g).map(Number);
  const light = ([r, g, b]) => {
    const part = (v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4);
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
  };
  const behind = (node) => {
    for (let at = node; at; at = at.parentElement) {
      const colour = parse(getComputedStyle(at).backgroundColor);
      if (colour.length < 4 || colour[3] === 1) return colour;
      if (colour[3] > 0) throw new Error('half transparent');
    }
    return [255, 255, 255];
  };
  const poor = [];
  let seen = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const node = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || !node.checkVisibility() || node.closest('.unseen, noscript, :disabled')) continue;
    const style = getComputedStyle(node);
    const [one, two] = [light(parse(style.color)), light(behind(node))].sort((a, b) => b - a);
    const size = parseFloat(style.fontSize);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    const ratio = (one + 0.05) / (two + 0.05);
    seen += 1;
    if (ratio < (large ? 3 : 4.5)) poor.push(`${ratio.toFixed(2)} ${walker.currentNode.data.slice(0, 40)}`);
  }
  return { seen, poor };
}"""


@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_contrast_and_names_in_every_view(visit, examples, dark):
    page = visit(examples, dark=dark)
    session = page.context.new_cdp_session(page)
    for name, (address, sign) in VIEWS.items():
        page.goto(f"{examples}/{address}")
        page.wait_for_selector(sign)
        found = page.evaluate(CONTRAST)
        assert found["seen"] > 5
        assert found["poor"] == [], name
        nodes = session.send("Accessibility.getFullAXTree")["nodes"]
        roles = ("button", "link", "textbox", "combobox", "tab", "radio", "meter", "dialog", "navigation", "tabpanel")
        nameless = [
            node["role"]["value"]
            for node in nodes
            if not node.get("ignored") and node["role"]["value"] in roles and not node.get("name", {}).get("value")
        ]
        assert nameless == [], name
        shot(page, f"{name}-{'dark' if dark else 'light'}")
    page.click("#help-open")
    expect(page.locator("#help")).to_be_visible()
    assert page.evaluate(CONTRAST)["poor"] == []


@pytest.mark.parametrize("language", ["en-US", "ko-KR"])
def test_a_phone_needs_no_scrolling_sideways(visit, examples, language):
    page = visit(examples, width=360, height=740, language=language)
    for name, (address, sign) in VIEWS.items():
        page.goto(f"{examples}/{address}")
        page.wait_for_selector(sign)
        assert page.evaluate("document.documentElement.scrollWidth") <= 360, name
        small = page.evaluate(
            "[...document.querySelectorAll('button, .button, nav a, select')].filter(one => one.checkVisibility() &&"
            " !one.matches('.skip') && one.getBoundingClientRect().height < 24).map(one => one.textContent)"
        )
        assert small == [], name  # WCAG's least size of what is touched
        shot(page, f"phone-{name}-{language[:2]}")


def test_every_string_is_there_in_both_languages(visit, examples):
    page = visit(examples)
    table = page.evaluate("import('/static/strings.js').then(module => module.table)")
    assert set(table) == {"en", "ko"}
    assert list(table["en"]) == list(table["ko"])
    for key, english in table["en"].items():
        korean = table["ko"][key]
        assert type(english) is type(korean), key
        for one, other in zip(*([text] if isinstance(text, str) else text for text in (english, korean)), strict=True):
            assert set(_blanks(one)) == set(_blanks(other)) or not one, key
    code = "".join(path.read_text("utf-8") for path in [*PAGE.glob("*.js"), PAGE / "index.html"])
    stems = (
        "mode_",
        "about_",
        "compare_",
        "trouble_",
        "tip_",
        "place_",
        "fact_",
        "chip_",
        "sort_",
        "column_",
        "language_name",
    )
    unused = [key for key in table["en"] if f'"{key}"' not in code and not key.startswith(stems)]
    assert unused == []


def test_the_page_knows_the_limits_of_the_server():
    pytest.importorskip("fastapi", reason="needs the extra `serve`")
    from mundap.serving import compare

    code = (PAGE / "evaluate.js").read_text("utf-8")
    known = {name: int(value) for name, value in re.findall(r"^const (\w+) = (\d+);", code, re.MULTILINE)}
    assert known["QUESTIONS"] == compare.MAX_QUESTIONS
    assert known["QUESTIONS_MB"] << 20 == compare.QUESTION_BYTES
    assert known["RUN_MB"] << 20 == compare.RUN_BYTES


def _blanks(text):
    return re.findall(r"\{(\w+)\}", text)


def test_nothing_is_inline_and_nothing_parses_html():
    page = (PAGE / "index.html").read_text("utf-8")
    assert "style=" not in page
    assert "<style" not in page
    assert page.count("<script") == page.count('<script src="static/') + page.count(
        '<script type="module" src="static/'
    )
    for path in PAGE.glob("*.js"):
        text = path.read_text("utf-8")
        for dangerous in (
            "innerHTML",
            "outerHTML",
            "insertAdjacentHTML",
            "document.write",
            "eval(",
            "new Function",
            "http:",
        ):
            assert dangerous not in text.replace("http://www.w3.org/2000/svg", ""), path.name
        assert "https:" not in text
