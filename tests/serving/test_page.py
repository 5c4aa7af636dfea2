"""The page in a real browser, over the example encyclopaedia: what people do with it."""

import json
import re
from urllib.parse import parse_qs, quote

from tests.serving.browser import ask, expect, shot

HIGH = "How high is the top of Kilimanjaro?"
VILLAIN = "Who is the bad guy in Lord of the Rings?"


def start(question, **more):
    extra = "".join(f"&{name}={quote(value)}" for name, value in more.items())
    return f"/#/?q={quote(question)}{extra}"


def in_sight(page, selector):
    return page.eval_on_selector(
        selector,
        "node => { const box = node.getBoundingClientRect(); return box.top >= 0 && box.bottom <= innerHeight; }",
    )


def only_from(page, folder):
    """Wait until there are hits, and every one of them is from a folder."""
    expect(page.locator("#ranking .path", has_text=folder)).not_to_have_count(0)
    expect(page.locator("#ranking .path").filter(has_not_text=folder)).to_have_count(0)


def test_ask_and_open_the_document_at_the_answer(visit, examples):
    page = visit(examples, height=420)
    assert page.text_content("h1") == "Ask your documents"
    expect(page.locator("#question")).to_be_focused()
    shot(page, "start")
    ask(page, HIGH)
    assert page.text_content("#answer-text") == "5,895 metres"
    assert page.text_content("blockquote mark") == "5,895 metres"
    meter = page.locator("[role=meter]")
    assert 0 < int(meter.get_attribute("aria-valuenow")) < 100
    assert "5,895 metres" in page.text_content("#status")
    assert parse_qs(page.url.partition("?")[2])["q"] == [HIGH]
    assert page.title() == f"{HIGH} · mundap"
    shot(page, "answer")

    asked = []
    page.on("request", lambda sent: asked.append(sent.url) if sent.method == "POST" else None)
    page.click("#open-document")
    page.wait_for_selector(".document-text mark")
    assert page.text_content(".document-text mark") == "5,895 metres"
    assert page.text_content("h1") == "Kilimanjaro"
    assert "glaciers" in page.text_content(".document-text")
    assert in_sight(page, ".document-text mark")
    shot(page, "document")
    page.keyboard.press("Escape")
    page.wait_for_selector("#answer-text")
    page.go_back()
    page.wait_for_selector(".document-text")
    page.go_back()
    page.wait_for_selector("#answer-text")
    assert asked == []  # what was found is still there


def test_rankings_one_by_one_and_side_by_side(visit, examples):
    page = visit(examples + start(VILLAIN))
    page.wait_for_selector(".rankings")
    found, best = {}, {}
    for tab, mode in (("Words", "bm25"), ("Meaning", "dense"), ("Hybrid", "hybrid")):
        page.get_by_role("tab", name=tab, exact=True).click()
        body = {"question": VILLAIN, "mode": mode, "k": 10}
        hits = page.request.post(f"{examples}/v1/search", data=body).json()["hits"]
        found[mode], best[mode] = [hit["passage"]["title"] for hit in hits], hits[0]["score"]
        expect(page.locator("#ranking h3")).to_have_text(found[mode])
    page.keyboard.press("ArrowRight")
    expect(page.get_by_role("tab", selected=True)).to_have_text("Words")
    for word in ("Lord", "Rings", "Ring"):
        marked = page.locator("#ranking li:first-child mark.word").get_by_text(word, exact=True)
        expect(marked).not_to_have_count(0)
    expect(page.locator("#ranking li:first-child .why").first).to_contain_text("Has 3 of 5 words: Lord, Rings, who")
    expect(page).to_have_url(re.compile("tab=bm25"))

    page.get_by_role("tab", name="Side by side").click()
    for mode, titles in found.items():
        expect(page.locator(f".column.{mode} li h3")).to_have_text(titles)
    first = page.locator(".column.dense li").first
    first.hover()
    same = page.locator(".hit.same")
    expect(same).to_have_count(3)
    assert {card.get_attribute("data-passage") for card in same.all()} == {first.get_attribute("data-passage")}
    expect(first.locator(".why")).to_contain_text(f"Similarity {best['dense']:.2f}")
    shot(page, "side-by-side")
    page.reload()
    page.wait_for_selector(".columns")


def test_no_answer_says_so_and_shows_what_is_close(visit, examples):
    page = visit(examples + start("What colour are unicorn hooves?"))
    page.wait_for_selector(".answer.none")
    expect(page.locator("#answer-text").first).to_have_text("No answer found")
    expect(page.locator("#ranking li")).to_have_count(10)
    expect(page.locator("#status").first).to_contain_text("No answer. 10 passages come close.")
    page.click(".guess summary")
    expect(page.locator(".guess mark")).to_be_visible()
    shot(page, "no-answer")
    page.keyboard.press("2")
    ask(page, "zzzxqj")
    page.get_by_role("tab", name="Words").click()
    expect(page.locator("#ranking .empty").first).to_have_text("No word of the question is in this index.")


