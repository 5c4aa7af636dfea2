"""Does a passage contain an answer? Every top-k accuracy is decided here.

`string` and `regex` follow the matching that DPR results are reported with, so numbers stay comparable.
`cjk` is our own mode for scripts that do not separate words by spaces.
"""

import logging
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Literal

import regex

from mundap.text.scripts import HANGUL, UNSPACED

Mode = Literal["string", "regex", "cjk"]

_TOKEN = regex.compile(r"[\p{L}\p{N}\p{M}]+|[^\p{Z}\p{C}]", regex.UNICODE)
_ASCII_TOKEN = re.compile(r"[a-z0-9]+|[!-~]")
_CLUSTER = regex.compile(r"\X", regex.UNICODE)
_WORD = regex.compile(r"[\p{L}\p{N}\p{M}]+", regex.UNICODE)
_LOOSE = regex.compile(rf"([{HANGUL}{UNSPACED}])(?=[{HANGUL}{UNSPACED}])")
_PATTERN_MARK = regex.compile(r"\\[sdwbSDWB.?()]|\.[*+]|\(\?|\w\?\(|\)[?*+]|\w\|\w|\[[^\]]*\][?*+]|\[\w-\w\]")
_PATIENCE = 2.0  # seconds for one pattern in one passage; some patterns would take years
_given_up: set[str] = set()
_LONGEST_PATTERN = 20_000
_MOST_REPEATS = 10_000
_REPEATS = re.compile(r"\{,?(\d{1,18})")
_log = logging.getLogger(__name__)


def tokens(text: str) -> list[str]:
    """NFD, then runs of letters, digits and marks or any single other visible character; lower-cased."""
    if text.isascii():  # the same, three times as fast
        return _ASCII_TOKEN.findall(text.lower())
    return [token.lower() for token in _TOKEN.findall(unicodedata.normalize("NFD", text))]


@dataclass
class PassageText:
    """A passage's text, in the forms that answers are looked for in: each is made once, when it is first needed.

    Attributes:
        text: As it stands in the passage; the title is not searched.
    """

    text: str

    @cached_property
    def tokens(self) -> list[str]:
        """See `tokens`."""
        return tokens(self.text)

    @cached_property
    def folded(self) -> str:
        """Without regard to case. An answer whose longest token is not in it need not be looked for in the tokens."""
        return _folded(unicodedata.normalize("NFD", self.text))

    @cached_property
    def decomposed(self) -> str:
        """As the patterns of the regex mode see it."""
        return _decomposed(self.text)

    @cached_property
    def casefolded(self) -> str:
        """As the patterns of the cjk mode see it."""
        return _casefolded(self.text)


def have_answer(passages: Iterable[PassageText], answers: Iterable[str], mode: Mode = "string") -> list[bool]:
    """Which of the passages contain any of the answers.

    Args:
        passages: Where to look.
        answers: Any one suffices. An empty answer matches nothing.
        mode: `string`: a contiguous run of the same tokens. `regex`: the answers are regular expressions.
            `cjk`: for Korean, Japanese and Chinese: `서울` is found in `서울은`.
    """
    if mode == "string":
        parts = [found for found in map(_answer_tokens, answers) if found[0]]
        return [_has_string(passage, parts) for passage in passages]
    if mode == "regex":
        expressions = list(filter(None, map(_regex, answers)))
        return [_has_regex(passage, expressions) for passage in passages]
    patterns = list(filter(None, map(_cjk, answers)))
    return [_has_cjk(passage, patterns) for passage in passages]


def has_answer(text: str, answers: Iterable[str], mode: Mode = "string") -> bool:
    """Whether a passage contains any of the answers; see `have_answer`."""
    return have_answer([PassageText(text)], answers, mode)[0]


def find_answers(text: str, answers: Iterable[str], mode: Mode = "string") -> list[tuple[int, int]]:
    """Find the answers in a text: spans of characters (start, end), each place once, in order."""
    if mode == "string":
        return sorted(_find_strings(text, answers))
    if mode == "regex":
        normal, where = _with_places(text, _decomposed)
        patterns = map(_regex, answers)
    else:
        normal, where = _with_places(text, _casefolded)
        patterns = map(_cjk, answers)
    places = set()
    for pattern in patterns:
        if pattern is None:
            continue
        for match in _patiently(pattern.finditer(normal, timeout=_PATIENCE)):
            start, end = match.span()
            if start < end:
                places.add((where[start][0], where[end - 1][1]))
    return sorted(places)


def _decomposed(text: str) -> str:
    """A text as the patterns of the regex mode see it."""
    return unicodedata.normalize("NFD", text)


def _casefolded(text: str) -> str:
    """A text as the patterns of the cjk mode see it."""
    return unicodedata.normalize("NFKC", text).casefold()


def _with_places(text: str, normalized: Callable[[str], str]) -> tuple[str, list[tuple[int, int]]]:
    """A text as patterns see it, and for each character of that the place it comes from.

    Whole characters as people see them are changed at a time: a syllable of Hangul may be three code points.
    """
    parts: list[str] = []
    places: list[tuple[int, int]] = []
    for match in _CLUSTER.finditer(text):
        part = normalized(match.group())
        parts.append(part)
        places += [match.span()] * len(part)
    return "".join(parts), places


