"""A model folder: `config.json`, `tokenizer.json` and ONNX graphs, in int8, fp32 or both.

An encoder has `encoder.int8.onnx`, which takes the token ids of one text and gives its vector: pooling and
normalisation are inside. If it has two towers, `question.int8.onnx` is the one for questions. A reader has
`reader.int8.onnx`.
"""

import hashlib
import json
import math
import shutil
import tempfile
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field, is_dataclass
from functools import cache
from importlib.metadata import entry_points
from importlib.util import find_spec
from itertools import product
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args, get_origin, get_type_hints

from mundap.disk import checksum, disk_errors, sync_file, sync_folder, write_atomic
from mundap.errors import ModelError, MundapError
from mundap.text.language import Group, group
from mundap.text.scripts import is_foreign

DEFAULT = "retriever"
"""The name of the encoder that ships with the package."""

READER = "reader"
"""The name of the reader that ships with the package."""

MULTILINGUAL = "retriever-multilingual"
"""The name of the encoder of the multilingual models, a package of their own."""

MULTILINGUAL_READER = "reader-multilingual"
"""The name of their reader."""

GROUP = "mundap.models"
"""The entry points by which packages of models are found: each names a package with model folders in it."""

_SHIPPED = Path(__file__).parent.parent / "weights"
Precision = Literal["int8", "fp32"]
Similarity = Literal["dot", "cosine", "l2"]
TitleForm = Literal["pair", "prefix"]
Scripts = Literal["", "latin"]
RankingRule = Literal["selection", "product"]


class _Bounds(NamedTuple):
    """The bounds of a number in a config."""

    least: float
    most: float = math.inf


_Count = Annotated[int, _Bounds(1, 1_000_000)]  # far beyond any model, and nothing that breaks a library
_Tokens = Annotated[int, _Bounds(0, 1_000_000)]
_Window = Annotated[int, _Bounds(8, 1_000_000)]  # special tokens, and a few of question and text
_Share = Annotated[float, _Bounds(0, 1)]
_NOT_VECTORS = ("fusion_weight", "foreign_weight", "scripts", "source", "license")  # may change without harm


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """The settings of an encoder.

    Attributes:
        name: What it is called in messages and in `mundap info`.
        dimension: The length of a vector. With `l2` it is one more than the network's, see `encoder/similarity.py`.
        max_length: The most tokens of a text; the rest is cut off, the last token stays the separator.
        pooling: `cls` or `mean` (for people: the graph has it inside).
        normalized: Whether vectors have length one.
        similarity: `dot`, `cosine` or `l2`: what the model was trained for. Scores are inner products in any case.
        question_prompt: Put before every question.
        passage_prompt: Put before every passage.
        title: `pair` encodes title and text as two segments, `prefix` puts the title before the text.
        fusion_weight: The share of the dense score in a hybrid ranking, fitted on dev data.
        scripts: The script the model was trained on; empty if it knows all.
        foreign_weight: The share for questions in any other script, of which it understands little.
        source: Where the weights come from.
        license: Of the weights.
        sha256: Of each file, checked when it is loaded.
    """

    name: str
    dimension: _Count
    max_length: _Window = 256
    pooling: str = "mean"
    normalized: bool = True
    similarity: Similarity = "cosine"
    question_prompt: str = ""
    passage_prompt: str = ""
    title: TitleForm = "pair"
    fusion_weight: _Share = 0.7
    scripts: Scripts = ""
    foreign_weight: _Share = 0.1
    source: str = ""
    license: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """A short name for exactly this model: an index accepts vectors of no other."""
        facts = {key: value for key, value in asdict(self).items() if key not in _NOT_VECTORS}
        facts["sha256"].pop("config.json", None)
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def weight_for(self, question: str) -> float:
        """The dense share of a hybrid ranking for this question."""
        if is_foreign(question, self.scripts):
            return self.foreign_weight
        return self.fusion_weight

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder's config; a ModelError if it is missing or broken."""
        return _load(cls, folder)

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        _save(self, folder)


