"""The learning rate over the steps of a run."""

import math

from mundap.training.recipe import TrainingRecipe


def learning_rate(recipe: TrainingRecipe, step: int, steps: int) -> float:
    """The learning rate of a step, counted from 0, of `steps` in all: a linear rise, then the recipe's decay."""
    warmup = math.ceil(recipe.warmup_ratio * steps)
    if step < warmup:
        return recipe.learning_rate * (step + 1) / warmup
    if recipe.lr_scheduler_type == "constant":
        return recipe.learning_rate
    return recipe.learning_rate * (steps - step) / max(1, steps - warmup)
