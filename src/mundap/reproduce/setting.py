"""What all runs of an experiment share: a corpus, examples, held-back questions and a start, cut to its scale."""

import json
import random
from dataclasses import asdict, dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from mundap import questions as question_files
from mundap.disk import json_bytes, replacing, write_atomic
from mundap.errors import ModelError, MundapError, UsageError
from mundap.index.gold import find_gold
from mundap.index.index import Index
from mundap.models import checkpoint, layouts
from mundap.questions import match_for
from mundap.records import Example, Passage, Question
from mundap.reproduce import Scale, Task, Tell
from mundap.text.answers import Mode, has_answer
from mundap.training import formats
from mundap.training.negatives import Counts, Miner

_LOOKED_AT = 8  # examples of the file for each one wanted
_BM25, _RANDOM = 20, 8  # negatives of each question
_SAME = 0.8
_TOGETHER = 256  # questions searched for at a time


@dataclass(frozen=True, slots=True)
class Setting:
    """An experiment's data, on disk.

    Attributes:
        index: The corpus, for BM25 alone.
        examples: To train on, each with hard and with random negatives.
        start: The shallow network to start from.
        test: Held-back questions.
        match: How answers are looked for.
        passages: In the corpus.
        questions: To train on.
    """

    index: Path
    examples: Path
    start: Path
    test: list[Question]
    match: Mode
    passages: int
    questions: int


def prepare(task: Task, tell: Tell) -> Setting:
    """Cut everything to size, once.

    Raises:
        MundapError: There is too little of something, or the folder holds another experiment.
    """
    folder = task.out / "data"
    folder.mkdir(parents=True, exist_ok=True)
    free = ("out", "in_batch")
    facts = {name: str(value) for name, value in asdict(task).items() if value is not None and name not in free}
    known = folder / "task.json"
    if known.exists() and json.loads(known.read_text("utf-8")) != json.loads(json_bytes(facts)):
        raise UsageError(f"{task.out} holds an experiment with other data or another scale. Choose another -o.")
    write_atomic(known, json_bytes(facts))
    test, _ = question_files.read_all(task.test)
    test = [question for question in test if question.answers]
    match = match_for([answer for question in test[:200] for answer in question.answers])
    pool = Index(task.index)
    chosen = folder / "test.jsonl"
    if not chosen.exists():
        tell("choosing held-back questions, examples and passages")
        held = _answerable(question_files.sample(test, 2 * task.scale.test), pool, match)[: task.scale.test]
        _choose(task, pool, held, folder, match)
    rows = [json.loads(line) for line in chosen.read_text("utf-8").splitlines()]
    kept = [Question(row["id"], row["question"], tuple(row["answers"])) for row in rows]
    _shallow(task.start, task.scale, folder / "start")
    with (folder / "examples.jsonl").open("rb") as lines:
        examples = sum(1 for _ in lines)
    size = len(Index(folder / "index"))
    return Setting(folder / "index", folder / "examples.jsonl", folder / "start", kept, match, size, examples)


def _answerable(test: list[Question], pool: Index, match: Mode) -> list[tuple[Question, list[Passage]]]:
    """Those questions whose answer can be found in the pool: for the others all kinds of training are equal."""
    found = []
    for question in test:
        gold = find_gold(pool, question, match) if question.gold else []
        if not gold:
            hits = pool.search(question.text, 100, "bm25")
            gold = [hit.passage for hit in hits if _has(hit.passage, question, match)][:1]
        if gold:
            found.append((question, gold))
    return found


def _has(passage: Passage, question: Question, match: Mode) -> bool:
    return has_answer(passage.text, question.answers, match)


def _choose(task: Task, pool: Index, held: list[tuple[Question, list[Passage]]], folder: Path, match: Mode) -> None:
    examples = _examples(task, {_plain(question.text) for question, _ in held})
    if not held or len(examples) < task.scale.batch:
        raise MundapError(f"{len(examples)} examples and {len(held)} questions that can be answered: too few")
    passages = {one.text: one.title for _, gold in held for one in gold}
    for example in examples:
        for context in (example.positives[0], *example.hard[:1]):
            passages.setdefault(context.text, context.title)
    for passage in pool.sample(task.scale.passages, "corpus"):
        if len(passages) >= task.scale.passages:
            break
        passages.setdefault(passage.text, passage.title)
    with replacing(folder / "corpus.jsonl") as file:
        for number, (text, title) in enumerate(passages.items()):
            file.write(json_bytes({"_id": f"p{number}", "title": title, "text": text}) + b"\n")
    index = Index.build([folder / "corpus.jsonl"], folder / "index", model="none")
    # Negatives of all kinds come from this corpus: else some would be easier for never being met again.
    miner = Miner(index, Counts(bm25=_BM25, random=_RANDOM), match, _SAME, seed=0)
    with formats.writing(folder / "examples.jsonl", "dpr-jsonl") as write:
        for start in range(0, len(examples), _TOGETHER):
            some = examples[start : start + _TOGETHER]
            mined = miner.mine([one.question for one in some], [one.positives for one in some])
            for example, (hard, others) in zip(some, mined, strict=True):
                if hard and others:
                    write(replace(example, hard=hard, negatives=others))
    with replacing(folder / "test.jsonl") as file:
        for question, _ in held:
            row: dict[str, Any] = {"id": question.id, "question": question.text, "answers": list(question.answers)}
            file.write(json_bytes(row) + b"\n")


def _examples(task: Task, held_back: set[str]) -> list[Example]:
    """Examples with hard negatives, drawn at random, none of them a held-back question."""
    found = [
        one
        for one in islice(formats.read_examples(task.train), _LOOKED_AT * task.scale.questions)
        if isinstance(one, Example) and one.hard and _plain(one.question.text) not in held_back
    ]
    random.Random(0).shuffle(found)  # noqa: S311
    return found[: task.scale.questions]


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _renew(part: Any, spread: float) -> None:
    """As BERT's own layers begin. The library's function leaves alone what was read from a file."""
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.normal_(part.weight, 0.0, spread)
        torch.nn.init.zeros_(part.bias)
    elif isinstance(part, torch.nn.LayerNorm):
        part.reset_parameters()


def _shallow(start: Path, scale: Scale, out: Path) -> None:
    """The lower layers of a checkpoint, the topmost of them made anew: a start that has yet to learn to retrieve."""
    if out.exists():
        return
    loaded = checkpoint.open_checkpoint(start)
    network: Any = loaded.network
    layers = getattr(getattr(network, "encoder", None), "layer", None)
    if layers is None:
        raise ModelError(f"{start} is not built like BERT: its layers cannot be taken off")
    torch.manual_seed(0)
    network.encoder.layer = torch.nn.ModuleList(list(layers)[: scale.layers])
    network.config.num_hidden_layers = len(network.encoder.layer)
    for layer in network.encoder.layer[len(network.encoder.layer) - scale.fresh :] if scale.fresh else ():
        layer.apply(lambda part: _renew(part, network.config.initializer_range))
    # As all runs use it: by cosine, and so many tokens of a passage.
    layouts.write({"question": checkpoint.with_recipe(loaded, normalized=True, max_length=scale.length)}, out)
