"""A model folder: `config.json`, `tokenizer.json`, `encoder.int8.onnx` and, optionally, `encoder.fp32.onnx`.

A model with two towers has `question.int8.onnx` as well, for questions.

The graph takes the token ids of one text and gives its vector: pooling and normalisation are inside.
"""

import hashlib
import json
import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple, Self, TypeVar, get_args, get_origin, get_type_hints

from mundap.disk import checksum, write_atomic
from mundap.errors import ModelError

DEFAULT = "retriever"
"""The name of the encoder that ships with the package."""

READER = "reader"
"""The name of the reader that ships with the package."""

_SHIPPED = Path(__file__).parent.parent / "weights"
Precision = Literal["int8", "fp32"]


class _From(NamedTuple):
    """The bounds of a number in a config."""

    least: float
    most: float = math.inf


_Count = Annotated[int, _From(1)]
_Tokens = Annotated[int, _From(0)]
_Window = Annotated[int, _From(8)]  # special tokens, and a few of question and text
_Share = Annotated[float, _From(0, 1)]
_NOT_VECTORS = ("fusion_weight", "foreign_weight", "scripts", "source", "license")  # may change without harm


@dataclass(frozen=True, slots=True)
class EncoderConfig:
    """What is to be known of an encoder besides its weights.

    Attributes:
        name: What it is called in messages and in `mundap info`.
        dimension: The length of a vector.
        max_length: The most tokens of a text; the rest is cut off, the last token stays the separator.
        pooling: `cls` or `mean` (for people: the graph has it inside).
        normalized: Whether vectors have length one.
        similarity: What the model was trained for; scores are inner products in any case.
        question_prompt: Put before every question.
        passage_prompt: Put before every passage.
        title: `pair` encodes title and text as two segments, `prefix` puts the title before the text.
        fusion_weight: The share of the dense score in a hybrid ranking, fitted on dev data.
        scripts: The writing the model was trained on; empty if it knows all.
        foreign_weight: The share for questions in any other writing, of which it understands little.
        source: Where the weights come from.
        license: Of the weights.
        sha256: Of each file, checked when it is loaded.
    """

    name: str
    dimension: _Count
    max_length: _Window = 256
    pooling: str = "mean"
    normalized: bool = True
    similarity: str = "cosine"
    question_prompt: str = ""
    passage_prompt: str = ""
    title: Literal["pair", "prefix"] = "pair"
    fusion_weight: _Share = 0.7
    scripts: Literal["", "latin"] = ""
    foreign_weight: _Share = 0.1
    source: str = ""
    license: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    @property
    def fingerprint(self) -> str:
        """A short name for exactly this model: an index accepts vectors of no other."""
        facts = {key: value for key, value in asdict(self).items() if key not in _NOT_VECTORS}
        return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:16]

    def weight_for(self, question: str) -> float:
        """The dense share of a hybrid ranking for this question."""
        return self.foreign_weight if is_foreign(question, self.scripts) else self.fusion_weight

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder's config; a ModelError if it is missing or broken."""
        return _load(cls, folder, "encoder")

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        _save(self, folder)


@dataclass(frozen=True, slots=True)
class ReaderConfig:
    """What is to be known of a reader besides its weights.

    Attributes:
        name: What it is called in messages.
        kind: Tells a reader's folder from an encoder's.
        layout: `dpr`: [CLS] question [SEP] title [SEP] text. `pair`: question and text as a plain extractive-QA model
            was trained on them, without title.
        selection: `head`: the graph says how well the passage fits. `null`: the best span against "no span" does.
        max_length: The most tokens of a window.
        question_length: The most tokens of a question.
        stride: Tokens that neighbouring windows of a long passage share.
        longest: The most tokens of an answer.
        spans: Whether it can find answers; a reader that was trained on ranking alone only puts passages in order.
        ranking: How spans of different passages are compared, see `mundap.reader.answers`.
        retrieval_weight: How much the retrieval score counts in that.
        confidence: Of the logistic curve from scores to confidence: `bias` and a weight for each score.
        threshold: The least confidence of an answer, fitted on dev data.
        enough: From this confidence on, the first few passages are enough and the rest is not read; 0 reads all.
        scripts: The writing the model was trained on; empty if it knows all.
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
    longest: _Count = 30
    spans: bool = True
    ranking: Literal["selection", "product"] = "product"
    retrieval_weight: float = 0.0
    confidence: dict[str, float] = field(default_factory=dict)
    threshold: _Share = 0.0
    enough: _Share = 0.0
    scripts: Literal["", "latin"] = ""
    source: str = ""
    license: str = ""
    sha256: dict[str, str] = field(default_factory=dict)

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder's config; a ModelError if it is missing or broken."""
        return _load(cls, folder, "reader")

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        _save(self, folder)


