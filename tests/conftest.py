"""Small real things to test with: a tiny encoder and a tiny reader in our own folder format, a corpus of a few files."""

import json
import os
import shutil
from pathlib import Path

import numpy as np
import onnx
import pytest
from filelock import FileLock
from hypothesis import settings
from onnx import TensorProto, helper, numpy_helper
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from mundap.disk import checksum
from mundap.documents import readers
from mundap.models.folder import DEFAULT, EncoderConfig, ReaderConfig
from tests.program import program

os.environ["LANGUAGE"] = "en"  # what the program says is compared with English, whoever runs the tests
settings.register_profile("patient", deadline=None)  # a busy machine is no failure
settings.load_profile("patient")
EXAMPLES = Path(__file__).parent.parent / "examples"
WORDS = [
    "the",
    "a",
    "of",
    "in",
    "is",
    "was",
    "river",
    "city",
    "king",
    "film",
    "water",
    "mountain",
    "music",
    "science",
    "earth",
    "sun",
    "moon",
    "ring",
    "lord",
    "villain",
]


def make_tokenizer(folder: Path) -> dict[str, int]:
    """Whole words of WORDS, all else letter by letter; the ids of the tokens."""
    folder.mkdir(parents=True)
    letters = [chr(c) for c in range(97, 123)]
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", *WORDS, *letters, *("##" + x for x in letters)]
    ids = {word: n for n, word in enumerate(dict.fromkeys(vocabulary))}
    tokenizer = Tokenizer(models.WordPiece(ids, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    tokenizer.save(str(folder / "tokenizer.json"))
    return ids


def save_graph(path: Path, nodes: list, outputs: list, tables: list) -> None:
    """An ONNX file from token ids to the outputs."""
    taken = [helper.make_tensor_value_info("input_ids", TensorProto.INT64, ["batch", "length"])]
    graph = helper.make_graph(nodes, "tiny", taken, outputs, tables)
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), path)


def make_model(folder: Path, dimension: int = 16, seed: int = 0) -> Path:
    """An encoder that averages random word vectors: tiny, real ONNX, same files as the shipped one."""
    ids = make_tokenizer(folder)
    table = np.random.default_rng(seed).standard_normal((len(ids), dimension)).astype(np.float32)
    save_graph(
        folder / "encoder.fp32.onnx",
        [
            helper.make_node("Gather", ["table", "input_ids"], ["states"]),
            helper.make_node("ReduceMean", ["states"], ["mean"], axes=[1], keepdims=0),
            helper.make_node("LpNormalization", ["mean"], ["vector"], axis=-1, p=2),
        ],
        [helper.make_tensor_value_info("vector", TensorProto.FLOAT, ["batch", dimension])],
        [numpy_helper.from_array(table, "table")],
    )
    sums = {path.name: checksum(path) for path in folder.iterdir()}
    EncoderConfig(name="tiny", dimension=dimension, max_length=64, sha256=sums).save(folder)
    return folder


def make_reader(folder: Path, liked: dict[str, float] | None = None, **settings) -> Path:
    """A reader that likes some words wherever they stand: a word's score is that of its start and of its end.

    A passage is as good as the best word in its row. [CLS], which stands for no answer, has 0, any other word -2.
    """
    ids = make_tokenizer(folder)
    table = np.full(len(ids), -2.0, np.float32)
    table[ids["[CLS]"]] = 0.0
    for word, score in (liked or {"villain": 6.0, "king": 4.0, "lord": 2.0}).items():
        table[ids[word]] = score
    rows = ["batch", "length"]
    save_graph(
        folder / "reader.fp32.onnx",
        [
            helper.make_node("Gather", ["table", "input_ids"], ["starts"]),
            helper.make_node("Gather", ["table", "input_ids"], ["ends"]),
            helper.make_node("ReduceMax", ["starts"], ["selection"], axes=[1], keepdims=0),
        ],
        [
            helper.make_tensor_value_info("starts", TensorProto.FLOAT, rows),
            helper.make_tensor_value_info("ends", TensorProto.FLOAT, rows),
            helper.make_tensor_value_info("selection", TensorProto.FLOAT, ["batch"]),
        ],
        [numpy_helper.from_array(table, "table")],
    )
    sums = {path.name: checksum(path) for path in folder.iterdir()}
    ReaderConfig(**{"name": "tiny", "max_length": 128, **settings}, sha256=sums).save(folder)
    return folder


