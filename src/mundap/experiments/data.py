"""The data of an experiment: found in a folder, cut to a scale, and prepared once.

A data folder holds the corpus as `index/` (an index) or `corpus.*` (any files that `mundap index` reads), and for
every data set two files of questions, `NAME-train.*` and `NAME-test.*`, in any format that `mundap data make` reads.
"""

import json
import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch

from mundap.datasets import queries
from mundap.datasets.examples import writing
from mundap.datasets.queries import match_for
from mundap.disk import json_bytes, replacing, write_atomic
from mundap.encoder import checkpoints, layouts
from mundap.errors import ModelError, MundapError, UsageError
from mundap.experiments.scales import Scale
from mundap.index.index import Index
from mundap.mining.gold import find_gold
from mundap.mining.make import MiningReport, Rules, make
from mundap.mining.negatives import Counts, Miner
from mundap.records import Example, Passage, Question
from mundap.text.answers import Mode, has_answer
from mundap.training.learner import Tell

_LOOKED_AT = 3  # questions of a file for each one wanted: some have no passage
_BM25, _RANDOM = 20, 8  # negatives of each question
_AT_ONCE = 256
_EXAMPLES = Path(__file__).parents[3] / "examples"


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Where an experiment's data is.

    Attributes:
        corpus: An index, or files to index.
        sets: By name: the file of training questions and that of held-out ones.
    """

    corpus: tuple[Path, ...]
    sets: Mapping[str, tuple[Path, Path]]


def find_data(folder: Path) -> DataFiles:
    """The data sets of a folder.

    Raises:
        UsageError: There is no corpus in it, or no data set.
    """
    corpus = tuple(sorted(folder.glob("corpus*")))
    if (folder / "index").is_dir():
        corpus = (folder / "index",)
    if not corpus:
        raise UsageError(f"{folder} has no corpus: put the passages there as index/ or corpus.tsv, .jsonl, …")
    sets: dict[str, tuple[Path, Path]] = {}
    for train in sorted(folder.glob("*-train.*")):
        name = train.name.split("-train.", 1)[0]
        test = sorted(folder.glob(f"{name}-test.*"))
        if test:
            sets[name] = (train, test[0])
    if not sets:
        raise UsageError(f"{folder} has no data set: name the files of questions NAME-train.json and NAME-test.json")
    return DataFiles(corpus, sets)


def bundled_data(scratch: Path) -> DataFiles:
    """The example encyclopaedia of the repository, its English questions divided at random.

    Raises:
        UsageError: There are no examples, as in an installed package.
    """
    path = _EXAMPLES / "questions.jsonl"
    if not path.is_file():
        raise UsageError(
            "the examples are not installed: run this in a clone of the repository, or give data of your own"
        )
    rows = [json.loads(line) for line in path.read_text("utf-8").splitlines()]
    english = [{"question": row["question"], "answers": row["answers"]} for row in rows if row["language"] == "en"]
    random.Random(0).shuffle(english)  # noqa: S311
    half = len(english) // 2
    files = (scratch / "examples-train.jsonl", scratch / "examples-test.jsonl")
    for file, part in zip(files, (english[:half], english[half:]), strict=True):
        write_atomic(file, b"".join(json_bytes(row) + b"\n" for row in part))
    return DataFiles((_EXAMPLES / "encyclopedia",), {"examples": files})


@dataclass(frozen=True, slots=True)
class TestSet:
    """Held-out questions, and how their answers are matched."""

    questions: list[Question]
    match: Mode


@dataclass(frozen=True, slots=True)
class Prepared:
    """The data of an experiment, on disk.

    Attributes:
        index: The corpus, for BM25 alone.
        train: By data set: examples with hard and random negatives out of this corpus.
        test: By data set: held-out questions.
        base_model: The network that every arm starts from.
        passages: The number of passages.
        questions: By data set: the number of training questions.
    """

    index: Path
    train: Mapping[str, Path]
    test: Mapping[str, TestSet]
    base_model: Path
    passages: int
    questions: Mapping[str, int]

    @property
    def first(self) -> str:
        """The data set that experiments with one set use: the largest."""
        return max(self.questions, key=lambda name: self.questions[name])


def prepare(files: DataFiles, base_model: Path, scale: Scale, folder: Path, tell: Tell) -> Prepared:
    """Cut everything to a scale, once.

    Raises:
        MundapError: There is too little of something, or the folder holds other data.
    """
    folder.mkdir(parents=True, exist_ok=True)
    _refuse_other(files, base_model, scale, folder)
    if not (folder / "done").exists():
        tell("preparing the data")
        _cut(files, scale, folder, tell)
        write_atomic(folder / "done", b"")
    _shallow_copy(base_model, scale, folder / "base")
    test: dict[str, TestSet] = {}
    questions: dict[str, int] = {}
    for name in files.sets:
        rows = [json.loads(line) for line in (folder / f"{name}-test.jsonl").read_text("utf-8").splitlines()]
        kept = [Question(row["id"], row["question"], tuple(row["answers"])) for row in rows]
        test[name] = TestSet(kept, _match(kept))
        questions[name] = _lines(folder / f"{name}-train.jsonl")
    index = _index_folder(files, scale, folder)
    train = {name: folder / f"{name}-train.jsonl" for name in files.sets}
    return Prepared(index, train, test, folder / "base", len(Index(index)), questions)


def _refuse_other(files: DataFiles, base_model: Path, scale: Scale, folder: Path) -> None:
    sizes = replace(scale, time="", disk="")  # other words for the same sizes change nothing
    facts = {"scale": asdict(sizes), "corpus": files.corpus, "sets": files.sets, "base_model": base_model}
    text = json.dumps(facts, default=str, sort_keys=True)
    known = folder / "facts.json"
    if known.exists() and known.read_text("utf-8") != text:
        raise UsageError(
            f"{folder.parent} holds an experiment with other data or another scale. Choose another folder."
        )
    write_atomic(known, text.encode())


def _index_folder(files: DataFiles, scale: Scale, folder: Path) -> Path:
    """The index that is searched: the cut one, or at full scale the pool itself."""
    if scale.passages:
        return folder / "index"
    return _pool_folder(files, folder)


def _pool_folder(files: DataFiles, folder: Path) -> Path:
    given = files.corpus[0]
    if (given / "manifest.json").is_file():
        return given
    return folder / "pool"


def _cut(files: DataFiles, scale: Scale, folder: Path, tell: Tell) -> None:
    pool_folder = _pool_folder(files, folder)
    if not (pool_folder / "manifest.json").exists():
        Index.build(list(files.corpus), pool_folder, model="none")
    pool = Index(pool_folder)
    held: dict[str, list[tuple[Question, list[Passage]]]] = {}
    excluded: set[str] = set()
    for name, (_, test) in files.sets.items():
        tell(f"{name}: choosing held-out questions")
        held[name] = _held_back(test, pool, scale)
        excluded.update(_plain(question.text) for question, _ in held[name])
    examples: dict[str, list[Example]] = {}
    for name, (train, _) in files.sets.items():
        tell(f"{name}: choosing training questions")
        examples[name] = _examples(train, pool, scale, excluded)
        _refuse_few(name, len(examples[name]), len(held[name]), scale)
    if scale.passages:
        _write_corpus(held, examples, pool, scale, folder)
        pool = Index.build([folder / "corpus.jsonl"], folder / "index", model="none")
    for name in files.sets:
        tell(f"{name}: mining negatives")
        write_mined(examples[name], pool, folder / f"{name}-train.jsonl")
        _write_questions([question for question, _ in held[name]], folder / f"{name}-test.jsonl")


def _refuse_few(name: str, training: int, held_back: int, scale: Scale) -> None:
    if not held_back or training < scale.batch_size:
        raise MundapError(
            f"{name}: {training} training and {held_back} held-out questions whose answer is in the corpus: too few"
        )


def _held_back(path: Path, pool: Index, scale: Scale) -> list[tuple[Question, list[Passage]]]:
    """Questions whose answer can be found in the pool, with its passages: for others all arms are equal."""
    asked, _ = queries.read_all(path)
    asked = [question for question in asked if question.answers]
    match = _match(asked)
    wanted = scale.test or len(asked)
    found: list[tuple[Question, list[Passage]]] = []
    for question in queries.sample(asked, _LOOKED_AT * wanted):
        passages = find_gold(pool, question, match) or _with_answer(pool, question, match)
        if passages:
            found.append((question, passages))
        if len(found) == wanted:
            break
    return found


def _with_answer(pool: Index, question: Question, match: Mode) -> list[Passage]:
    """The first passage with the answer among BM25's best hundred, if there is one."""
    for hit in pool.search(question.text, 100, "bm25"):
        if has_answer(hit.passage.text, question.answers, match):
            return [hit.passage]
    return []


