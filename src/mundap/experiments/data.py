"""The data of an experiment: found in a folder, cut to a scale, and prepared once.

A data folder holds the corpus as `index/` (an index) or `corpus.*` (any files that `mundap index` reads), and for
every data set two files of questions, `NAME-train.*` and `NAME-test.*`, in any format that `mundap data make` reads.
`qrels-NAME.*`, where it is there, judges the questions of both files; else a passage with the answer is relevant.
"""

import json
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

import torch

from mundap.datasets import beir, queries
from mundap.datasets.detect import detect
from mundap.datasets.examples import writing
from mundap.datasets.queries import match_for
from mundap.disk import json_bytes, replacing, write_atomic
from mundap.encoder import checkpoints, layouts
from mundap.errors import ModelError, MundapError, UsageError
from mundap.experiments.scales import Scale
from mundap.index.index import Index
from mundap.mining.gold import find_gold, passages_named
from mundap.mining.make import MiningReport, Rules, make, with_gold
from mundap.mining.negatives import Counts, Miner
from mundap.records import Context, Example, Passage, Question
from mundap.text.answers import Mode, has_answer
from mundap.training.learner import Tell

_LOOKED_AT = 3  # questions of a file for each one wanted: some have no passage
_BM25, _RANDOM = 20, 8  # negatives of each question
_AT_ONCE = 256
_EXAMPLES = Path(__file__).parents[3] / "examples"


class UnsuitableData(UsageError):
    """An experiment cannot be made with the data it was given; others can."""


@dataclass(frozen=True, slots=True)
class DataFiles:
    """Where an experiment's data is.

    Attributes:
        corpus: An index, or files to index.
        sets: By name: the file of training questions and that of held-out ones.
        qrels: By name: the judgements of both, for the sets that have them.
    """

    corpus: tuple[Path, ...]
    sets: Mapping[str, tuple[Path, Path]]
    qrels: Mapping[str, Path] = field(default_factory=dict)

    def judgements(self, name: str) -> beir.Qrels:
        """How relevant passages are to the questions of a set; nothing where only answers are known."""
        if name not in self.qrels:
            return {}
        return beir.read_qrels(self.qrels[name])[0]


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
    qrels: dict[str, Path] = {}
    for train in sorted(folder.glob("*-train.*")):
        name = train.name.split("-train.", 1)[0]
        test = sorted(folder.glob(f"{name}-test.*"))
        if test:
            sets[name] = (train, test[0])
            for path in sorted(folder.glob(f"qrels-{name}.*")):
                qrels.setdefault(name, path)
    if not sets:
        raise UsageError(f"{folder} has no data set: name the files of questions NAME-train.json and NAME-test.json")
    return DataFiles(corpus, sets, qrels)


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
    kept = ("question", "answers", "gold")  # the gold passages are those of the file that `gold` names
    english = [{name: row[name] for name in kept} for row in rows if row["language"] == "en"]
    random.Random(0).shuffle(english)  # noqa: S311
    half = len(english) // 2
    files = (scratch / "examples-train.jsonl", scratch / "examples-test.jsonl")
    for file, part in zip(files, (english[:half], english[half:]), strict=True):
        write_atomic(file, b"".join(json_bytes(row) + b"\n" for row in part))
    return DataFiles((_EXAMPLES / "encyclopedia",), {"examples": files})


@dataclass(frozen=True, slots=True)
class TestSet:
    """Held-out questions, how their answers are matched, and how relevant passages are to each, where that is known."""

    questions: list[Question]
    match: Mode
    judged: beir.Qrels = field(default_factory=dict)


class HeldOut(NamedTuple):
    """A held-out question with passages that must stay in the corpus: those that answer it, or all that are judged.

    Grades are those of the judgements, by the id of a passage or document; there are none where only answers are known.
    """

    question: Question
    passages: list[Passage]
    grades: dict[str, int]


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
        judged = folder / f"{name}-judged.json"
        grades = {}
        if judged.exists():
            grades = json.loads(judged.read_text("utf-8"))
        test[name] = TestSet(kept, _match(kept), grades)
        questions[name] = _lines(folder / f"{name}-train.jsonl")
    index = _index_folder(files, scale, folder)
    train = {name: folder / f"{name}-train.jsonl" for name in files.sets}
    return Prepared(index, train, test, folder / "base", len(Index(index)), questions)


def _refuse_other(files: DataFiles, base_model: Path, scale: Scale, folder: Path) -> None:
    sizes = replace(scale, time="", disk="")  # other words for the same sizes change nothing
    facts: dict[str, Any] = {"scale": asdict(sizes), "base_model": base_model}
    facts |= {"corpus": files.corpus, "sets": files.sets}
    if files.qrels:
        facts["qrels"] = files.qrels
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
    held: dict[str, list[HeldOut]] = {}
    excluded: set[str] = set()
    for name, (_, test) in files.sets.items():
        tell(f"{name}: choosing held-out questions")
        held[name] = _held_back(test, pool, scale, files.judgements(name))
        excluded.update(_plain(one.question.text) for one in held[name])
    examples: dict[str, list[Example]] = {}
    for name, (train, _) in files.sets.items():
        tell(f"{name}: choosing training questions")
        examples[name] = _examples(train, pool, scale, excluded, files.judgements(name))
        _refuse_few(name, len(examples[name]), len(held[name]), scale)
    if scale.passages:
        names = _write_corpus(held, examples, pool, scale, folder)
        pool = Index.build([folder / "corpus.jsonl"], folder / "index", model="none")
        held = {name: [_renamed(one, names) for one in rows] for name, rows in held.items()}
    for name in files.sets:
        tell(f"{name}: mining negatives")
        write_mined(examples[name], pool, folder / f"{name}-train.jsonl")
        _write_held(held[name], folder, name)


