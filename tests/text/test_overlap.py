import pytest

from mundap.text.overlap import containment, question_words_in, shingles


def test_a_part_is_contained_in_the_whole():
    whole = "The river runs through the old city and down to the sea."
    assert containment(shingles(whole), shingles("through the old city")) == 1
    assert containment(shingles(whole), shingles("a wholly different text about music")) == 0


def test_short_and_empty_texts():
    assert shingles("") == frozenset()
    assert containment(shingles(""), shingles("a b c")) == 0
    assert containment(shingles("One two"), shingles("one TWO")) == 1
    assert shingles("a b c d") == {("a", "b", "c"), ("b", "c", "d")}


@pytest.mark.parametrize(
    ("question", "text", "share"),
    [
        ("Who founded the Debian project?", "Ian Murdock is the founder of Debian, a project of volunteers.", 1.0),
        ("Who founded the Fedora project?", "Ian Murdock is the founder of Debian, a project of volunteers.", 0.5),
        ("When was the war over?", "New software was written.", 0.0),  # "ware" is no war
        ("In 1987, what?", "It was in 1986.", 0.0),
        ("what is it?", "anything", 1.0),  # nothing to look for
        ("", "anything", 1.0),
        ("서울의 인구는?", "서울은 대한민국의 수도이다.", 0.25),  # 서울, and not 울의, 인구, 구는
        ("首都は?", "日本の首都は東京です。", 1.0),
    ],
)
def test_the_share_of_a_questions_words_in_a_passage(question, text, share):
    assert question_words_in(question, [text, text]) == pytest.approx([share, share])
