"""Trim answers: Korean particles attach to the word before them, but are not part of the answer.

서울은 (Seoul and the mark of the topic) is trimmed to 서울, 1996년이었다 (it was 1996) to 1996년. Counters, suffixes
and titles of respect stay: they are not particles.
"""

import unicodedata
from collections.abc import Iterable

import regex

from mundap.text import korean
from mundap.text.scripts import HANGUL, has_hangul

_CLUSTER = regex.compile(r"\X")
_HANGUL = regex.compile(f"[{HANGUL}]")
_BEFORE = 80  # characters before the answer that help to tell its morphemes apart
_AFTER = 20
_OPENING = "([{<〈《「『【‘“"
_CLOSING = ")]}>〉》」』】’”"
_PAIRS = dict(zip(_CLOSING, _OPENING, strict=True))
_NOTE = regex.compile(
    r"(?:\[\d*\]|\(\s*\)|[(\[〈《「『【‘“][^)\]〉》」』】’”]*)$"
)  # [4], empty brackets, one left open
_LOOSE_END = set(".,;:…·~、。'\"")
_PARTICLES = ("JKS", "JKC", "JKG", "JKO", "JKB", "JKV", "JKQ", "JX", "JC")
# Particles by the sound before them, for machines without Kiwi. Those that end many names (이, 가, 도)
# are left out where they would cut more names short than they would free of a particle.
_AFTER_CONSONANT = (
    "이라는",
    "이라고",
    "이었다",
    "으로부터",
    "으로써",
    "으로",
    "이다",
    "이며",
    "이고",
    "은",
    "을",
    "과",
)
_AFTER_VOWEL = ("라는", "라고", "로부터", "로써", "로", "였다", "는", "를", "와")
_AFTER_ANY = ("에서부터", "에서는", "에서의", "에서", "에게서", "에게", "까지의", "까지", "부터", "의", "에는", "에")


def trim_answers(answers: Iterable[tuple[str, int, int]]) -> list[tuple[int, int]]:
    """The spans of answers without the particle, copula or loose punctuation at their end.

    Args:
        answers: Of each the passage, its first character and the one behind its last. Only Korean ones are trimmed.

    Returns:
        The new span of each, or the old one if nothing would be left, or if the answer is a title or a quotation:
        those may end in a particle.
    """
    return [_trimmed(*answer) for answer in answers]


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    possible = 0 <= start < end <= len(text)
    if not possible or not has_hangul(text[start:end]) or _quoted(text, start, end):
        return start, end
    trimmed = _without_loose_end(text, start, end)
    if trimmed > start and _HANGUL.match(text[trimmed - 1]):
        if korean.installed():
            trimmed = _by_morphemes(text, start, trimmed)
        else:
            trimmed = _by_table(text, start, trimmed)
        trimmed = _without_loose_end(text, start, trimmed)
    if trimmed <= start:
        return start, end
    return start, trimmed


def _quoted(text: str, start: int, end: int) -> bool:
    after = text[end : end + 1]
    if not after or start == 0:
        return False
    before = text[start - 1]
    return _PAIRS.get(after) == before or (before == after and before in "'\"")


def _without_loose_end(text: str, start: int, end: int) -> int:
    """The end without punctuation, notes, and brackets that are not both opened and closed in the answer."""
    while end > start:
        note = _NOTE.search(text, start, end)
        if note and note.start() > start:
            end = note.start()
            continue
        last = text[end - 1]
        span = text[start:end]
        stray = last in _PAIRS and span.count(_PAIRS[last]) < span.count(last)
        paired = last in "'\"" and span.count(last) % 2 == 0
        loose = last in _LOOSE_END and not paired
        if not (stray or loose or last.isspace()):
            return end
        end -= 1
    return end


def _by_morphemes(text: str, start: int, end: int) -> int:
    """The end by Kiwi's morphemes."""
    tokens = _morphemes(text, start, end)
    while tokens:
        cut = _last_particle(tokens)
        if cut is None:
            return end
        left, right, _ = tokens[cut]
        # The answer may end inside a morpheme: then Kiwi and the reader disagree, and the reader has seen more.
        inside = right > end or (cut > 0 and tokens[cut - 1][1] > left)
        if left <= start or inside:
            return end
        end = left
        del tokens[cut:]
    return end


def _morphemes(text: str, start: int, end: int) -> list[tuple[int, int, str]]:
    """Start, end and tag of the morphemes in a span, analysed with the text around it."""
    first = max(0, start - _BEFORE)
    shown, places = _composed(text[first : end + _AFTER])
    found = []
    for token in korean.kiwi().tokenize(shown):
        if token.start >= len(places):  # an ending that is heard and not written
            continue
        left = first + places[token.start][0]
        right = first + places[max(token.start, token.start + token.len - 1)][1]
        if right > start and left < end:
            found.append((left, right, token.tag))
    return found


def _last_particle(tokens: list[tuple[int, int, str]]) -> int | None:
    """Which token begins the particle, or the copula with its endings, that the tokens end in."""
    if tokens[-1][2] in _PARTICLES:
        return len(tokens) - 1
    number = len(tokens) - 1
    while number > 0 and tokens[number][2].startswith("E"):
        number -= 1
    if number < len(tokens) - 1 and tokens[number][2] == "VCP" and number > 0:
        return number
    return None


def _by_table(text: str, start: int, end: int) -> int:
    """The end by a table of particles and the sound they follow."""
    shown, places = _composed(text[start:end])
    for particle in sorted((*_AFTER_CONSONANT, *_AFTER_VOWEL, *_AFTER_ANY), key=len, reverse=True):
        cut = len(shown) - len(particle)
        if cut < 1 or not shown.endswith(particle):
            continue
        before = shown[cut - 1]
        fits = particle in _AFTER_ANY
        if not "가" <= before <= "힣":  # a digit, a letter, a bracket: how it sounds is not known
            fits = True
        elif (ord(before) - ord("가")) % 28:
            fits = fits or particle in _AFTER_CONSONANT
        else:
            fits = fits or particle in _AFTER_VOWEL
        if fits:
            return start + places[cut][0]
    return end


def _composed(text: str) -> tuple[str, list[tuple[int, int]]]:
    """The text with its Hangul composed, and for each character of that the place it comes from."""
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _CLUSTER.finditer(text):
        part = unicodedata.normalize("NFC", match.group())
        parts.append(part)
        places += [match.span()] * len(part)
    return "".join(parts), places
