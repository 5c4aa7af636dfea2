"""The evaluation view in a real browser."""

import json

import pytest

from mundap.evaluation.retrieval import RetrievalTask, measure
from tests.conftest import EXAMPLES
from tests.serving.browser import expect, shot


@pytest.fixture(scope="module")
def questions(tmp_path_factory):
    path = tmp_path_factory.mktemp("questions") / "q.jsonl"
    path.write_text("\n".join((EXAMPLES / "questions.jsonl").read_text("utf-8").splitlines()[:40]), "utf-8")
    return path


def test_two_rankings(visit, examples, example_index, questions):
    page = visit(f"{examples}/#/evaluate")
    page.click("#compare")
    page.get_by_text("Choose a file of questions.").wait_for()
    page.set_input_files("#questions", questions)
    page.select_option("#second", "bm25")
    page.click("#compare")
    page.get_by_text("Choose two different rankings.").wait_for()
    page.select_option("#second", "hybrid")
    page.click("#compare")
    page.wait_for_selector(".verdict")
    own = measure(RetrievalTask(example_index, str(questions), modes=("bm25", "hybrid"), cuts=(1, 5, 20), gold=False))
    rows = page.locator(".comparison tbody tr")
    expect(rows).to_have_count(len(own.cuts))
    for row, k in zip(rows.all(), own.cuts, strict=True):
        for position, system in enumerate(own.systems):
            expect(row.locator("td").nth(position)).to_have_text(f"{system.accuracy([k])[str(k)]:.1f}")
        verdict = "more than chance" if own.differences["hybrid"][f"top-{k}"].p < 0.05 else "may be chance"
        expect(row.locator("td").last).to_have_text(verdict)
    expect(page.locator(".legend li")).to_have_count(4)
    legend = [int(text.rsplit(" ", 1)[1]) for text in page.locator(".legend li").all_text_contents()]
    assert sum(legend) == 40
    both, only_first, only_second, _ = legend
    first, second = (int(system.hits(5).sum()) for system in own.systems)
    assert (both + only_first, both + only_second) == (first, second)
    expect(page.locator(".case")).to_have_count(min(20, only_first + only_second))
    page.get_by_role("button", name="only Hybrid").click()
    expect(page.locator(".case")).to_have_count(min(20, only_second))
    shot(page, "evaluation")
    question = page.locator(".case h3").first.text_content()
    page.locator(".case a", has_text="Ask this").first.click()
    page.wait_for_selector("#results:not([aria-busy]) .answer")
    expect(page.locator("#question")).to_have_value(question)
    page.go_back()
    expect(page.locator(".verdict")).to_be_visible()  # what was found is kept
    page.locator(".side.good a").first.click()
    page.wait_for_selector(".document-text mark")


def test_two_files_and_what_may_be_wrong_with_them(visit, examples, questions, tmp_path):
    page = visit(f"{examples}/#/evaluate")
    page.get_by_label("two result files").check()
    page.set_input_files("#questions", questions)
    page.click("#compare")
    page.get_by_text("Choose two result files.").wait_for()
    rows = [json.loads(line) for line in questions.read_text("utf-8").splitlines()]
    for name, text in (("<b>good</b>.json", "answer"), ("bad.json", "nothing")):
        found = [
            {
                "question": row["question"],
                "answers": row["answers"],
                "ctxs": [
                    {"id": "x", "title": "", "text": row["answers"][0] if text == "answer" else "none", "score": 1.0}
                ],
            }
            for row in rows
        ]
        (tmp_path / name.replace("/", "∕")).write_text(json.dumps(found), "utf-8")
    page.set_input_files("#first_file", tmp_path / "bad.json")
    page.set_input_files("#second_file", tmp_path / "<b>good<∕b>.json")
    page.click("#compare")
    page.wait_for_selector(".verdict")
    expect(page.locator(".verdict").first).to_contain_text(
        "<b>good<∕b>.json finds more: 100.0 points within the first 5, p < 0.001."
    )
    (tmp_path / "bad.json").write_text("no run at all")
    page.set_input_files("#first_file", tmp_path / "bad.json")
    page.click("#compare")
    page.wait_for_selector(".outcome .notice.bad")
    expect(page.locator(".outcome .detail").first).to_contain_text("first")