@dataclass(frozen=True, slots=True)
class FittedConfidence:
    """The confidence of a reader, as fitted on dev data by `mundap train confidence`.

    Attributes:
        confidence: The logistic regression from scores to confidence: `bias` and a weight for each score.
        threshold: Minimum confidence of an answer.
        early_stop: If the first few passages give an answer with this confidence, the rest are not read; 0 reads all.
    """

    confidence: dict[str, float] = field(default_factory=dict)
    threshold: _Share = 0.0
    early_stop: _Share = 0.0


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """The settings of a reader.

    Attributes:
        name: What it is called in messages.
        kind: Tells a reader's folder from an encoder's.
        layout: `dpr`: [CLS] question [SEP] title [SEP] text. `pair`: question and text as a plain extractive-QA model
            was trained on them, without title.
        selection: `head`: the graph scores the passage. `null`: the best span's margin over "no span" is its score.
        max_length: The most tokens of a window.
        question_length: The most tokens of a question.
        stride: Tokens that neighbouring windows of a long passage share.
        max_answer_length: The most tokens of an answer.
        spans: Whether it finds answers; a reader trained on ranking alone only reranks passages.
        ranking: How spans of different passages are compared, see `mundap.reader.answers`.
        retrieval_weight: The weight of the retrieval score in that.
        confidence: With `threshold` and `early_stop` the fitted confidence, see `FittedConfidence`, for questions in
            all languages that have none of their own.
        threshold: Of that.
        early_stop: Of that.
        groups: The fitted confidence of groups of languages.
        scripts: The script the model was trained on; empty if it knows all.
        source: Where the weights come from.
        license: Of the weights.
        sha256: Of each file, checked when it is loaded.
    """

    name: str
    kind: Literal["reader"] = "reader"
    layout: Literal["dpr", "pair"] = "dpr"
    selection: Literal["head", "null"] = "head"
    max_length: _Window = 350
    question_length: _Count = 64
    stride: _Tokens = 96
    max_answer_length: _Count = 30
    spans: bool = True
    ranking: RankingRule = "product"
    retrieval_weight: float = 0.0
    confidence: dict[str, float] = field(default_factory=dict)
    threshold: _Share = 0.0
    early_stop: _Share = 0.0
    groups: dict[Group, FittedConfidence] = field(default_factory=dict)
    scripts: Scripts = ""
    source: str = ""
    license: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    def fitted_for(self, question: str) -> FittedConfidence:
        """The fitted confidence for this question, by the group of its language."""
        general = FittedConfidence(self.confidence, self.threshold, self.early_stop)
        if not self.groups:
            return general
        found = group(question)
        if found is None:
            return general
        return self.groups.get(found, general)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder's config; a ModelError if it is missing or broken."""
        return _load(cls, folder)

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        _save(self, folder)


_BUILT_IN: dict[type, str] = {EncoderConfig: DEFAULT, ReaderConfig: READER}
_KINDS: dict[type, str] = {EncoderConfig: "encoder", ReaderConfig: "reader"}
_TYPE_NAMES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
C = TypeVar("C", bound=EncoderConfig | ReaderConfig)


def _load(config: type[C], folder: Path) -> C:
    path = folder / "config.json"
    try:
        facts = json.loads(path.read_text("utf-8"))
        _check_kind(config, facts.get("kind", "encoder"), folder)
        _check_digest(facts, path)
        return config(**_fields(facts, config, path, ("kind",)))
    except FileNotFoundError:
        raise ModelError(
            "no model in {path} (there is no config.json). Use the built-in one, which is called {default}, or make a "
            "folder from a Hugging Face checkpoint with `mundap models export`.",
            path=folder,
            default=_BUILT_IN[config],
        ) from None
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise ModelError(f"{path} is not a model's config ({error}). Export the model again.") from error


def _check_kind(config: type[C], found: str, folder: Path) -> None:
    if found != _KINDS[config]:
        articles = {"encoder": "an encoder", "reader": "a reader"}
        raise ModelError(f"{folder} is {articles.get(found, found)}: give the folder of {articles[_KINDS[config]]}")


