"""Where a question's gold passage is in this index, whatever corpus it was marked in.

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
        start = question.start if position == 0 else None
        if gold.text.strip():
            near = _answering(_candidates(index, gold, start or 0), question, mode)
            candidates = _same(near, gold, question, start)
        else:
            candidates = _answering(_by_id(index, gold.id), question, mode)
        found |= {passage.id: passage for passage in candidates if passage.id not in found}
    return list(found.values())


def _answering(passages: Iterable[Passage], question: Question, mode: Mode) -> list[Passage]:
    if not question.answers:
        return list(passages)
    return [passage for passage in passages if has_answer(passage.text, question.answers, mode)]


def _by_id(index: Index, name: str) -> list[Passage]:
    """The passage with this id, or all passages of the document with it."""
    passage = index.passage(name)
    return [passage] if passage else index.passages_of(name)


def _same(passages: Iterable[Passage], gold: Context, question: Question, start: int | None) -> list[Passage]:
    """Those passages that are the same text as the gold passage, and have the answer in the same place."""
    whole = shingles(gold.text)
    beside = None
    if start is not None and 0 <= start < len(gold.text) and question.answers:
        end = start + len(question.answers[0])
        beside = shingles(gold.text[max(0, start - _BESIDE) : end + _BESIDE])
    scored: list[tuple[float, int, Passage]] = []
    for passage in passages:
        parts = shingles(passage.text)
        near = containment(beside, parts) if beside else 1.0
        shared = len(whole & parts)
        if containment(whole, parts) >= _SAME and near >= _BESIDE_SAME and shared >= min(_FEWEST, len(whole)):
            scored.append((near, shared, passage))
    scored.sort(key=lambda one: one[:2], reverse=True)
    return [passage for _, _, passage in scored]


def _candidates(index: Index, gold: Context, mark: int) -> list[Passage]:
    first = max(0, min(mark - _EXCERPT // 2, len(gold.text) - _EXCERPT))
    named = index.passage(gold.id) if gold.id else None
    if named and named.text == gold.text:
        return [named]
    excerpt = f"{gold.title} {gold.text[first : first + _EXCERPT]}"
    if not excerpt.strip():
        excerpt = gold.text.strip()[:_EXCERPT]
    passages = [hit.passage for hit in index.search(excerpt, _CANDIDATES, "bm25")]
    return [named, *passages] if named and all(one.id != named.id for one in passages) else passages