def _examples(path: Path, pool: Index, scale: Scale, excluded: set[str]) -> list[Example]:
    """Training questions with their positives and one hard negative, none of them held back."""
    asked, _ = queries.read_all(path)
    asked = [question for question in asked if _plain(question.text) not in excluded]
    random.Random(0).shuffle(asked)  # noqa: S311
    wanted = scale.questions or len(asked)
    rules = Rules(match=_match(asked), counts=Counts(bm25=1))
    found: list[Example] = []
    for example in make(pool, asked[: _LOOKED_AT * wanted], rules, MiningReport()):
        if len(found) == wanted:
            break
        found.append(example)
    return found


def _write_corpus(
    held: Mapping[str, Sequence[tuple[Question, list[Passage]]]],
    examples: Mapping[str, Sequence[Example]],
    pool: Index,
    scale: Scale,
    folder: Path,
) -> None:
    """All positives, a hard negative of every question, and random passages of the pool."""
    texts: dict[str, str] = {}
    for rows in held.values():
        for _, gold in rows:
            for passage in gold:
                texts.setdefault(passage.text, passage.title)
    for some in examples.values():
        for example in some:
            for context in (*example.positives[:1], *example.hard[:1]):
                texts.setdefault(context.text, context.title)
    for passage in pool.sample(scale.passages, "corpus"):
        if len(texts) >= scale.passages:
            break
        texts.setdefault(passage.text, passage.title)
    with replacing(folder / "corpus.jsonl") as file:
        for number, (text, title) in enumerate(texts.items()):
            file.write(json_bytes({"_id": f"p{number}", "title": title, "text": text}) + b"\n")


