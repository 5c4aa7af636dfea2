"""Recipes as TOML: read and checked, changed by command-line settings, written beside what they made."""

import difflib
import json
import tomllib
from collections.abc import Container, Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

from mundap.errors import UsageError
from mundap.training.recipe import DataSet, TrainingRecipe

R = TypeVar("R", bound=TrainingRecipe)

_PATHS = ("base_model", "passage_base_model", "retriever", "teacher", "index", "output_dir")

_OTHER_TRAINERS = {
    "lr": "learning_rate",
    "per_device_train_batch_size": "batch_size",
    "num_train_epochs": "epochs",
    "model": "base_model",
    "model_name_or_path": "base_model",
    "out": "output_dir",
    "fp16": "precision",
    "bf16": "precision",
    "metric_for_best_model": "metric",
    "train_group_size": "hard_negatives",
    "query_max_len": "question_length",
    "passage_max_len": "passage_length",
    "max_train_samples": "max_examples (of a training set)",
    "doc_stride": "stride",
}
"""What other trainers call our keys, for the message about an unknown one. They are not accepted."""


def load(kind: type[R], path: str | Path | None, overrides: Mapping[str, Any] | None = None) -> R:
    """Read a recipe of some kind from a TOML file and apply overrides. Paths in the file are relative to it.

    Raises:
        UsageError: A key is unknown (the nearest known one is named), or a value does not fit.
    """
    settings: dict[str, Any] = {}
    base = Path()
    if path is not None:
        base = Path(path).parent
        settings = _read(Path(path))
    values = _checked(settings, str(path), base, kind)
    for key in _PATHS:
        if values.get(key):
            values[key] = _resolved(values[key], base)
    # Checked together: an override may put right what is wrong in the file.
    return kind(**values | _checked(overrides or {}, "", Path(), kind))


def changed(recipe: R, settings: Mapping[str, Any]) -> R:
    """A recipe with some keys set anew, checked as those of a file are."""
    return replace(recipe, **_checked(settings, "", Path(), type(recipe)))


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        raise UsageError(f"{path}: no such file") from None
    except (ValueError, RecursionError) as error:  # no TOML, no UTF-8, a number of 5,000 digits, endless brackets
        raise UsageError(f"{path}: {error}") from None


def _checked(settings: Mapping[str, Any], where: str, base: Path, kind: type[TrainingRecipe]) -> dict[str, Any]:
    types = get_type_hints(kind)
    checked: dict[str, Any] = {}
    for key, value in settings.items():
        if key not in types:
            message = f"unknown key {key!r}. {_suggestion(key, types)}"
            if where:
                message = f"{where}: {message}"
            raise UsageError(message)
        checked[key] = _converted(key, value, types[key], base)
    return checked


def _suggestion(key: str, known: Mapping[str, Any]) -> str:
    if key in _OTHER_TRAINERS:
        return f"Did you mean {_OTHER_TRAINERS[key]}?"
    near = difflib.get_close_matches(key, known, 1)
    if not near:
        near = [name for name in known if key in name.split("_")][:1]
    if near:
        return f"Did you mean {near[0]}?"
    return f"The keys are: {', '.join(known)}."


def _converted(key: str, value: Any, kind: Any, base: Path) -> Any:
    """The value in the type of its field; text from the command line becomes a number or a boolean."""
    if get_origin(kind) is tuple:
        if not isinstance(value, list | tuple):
            value = [value]
        return tuple(_data_set(key, row, base) for row in value)
    if get_origin(kind) is Literal:
        if value not in get_args(kind):
            raise UsageError(f"{key} = {value!r}: choose one of {', '.join(map(repr, get_args(kind)))}")
        return value
    plain = _plain(value, kind)
    if plain is None:
        raise UsageError(f"{key} = {value!r}: expected {kind.__name__}")
    return plain


def _plain(value: Any, kind: type) -> bool | int | float | str | None:
    """A value as a boolean, a number or a text; None if it is not one."""
    if kind is bool:
        return {"true": True, "false": False}.get(str(value).lower())
    if kind is str:
        if isinstance(value, str | Path):
            return str(value)
        return None
    if isinstance(value, bool):  # which is an int to Python
        return None
    try:
        number = kind(value)
        if number != float(value):
            return None
    except (TypeError, ValueError, OverflowError):  # 10^400 does not fit into a float
        return None
    return number  # type: ignore[no-any-return]


def _data_set(key: str, row: Any, base: Path) -> DataSet:
    if isinstance(row, DataSet):
        return row
    if isinstance(row, str | Path):
        row = {"path": str(row)}
    known = {one.name for one in fields(DataSet)}
    if not isinstance(row, dict) or "path" not in row or set(row) - known:
        raise UsageError(f"{key}: each is a path, or a table with the keys {', '.join(sorted(known))}")
    types = get_type_hints(DataSet)
    values = {name: _converted(f"{key}: {name}", value, types[name], base) for name, value in row.items()}
    return DataSet(**{**values, "path": _resolved(values["path"], base)})


def _resolved(path: str, base: Path) -> str:
    try:
        there = Path(path).expanduser()
    except RuntimeError:  # ~name of nobody: a folder may be called that
        there = Path(path)
    return str(base / there)


def difference(kept: str, recipe: TrainingRecipe, free: Container[str]) -> str:
    """The first key in which a recipe differs from one that was kept, as TOML; empty if none does.

    A key that is not in the kept recipe had its default; keys the program no longer has do not count.
    """
    old = tomllib.loads(kept)
    for one in fields(recipe):
        if one.name in free:
            continue
        value = getattr(recipe, one.name)
        before: Any = old.get(one.name, one.default)
        if isinstance(value, tuple):
            before = tuple(_kept_data_set(row) for row in old.get(one.name, []))
        if before != value:
            return f"{one.name} = {_toml(value)}"
    return ""


def _kept_data_set(row: Mapping[str, Any]) -> DataSet:
    known = {one.name for one in fields(DataSet)}
    return DataSet(**{key: value for key, value in row.items() if key in known})


def dump(recipe: TrainingRecipe) -> str:
    """The whole recipe as TOML."""
    lines: list[str] = []
    tables: list[str] = []
    for one in fields(recipe):
        value = getattr(recipe, one.name)
        if isinstance(value, tuple):
            for row in value:
                cells = [f"{part.name} = {_toml(getattr(row, part.name))}" for part in fields(row)]
                tables.append(f"\n[[{one.name}]]\n" + "\n".join(cells))
        else:
            lines.append(f"{one.name} = {_toml(value)}")
    return "\n".join([*lines, *tables]) + "\n"


def _toml(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str):
        return json.dumps(value, ensure_ascii=False)
    return repr(value)
