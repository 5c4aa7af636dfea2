"""Rank the spans of all passages that were read."""

import math
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from mundap.models.folder import ReaderConfig
from mundap.reader.inputs import Window
from mundap.reader.runtime import Scored
from mundap.reader.spans import Span, candidates, softmax, without_bridge
from mundap.text.scripts import has_hangul, has_unspaced
from mundap.text.trim import trim_answers

AMONG = 10
"""So many of the passages found say how far one of them stands out."""

_PER_PASSAGE = 5  # spans of a passage that take part
_TRIMMED = 3  # answers, the best ones, that are freed of Korean particles
_MOST_ODDS = 6.0  # beyond this a share says nothing more
_SENTENCE_END = re.compile(r"(?<=[^\W\d_]{3})[.!?](?=\s+[A-Z])|[。！？]|\n\s*\n|\s\|\s")
_LEADING = re.compile(r"[\s|,;:…·•]+|[*–—-]\s+|[$#%>]\s+(?=[a-z./~])")  # marks of a list, the prompt of a shell
_BEFORE_A_NAME = re.compile(r"(?<![^\s\"'`(\[=|])(?:--?|~?/|\./)\Z")  # of an option or a path, at the start of a word
_TRAILING = "|,;:…·•–—،؛、。"
_FULL_STOP = re.compile(r"(?:\d|[^\W\d_]{4})\.$")  # of a sentence; "St." and "Inc." keep theirs
_PAIRS = (("(", ")"), ("[", "]"), ("“", "”"), ("«", "»"), ("「", "」"), ('"', '"'))
_AROUND = " \t\r\n\"'`.,;:!?…()[]{}<>“”‘’«»「」『』《》〈〉、。"
_ARTICLE = re.compile(r"^(?:an?|the) (?=\S)")


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
        features: What confidence is computed from, in the order of `FEATURES`: the passage's raw selection score; how
            much likelier the span is than none (a logarithm); the answer's share among all answers, with what other
            passages say for it, as log odds; the share of the question's words that the passage has; and how far the
            passage stands out among the first that were found, in standard deviations, not a number where too few
            were found to tell.
        support: Passages with the same answer.
    """

    passage: int
    start: int
    end: int
    score: float
    selection: float
    span: float
    features: tuple[float, float, float, float, float]
    support: int = 1


def rank(
    texts: Sequence[str],
    read: Sequence[Sequence[Scored]],
    retrieval: Sequence[float],
    config: ReaderConfig,
    words: Sequence[float] = (),
) -> list[Candidate]:
    """Different answers, best first.

    With the ranking `selection`, as in the DPR paper, spans of the passage with the highest selection score come
    first. With `product` spans of all passages compete by P(passage) x P(span), the retrieval score mixed in with
    `retrieval_weight` (standardised, so that it is of one size for all ways of searching), what several passages
    say is added up, and a span that joins two answers is left out.

    Args:
        texts: Of the passages that were read.
        read: What the reader says of each.
        retrieval: The score each was found with; behind those, the scores of what was found and not read.
        config: The reader's.
        words: The share of the question's words that each text has, for confidence; unknown by default.
    """
    listed = _candidates(texts, read, retrieval, config, words or [0.0] * len(texts))
    if not listed:
        return []
    if config.ranking == "selection":
        listed.sort(key=lambda one: (-one.features[0], one.passage, -one.span))
        found = _merged(texts, listed, add_up=False)
    else:
        listed.sort(key=lambda one: -one.score)
        found = _merged(texts, listed, add_up=True)
        found.sort(key=lambda one: -one.score)
    found = _with_shares(found)
    return _without_particles(texts, found[:_TRIMMED]) + found[_TRIMMED:]


def _candidates(
    texts: Sequence[str],
    read: Sequence[Sequence[Scored]],
    retrieval: Sequence[float],
    config: ReaderConfig,
    words: Sequence[float],
) -> list[Candidate]:
    """The spans of all passages, in no order; their share among all answers is not known yet."""
    spans = [_spans(text, windows, config) for text, windows in zip(texts, read, strict=True)]
    kept = [number for number, row in enumerate(spans) if row]
    if not kept:
        return []
    logits = np.array([_selection(read[number], spans[number], config) for number in kept])
    chosen = softmax(logits)
    standing_out = z_scores(retrieval)[kept]
    found = []
    for place, number in enumerate(kept):
        prior = math.log(chosen[place] + 1e-30) + config.retrieval_weight * standing_out[place]
        known = math.nan
        if len(retrieval) >= AMONG:
            known = float(standing_out[place])
        for start, end, span, margin in spans[number]:
            score = prior + math.log(span + 1e-30)
            features = (float(logits[place]), margin, 0.0, words[number], known)
            found.append(Candidate(number, start, end, score, float(chosen[place]), span, features))
    return found


def _without_particles(texts: Sequence[str], best: list[Candidate]) -> list[Candidate]:
    """A Korean answer ends before its particle. Telling morphemes apart takes milliseconds, so only the best get it."""
    spans = trim_answers([(texts[one.passage], one.start, one.end) for one in best])
    return [replace(one, start=start, end=end) for one, (start, end) in zip(best, spans, strict=True)]


def _with_shares(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates with the log odds of each among all."""
    shares = softmax(np.array([one.score for one in found]))
    odds = np.clip(np.log(shares + 1e-9) - np.log1p(1e-9 - shares), -_MOST_ODDS, _MOST_ODDS)
    shared = []
    for one, value in zip(found, odds, strict=True):
        selection_score, margin, _, words, retrieval = one.features
        shared.append(replace(one, features=(selection_score, margin, float(value), words, retrieval)))
    return shared