def write_mined(examples: Sequence[Example], index: Index, path: Path) -> None:
    """Write examples with negatives out of an index: from elsewhere some would be easier, for never being met again."""
    answers = [one.question for one in examples]
    miner = Miner(index, Counts(bm25=_BM25, random=_RANDOM), _match(answers))
    with writing(path, "dpr-jsonl") as write:
        for start in range(0, len(examples), _AT_ONCE):
            some = examples[start : start + _AT_ONCE]
            mined = miner.mine([one.question for one in some], [one.positives for one in some])
            for example, (hard, others) in zip(some, mined, strict=True):
                if hard and others:
                    write(replace(example, hard=hard, negatives=others))


def _write_questions(questions: Iterable[Question], path: Path) -> None:
    with replacing(path) as file:
        for question in questions:
            row: dict[str, Any] = {"id": question.id, "question": question.text, "answers": list(question.answers)}
            file.write(json_bytes(row) + b"\n")


def _match(questions: Sequence[Question]) -> Mode:
    answers: list[str] = []
    for question in questions[:200]:
        answers += question.answers
    return match_for(answers)


def _plain(text: str) -> str:
    return " ".join(text.lower().split())


def _lines(path: Path) -> int:
    with path.open("rb") as file:
        return sum(1 for _ in file)


def _shallow_copy(base_model: Path, scale: Scale, out: Path) -> None:
    """The lower layers of a checkpoint, the upper of them initialised anew: a base that cannot retrieve yet."""
    if out.exists():
        return
    loaded = checkpoints.open_checkpoint(base_model)
    network: Any = loaded.network
    layers = getattr(getattr(network, "encoder", None), "layer", None)
    if layers is None:
        raise ModelError(f"{base_model} is not built like BERT: its layers cannot be taken off")
    torch.manual_seed(0)
    if scale.layers:
        network.encoder.layer = torch.nn.ModuleList(list(layers)[: scale.layers])
        network.config.num_hidden_layers = len(network.encoder.layer)
    if scale.new_layers:
        for layer in network.encoder.layer[-scale.new_layers :]:
            layer.apply(lambda part: _initialise(part, network.config.initializer_range))
    similarity = loaded.settings.similarity
    if scale.new_layers:
        similarity = "cosine"  # with which a shallow base learns in few steps
    kept = checkpoints.with_settings(loaded, similarity=similarity, max_length=scale.passage_length)
    layouts.write({"question": kept}, out)


def _initialise(part: Any, spread: float) -> None:
    """As BERT's own layers begin. The library's function leaves alone what was read from a file."""
    if isinstance(part, torch.nn.Linear):
        torch.nn.init.normal_(part.weight, 0.0, spread)
        torch.nn.init.zeros_(part.bias)
    elif isinstance(part, torch.nn.LayerNorm):
        part.reset_parameters()
