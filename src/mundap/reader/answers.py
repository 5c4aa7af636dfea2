"""The choice among the spans of all passages that were read, and how sure it is."""

import math
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from mundap.models.folder import ReaderConfig
from mundap.models.reader import Scored
from mundap.reader.spans import candidates, softmax
from mundap.text.scripts import has_hangul, has_unspaced

AMONG = 10
"""So many of the passages found say how far one of them stands out."""

_PER_PASSAGE = 5  # spans of a passage that take part
_AROUND = " \t\r\n\"'`.,;:!?…()[]{}<>“”‘’«»「」『』《》〈〉、。"
_ARTICLE = re.compile(r"^(?:an?|the) (?=\S)")

FEATURES = ("selection", "margin", "retrieval")
"""What confidence is computed from."""


@dataclass(frozen=True, slots=True)
class Candidate:
    """A span of one of the passages.

    Attributes:
        passage: Which of those that were read.
        start: Its first character in the passage's text.
        end: The one behind its last.
        score: What candidates are ranked by: a logarithm, higher is better.
        selection: The probability of the passage among those read.
        span: The probability of the span in its passage.
        features: What confidence is computed from: the passage's raw selection score, how much likelier the span is
            than none (a logarithm), and how far the passage stands out among the first that were found, in standard
            deviations; not a number where too few were found to tell.
        support: Passages with the same answer.
    """

    passage: int
    start: int
    end: int
    score: float
    selection: float
    span: float
    features: tuple[float, float, float]
    support: int = 1


def rank(
    texts: Sequence[str], read: Sequence[Sequence[Scored]], retrieval: Sequence[float], config: ReaderConfig
) -> list[Candidate]:
    """Different answers, best first.

    With the ranking `selection`, as in the DPR paper, spans of the passage with the highest selection score come
    first. With `product` spans of all passages compete by P(passage) x P(span), the retrieval score mixed in with
    `retrieval_weight` (standardised, so that it is of one size for all ways of searching), and what several passages
    say is added up.

    Args:
        texts: Of the passages that were read.
        read: What the reader says of each.
        retrieval: The score each was found with; behind those, the scores of what was found and not read.
        config: The reader's.
    """
    spans = [_spans(text, windows, config) for text, windows in zip(texts, read, strict=True)]
    kept = [number for number, row in enumerate(spans) if row]
    if not kept:
        return []
    logits = np.array([_selection(read[number], spans[number], config) for number in kept])
    chosen = softmax(logits)
    better = _standing_out(retrieval)[kept]
    known = len(retrieval) >= AMONG
    listed = []
    for place, number in enumerate(kept):
        for start, end, span, margin in spans[number]:
            score = math.log(chosen[place] + 1e-30) + math.log(span + 1e-30)
            score += config.retrieval_weight * better[place]
            features = (float(logits[place]), margin, float(better[place]) if known else math.nan)
            listed.append(Candidate(number, start, end, score, float(chosen[place]), span, features))
    if config.ranking == "selection":
        listed.sort(key=lambda one: (-one.features[0], one.passage, -one.span))
    else:
        listed.sort(key=lambda one: -one.score)
    return _merged(texts, listed, add_up=config.ranking == "product")


def _standing_out(retrieval: Sequence[float]) -> np.ndarray:
    """Scores as standard deviations from the mean of the first ones; 0 where those are equal."""
    scores = np.array(retrieval, np.float64)
    mean, spread = scores[:AMONG].mean(), scores[:AMONG].std()
    if spread <= 1e-6 * max(1.0, abs(mean)):
        return np.zeros(len(scores))
    return np.asarray((scores - mean) / spread)


