"""Languages of texts, and of what is no text."""

import pytest

from mundap.text.language import language, passage_languages


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("The river flows into the sea, and the sea is deep.", "en"),
        ("Die Katze sitzt auf dem Dach und schläft.", "de"),
        ("La capitale de la France est Paris, et la Seine y passe.", "fr"),
        ("데비안은 자유 운영 체제입니다.", "ko"),
        ("Sepal.Length: 5.1; Sepal.Width: 3.5; Petal.Length: 1.4; Petal.Width: 0.2; Species: setosa\n" * 3, ""),
        ("mpg: 21; cyl: 6; disp: 160; hp: 110; drat: 3.9; wt: 2.62; qsec: 16.46; vs: 0; am: 1\n" * 3, ""),
        ("1862", ""),
    ],
)
def test_prose_has_a_language_and_a_table_of_figures_none(text, code):
    assert language(text)[0] == code


def test_passages_have_the_language_of_their_document_unless_they_clearly_are_in_another():
    english = "The river flows into the sea, and the sea is deep and blue."
    german = "Die Katze sitzt auf dem Dach und schläft, denn die Sonne scheint warm."
    assert passage_languages("", [english, english, english, "Anna Otto", german]) == ["en"] * 4 + ["de"]
    assert passage_languages("pt_BR", [english]) == ["pt"]
