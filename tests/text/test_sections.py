import pytest

from mundap.records import Block
from mundap.text.sections import section_of, titles_and_sections


def test_the_section_of_a_passage_is_that_of_most_of_it_or_what_its_parts_share():
    few = [Block(0, 10, "text", "A"), Block(12, 100, "text", "A > B")]
    assert section_of(few) == "A > B"
    half = [Block(0, 50, "text", "A > B > C"), Block(52, 100, "text", "A > B > D")]
    assert section_of(half) == "A > B"
    assert section_of([Block(0, 50, "text", "A"), Block(52, 100, "text", "B")]) == ""
    assert section_of([]) == ""


@pytest.mark.parametrize(
    ("title", "section", "path"),
    [
        ("PostgreSQL", "Appendix K. Limits", "PostgreSQL > Appendix K. Limits"),
        ("Limits of PostgreSQL", "Appendix K. Limits of PostgreSQL > Notes", "Limits of PostgreSQL > Notes"),
        ("k", "Keys", "k > Keys"),
        ("Title", "", "Title"),
        ("Title", f"{'long ' * 15}> {'longer ' * 14}> Last", "Title > Last"),
    ],
)
def test_title_and_headings_in_one_line(title, section, path):
    assert titles_and_sections([(title, [Block(0, 9, "text", section)])]) == [(path, section)]
