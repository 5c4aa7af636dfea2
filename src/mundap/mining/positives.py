"""Distant supervision: a positive passage for a question of which only the answer is known."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from mundap.index.analyzer import Analyzer
from mundap.records import Passage, Question
from mundap.text.answers import Mode, has_answer
from mundap.text.questions import without_question_words

_WORD = re.compile(r"\w+")
_PATTERN_SYNTAX = re.compile(r"\\[a-zA-Z]|\(\?[:=!<]*|[\\^$.|?*+(){}\[\]]")
_MOST_ANSWER_TERMS = 12
_SENTENCE_START = re.compile(r"(?:^|[.!?:\"“(]\s*)\w+")


Choice = Literal["bm25", "overlap"]
"""What decides among passages with the answer: their BM25 rank, or how many words of the question they have."""


@dataclass(frozen=True, slots=True)
class EvidenceRules:
    """What makes a passage good evidence.

    Attributes:
        depth: How many of the BM25 ranking are considered.
        shortest: The fewest characters of a passage.
        longest: The most characters.
        names: Whether it must share a proper name with the question, or another content word where no name is known.
        by: What decides among those left: their BM25 rank, or how many words of the question they have.
    """

    depth: int = 100
    shortest: int = 25
    longest: int = 1500
    names: bool = True
    by: Choice = "bm25"

    def allow_length(self, text: str) -> bool:
        """Whether a passage is neither too short nor too long."""
        return self.shortest <= len(text) <= self.longest


def search_text(question: Question, mode: Mode, analyzer: Analyzer) -> str:
    """The question with its answers, as BM25 is asked for evidence."""
    answers = question.answers
    if mode == "regex":  # its letters are words to look for, its syntax is not
        answers = tuple(_PATTERN_SYNTAX.sub(" ", answer) for answer in answers)
    terms: set[str] = set()
    for answer in answers:
        terms.update(analyzer.question_terms(answer))
    if len(terms) > _MOST_ANSWER_TERMS:  # some sets list dozens of aliases, which would drown the question
        answers = answers[:2]
    return " ".join([question.text, *answers])


def select_evidence(
    question: Question, ranked: Iterable[Passage], mode: Mode, rules: EvidenceRules, analyzer: Analyzer
) -> Passage | str:
    """The best evidence among passages ranked by BM25, or why there is none."""
    holding = [passage for passage in ranked if has_answer(passage.text, question.answers, mode)]
    if not holding:
        return f"no passage with the answer in the top {rules.depth}"
    found = [passage for passage in holding if rules.allow_length(passage.text)]
    if not found:
        return "every passage with the answer is too short or too long"
    terms = _terms(found, analyzer)
    if rules.names:
        wanted, kind = _must_share(question, found, mode, analyzer)
        found = _sharing(found, terms, wanted)
        if not found:
            return f"no passage with the answer shares a {kind} with the question"
    if rules.by == "bm25":
        return found[0]
    return _with_most_terms(found, terms, set(analyzer.question_terms(question.text)))


def _terms(passages: Sequence[Passage], analyzer: Analyzer) -> dict[str, set[str]]:
    """The terms of each passage and its title, by its id."""
    return {passage.id: set(analyzer.terms(f"{passage.title}\n{passage.text}")) for passage in passages}


def _with_most_terms(passages: list[Passage], terms: Mapping[str, set[str]], asked: set[str]) -> Passage:
    """The passage with most of the question's terms."""
    # `max` keeps the first of equals: the one BM25 likes best.
    return max(passages, key=lambda passage: len(asked & terms[passage.id]))


def _sharing(passages: list[Passage], terms: Mapping[str, set[str]], wanted: set[str]) -> list[Passage]:
    """The passages with one of the wanted terms; all of them, if there are no such terms."""
    if not wanted:
        return passages
    return [passage for passage in passages if wanted & terms[passage.id]]


def _must_share(
    question: Question, passages: Sequence[Passage], mode: Mode, analyzer: Analyzer
) -> tuple[set[str], str]:
    """Terms of which evidence must have one, and what they are: the question's names, else its content words.

    The words of the answer do not count: every passage with the answer has those.
    """
    answered: set[str] = set()
    if mode != "regex":
        for answer in question.answers:
            answered.update(analyzer.terms(answer))
    named: set[str] = set()
    for name in _names(question.text, passages):
        named.update(analyzer.question_terms(name))
    named -= answered
    if named:
        return named, "name"
    asked = set(analyzer.question_terms(without_question_words(question.text)))
    return asked - answered, "content word"


def _names(question: str, passages: Sequence[Passage]) -> list[str]:
    """The proper names of a question; empty if none can be recognised.

    Words with a capital inside the sentence. Many question sets are all lower-case: then the passages show which
    words are names, by writing them with a capital more often than not. Scripts without case have no such
    sign, and any content word will do.
    """
    if question.lower() == question.upper():
        return [question]
    words = _WORD.findall(question)
    names = [word for word in words[1:] if word[0].isupper()]
    if names and len(names) < max(2, len(words) - 1):  # a question with a capital on every word tells nothing
        return names
    return _mostly_capitalised({word.lower() for word in words if len(word) > 1}, passages)


def _mostly_capitalised(words: set[str], passages: Sequence[Passage]) -> list[str]:
    """Those of the words that the passages write with a capital more often than not, inside a sentence."""
    capitals: Counter[str] = Counter()  # with a capital, minus without
    for passage in passages:
        inside = _SENTENCE_START.sub(" ", passage.text)
        for word in _WORD.findall(inside):
            if word.lower() not in words:
                continue
            if word[0].isupper():
                capitals[word.lower()] += 1
            else:
                capitals[word.lower()] -= 1
    return [word for word, surplus in capitals.items() if surplus > 0]