def test_filters(visit, examples):
    page = visit(examples + start("mountain"))
    page.wait_for_selector(".rankings")
    expect(page.locator("#ranking .path", has_text="/en/")).not_to_have_count(0)
    page.get_by_role("button", name="Filters").click()
    expect(page.locator("#filter-language option")).to_have_text(["any", "English (194)", "Korean (51)"])
    page.select_option("#filter-language", "ko")
    expect(page.locator(".chip")).to_have_count(1)
    only_from(page, "/ko/")
    shot(page, "filters")
    page.fill("#filter-source", "*/en/*")
    page.press("#filter-source", "Enter")
    page.wait_for_selector("#results:not([aria-busy]) .empty")
    page.get_by_role("button", name="Remove the filter language=ko").click()
    only_from(page, "/en/")
    page.reload()  # they are part of the address
    page.wait_for_selector(".hit")
    page.get_by_role("button", name="topic: place").first.click()
    expect(page.locator(".chip")).to_have_count(2)
    page.get_by_role("button", name="Filters").click()
    with page.expect_request("**/v1/ask") as sent:
        page.select_option("#filter-mode", "bm25")
    body = json.loads(sent.value.post_data)
    assert body["mode"] == "bm25"
    assert body["filters"] == {"sources": ["*/en/*"], "where": {"topic": "place"}}


def test_history_is_kept_and_deleted(visit, examples):
    page = visit(examples)
    ask(page, HIGH)
    ask(page, VILLAIN)
    page.reload()
    page.wait_for_selector(".answer")
    page.keyboard.press("/")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.press("ArrowDown")
    expect(page.locator("#popup .asked")).to_have_text([VILLAIN, HIGH])
    page.keyboard.press("ArrowDown")
    shot(page, "history")
    page.keyboard.press("Enter")
    page.wait_for_selector("#results:not([aria-busy]) blockquote")
    expect(page.locator("#answer-text").first).to_have_text("5,895 metres")
    expect(page.locator("#question")).to_be_focused()
    page.click(".brand")
    page.wait_for_selector(".recent")
    expect(page.locator(".recent .given")).to_have_text(["5,895 metres", "no answer"])
    page.get_by_role("button", name=f"Delete “{HIGH}”").click()
    expect(page.locator(".recent .asked")).to_have_text([VILLAIN])
    page.get_by_role("button", name="Delete all").click()
    expect(page.locator(".recent .asked")).to_have_count(0)
    assert page.evaluate("localStorage.getItem('mundap.history')") is None


def test_a_late_answer_does_not_replace_what_is_shown(visit, examples):
    page = visit(examples)
    ask(page, HIGH)
    held = []
    page.route("**/v1/ask", lambda route: held.append(route))
    page.fill("#question", VILLAIN)
    page.press("#question", "Enter")
    page.wait_for_selector(".waiting")
    page.go_back()
    page.wait_for_selector("#answer-text")
    for route in held:
        route.fulfill(json={"question": VILLAIN, "answers": [], "no_answer": True, "guess": None})
    page.wait_for_timeout(300)
    expect(page.locator("#answer-text").first).to_have_text("5,895 metres")