def z_scores(retrieval: Sequence[float]) -> np.ndarray:
    """The z-scores of retrieval scores, by mean and deviation of the first ones; 0 where those are equal."""
    scores = np.array(retrieval, np.float64)
    if not len(scores):
        return scores
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
        listed = candidates(starts, ends, window.first, config.max_answer_length)
        if config.ranking == "product":
            listed = without_bridge(listed)
        for span, begin, stop in _within_a_line(text, window, listed)[: 2 * _PER_PASSAGE]:
            begin, stop = _clean(text, *_whole_words(text, begin, stop))
            margin = float(scored.starts[span.start] + scored.ends[span.end] - scored.starts[0] - scored.ends[0])
            known = found.get((begin, stop))
            if _key(text[begin:stop]) and (known is None or span.score > known[0]):
                found[begin, stop] = (span.score, margin)
    best = sorted(found.items(), key=lambda item: -item[1][0])[:_PER_PASSAGE]
    return [(begin, stop, score, margin) for (begin, stop), (score, margin) in best]


def _within_a_line(text: str, window: Window, listed: Sequence[Span]) -> list[tuple[Span, int, int]]:
    """The spans that do not run over a line's end, each with its first character and the one behind its last.

    A line of a text without wraps (`Passage.unwrapped`) is a whole paragraph, list item or line of code: no answer
    begins in one and ends in the next.
    """
    placed = []
    for span in listed:
        begin = int(window.offsets[window.position(span.start), 0])
        stop = int(window.offsets[window.position(span.end), 1])
        if "\n" not in text[begin:stop].strip():
            placed.append((span, begin, stop))
    return placed


def _whole_words(text: str, start: int, end: int) -> tuple[int, int]:
    """Extend a span to whole words, but not where words are written together: a Korean particle is not added.

    Names of options, settings and files are whole with their marks: `--no-verify`, `core.hooksPath`, `/etc/fstab`.
    """
    while _goes_on(text, start - 1):
        start -= 1
    while _goes_on(text, end - 1) or (0 < end < len(text) and unicodedata.category(text[end])[0] == "M"):
        end += 1
    if mark := _BEFORE_A_NAME.search(text, max(0, start - 4), start):
        start = mark.start()
    while start < end and text[start].isspace():
        start += 1
    while end > start and text[end - 1].isspace():
        end -= 1
    return start, end


def _clean(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without what no answer has at its edges, and within one sentence.

    Where a span runs over the end of a sentence, the part before that is the answer: "three connections. The value
    must be less" is "three connections". Table bars, list marks, commas and the sentence's full stop at the edges
    go, as do a bracket or a quotation mark without its partner.
    """
    stop = _SENTENCE_END.search(text, start, end)
    if stop and stop.end() < end:
        end = stop.start()
    if left := _LEADING.match(text, start, end):
        start = left.end()
    while end > start and (text[end - 1].isspace() or text[end - 1] in _TRAILING):
        end -= 1
    if _FULL_STOP.search(text[start:end]) and not text[end : end + 1].strip():
        end -= 1
    return _without_lone_bracket(text, start, end)


def _without_lone_bracket(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without a bracket or quotation mark at its edge whose partner is not in it."""
    for opening, closing in _PAIRS:
        inside = text[start:end]
        if inside.startswith(opening) and closing not in inside[1:]:
            start += 1
        elif inside.endswith(closing) and opening not in inside[:-1]:
            end -= 1
    return start, end


def _goes_on(text: str, place: int) -> bool:
    """Whether the character there and the next are of one word."""
    if not 0 <= place < len(text) - 1:
        return False
    return _joined(text[place], text[place + 1]) or _is_inner_mark(text, place) or _is_inner_mark(text, place + 1)


def _is_inner_mark(text: str, place: int) -> bool:
    """Whether there is a mark within a name or a number: `core.hooksPath`, `1.2`, `5,895`."""
    if not 0 < place < len(text) - 1 or text[place] not in ".,":
        return False
    before, behind = text[place - 1], text[place + 1]
    if before.isdigit() and behind.isdigit():
        return True
    return text[place] == "." and (before.isalnum() or before == "_") and "a" <= behind <= "z"


def _joined(left: str, right: str) -> bool:
    if "_" in (left, right):
        return (left + right).replace("_", "a").isalnum()
    if not (left.isalnum() and right.isalnum()):
        return False
    both = left + right
    return both.isascii() or not (has_hangul(both) or has_unspaced(both))


def selection(text: str, windows: Sequence[Scored], config: ReaderConfig) -> float:
    """The selection score of a passage: that of its best window."""
    spans: Sequence[tuple[int, int, float, float]] = ()
    if config.selection == "null":
        spans = _spans(text, windows, config)
    return _selection(windows, spans, config)


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
            score = first.score
            if add_up:
                score = float(np.logaddexp(score, one.score))
            found[key] = replace(first, score=score, support=len(saying[key]))
    return list(found.values())


def _key(text: str) -> str:
    """A form that two spans have in common if they are the same answer; empty if a span is no answer at all.

    Not the metrics' normalisation, to which 1.5 and 15, -3 and 3, C++ and C are the same, and a blood group A nothing.
    """
    bare = " ".join(text.strip(_AROUND).split())
    if bare in ("a", "an", "An", "the", "The") or all(unicodedata.category(letter)[0] in "PZC" for letter in bare):
        return ""
    return _ARTICLE.sub("", bare.casefold())
