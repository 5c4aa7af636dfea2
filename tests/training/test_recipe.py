"""Recipes: keys, values, files; and the learning rate they describe."""

import dataclasses
import tomllib
from pathlib import Path

import pytest

from mundap.errors import UsageError
from mundap.training import recipe_files
from mundap.training.loop import refuse_incomplete
from mundap.training.recipe import AnceRecipe, DataSet, ReaderRecipe, RetrieverRecipe

RECIPES = Path(__file__).parent.parent.parent / "recipes"


@pytest.mark.parametrize(
    "text, message",
    [
        ("learning_rat = 1", "Did you mean learning_rate"),
        ("lr = 1", "Did you mean learning_rate"),
        ("steps = 1", "Did you mean max_steps"),
        ("hard = 1", "Did you mean hard_negatives"),
        ("xyz = 1", "The keys are: train, dev"),
        ("batch_size = 'many'", "expected int"),
        ("batch_size = 0", "at least 1"),
        ("batch_size = 1" + "0" * 400, "expected int"),
        ("batch_size = 1" + "0" * 5000, "recipe.toml"),
        ("similarity = 'dott'", "choose one of"),
        ("temperature = -1", "temperature = -1.0: must be at least 0"),
        ("warmup_ratio = 1", "a share"),
        ("towers = 'shared'\nfreeze_tower = 'passage'", "two towers"),
        ("in_batch_negatives = false\nhard_negatives = 0", "no negatives"),
        ("[[train]]\npath = 'x'\nweigth = 2", "keys match, max_examples, name, path, sample_seed, weight"),
        ("broken", "recipe.toml"),
    ],
)
def test_recipes_with_mistakes(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        recipe_files.load(RetrieverRecipe, path)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "train is missing: give it in a recipe, or as an option"),
        ({"train": (DataSet("t"),)}, "base_model is missing"),
        ({"train": (DataSet("t"),), "base_model": "b"}, "output_dir is missing"),
    ],
)
def test_what_every_run_needs_is_named(given, message):
    with pytest.raises(UsageError, match=message):
        refuse_incomplete(RetrieverRecipe(**given))


def test_no_alias_is_accepted():
    for key, known in recipe_files._OTHER_TRAINERS.items():
        for kind in (RetrieverRecipe, ReaderRecipe, AnceRecipe):
            assert key not in {one.name for one in dataclasses.fields(kind)}
        words = known.split()[0]
        assert words in {one.name for kind in (AnceRecipe, ReaderRecipe, DataSet) for one in dataclasses.fields(kind)}


def test_recipes_come_back_as_they_went(tmp_path):
    train = (DataSet("a.jsonl", weight=2.0, max_examples=5),)
    chosen = RetrieverRecipe(train=train, similarity="cosine", temperature=0.05, output_dir="o", base_model="b")
    (tmp_path / "r.toml").write_text(recipe_files.dump(chosen))
    back = recipe_files.load(RetrieverRecipe, tmp_path / "r.toml")
    assert back.train[0] == dataclasses.replace(train[0], path=str(tmp_path / "a.jsonl"))
    assert back.base_model == str(tmp_path / "b")
    changed = recipe_files.load(
        RetrieverRecipe, tmp_path / "r.toml", {"batch_size": "4", "in_batch_negatives": "false"}
    )
    assert (changed.batch_size, changed.in_batch_negatives, changed.temperature) == (4, False, 0.05)


@pytest.mark.parametrize("path", sorted(RECIPES.glob("*/*.toml")), ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_shipped_recipes_are_accepted(path):
    keys = set(tomllib.loads(path.read_text()))
    kind = ReaderRecipe if "num_passages" in keys else RetrieverRecipe
    found = recipe_files.load(kind, path)
    assert found.train and found.base_model and found.output_dir
    assert keys <= {one.name for one in dataclasses.fields(kind)}


@pytest.mark.parametrize("steps", [1, 2, 7, 12, 31, 100, 105])
@pytest.mark.parametrize("warmup", [0.0, 0.05, 0.1, 0.33, 0.9])
def test_the_learning_rate_rises_to_its_peak_and_never_above(steps, warmup):
    recipe = RetrieverRecipe(learning_rate=2.0, warmup_ratio=warmup)
    rates = [recipe.learning_rate_at(step, steps) for step in range(steps)]
    assert max(rates) == pytest.approx(2.0)
    assert all(0 < rate <= 2.0 + 1e-12 for rate in rates)
    top = rates.index(max(rates))
    assert rates[: top + 1] == sorted(rates[: top + 1])
    assert rates[top:] == sorted(rates[top:], reverse=True)


def test_the_learning_rate_by_hand():
    recipe = RetrieverRecipe(learning_rate=1.0, warmup_ratio=0.2)
    rates = [recipe.learning_rate_at(step, 10) for step in range(10)]
    assert rates == pytest.approx([0.5, 1, 1, 7 / 8, 6 / 8, 5 / 8, 4 / 8, 3 / 8, 2 / 8, 1 / 8])
    flat = dataclasses.replace(recipe, lr_scheduler_type="constant")
    assert [flat.learning_rate_at(step, 10) for step in (1, 5, 9)] == [1, 1, 1]


def test_a_path_of_a_user_who_is_not_there_is_a_path(tmp_path):
    path = tmp_path / "recipe.toml"
    path.write_text("base_model = '~nobody-of-this-name/model'")
    assert recipe_files.load(RetrieverRecipe, path).base_model == str(tmp_path / "~nobody-of-this-name" / "model")