def test_keys_alone(visit, examples):
    page = visit(examples)
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.type(HIGH)
    page.keyboard.press("Enter")
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    page.focus("#tab-hybrid")
    page.keyboard.press("4")
    page.wait_for_selector(".columns")
    page.keyboard.press("1")
    page.evaluate("document.activeElement.blur()")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#ranking :focus")).to_have_count(1)
    ring = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert ring == "solid"
    page.keyboard.press("Enter")
    page.wait_for_selector(".document-text")
    page.keyboard.press("?")
    expect(page.locator("#help")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#help")).to_be_hidden()
    expect(page.locator(".document-text")).to_be_visible()
    page.keyboard.press("Escape")
    page.wait_for_selector(".answer")
    page.keyboard.press("/")
    expect(page.locator("#question")).to_be_focused()
    page.keyboard.type("/?1")  # in the box they are letters
    expect(page.locator("#question")).to_have_value("/?1")


def test_korean(visit, examples):
    page = visit(examples, language="ko-KR")
    expect(page.locator("html")).to_have_attribute("lang", "ko")
    expect(page.locator("h1").first).to_have_text("문서에 물어보세요")
    ask(page, "기생충이 칸 영화제에서 받은 상 이름은?")
    expect(page.locator(".answer").first).to_contain_text("황금종려상")
    expect(page.locator("#ranking li:first-child mark", has_text="황금종려상을")).not_to_have_count(0)
    shot(page, "korean")
    page.get_by_role("button", name="English").click()
    expect(page.locator("html")).to_have_attribute("lang", "en")
    expect(page.locator("#answer-text").first).to_have_text("황금종려상")
    page.reload()
    expect(page.locator("html")).to_have_attribute("lang", "en")


def test_dark(visit, examples):
    page = visit(examples + start(HIGH), dark=True)
    page.wait_for_selector(".answer")
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    shot(page, "dark")
    page.get_by_role("button", name="Switch to light").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    page.reload()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")
    expect(page.get_by_role("button", name="Switch to dark")).to_be_visible()


def test_errors_help(visit, examples):
    page = visit(examples, tolerant=True)
    answers = [
        lambda route: route.abort(),
        lambda route: route.fulfill(status=429, headers={"Retry-After": "7"}, json={"error": {"message": "slow down"}}),
        lambda route: route.fulfill(status=502, body="<html>proxy</html>"),
    ]
    page.route("**/v1/ask", lambda route: answers[0](route) if answers else route.continue_())
    page.fill("#question", HIGH)
    page.keyboard.press("Enter")
    expect(page.locator(".notice.bad").first).to_contain_text("The server does not answer")
    shot(page, "error")
    answers.pop(0)
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("Wait 7 s").wait_for()
    expect(page.locator(".notice.bad").first).to_contain_text("slow down")
    answers.pop(0)
    page.get_by_role("button", name="Try again").click()
    page.get_by_text("That did not work").wait_for()
    answers.pop(0)
    page.get_by_role("button", name="Try again").click()
    page.wait_for_selector("#answer-text")
    page.goto(f"{examples}/#/document?id=nowhere.md")
    page.get_by_text("not in the index any more").wait_for()


def test_documents_are_listed_found_and_opened(visit, examples):
    page = visit(f"{examples}/#/documents")
    page.wait_for_selector("#catalog tbody tr")
    expect(page.locator("#catalog tbody tr")).to_have_count(50)
    total = page.request.get(f"{examples}/v1/documents?most=1").json()["total"]
    expect(page.locator(".pages").first).to_contain_text(f"1–50 of {total}")
    page.get_by_role("button", name="Next").click()
    page.get_by_text(f"51–100 of {total}").wait_for()
    page.fill("#find", "kilimanjaro")
    page.press("#find", "Enter")
    expect(page.locator("#catalog tbody tr")).to_have_count(1)
    for position, shown in enumerate(("2", "English")):
        expect(page.locator("#catalog tbody td").nth(position)).to_have_text(shown)
    page.select_option("#only-language", "ko")
    page.get_by_text("No document matches.").wait_for()
    page.select_option("#only-language", "")
    page.locator("#catalog tbody a").click()
    page.wait_for_selector(".document-text")
    page.click(".passage-list summary")
    expect(page.locator(".passage-list li")).to_have_count(2)
    expect(page.locator(".passage-list li:first-child").first).to_contain_text("line 7")
    page.click(".passage-list li:nth-child(2) a")
    page.wait_for_selector(".document-text mark")


def test_answers_and_hits_say_where_they_stand(visit, examples):
    page = visit(examples + start(HIGH))
    page.wait_for_selector(".answer")
    expect(page.locator(".from .place").first).to_have_text("line 7")
    expect(page.locator("#ranking li:first-child .place").first).to_have_text(re.compile("^line "))


def test_an_unsure_answer_is_a_possibility(visit, examples):
    page = visit(examples)

    def unsure(route):
        found = route.fetch().json()
        found["answers"][0]["confidence"] = 0.49
        route.fulfill(json=found)

    ask(page, HIGH)
    expect(page.locator(".answer .eyebrow").first).to_have_text("Answer")
    page.route("**/v1/ask", unsure)
    ask(page, HIGH)
    expect(page.locator(".answer.possible .eyebrow").first).to_have_text("Possible answer")
    expect(page.locator("#status").first).to_contain_text("Possible answer: 5,895 metres")
    shot(page, "possible")


def test_the_start_offers_questions_of_the_index(visit, examples):
    page = visit(examples)
    page.wait_for_selector(".examples a")
    expect(page.locator(".examples a")).to_have_count(3)
    question = page.locator(".examples a").first.text_content()
    page.locator(".examples a").first.click()
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    expect(page.locator("#question")).to_have_value(question)
    expect(page.locator("#answer-text").first).not_to_have_text("No answer found")


def test_a_phone_shows_no_keys(visit, examples):
    page = visit(examples, width=360, height=740)
    page.wait_for_selector(".tips")
    expect(page.locator(".for-keys:visible")).to_have_count(0)
    page.set_viewport_size({"width": 1200, "height": 800})
    expect(page.locator(".for-keys:visible")).to_have_count(2)


def test_the_api_can_be_tried(visit, examples):
    page = visit(f"{examples}/docs", tolerant=True)  # a 422 is an error to the console
    page.locator("summary", has_text="/v1/ask").click()
    form = page.locator(".endpoint[open] form")
    form.locator("textarea").fill(json.dumps({"question": HIGH}))
    form.get_by_role("button", name="Send").click()
    expect(form.locator("pre")).to_contain_text("5,895 metres")
    expect(form.locator("p.quiet")).to_have_text(re.compile("^200,"))
    form.locator("textarea").fill("{")
    form.get_by_role("button", name="Send").click()
    expect(form.locator("pre")).to_contain_text("the body is not JSON")
    shot(page, "api-try")