def _spans(text: str, windows: Sequence[Scored], config: ReaderConfig) -> list[tuple[int, int, float, float]]:
    """(start, end, probability, margin over no span) of a passage's best spans, in characters."""
    found: dict[tuple[int, int], tuple[float, float]] = {}
    for scored in windows:
        window = scored.window
        if not len(window.offsets):
            continue
        reach = window.first + len(window.offsets)
        starts, ends = softmax(scored.starts)[:reach], softmax(scored.ends)[:reach]
        for span in candidates(starts, ends, window.first, config.longest)[: 2 * _PER_PASSAGE]:
            begin = int(window.offsets[window.position(span.start), 0])
            stop = int(window.offsets[window.position(span.end), 1])
            begin, stop = _whole_words(text, begin, stop)
            margin = float(scored.starts[span.start] + scored.ends[span.end] - scored.starts[0] - scored.ends[0])
            known = found.get((begin, stop))
            if _key(text[begin:stop]) and (known is None or span.score > known[0]):
                found[begin, stop] = (span.score, margin)
    best = sorted(found.items(), key=lambda item: -item[1][0])[:_PER_PASSAGE]
    return [(begin, stop, score, margin) for (begin, stop), (score, margin) in best]


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Word pieces are made whole, but not where words are written together: a Korean particle stays off its noun."""
    while 0 < start < len(text) and _joined(text[start - 1], text[start]):
        start -= 1
    while 0 < end < len(text) and (_joined(text[end - 1], text[end]) or unicodedata.category(text[end])[0] == "M"):
        end += 1
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _joined(left: str, right: str) -> bool:
    both = left + right
    return left.isalnum() and right.isalnum() and not has_hangul(both) and not has_unspaced(both)


def selection(text: str, windows: Sequence[Scored], config: ReaderConfig) -> float:
    """How well a passage fits: as well as its best window."""
    return _selection(windows, _spans(text, windows, config) if config.selection == "null" else (), config)


def _selection(
    windows: Sequence[Scored], spans: Sequence[tuple[int, int, float, float]], config: ReaderConfig
) -> float:
    if config.selection == "null":
        return max((margin for *_, margin in spans), default=-1e3)
    return max(scored.selection or 0.0 for scored in windows)


def _merged(texts: Sequence[str], listed: Sequence[Candidate], add_up: bool) -> list[Candidate]:
    """One candidate for each answer, with what other passages say for it; overlapping spans are one answer."""
    found: dict[str, Candidate] = {}
    saying: dict[str, set[int]] = {}
    taken: list[tuple[int, int, int]] = []
    for one in listed:
        if any(n == one.passage and one.start < stop and begin < one.end for n, begin, stop in taken):
            continue
        key = _key(texts[one.passage][one.start : one.end])
        first = found.get(key)
        taken.append((one.passage, one.start, one.end))
        if first is None:
            found[key], saying[key] = one, {one.passage}
        elif one.passage not in saying[key]:
            saying[key].add(one.passage)
            score = float(np.logaddexp(first.score, one.score)) if add_up else first.score
            found[key] = replace(first, score=score, support=len(saying[key]))
    merged = list(found.values())
    return sorted(merged, key=lambda one: -one.score) if add_up else merged


def _key(text: str) -> str:
    """What two spans share if they are the same answer; empty if the span is none.

    Not the metrics' normalisation, to which 1.5 and 15, -3 and 3, C++ and C are the same, and a blood group A nothing.
    """
    bare = " ".join(text.strip(_AROUND).split())
    if bare in ("a", "an", "An", "the", "The") or all(unicodedata.category(letter)[0] in "PZC" for letter in bare):
        return ""
    return _ARTICLE.sub("", bare.casefold())


def confidence(features: Sequence[float], curve: Mapping[str, float]) -> float:
    """From 0 to 1: the logistic curve that was fitted on held-back data, or a plain one where none was.

    A feature that is not known counts as it typically is.
    """
    fitted = curve or {"bias": 0.0, "selection": 0.5, "margin": 0.2}
    known = (fitted.get("typical", 0.0) if math.isnan(feature) else feature for feature in features)
    value = fitted.get("bias", 0.0) + sum(
        fitted.get(name, 0.0) * feature for name, feature in zip(FEATURES, known, strict=True)
    )
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))
