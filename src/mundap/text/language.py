"""Detect the language of a text: by its script where that is enough, else with a small statistical model."""

import re
from collections.abc import Collection, Sequence
from functools import cache
from typing import Any, Literal

from mundap.text.scripts import HANGUL

_LONGEST = 600  # characters that are looked at
_FEWEST = 20  # letters: of fewer nothing can be said
_LEAST = 0.2  # probability: prose has .9 and more; names of columns and numbers are Bikol with .07
_SURE = 0.9  # probability from which a passage may be in another language than its document
_LETTERS = re.compile(r"[^\W\d_]")
_HANGUL = re.compile(f"[{HANGUL}]")
_KANA = re.compile("[\u3040-\u30ff]")
_HAN = re.compile("[\u3400-\u4dbf\u4e00-\u9fff]")
_SCRIPT = 0.3  # of the letters: a text with so many of a script is in its language, whatever else is in it

Group = Literal["ko", "ja-zh"]
"""Groups of languages with a confidence of their own."""

_GROUPS: dict[str, Group] = {"ko": "ko", "ja": "ja-zh", "zh": "ja-zh"}


def language(text: str) -> tuple[str, float]:
    """The two-letter code of a text's language and its probability; an empty code if the language is unclear."""
    text = text[:_LONGEST]
    if code := _by_script(text):
        return code, 1.0
    if len(_LETTERS.findall(text)) < _FEWEST:
        return "", 0.0
    code, probability = _model().classify(text)
    if probability < _LEAST:
        return "", 0.0
    return str(code), float(probability)


def group(text: str) -> Group | None:
    """The language group of a text, by its script, which works for short questions too."""
    return _GROUPS.get(_by_script(text[:_LONGEST]))


def _by_script(text: str) -> str:
    """The language, where its script is enough to tell; else nothing."""
    if text.isascii():
        return ""
    letters = len(_LETTERS.findall(text))
    if len(_HANGUL.findall(text)) > _SCRIPT * letters:
        return "ko"
    kana, han = len(_KANA.findall(text)), len(_HAN.findall(text))
    if kana + han <= _SCRIPT * letters:
        return ""
    if 10 * kana > han:
        return "ja"
    return "zh"


def passage_languages(stated: str, passages: Sequence[str]) -> list[str]:
    """The language of each passage of a document.

    A passage alone is short, and may be a list of names: it has the document's language unless it clearly is in
    another.

    Args:
        stated: What the document says, if it does: that counts for all of it.
        passages: Their texts.
    """
    if stated:
        code = stated.lower().replace("_", "-").split("-")[0]
        if 2 <= len(code) <= 3 and code.isascii() and code.isalpha():
            return [code] * len(passages)
    whole = language("\n".join(passage[:100] for passage in passages[:6]))[0]
    if len(passages) == 1:
        return [whole]
    found = []
    for passage in passages:
        code, probability = language(passage)
        if probability < _SURE:
            code = whole
        found.append(code)
    return found


@cache
def _model() -> Any:
    """Loaded when first needed: it takes half a second."""
    from py3langid.langid import MODEL_FILE, LanguageIdentifier

    return LanguageIdentifier.from_model_file(MODEL_FILE, norm_probs=True)


COUNTS_AS = {"nn": "no", "arz": "ar", "ary": "ar", "pcm": "en"}
"""Close relatives, and the language whose stemmer and stop words do for them."""


def likely(text: str, among: Collection[str]) -> dict[str, float]:
    """The probability of each of these languages for a text, even a short question; the likeliest first."""
    chances: dict[str, float] = {}
    for code, chance in _model().rank(text[:_LONGEST]):
        code = COUNTS_AS.get(code, code)
        if code in among:
            chances[code] = chances.get(code, 0.0) + chance
    total = sum(chances.values())
    if not total:
        return {}
    best_first = sorted(chances, key=lambda code: -chances[code])
    return {code: chances[code] / total for code in best_first}
