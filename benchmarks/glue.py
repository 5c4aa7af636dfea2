"""Words glued together, as bad extraction makes them: `Ifthepackageisnew`, `seen.The`."""

import re
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

_WORD = re.compile(r"[^\W\d_]+")
_TWO_SENTENCES = re.compile(r"\b[a-z]{3,}[.,;:!?](?:The|This|That|It|In|If|You|For|When|To|See|And|But|We|An?) ")
_ADDRESS = re.compile(r"\S*(?:://|[_/\\@=<>(){}\[\]$#]|--|\.\w+\.)\S*")
_DICTIONARY = Path("/usr/share/dict/words")
"""Debian's wamerican-large: what stands in it is a word, whatever it is made of."""

_LONG = 8
"""Letters that a glued word has at least."""


class Glue:
    """Tells glued words from others, by the words of the dictionary and those that texts have often.

    Args:
        texts: To learn the words from.
        least: How often a word must come to be taken for one.
    """

    def __init__(self, texts: Iterable[str], least: int) -> None:
        counts: Counter[str] = Counter()
        for text in texts:
            counts.update(word.lower() for word in _WORD.findall(text))
        self._known = {word for word, count in counts.items() if count >= min(3, least)}
        if _DICTIONARY.exists():
            self._known.update(_DICTIONARY.read_text("utf-8").lower().split())
        # Short words are parts only if they are among the commonest: else every word has parts.
        self._common = {word for word, _ in counts.most_common(60) if len(word) > 1}
        self._parts = {word for word, count in counts.items() if len(word) > 3 and count >= least} | self._common

    def find(self, text: str) -> list[str]:
        """The glued words of a text."""
        found = [match.group().strip() for match in _TWO_SENTENCES.finditer(text)]
        for word in _WORD.findall(_ADDRESS.sub(" ", text)):
            is_name = not (word.islower() or word[1:].islower())  # `PyObject`, `HTTPServer`
            if len(word) >= _LONG and not is_name and word.lower() not in self._known and self._is_glued(word.lower()):
                found.append(word)
        return found

    def _is_glued(self, word: str) -> bool:
        """Whether a word is nothing but others, one of them as common as `the`: names of programs are `mailfile`."""
        reached = {0: False}  # how far whole words go, and whether one of the commonest is among them
        for end in range(1, len(word) + 1):
            for start in [one for one in reached if word[one:end] in self._parts]:
                reached[end] = reached.get(end, False) or reached[start] or word[start:end] in self._common
        return reached.get(len(word), False)
