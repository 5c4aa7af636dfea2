"""Training from Python: a recipe in, a trained model out. The command line calls the same two functions."""

from pathlib import Path
from typing import Any, TypeVar

from mundap.training import recipe_files
from mundap.training.learner import StepCallback, Tell, TrainingResult
from mundap.training.recipe import AnceRecipe, ReaderRecipe, RetrieverRecipe, TrainingRecipe

R = TypeVar("R", bound=TrainingRecipe)


def train_retriever(
    recipe: RetrieverRecipe | str | Path | None = None,
    callback: StepCallback = lambda progress: None,
    tell: Tell = lambda line: None,
    **settings: Any,
) -> TrainingResult:
    """Train a dual encoder, or resume the run in the recipe's folder; with an `AnceRecipe`, by ANCE.

    Args:
        recipe: The settings, or the TOML file they are in.
        callback: Called after every step with a `TrainingProgress`.
        tell: Called with lines for the user, such as what the recipe left to the checkpoint.
        **settings: Keys of a recipe; they override those of `recipe`.

    Returns:
        Where the model is, and its dev figures before and after.

    Raises:
        MundapError: The data, the checkpoint or a setting cannot be used, or the loss is not finite.

    Example:
        >>> result = train_retriever(train="train.jsonl", dev="dev.jsonl", base_model="MiniLM", output_dir="run")
        >>> result.model
        'run/model'
    """
    chosen = _recipe(RetrieverRecipe, recipe, settings)
    if isinstance(chosen, AnceRecipe):
        from mundap.training.ance import run

        return run.train(chosen, callback, tell=tell)
    from mundap.training import retriever

    return retriever.train(chosen, callback, tell)


def train_reader(
    recipe: ReaderRecipe | str | Path | None = None, callback: StepCallback = lambda progress: None, **settings: Any
) -> TrainingResult:
    """Train a reader, or resume the run in the recipe's folder.

    Args:
        recipe: The settings, or the TOML file they are in.
        callback: Called after every step with a `TrainingProgress`.
        **settings: Keys of a recipe; they override those of `recipe`.

    Returns:
        Where the model is, and its dev figures before and after.

    Raises:
        MundapError: The data, the checkpoint or a setting cannot be used, or the loss is not finite.

    Example:
        >>> result = train_reader(train="train.jsonl", base_model="MiniLM", output_dir="reading", num_passages=4)
        >>> result.model
        'reading/model'
    """
    from mundap.training import reader

    return reader.train(_recipe(ReaderRecipe, recipe, settings), callback)


def _recipe(kind: type[R], recipe: TrainingRecipe | str | Path | None, settings: dict[str, Any]) -> Any:
    if isinstance(recipe, TrainingRecipe):
        return recipe_files.changed(recipe, settings)
    return recipe_files.load(kind, recipe, settings)
