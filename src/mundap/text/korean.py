"""Korean morphology (Kiwi, the extra `ko`): content morphemes of words, and their particles."""

import itertools
import re
import threading
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from importlib.util import find_spec
from typing import Any

from mundap.errors import ExtraMissing, Message
from mundap.machine import cores
from mundap.text.scripts import HANGUL

QUESTION_WORDS = frozenset(
    ("무엇", "누구", "어디", "언제", "얼마", "어떤", "무슨", "몇", "어느", "것", "하", "되", "있", "없")
)
"""Morphemes that say what is asked and not what is looked for: who, where, which, the thing, to do, to be."""

_CHUNK = 20_000
_HANGUL = re.compile(f"[{HANGUL}]")
# Nouns, verbs, adjectives, adverbs, roots: what carries meaning. Particles, endings and auxiliaries go.
_CONTENT = ("N", "VV", "VA", "MA", "MM", "XR")
_COMPOUNDS = ("NNG", "NNP")
_NOUNS = ("NNG", "NNP", "XPN", "XSN", "XR")
_SHORTEST_COMPOUND = 3
_OF_COMPOUNDS = ("N", "XPN", "XSN", "XR")
# An emoji, a joiner or a soft hyphen between two syllables decorates a word; it does not end it.
_DECORATION = re.compile(
    f"(?<=[{HANGUL}])[\u00ad\u200b-\u200f\u2060-\u2064\ufe00-\ufe0f\u2600-\u27bf\U0001f000-\U0001faff]+(?=[{HANGUL}])"
)
_loading = threading.Lock()
_loaded: list[Any] = []


def installed() -> bool:
    """Whether Kiwi is installed."""
    return find_spec("kiwipiepy") is not None


def kiwi() -> Any:
    """The analyser, loaded once in a process, whoever asks first: that takes a second or more."""
    with _loading:
        if not _loaded:
            if not installed():
                raise ExtraMissing(Message("this index analyses Korean with kiwipiepy, which"), "ko")
            import kiwipiepy

            # The extra dictionaries (typing errors, multi-word names) double the time to load and change few terms.
            _loaded.append(kiwipiepy.Kiwi(num_workers=cores(), load_typo_dict=False, load_multi_dict=False))
        return _loaded[0]


def load_in_background() -> None:
    """Load the analyser in a thread, so that the first question need not wait for it."""
    if installed() and not _loaded:
        threading.Thread(target=kiwi, name="kiwi", daemon=True).start()


def content_words(texts: Sequence[str]) -> Iterator[tuple[list[str], str]]:
    """The meaningful morphemes of each text, and what in it is not Korean. Long lists are shared among the cores.

    Verbs and adjectives are given by their stems, compound nouns whole and in their parts: 서울특별시 is also 서울.
    """
    chunks: list[str] = []
    counts = []  # of the chunks of each text
    for text in texts:
        pieces = _chunks(_DECORATION.sub("", text))
        chunks += pieces
        counts.append(len(pieces))
    analysed = _tokens(chunks)
    for count in counts:
        words: list[str] = []
        rest: list[str] = []
        for chunk, tokens in itertools.islice(analysed, count):
            tokens = [token for token in tokens if _HANGUL.search(token.form)]
            end = 0
            for token in tokens:
                rest.append(chunk[end : token.start])
                end = max(end, token.start + token.len)
                words += _terms(token.form, token.tag)
            rest.append(chunk[end:])
            words += _compounds(tokens)
        yield words, " ".join(rest)


def _chunks(text: str) -> list[str]:
    """A text in pieces that are not too long for Kiwi; one piece, if it is empty."""
    return [text[start : start + _CHUNK] for start in range(0, max(len(text), 1), _CHUNK)]


def _tokens(chunks: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    if len(chunks) == 1:  # many at a time go through a queue, which one does not need
        yield chunks[0], kiwi().tokenize(chunks[0])
        return
    yield from zip(chunks, kiwi().tokenize(chunks), strict=True)


def _terms(form: str, tag: str) -> Iterable[str]:
    if not tag.startswith(_CONTENT):
        return ()
    if tag in _COMPOUNDS and len(form) >= _SHORTEST_COMPOUND:
        return (form, *_parts(form))
    return (form,)


def _compounds(tokens: Sequence[Any]) -> Iterator[str]:
    """Nouns written together, as one word: 황금종려상 is one, whether or not Kiwi's dictionary has it."""
    together: list[str] = []
    end = -1
    for token in tokens:
        is_noun = token.tag in _NOUNS
        if not is_noun or token.start != end:
            if len(together) > 1:
                yield "".join(together)
            together = []
        if is_noun:
            together.append(token.form)
        end = token.start + token.len
    if len(together) > 1:
        yield "".join(together)


@lru_cache(maxsize=65_536)
def _parts(noun: str) -> tuple[str, ...]:
    """The nouns a compound is made of, if Kiwi finds some when it may not take it for one word."""
    tokens = kiwi().tokenize(noun, blocklist=[(noun, tag) for tag in _COMPOUNDS])
    forms = tuple(token.form for token in tokens)
    if len(forms) < 2 or "".join(forms) != noun or not all(token.tag.startswith(_OF_COMPOUNDS) for token in tokens):
        return ()
    return forms
