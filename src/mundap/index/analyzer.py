"""Text into index terms. One analyzer serves documents and questions, tantivy and the sparse matrices.

Scripts that tantivy cannot tokenise are prepared first: Korean becomes morphemes (kiwipiepy) or, without
that package, character bigrams; scripts without spaces become character bigrams. What is left, words with
spaces between them, is lower-cased and stemmed by tantivy itself, in native code.
"""

import re
import unicodedata
from functools import cache
from importlib.util import find_spec
from typing import Any

import tantivy

from mundap.errors import ExtraMissing, UsageError
from mundap.text.scripts import HANGUL, UNSPACED, has_hangul, has_unspaced

LANGUAGES = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french",
    "de": "german", "el": "greek", "hu": "hungarian", "it": "italian", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
"""The languages tantivy can stem. Korean, Japanese, Chinese and the like need no choice: see above."""

_NO_STOP_WORDS = {"ar", "el", "ro", "ta", "tr"}
_LONGEST_TERM = 80
_HANGUL_RUN = re.compile(f"[{HANGUL}]+")
_UNSPACED_RUN = re.compile(f"[{UNSPACED}]+")
_SHOWN_WORD = re.compile(f"[{UNSPACED}]{{1,2}}|[^\\W{UNSPACED}]+")
_KIWI_CHUNK = 20_000
# Nouns, verbs, adjectives, adverbs, roots, numbers, foreign words: what carries meaning. Particles and endings go.
_CONTENT = ("N", "V", "MA", "MM", "XR", "SL", "SN", "SH")
_COPULAS = ("VCP", "VCN")


class Analyzer:
    """How an index turns text into terms.

    Args:
        language: The language of the words that have spaces between them, a key of `LANGUAGES`.
        hangul: `kiwi` or `bigrams`.
    """

    def __init__(self, language: str = "en", hangul: str = "bigrams") -> None:
        if language not in LANGUAGES:
            raise UsageError(f"no stemmer for language {language!r}: choose one of {', '.join(LANGUAGES)}")
        self.language = language
        self.hangul = hangul
        self.words = _words(language, stop=False)
        self._content_words = _words(language, stop=language not in _NO_STOP_WORDS)

    def prepare(self, text: str) -> str:
        """The text as tantivy's own tokenizer can take it. Most texts come back as they are."""
        if text.isascii():
            return text
        if not unicodedata.is_normalized("NFKC", text):  # decomposed Hangul, half-width kana, full-width letters
            text = unicodedata.normalize("NFKC", text)
        if has_hangul(text):
            text = _morphemes(text) if self.hangul == "kiwi" else _HANGUL_RUN.sub(_bigrams, text)
        if has_unspaced(text):
            text = _UNSPACED_RUN.sub(_bigrams, text)
        return text

    def terms(self, text: str) -> list[str]:
        """Every term of a text, as it is indexed."""
        return list(self.words.analyze(self.prepare(text)))

    def question_terms(self, question: str) -> list[str]:
        """The distinct terms of a question without stop words, or with them if it has nothing else."""
        prepared = self.prepare(question)
        terms = self._content_words.analyze(prepared) or self.words.analyze(prepared)
        return list(dict.fromkeys(terms))

    def matches(self, text: str, question: str) -> list[tuple[int, int]]:
        """Where in a text the words of a question stand, whatever their endings: for highlighting."""
        wanted = set(self.question_terms(question))
        spans: list[tuple[int, int]] = []
        for word in _SHOWN_WORD.finditer(text):
            if not wanted.isdisjoint(self.terms(word.group())):
                spans.append(word.span())
        return spans


def best_hangul() -> str:
    """What is installed to analyse Korean with."""
    return "kiwi" if find_spec("kiwipiepy") else "bigrams"


def _words(language: str, stop: bool) -> Any:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_TERM)).filter(tantivy.Filter.lowercase())
    if stop:
        builder = builder.filter(tantivy.Filter.stopword(LANGUAGES[language]))
    return builder.filter(tantivy.Filter.stemmer(LANGUAGES[language])).build()


def _bigrams(match: re.Match[str]) -> str:
    run = match.group()
    if len(run) == 1:
        return f" {run} "
    return " " + " ".join(run[start : start + 2] for start in range(len(run) - 1)) + " "


@cache
def _kiwi() -> Any:
    if not find_spec("kiwipiepy"):
        raise ExtraMissing("this index analyses Korean with kiwipiepy, which", "ko")
    import kiwipiepy

    # The extra dictionaries (typing errors, multi-word names) double the time to load and change few terms.
    return kiwipiepy.Kiwi(num_workers=1, load_typo_dict=False, load_multi_dict=False)


def _morphemes(text: str) -> str:
    """Korean words replaced by their meaningful morphemes; everything else stays where it is."""
    parts: list[str] = []
    for start in range(0, len(text), _KIWI_CHUNK):
        chunk = text[start : start + _KIWI_CHUNK]
        end = 0
        for token in _kiwi().tokenize(chunk):
            if not _HANGUL_RUN.search(token.form):
                continue
            if token.start > end:
                parts.append(chunk[end : token.start])
            if token.tag.startswith(_CONTENT) and token.tag not in _COPULAS:
                parts.append(f" {token.form} ")
            else:
                parts.append(" ")
            end = max(end, token.start + token.len)
        parts.append(chunk[end:])
    return "".join(parts)
