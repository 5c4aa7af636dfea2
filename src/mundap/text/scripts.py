"""Which characters belong to which script. One place for the ranges."""

import re

HANGUL = "\u1100-\u11ff\u3130-\u318f\ua960-\ua97f\uac00-\ud7a3\ud7b0-\ud7ff"
"""Korean: words are separated by spaces, but particles stick to them."""

UNSPACED = (
    "\u0e00-\u0eff"  # Thai, Lao
    "\u1000-\u109f\u1780-\u17ff"  # Myanmar, Khmer
    "\u3005-\u3007\u3040-\u30ff\u31f0-\u31ff\uff66-\uff9d"  # iteration marks, kana
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003134f"  # Han
)
"""Scripts written without spaces between words."""

LATIN = "A-Za-z\u00aa\u00ba\u00c0-\u024f\u1e00-\u1eff"
"""Latin letters, with those of other European languages and of Vietnamese."""

_LATIN_LETTER = re.compile(f"[{LATIN}]")
_HANGUL_LETTER = re.compile(f"[{HANGUL}]")
_UNSPACED_LETTER = re.compile(f"[{UNSPACED}]")


def has_hangul(text: str) -> bool:
    """Whether any Korean letter is in the text."""
    return not text.isascii() and _HANGUL_LETTER.search(text) is not None


def has_unspaced(text: str) -> bool:
    """Whether any character of a script without word spaces is in the text."""
    return not text.isascii() and _UNSPACED_LETTER.search(text) is not None


def is_foreign(text: str, scripts: str) -> bool:
    """Whether most letters of a text are in a script that a model does not know.

    Args:
        text: A question or a passage.
        scripts: What the model knows: `latin`, or empty for all scripts.
    """
    if scripts != "latin" or text.isascii():
        return False
    letters = sum(map(str.isalpha, text))
    return 2 * len(_LATIN_LETTER.findall(text)) < letters