def _refuse_few(name: str, training: int, held_back: int, scale: Scale) -> None:
    if not held_back or training < scale.batch_size:
        raise MundapError(
            f"{name}: {training} training and {held_back} held-out questions whose answer is in the corpus: too few"
        )


def _held_back(path: Path, pool: Index, scale: Scale, qrels: beir.Qrels) -> list[HeldOut]:
    """Questions with a relevant passage in the pool: for others all arms are equal."""
    asked = [question for question in _asked(path, qrels) if question.answers or qrels]
    match = _match(asked)
    wanted = scale.test or len(asked)
    found: list[HeldOut] = []
    for question in queries.sample(asked, _LOOKED_AT * wanted):
        held = _with_relevant(question, pool, match, qrels)
        if held:
            found.append(held)
        if len(found) == wanted:
            break
    return found


def _asked(path: Path, qrels: beir.Qrels) -> list[Question]:
    """The questions of a file; of a judged set those that are judged, with the relevant passages as their gold ones."""
    if not qrels:
        return queries.read_all(path)[0]
    form = None
    if not detect(path).is_json:
        form = "queries"  # MS MARCO's two columns look like a question and its answer
    judged = [question for question in queries.read_all(path, form)[0] if question.id in qrels]
    return [one for one in with_gold(judged, qrels) if isinstance(one, Question)]


def _with_relevant(question: Question, pool: Index, match: Mode, qrels: beir.Qrels) -> HeldOut | None:
    """The question with what the corpus must keep for it; None if nothing relevant is in the pool."""
    if not qrels:
        passages = find_gold(pool, question, match) or _with_answer(pool, question, match)
        if not passages:
            return None
        return HeldOut(question, passages, {})
    passages, best = [], 0
    for name, grade in qrels[question.id].items():
        found = passages_named(pool, name)
        passages += found
        if found:
            best = max(best, grade)
    if best < 1:
        return None
    return HeldOut(question, passages, qrels[question.id])


def _renamed(held: HeldOut, names: Mapping[str, str]) -> HeldOut:
    """With the ids that passages have in the cut corpus, by their texts."""
    if not held.grades:
        return held
    grades: dict[str, int] = {}
    for passage in held.passages:
        grade = held.grades.get(passage.id)
        if grade is None:
            grade = held.grades[passage.document]
        name = names[passage.text]
        grades[name] = max(grade, grades.get(name, 0))
    return held._replace(grades=grades)


def _with_answer(pool: Index, question: Question, match: Mode) -> list[Passage]:
    """The first passage with the answer among BM25's best hundred, if there is one."""
    for hit in pool.search(question.text, 100, "bm25"):
        if has_answer(hit.passage.text, question.answers, match):
            return [hit.passage]
    return []


def _examples(path: Path, pool: Index, scale: Scale, excluded: set[str], qrels: beir.Qrels) -> list[Example]:
    """Training questions with their positives and one hard negative, none of them held back."""
    asked = [question for question in _asked(path, qrels) if _plain(question.text) not in excluded]
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
    held: Mapping[str, Sequence[HeldOut]],
    examples: Mapping[str, Sequence[Example]],
    pool: Index,
    scale: Scale,
    folder: Path,
) -> dict[str, str]:
    """Write all positives, a hard negative of every question, and random passages of the pool; their ids by text."""
    kept: list[Passage | Context] = []
    for rows in held.values():
        for one in rows:
            kept += one.passages
    for some in examples.values():
        for example in some:
            kept += (*example.positives[:1], *example.hard[:1])
    texts: dict[str, str] = {}
    for found in kept:
        texts.setdefault(found.text, found.title)
    for passage in pool.sample(scale.passages, "corpus"):
        if len(texts) >= scale.passages:
            break
        texts.setdefault(passage.text, passage.title)
    names = {text: f"p{number}" for number, text in enumerate(texts)}
    with replacing(folder / "corpus.jsonl") as file:
        for text, title in texts.items():
            file.write(json_bytes({"_id": names[text], "title": title, "text": text}) + b"\n")
    return names


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


def _write_held(held: Sequence[HeldOut], folder: Path, name: str) -> None:
    """Write the questions of a set, and their judgements where there are any."""
    with replacing(folder / f"{name}-test.jsonl") as file:
        for question, _, _ in held:
            row: dict[str, Any] = {"id": question.id, "question": question.text, "answers": list(question.answers)}
            file.write(json_bytes(row) + b"\n")
    judged = {one.question.id: one.grades for one in held if one.grades}
    if judged:
        write_atomic(folder / f"{name}-judged.json", json_bytes(judged))


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