def _check_digest(facts: dict[str, Any], path: Path) -> None:
    """A config that carries its own checksum must have it; the checksum is taken out."""
    facts["sha256"] = dict(facts.get("sha256", {}))
    expected = facts["sha256"].pop(path.name, None)
    if expected is not None and expected != _digest(facts):
        raise ModelError(
            f"{path} is damaged, or was edited: its checksum is not its own. Export the model again; if you edited "
            f'it on purpose, take "{path.name}" out of its "sha256".'
        )


def _fields(
    facts: Mapping[str, Any], record: Any, path: Path, besides: tuple[str, ...] = (), within: str = ""
) -> dict[str, Any]:
    """Those of a record; keys `besides` may stand there too. `within` is where it stands in the file."""
    known = get_type_hints(record, include_extras=True)
    _refuse_unknown(facts, (*known, *besides), path, within)
    fields = {}
    for key, kind in known.items():
        if key not in facts:
            continue
        if expected := _expected(facts[key], kind):
            given = json.dumps(facts[key])
            raise ModelError(
                f"{path}: {within}{key} is {given}, and must be {expected}. Correct it, or export the model again."
            )
        fields[key] = facts[key]
        if _holds_records(kind):
            names, part = get_args(kind)
            _refuse_unknown(facts[key], get_args(names), path, f"{key}.")
            parts = facts[key].items()
            fields[key] = {name: part(**_fields(values, part, path, (), f"{key}.{name}.")) for name, values in parts}
    return fields


def _refuse_unknown(given: Collection[str], known: Collection[str], path: Path, within: str) -> None:
    """An unknown key may be a known one, damaged."""
    for key in given:
        if key not in known:
            raise ModelError(
                f"{path}: nothing is known of {within + key[:50]!r}. The file is damaged, or a newer mundap wrote it: "
                "export the model again, or upgrade."
            )


def _holds_records(kind: Any) -> bool:
    """Whether a field has records by name."""
    return get_origin(kind) is dict and is_dataclass(get_args(kind)[1])


def _expected(value: Any, kind: Any) -> str:
    """The type that a value should have; empty if it has it."""
    if get_origin(kind) is Literal:
        choices = get_args(kind)
        if value in choices:
            return ""
        return "one of " + ", ".join(map(json.dumps, choices))
    if get_origin(kind) is Annotated:
        return _expected_number(value, *get_args(kind))
    if get_origin(kind) is dict:
        return _expected_object(value, kind)
    if _has_type(value, kind):
        return ""
    return _TYPE_NAMES[kind]


def _expected_object(value: Any, kind: Any) -> str:
    if _holds_records(kind):
        if isinstance(value, dict) and all(isinstance(one, dict) for one in value.values()):
            return ""
        return "an object of objects"
    part = get_args(kind)[1]
    if isinstance(value, dict) and not any(_expected(one, part) for one in value.values()):
        return ""
    return f"an object, every value {_TYPE_NAMES[part]}"


def _has_type(value: Any, kind: Any) -> bool:
    if isinstance(value, bool) or kind is bool:  # True is an int to Python
        return isinstance(value, bool) and kind is bool
    if kind is float:  # NaN is a number to Python's JSON
        return isinstance(value, int | float) and math.isfinite(value)
    return isinstance(value, kind)


def _expected_number(value: Any, kind: Any, bounds: _Bounds) -> str:
    if not _expected(value, kind) and bounds.least <= value <= bounds.most:
        return ""
    least = f"{_TYPE_NAMES[kind]} of at least {bounds.least:g}"
    if bounds.most < math.inf:
        return f"{least} and at most {bounds.most:,}"
    return least


def check(path: Path, checksums: Mapping[str, str]) -> None:
    """Check that a model file is the one its config was written for.

    Raises:
        ModelError: It has changed.
    """
    expected = checksums.get(path.name)
    if expected and path.is_file() and checksum(path) != expected:
        raise ModelError(
            f"{path} is damaged, or of another model: its checksum is not the one in config.json. Install mundap or "
            "export the model again."
        )


def _save(config: EncoderConfig | ReaderConfig, folder: Path) -> None:
    facts = asdict(config)
    facts["sha256"] = {**facts["sha256"], "config.json": _digest(facts)}
    text = json.dumps(facts, ensure_ascii=False, indent=2)
    write_atomic(folder / "config.json", (text + "\n").encode())


