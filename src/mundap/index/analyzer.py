"""Text into index terms. One analyzer serves documents and questions, tantivy and the sparse matrices.

Words with spaces between them are lower-cased and stemmed by tantivy, in the language of their passage. Korean
becomes morphemes (kiwipiepy). Scripts without spaces, and Korean where that package is missing, become single
characters and pairs of them: measured, that finds as much as a dictionary of 250 MB (benchmarks/README.md).
"""

import unicodedata
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import regex
import tantivy

from mundap.errors import UsageError
from mundap.text import korean
from mundap.text.language import COUNTS_AS, likely
from mundap.text.scripts import HANGUL, UNSPACED, has_hangul, has_unspaced

LANGUAGES = {
    "ar": "arabic", "da": "danish", "nl": "dutch", "en": "english", "fi": "finnish", "fr": "french",
    "de": "german", "el": "greek", "hu": "hungarian", "it": "italian", "no": "norwegian", "pt": "portuguese",
    "ro": "romanian", "ru": "russian", "es": "spanish", "sv": "swedish", "ta": "tamil", "tr": "turkish",
}  # fmt: skip
"""The languages tantivy can stem. Korean, Japanese, Chinese and the like need no choice: see above."""

AUTO = "auto"
"""Every passage is stemmed in its own language."""

_DEFAULT = "en"  # also for words of languages that have no stemmer: most of what they share with others is names
_WITHOUT_STEMS = {"ko", "ja", "zh"}
_NO_STOP_WORDS = {"ar", "el", "ro", "ta", "tr"}
_LONGEST_TERM = 80
_POSSIBLE = 0.2  # a language so likely is one the question may be in
_CHARACTER = regex.compile(r"\X")  # with the vowel signs and tone marks that belong to it
_UNSPACED_RUN = regex.compile(f"[{UNSPACED}]+")
_PIECED_RUN = regex.compile(f"[{UNSPACED}{HANGUL}]+")
_SHOWN_WORD = regex.compile(f"[{UNSPACED}]+|[^\\W{UNSPACED}]+")


class _Match(NamedTuple):
    """A word of a text that is also in a question: its place, and the terms they share."""

    start: int
    end: int
    terms: frozenset[str]