_HOME = os.getcwd()
_rested: list[readers._Reader] = []


@pytest.fixture(autouse=True)
def readers_live_on(monkeypatch):
    """The processes that read files serve the next build too: to start one takes longer than most of the builds here.

    A test of these processes themselves takes this away by a fixture of the same name.
    """
    start, leave = readers.Readers.start, readers.Readers.__exit__

    def started(self):
        if not _rested or os.getcwd() != _HOME:
            start(self)
            return
        self._idle.append(_rested.pop())
        self._started += 1

    def left(self, *error):
        if os.getcwd() == _HOME:
            _rested.extend(self._idle)
            self._idle.clear()
        leave(self, *error)

    monkeypatch.setattr(readers.Readers, "start", started)
    monkeypatch.setattr(readers.Readers, "__exit__", left)


def pytest_sessionfinish():
    for reader in _rested:
        reader.end()


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory):
    return make_model(tmp_path_factory.mktemp("models") / "tiny")


@pytest.fixture(scope="session")
def tiny_reader(tmp_path_factory):
    return make_reader(tmp_path_factory.mktemp("models") / "reader")


@pytest.fixture
def corpus(tmp_path):
    """A folder with several kinds of files; 'one.txt' has 250 words and so three passages."""
    folder = tmp_path / "docs"
    (folder / "sub").mkdir(parents=True)
    (folder / "one.txt").write_text(" ".join(f"word{n}" for n in range(250)) + " river")
    (folder / "two.md").write_text(
        "---\ntitle: Two\nlanguage: en\ntopic: geo\n---\n# Head\n\nThe *river* runs to the sea.\n"
    )
    (folder / "sub" / "세.txt").write_text("서울은 대한민국의 수도이다. 한강이 흐른다.")
    rows = [{"_id": f"b{n}", "title": f"T{n}", "text": f"row number {n} about music " + "x " * 150} for n in range(5)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


@pytest.fixture(scope="session")
def readme(tmp_path_factory):
    """A folder with the examples, in which the first command of the README was run; what it printed is in indexed.txt.

    It is made once for all tests, also where pytest-xdist runs them in several processes.
    """

    def make(folder):
        shutil.copytree(EXAMPLES, folder / "examples")
        code, out, errors = program("index", "examples/encyclopedia", cwd=folder)
        assert code == 0, errors
        (folder / "indexed.txt").write_text(out, "utf-8")

    return _made_once(tmp_path_factory, "readme", make)


@pytest.fixture(scope="session")
def example_index(readme):
    """The example encyclopaedia with the model that is chosen for it: the multilingual one, if it is installed."""
    from mundap import Index

    return Index(readme / ".mundap")


@pytest.fixture(scope="session")
def english_example_index(tmp_path_factory):
    """The example encyclopaedia with the retriever that comes with the package."""
    from mundap import Index

    def make(folder):
        Index.build([EXAMPLES / "encyclopedia"], folder / "index", model=DEFAULT)

    return Index(_made_once(tmp_path_factory, "english", make) / "index")


def _made_once(tmp_path_factory, name, make):
    base = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        base = base.parent  # of all workers
    with FileLock(base / f"{name}.lock"):
        if not (base / name).exists():
            made = base / f"{name}.making"
            shutil.rmtree(made, ignore_errors=True)
            made.mkdir()
            make(made)
            made.rename(base / name)
    return base / name