def _find_strings(text: str, answers: Iterable[str]) -> set[tuple[int, int]]:
    matches = list(_TOKEN.finditer(text))
    words = [unicodedata.normalize("NFD", match.group()).lower() for match in matches]
    places = set()
    for part, _ in map(_answer_tokens, answers):
        if not part:
            continue
        for start in range(len(words) - len(part) + 1):
            if words[start] == part[0] and tuple(words[start : start + len(part)]) == part:
                places.add((matches[start].start(), matches[start + len(part) - 1].end()))
    return places


def _patiently(matches: "Iterator[regex.Match[str]]") -> "Iterator[regex.Match[str]]":
    try:
        yield from matches
    except TimeoutError:
        return


def broken_patterns(answers: Iterable[str]) -> list[str]:
    """The answers that are not valid regular expressions, and so match nothing in regex mode."""
    return [answer for answer in answers if answer.strip() and _regex(answer) is None]


def matches_pattern(prediction: str, answers: Iterable[str]) -> bool:
    """Whether one of the answers, which are regular expressions, matches at the start of a predicted answer."""
    normal = _decomposed(prediction)
    return any(_matches(pattern, pattern.match, normal) for pattern in map(_regex, answers) if pattern)


def looks_like_pattern(answer: str) -> bool:
    """Whether an answer was probably meant as a regular expression."""
    return _PATTERN_MARK.search(answer) is not None


def _has_string(passage: PassageText, parts: Iterable[tuple[tuple[str, ...], str]]) -> bool:
    # Cutting a passage into tokens costs 20 times as much as seeing that an answer's longest token is nowhere in it.
    folded = passage.folded
    return any(longest in folded and _contains(passage.tokens, part) for part, longest in parts)


def _has_regex(passage: PassageText, patterns: "Iterable[regex.Pattern[str]]") -> bool:
    return any(_matches(pattern, pattern.search, passage.decomposed) for pattern in patterns)


def _has_cjk(passage: PassageText, patterns: "Iterable[regex.Pattern[str]]") -> bool:
    return any(pattern.search(passage.casefolded) for pattern in patterns)


@lru_cache(maxsize=4096)
def _answer_tokens(answer: str) -> tuple[tuple[str, ...], str]:
    part = tuple(tokens(answer))
    return part, _folded(max(part, key=len, default=""))


def _folded(text: str) -> str:
    """Lower case, with a final sigma like any other: which of the two stands there depends on what follows."""
    return text.lower().replace("ς", "σ")


def _contains(words: Sequence[str], part: tuple[str, ...]) -> bool:
    first, length = part[0], len(part)
    start = -1
    try:
        while True:
            start = words.index(first, start + 1)
            if tuple(words[start : start + length]) == part:
                return True
    except ValueError:
        return False


def _matches(pattern: "regex.Pattern[str]", look: "Callable[..., regex.Match[str] | None]", text: str) -> bool:
    """Whether `look`, the pattern's `search` or `match`, finds it in time. A pattern that did not, never does again."""
    if pattern.pattern in _given_up:
        return False
    try:
        return look(text, timeout=_PATIENCE) is not None
    except TimeoutError:
        _given_up.add(pattern.pattern)
        _log.warning("answer %r takes too long to search for: from now on it counts as not found", pattern.pattern)
        return False


@lru_cache(maxsize=4096)
def _regex(answer: str) -> "regex.Pattern[str] | None":
    if not answer.strip():
        return None
    try:
        if len(answer) > _LONGEST_PATTERN or any(int(number) > _MOST_REPEATS for number in _REPEATS.findall(answer)):
            raise ValueError("too large")
        pattern = unicodedata.normalize("NFD", answer)
        return regex.compile(pattern, regex.IGNORECASE | regex.UNICODE | regex.MULTILINE)
    except (regex.error, ValueError, RecursionError, OverflowError, MemoryError) as error:
        _log.warning("answer %r is not a regular expression (%s): it matches nothing", answer, error)
        return None


@lru_cache(maxsize=4096)
def _cjk(answer: str) -> "regex.Pattern[str] | None":
    words = _WORD.findall(unicodedata.normalize("NFKC", answer).casefold())
    if not words:
        return None
    # A Korean word starts where no other Hangul stands before it and may be followed by a particle; a word
    # of a spaced script stands alone among its own kind (2019 is in 2019년); unspaced scripts match anywhere.
    spaced = rf"[[\p{{L}}\p{{N}}\p{{M}}]--[{HANGUL}{UNSPACED}]]"
    first, last = words[0][0], words[-1][-1]
    before, after = "", ""
    if regex.match(f"[{HANGUL}]", first):
        before = f"(?<![{HANGUL}])"
    elif not regex.match(f"[{UNSPACED}]", first):
        before = f"(?<!{spaced})"
    if not regex.match(f"[{HANGUL}{UNSPACED}]", last):
        after = f"(?!{spaced})"
    # Spacing inside Korean compounds is a matter of taste: 황금종려상 and 황금 종려상 are the same prize.
    body = r"[\p{Z}\p{P}\p{S}\p{C}]*".join(_LOOSE.sub(r"\1 ?", regex.escape(word)) for word in words)
    return regex.compile(before + body + after, regex.VERSION1)