class Analyzer:
    """How an index turns text into terms.

    Args:
        language: `auto`, or the language of all words that have spaces between them, a key of `LANGUAGES`.
        hangul: `kiwi` or `bigrams`.
        held: With `auto`, the languages questions are to be looked for in; any if empty.
    """

    def __init__(self, language: str = _DEFAULT, hangul: str = "bigrams", held: Sequence[str] = ()) -> None:
        check_language(language)
        self.language = language
        self.hangul = hangul
        self.held = tuple(held)
        # What the index keeps comes analysed, with spaces between the terms.
        self.words = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.whitespace()).build()
        self._stemmers: dict[tuple[str, bool], Any] = {}

    def terms(self, text: str, language: str = "") -> list[str]:
        """Every term of a text, as it is indexed; without a language, in the most likely one."""
        return next(self.terms_of([(text, language or self._languages(text)[0])]))

    def terms_of(self, texts: Sequence[tuple[str, str]]) -> Iterator[list[str]]:
        """The terms of many texts, each with its language: Korean ones are shared among the cores."""
        pieces = self._pieces([text for text, _ in texts])
        for (_, language), (terms, rest) in zip(texts, pieces, strict=True):
            yield terms + self._stemmer(self._choose(language)).analyze(rest)

    def question_terms(self, question: str) -> list[str]:
        """The distinct terms of a question without stop words, or with them if it has nothing else."""
        terms, rest = next(self._pieces([question]))
        languages = self._languages(rest)
        content = [term for term in terms if term not in korean.QUESTION_WORDS]
        for language in languages:
            content += self._stemmer(language, stop=True).analyze(rest)
        if not content:
            content = terms
            for language in languages:
                content += self._stemmer(language).analyze(rest)
        return list(dict.fromkeys(content))

    def matches(self, text: str, question: str) -> list[tuple[int, int]]:
        """Find the words of a question in a text, whatever their endings, for highlighting."""
        return [(match.start, match.end) for match in self.shared(text, question)]

    def shared(self, text: str, question: str) -> list[_Match]:
        """The words of a text that are in a question too."""
        wanted = set(self.question_terms(question))
        longer = {term for term in wanted if len(term) > 1 or not has_unspaced(term)}
        wanted = longer or wanted  # single characters are shown only if there is nothing else
        language = self._languages(text)[0]
        found: list[_Match] = []
        for word in _SHOWN_WORD.finditer(text):
            if has_unspaced(word.group()):
                found += _shared_characters(word, wanted)
                continue
            terms = wanted.intersection(self.terms(word.group(), language))
            if terms:
                found.append(_Match(*word.span(), frozenset(terms)))
        return found

    def warm(self) -> None:
        """Start loading the Korean analyser, if the index has Korean passages."""
        if self.hangul == "kiwi" and "ko" in self.held:
            korean.load_in_background()

    def _pieces(self, texts: Sequence[str]) -> Iterator[tuple[list[str], str]]:
        """For each text the terms of scripts that tantivy cannot cut into words, and the rest, for tantivy."""
        texts = [_normal(text) for text in texts]
        run = _PIECED_RUN
        if self.hangul == "kiwi":
            run = _UNSPACED_RUN
        analysed = self._analysed_korean(texts)
        for text in texts:
            terms: list[str] = []
            if not text.isascii():
                if text in analysed:
                    terms, text = analysed[text]
                    terms = list(terms)
                for match in run.finditer(text):
                    terms += _characters_and_pairs(match.group())
                text = run.sub(" ", text)
            yield terms, text

    def _analysed_korean(self, texts: Sequence[str]) -> dict[str, tuple[list[str], str]]:
        """For each text with Hangul, if Kiwi analyses it, its morphemes and the rest."""
        if self.hangul != "kiwi" or all(map(str.isascii, texts)):
            return {}
        with_hangul = list(filter(has_hangul, texts))
        return dict(zip(with_hangul, korean.content_words(with_hangul), strict=True))

    def _choose(self, language: str) -> str:
        if self.language != AUTO:
            return self.language
        language = COUNTS_AS.get(language, language)
        if language in LANGUAGES:
            return language
        return _DEFAULT

    def _languages(self, text: str) -> list[str]:
        """The languages a text may be in, likeliest first, out of those the index holds."""
        if self.language != AUTO:
            return [self.language]
        known = [language for language in self.held if language not in _WITHOUT_STEMS]
        stemmed = list(dict.fromkeys(map(self._choose, known)))
        if not stemmed:  # passages of which nothing is known are stemmed as English too
            return [_DEFAULT]
        if len(stemmed) == 1 or not text.strip():  # nothing to tell, and the model need not be loaded
            return stemmed[:1]
        possible = [self._choose(language) for language, chance in likely(text, known).items() if chance >= _POSSIBLE]
        return list(dict.fromkeys(possible)) or [_DEFAULT]

    def _stemmer(self, language: str, stop: bool = False) -> Any:
        key = (language, stop)
        if key not in self._stemmers:
            self._stemmers[key] = _words(language, stop and language not in _NO_STOP_WORDS)
        return self._stemmers[key]


def best_hangul() -> str:
    """The best installed way to analyse Korean."""
    if korean.installed():
        return "kiwi"
    return "bigrams"


def check_language(language: str) -> None:
    """Raise a UsageError if an index cannot be made for this language."""
    if language != AUTO and language not in LANGUAGES:
        choices = ", ".join((AUTO, *LANGUAGES))
        message = "no stemmer for language {language!r}: choose one of {choices}"
        raise UsageError(message, language=language, choices=choices)


def _words(language: str, stop: bool) -> Any:
    builder = tantivy.TextAnalyzerBuilder(tantivy.Tokenizer.simple())
    builder = builder.filter(tantivy.Filter.remove_long(_LONGEST_TERM)).filter(tantivy.Filter.lowercase())
    if stop:
        builder = builder.filter(tantivy.Filter.stopword(LANGUAGES[language]))
    return builder.filter(tantivy.Filter.stemmer(LANGUAGES[language])).build()


def _normal(text: str) -> str:
    """Decomposed Hangul, half-width kana and full-width letters in their usual form."""
    if text.isascii() or unicodedata.is_normalized("NFKC", text):
        return text
    return unicodedata.normalize("NFKC", text)


def _characters_and_pairs(run: str) -> list[str]:
    characters = _CHARACTER.findall(run)
    return characters + [first + second for first, second in pairwise(characters)]


def _shared_characters(run: "regex.Match[str]", wanted: set[str]) -> list[_Match]:
    """The stretches of a run without spaces that are covered by wanted characters and pairs."""
    places = [match.span() for match in _CHARACTER.finditer(run.group())]
    found: list[_Match] = []
    for number, (start, end) in enumerate(places):
        after = end
        if number + 1 < len(places):
            after = places[number + 1][1]
        pieces = {_normal(run.group()[start:end]): end, _normal(run.group()[start:after]): after}
        for piece in wanted.intersection(pieces):
            left, right, terms = run.start() + start, run.start() + pieces[piece], frozenset([piece])
            if found and left < found[-1].end:
                before = found.pop()
                left, right, terms = before.start, max(before.end, right), before.terms | terms
            found.append(_Match(left, right, terms))
    return found
