"""Questions made from an index itself."""

import pytest

from mundap import Index
from mundap.records import Passage
from mundap.serving.examples import _example_questions, _question_about, _questions_of


@pytest.mark.parametrize(
    ("title", "text", "question"),
    [
        ("Kilimanjaro", "Kilimanjaro is the highest mountain in Africa.", "What is Kilimanjaro?"),
        ("Ada Lovelace", "Ada Lovelace was an English mathematician. She wrote …", "Who was Ada Lovelace?"),
        ("FAQ > 1.2. Why is it slow?", "It is not.", "Why is it slow?"),
        ("Guide > How to mount a disk", "Use mount.", "How to mount a disk?"),
        ("서울", "서울은 대한민국의 수도이다.", "서울은 무엇인가요?"),
        ("세종대왕", "세종대왕은 조선의 왕이다. 그는 한글을 만들었다.", "세종대왕은 누구인가요?"),
        ("한라산 > 경주", "경주는 도시이다.", "경주는 무엇인가요?"),
        ("Installing", "Run make.", None),
        ("x" * 100, "x" * 100 + " is long.", None),
    ],
)
def test_a_passage_makes_a_question(title, text, question):
    assert next(_questions_of(Passage("a#1", "a", title, text, "a", 0, len(text))), None) == question


def test_any_passage_can_be_asked_about():
    assert _question_about(Passage("a#1", "a", "Guide > 2. Limits", "1,600", "a", 0, 5)) == "What is said about Limits?"
    assert _question_about(Passage("a#1", "a", "", "text", "a", 0, 4)) == "What is said about a?"
    assert _question_about(Passage("a#1", "a", "설치", "text", "a", 0, 4)) == "설치에 대해 무엇이라고 하나요?"


def test_an_index_makes_three_and_the_server_tells_them(start, tmp_path):
    for name in ("Kibo", "Mawenzi", "Shira", "Uhuru"):
        (tmp_path / f"{name}.md").write_text(f"# {name}\n\n{name} is a place on a mountain.\n")
    index = Index.build(list(tmp_path.glob("*.md")), tmp_path / "i", model="none")
    made = _example_questions(index, None)
    assert len(made) == 3
    assert all(one.startswith("What is ") for one in made)
    assert start({"main": tmp_path / "i"}).get("/v1/examples").json() == {"questions": made}
