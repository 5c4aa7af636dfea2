"""The inverse cloze task: a sentence is the question, the passage it was taken from is the answer."""

import random
from collections.abc import Iterable, Iterator
from pathlib import Path

from mundap.datasets.examples import writing
from mundap.disk import disk_errors
from mundap.errors import MundapError
from mundap.index.index import Index
from mundap.records import Context, Example, Passage, Question
from mundap.text.sentences import sentence_spans

_FEWEST_WORDS = 4


def _ict_examples(passages: Iterable[Passage], keep: float = 0.1, seed: int = 0) -> Iterator[Example]:
    """Yield an example for each passage of two sentences or more.

    Args:
        passages: Any corpus.
        keep: How often the sentence stays in its passage, so that the same words count as well.
        seed: Decides which sentence, and whether it stays; the same for the same passage in any order.
    """
    for passage in passages:
        spans = [span for span in sentence_spans(passage.text) if span[0] < span[1]]
        long = [span for span in spans if len(passage.text[span[0] : span[1]].split()) >= _FEWEST_WORDS]
        if len(spans) < 2 or not long:
            continue
        rng = random.Random(f"{seed} {passage.id}")  # noqa: S311
        start, end = rng.choice(long)
        text = passage.text
        if rng.random() >= keep:
            text = f"{text[:start].rstrip()} {text[end:].lstrip()}".strip()
        asked = Question(passage.id, passage.text[start:end].strip())
        yield Example(asked, (Context(passage.id, passage.title, text),))


def write_examples(index: str | None, out: Path, keep: float, seed: int = 0) -> tuple[Path, Path]:
    """Write the examples of an index, nine tenths to train on and one to validate on; what is there is kept."""
    train, dev = out / "ict.jsonl", out / "ict-dev.jsonl"
    if train.exists() and dev.exists():
        return train, dev
    with disk_errors(out):
        out.mkdir(parents=True, exist_ok=True)
    count = 0
    with writing(train, "dpr-jsonl") as learn, writing(dev, "dpr-jsonl") as check:
        for count, example in enumerate(_ict_examples(Index(index).passages(), keep, seed), 1):
            if count % 10:
                learn(example)
            else:
                check(example)
        if count < 20:
            raise MundapError(f"only {count} passages have two sentences: too few to train on")
    return train, dev