def _digest(facts: Mapping[str, Any]) -> str:
    """The SHA-256 of a config's values, whatever their order or spacing."""
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


@cache
def installed() -> dict[str, Path]:
    """The folders of all models that are installed, ours and those of model packages, by name."""
    found = {}
    for point in entry_points(group=GROUP):
        package = find_spec(point.module)
        if package is None:
            continue
        for place in package.submodule_search_locations or ():
            found.update(_model_folders(Path(place)))
    return {**found, **_model_folders(_SHIPPED)}


def _model_folders(place: Path) -> dict[str, Path]:
    return {path.parent.name: path.parent for path in sorted(place.glob("*/config.json"))}


def open_config(folder: Path) -> EncoderConfig | ReaderConfig:
    """The config of a model folder of either kind."""
    if any(folder.glob("reader.*.onnx")):
        return ReaderConfig.load(folder)
    return EncoderConfig.load(folder)


def find(name: str | Path) -> Path:
    """The folder of a model given by the name of an installed one, or by its path; a `Path` is never a name."""
    if isinstance(name, Path):
        return name
    own = _SHIPPED / name
    if (own / "config.json").is_file():  # looking for other packages takes a while
        return own
    return installed().get(name, Path(name))


def identify(name: str) -> tuple[str, str, int]:
    """What an index remembers of an encoder: its name, or its path; its fingerprint; the length of a vector.

    Raises:
        ModelError: There is none, or it has no weights.
    """
    folder = find(name)
    config = EncoderConfig.load(folder)
    weights(folder)
    place = name
    if name not in installed():
        place = str(folder.resolve())
    return place, config.fingerprint, config.dimension


def weights(folder: Path, precision: Precision | None = None, part: str = "encoder") -> Path:
    """The ONNX file to run: int8 unless the other is asked for or is the only one.

    Questions have a network of their own (`part` is then `question`) only if the model has two towers.
    """
    precisions: tuple[str, ...] = ("int8", "fp32")
    if precision is not None:
        precisions = (precision,)
    parts: tuple[str, ...] = (part,)
    if part == "question":
        parts = ("question", "encoder")
    for wanted, name in product(precisions, parts):
        path = folder / f"{name}.{wanted}.onnx"
        if path.is_file():
            return path
    raise ModelError(f"{folder} has no {precision or parts[-1]} weights. Export the model again.")


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write a model into; it appears at `out` when the block ends without an error.

    Raises:
        MundapError: There is something at `out`.
    """
    if out.exists() and any(out.iterdir()):
        raise MundapError(f"{out} is not empty. Choose another folder, or remove it first.")
    out.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out.parent, prefix=".export-") as scratch:
        made = Path(scratch) / "model"
        made.mkdir()
        yield made
        if out.exists():
            out.rmdir()
        shutil.move(made, out)


@contextmanager
def replacing_model(folder: Path) -> Iterator[Path]:
    """A place to write a checkpoint to, which then replaces the folder. Only a model is replaced."""
    folder = folder.resolve()
    made, old = folder.with_name(f".{folder.name}.new"), folder.with_name(f".{folder.name}.old")
    if not folder.exists() and old.exists():  # a process died between the two renames
        old.rename(folder)
    _refuse_other(folder)
    with disk_errors(folder):
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in (made, old):
            shutil.rmtree(left, ignore_errors=True)
        try:
            yield made
            _sync(made)
            if folder.exists():
                folder.rename(old)
            made.rename(folder)
            sync_folder(folder.parent)
            shutil.rmtree(old, ignore_errors=True)
        finally:
            shutil.rmtree(made, ignore_errors=True)


def _refuse_other(folder: Path) -> None:
    """Stop if a folder has anything but a model in it."""
    if not folder.exists() or not any(folder.iterdir()):
        return
    if not (folder / "config.json").exists() and not (folder / "question").exists():
        raise MundapError(f"{folder} is not empty, and not a model. Choose another folder.")


def _sync(folder: Path) -> None:
    """Make sure that all of a folder is on the disk."""
    for path in folder.rglob("*"):
        if path.is_dir():
            sync_folder(path)
        else:
            sync_file(path)
    sync_folder(folder)