def is_foreign(question: str, scripts: str) -> bool:
    """Whether most of a question is in a writing that a model does not know."""
    if scripts != "latin":
        return False
    letters = [letter for letter in question if letter.isalpha()]
    return 2 * sum(letter > "\u024f" for letter in letters) > len(letters)


_NAMES: dict[Any, str] = {str: "a text", bool: "true or false", int: "a whole number", float: "a number"}
C = TypeVar("C", bound=EncoderConfig | ReaderConfig)


def _load(kind: type[C], folder: Path, wanted: str) -> C:
    path = folder / "config.json"
    try:
        facts = json.loads(path.read_text("utf-8"))
        found = facts.get("kind", "encoder")
        if found != wanted:
            article = {"encoder": "an encoder", "reader": "a reader"}
            raise ModelError(f"{folder} is {article.get(found, found)}: give the folder of {article[wanted]}")
        known = get_type_hints(kind, include_extras=True)
        for key, form in known.items():
            if key in facts and (wrong := _wrong(facts[key], form)):
                given = json.dumps(facts[key])
                raise ModelError(
                    f"{path}: {key} is {given}, and must be {wrong}. Correct it, or export the model again."
                )
        return kind(**{key: value for key, value in facts.items() if key in known})
    except FileNotFoundError:
        default = {"encoder": f"--model {DEFAULT}", "reader": f"--reader {READER}"}[wanted]
        raise ModelError(
            f"no model in {folder} (there is no config.json). Use the built-in one ({default}), or make "
            "a folder from a Hugging Face checkpoint with: mundap models export CHECKPOINT -o FOLDER"
        ) from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ModelError(f"{path} is not a model's config ({error}). Export the model again.") from error


def _wrong(value: Any, form: Any) -> str:
    """What a value must be to have the type of its field; empty if it has it."""
    kind, inside = get_origin(form), get_args(form)
    if kind is Literal:
        return "" if value in inside else "one of " + ", ".join(map(json.dumps, inside))
    if kind is Annotated:
        bounds = inside[1]
        upper = f" and at most {bounds.most:g}" if bounds.most < math.inf else ""
        right = not _wrong(value, inside[0]) and bounds.least <= value <= bounds.most
        return "" if right else f"{_NAMES[inside[0]]} of at least {bounds.least:g}{upper}"
    if kind is dict:
        right = isinstance(value, dict) and not any(_wrong(one, inside[1]) for one in value.values())
        return "" if right else f"an object, every value {_NAMES[inside[1]]}"
    wanted = (int, float) if form is float else form
    # True is an int to Python, and NaN is a number to its JSON.
    right = isinstance(value, wanted) and isinstance(value, bool) == (form is bool)
    return "" if right and (form is not float or math.isfinite(value)) else _NAMES[form]


def check(path: Path, sums: Mapping[str, str]) -> None:
    """Make sure that a file of a model is the one that its config was written for.

    Raises:
        ModelError: It has changed.
    """
    expected = sums.get(path.name)
    if expected and path.is_file() and checksum(path) != expected:
        raise ModelError(
            f"{path} is damaged, or of another model: its checksum is not the one in config.json. Install mundap or "
            "export the model again."
        )


def _save(config: EncoderConfig | ReaderConfig, folder: Path) -> None:
    text = json.dumps(asdict(config), ensure_ascii=False, indent=2)
    write_atomic(folder / "config.json", (text + "\n").encode())


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in _SHIPPED.glob("*/config.json"))


def open_config(folder: Path) -> EncoderConfig | ReaderConfig:
    """The config of a model folder of either kind."""
    is_reader = any(folder.glob("reader.*.onnx"))
    return ReaderConfig.load(folder) if is_reader else EncoderConfig.load(folder)


def find(name: str | Path) -> Path:
    """The folder of a model given by a shipped name or by its path."""
    if str(name) in shipped():
        return _SHIPPED / str(name)
    return Path(name)


def weights(folder: Path, precision: Precision | None = None, part: str = "encoder") -> Path:
    """The ONNX file to run: int8 unless the other is asked for or is the only one.

    Questions have a network of their own (`part` is then `question`) only if the model has two towers.
    """
    for wanted in [precision] if precision else ["int8", "fp32"]:
        for name in (part, "encoder") if part == "question" else (part,):
            path = folder / f"{name}.{wanted}.onnx"
            if path.is_file():
                return path
    raise ModelError(f"{folder} has no {precision or part} weights. Export the model again.")
