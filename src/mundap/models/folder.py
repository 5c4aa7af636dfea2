"""A model folder: `config.json`, `tokenizer.json`, `encoder.int8.onnx` and, optionally, `encoder.fp32.onnx`.

A model with two towers has `question.int8.onnx` as well, for questions.

The graph takes the token ids of one text and gives its vector: pooling and normalisation are inside.
"""

import hashlib
import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Literal, Self

from mundap.errors import ModelError

DEFAULT = "minilm"
"""The name of the model that ships with the package."""

_SHIPPED = Path(__file__).parent
Precision = Literal["int8", "fp32"]
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
        sha256: Of each file, checked by `mundap verify`.
    """

    name: str
    dimension: int
    max_length: int = 256
    pooling: str = "mean"
    normalized: bool = True
    similarity: str = "cosine"
    question_prompt: str = ""
    passage_prompt: str = ""
    title: Literal["pair", "prefix"] = "pair"
    fusion_weight: float = 0.7
    scripts: Literal["", "latin"] = ""
    foreign_weight: float = 0.1
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
        if self.scripts == "latin":
            letters = [letter for letter in question if letter.isalpha()]
            if 2 * sum(letter > "\u024f" for letter in letters) > len(letters):
                return self.foreign_weight
        return self.fusion_weight

    @classmethod
    def load(cls, folder: Path) -> Self:
        """Read a folder's config.

        Raises:
            ModelError: It is missing or broken.
        """
        path = folder / "config.json"
        try:
            facts = json.loads(path.read_text("utf-8"))
            known = {one.name for one in fields(cls)}
            return cls(**{key: value for key, value in facts.items() if key in known})
        except FileNotFoundError:
            raise ModelError(
                f"no model in {folder} (there is no config.json). Use the built-in one (--model {DEFAULT}), or make "
                "a folder from a Hugging Face checkpoint with: mundap models export CHECKPOINT -o FOLDER"
            ) from None
        except (ValueError, TypeError, AttributeError) as error:
            raise ModelError(f"{path} is not a model's config ({error}). Export the model again.") from error

    def save(self, folder: Path) -> None:
        """Write it into a model folder."""
        text = json.dumps(asdict(self), ensure_ascii=False, indent=2)
        (folder / "config.json").write_text(text + "\n", "utf-8")


def shipped() -> list[str]:
    """Names of the models that come with the package."""
    return sorted(path.parent.name for path in _SHIPPED.glob("*/config.json"))


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
        for name in (part, "encoder"):
            path = folder / f"{name}.{wanted}.onnx"
            if path.is_file():
                return path
    raise ModelError(f"{folder} has no {precision or 'encoder'} weights. Export the model again.")
