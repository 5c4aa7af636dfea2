"""Sentence boundaries, good enough to keep passages from being cut inside a sentence."""

import re

# A full stop ends a sentence when white space and no lower-case letter follow it; the CJK stops need neither.
_END = re.compile(
    # Possessive and anchored at the first stop of a row: ten thousand dots must not take ten thousand squared.
    r"""(?:(?<![.!?…])[.!?…]++["'”’)\]]*+(?=\s+[^\sa-z])|[。！？｡]++[」』”’）]*+|\n\s*\n)\s*""",
)
_ABBREVIATION = re.compile(
    r"(?:\b(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|etc|No|Vol|Fig|Gen|Col|Capt|Lt|Rev|cf|e\.g|i\.e))\.$"
)


def sentence_spans(text: str) -> list[tuple[int, int]]:
    """The (start, end) of each sentence, without the white space between them."""
    found: list[tuple[int, int]] = []
    start = 0
    for match in _END.finditer(text):
        end = match.start() + len(match.group().rstrip())
        if _ABBREVIATION.search(text, max(start, end - 8), end):
            continue
        found += _trimmed(text, start, end)
        start = match.end()
    found += _trimmed(text, start, len(text))
    return found


def _trimmed(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """The span without white space at its ends; nothing if it is all white space."""
    piece = text[start:end].strip()
    if not piece:
        return []
    first = text.index(piece, start)
    return [(first, first + len(piece))]
