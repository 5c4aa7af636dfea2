"""Find a question's gold passage in this index, whatever corpus it was annotated in.

An annotated paragraph is rarely a passage of the pool: another dump, another cut. It is looked for by its
words and recognised by what it shares with a passage.
"""

from collections.abc import Iterable

from mundap.index.index import Index
from mundap.records import Context, Passage, Question
from mundap.text.answers import Mode, has_answer
from mundap.text.overlap import containment, shingles

_SAME = 0.5  # of the shorter text's shingles: the same text, cut elsewhere
_BESIDE = 60  # characters on each side of an answer that show it is that one and not another with the same words
_BESIDE_SAME = 0.3  # of those; less than half, for the answer may stand at the edge of a passage
_FEWEST = 6  # shingles in common: a heading that the gold passage begins with is not that passage
_EXCERPT = 600  # characters searched for
_CANDIDATES = 20


def find_gold(index: Index, question: Question, mode: Mode = "string") -> list[Passage]:
    """The passages that stand for the question's gold passages, best first; none if the pool has none.

    A passage counts if it has the same text (or the same id, where the file gives no text) and contains an
    answer. Where the file tells at which character the answer begins, it must be that place.
    """
    found: dict[str, Passage] = {}
    for position, gold in enumerate(question.gold):
        start = None
        if position == 0:  # the only one whose answer's place the file gives
            start = question.start
        if gold.text.strip():
            near = _answering(_candidates(index, gold, start or 0), question, mode)
            candidates = _same(near, gold, question, start)
        else:
            candidates = _answering(passages_named(index, gold.id), question, mode)
        for passage in candidates:
            found.setdefault(passage.id, passage)
    return list(found.values())


def _answering(passages: Iterable[Passage], question: Question, mode: Mode) -> list[Passage]:
    if not question.answers:
        return list(passages)
    return [passage for passage in passages if has_answer(passage.text, question.answers, mode)]


def passages_named(index: Index, name: str) -> list[Passage]:
    """The passage with this id, or all passages of the document with it."""
    passage = index.passage(name)
    if passage is None:
        return index.passages_of(name)
    return [passage]


def _same(passages: Iterable[Passage], gold: Context, question: Question, start: int | None) -> list[Passage]:
    """Those passages that are the same text as the gold passage, and have the answer in the same place."""
    whole = shingles(gold.text)
    beside = _beside(gold, question, start)
    scored: list[tuple[float, int, Passage]] = []
    for passage in passages:
        parts = shingles(passage.text)
        shared = len(whole & parts)
        if containment(whole, parts) < _SAME or shared < min(_FEWEST, len(whole)):
            continue
        near = 1.0
        if beside:
            near = containment(beside, parts)
        if near >= _BESIDE_SAME:
            scored.append((near, shared, passage))
    scored.sort(key=lambda one: one[:2], reverse=True)
    return [passage for _, _, passage in scored]


def _beside(gold: Context, question: Question, start: int | None) -> frozenset[tuple[str, ...]] | None:
    """The shingles of the answer and the text around it; None where its place is not known."""
    if start is None or not 0 <= start < len(gold.text) or not question.answers:
        return None
    end = start + len(question.answers[0])
    return shingles(gold.text[max(0, start - _BESIDE) : end + _BESIDE])


def _candidates(index: Index, gold: Context, mark: int) -> list[Passage]:
    named = None
    if gold.id:
        named = index.passage(gold.id)
    if named and named.text == gold.text:
        return [named]
    first = max(0, min(mark - _EXCERPT // 2, len(gold.text) - _EXCERPT))
    excerpt = f"{gold.title} {gold.text[first : first + _EXCERPT]}"
    if not excerpt.strip():
        excerpt = gold.text.strip()[:_EXCERPT]
    passages = [hit.passage for hit in index.search(excerpt, _CANDIDATES, "bm25")]
    if named and all(passage.id != named.id for passage in passages):
        passages.insert(0, named)
    return passages
