"""Why an answer is what it is, passage by passage, from what `ask` found and read."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from mundap.index.index import Index
from mundap.reader.answering import rank_answers
from mundap.reader.answers import selection
from mundap.reader.choice import LanguageReaders, reader_for
from mundap.reader.runtime import Reader
from mundap.reader.spans import softmax
from mundap.records import Answer, AskResult, Hit


@dataclass(frozen=True, slots=True)
class PassageExplanation:
    """What is known of a passage that was found.

    Attributes:
        hit: The passage with its scores.
        words: Of the question, found in its title or its text.
        read: Whether the reader read it; it stops early where the first passages are sure enough.
        best: Its best span, if it was read and has any.
        selection: The probability that this passage, of all with a span, has the answer.
    """

    hit: Hit
    words: tuple[str, ...]
    read: bool = False
    best: Answer | None = None
    selection: float = 0.0

    def as_dict(self) -> dict[str, Any]:
        """The explanation as JSON."""
        found: dict[str, Any] = {
            "rank": self.hit.rank,
            "passage": self.hit.passage.id,
            "title": self.hit.passage.title,
            "words": list(self.words),
            "bm25": self.hit.bm25,
            "dense": self.hit.dense,
            "read": self.read,
            "selection": None,
            "best_span": None,
        }
        if self.best is not None:
            best = self.best
            found["selection"] = self.selection
            found["best_span"] = {"text": best.text, "start": best.start, "end": best.end, "span": best.span}
        return found


def explain(index: Index, reader: Reader | LanguageReaders, result: AskResult) -> list[PassageExplanation]:
    """Explain each passage that was found; nothing is searched or read again.

    Each passage is judged by itself: one that supports an answer has a span of its own, although the answer is listed
    under another passage.
    """
    if result.note:
        return []
    reader, _ = reader_for(reader, result.question, result.hits)
    best = [
        _best_span(reader, result.question, hit, windows)
        for hit, windows in zip(result.hits, result.readings, strict=False)
    ]
    probabilities = _probabilities(reader, result, best)
    rows = []
    for place, hit in enumerate(result.hits):
        words = _matched_words(index, hit, result.question)
        if place < len(best):
            rows.append(PassageExplanation(hit, words, True, best[place], float(probabilities[place])))
        else:
            rows.append(PassageExplanation(hit, words))
    return rows


def _best_span(reader: Reader, question: str, hit: Hit, windows: Sequence[Any]) -> Answer | None:
    answers = rank_answers(reader, question, [hit], [windows])
    if answers:
        return answers[0]
    return None


def _probabilities(reader: Reader, result: AskResult, best: Sequence[Answer | None]) -> np.ndarray:
    """The probability of each passage among those that have a span."""
    probabilities = np.zeros(len(best))
    with_span = [place for place, answer in enumerate(best) if answer is not None]
    if with_span:
        texts = [result.hits[place].passage.unwrapped() for place in with_span]
        readings = [result.readings[place] for place in with_span]
        scores = [selection(text, windows, reader.config) for text, windows in zip(texts, readings, strict=True)]
        probabilities[with_span] = softmax(np.array(scores))
    return probabilities


def _matched_words(index: Index, hit: Hit, question: str) -> tuple[str, ...]:
    """The question's words in a passage, each once, in the order they are met."""
    words: dict[str, None] = {}
    for text in (hit.passage.title, hit.passage.text):
        for start, stop in index.analyzer.matches(text, question):
            words[text[start:stop].lower()] = None
    return tuple(words)
