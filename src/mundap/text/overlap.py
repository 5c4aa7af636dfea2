"""How much two texts have in common: the same passage cut or edited differently is still the same passage."""

from mundap.text.answers import tokens

SHINGLE = 3


def shingles(text: str, size: int = SHINGLE) -> frozenset[tuple[str, ...]]:
    """Every run of `size` tokens in a text; of a shorter text, all of it."""
    words = tokens(text)
    if len(words) < size:
        return frozenset([tuple(words)] if words else [])
    return frozenset(zip(*(words[start:] for start in range(size)), strict=False))


def containment(left: frozenset[tuple[str, ...]], right: frozenset[tuple[str, ...]]) -> float:
    """The share of the smaller set that is in the other: 1 if one text is a part of the other."""
    smaller = min(len(left), len(right))
    return len(left & right) / smaller if smaller else 0.0
