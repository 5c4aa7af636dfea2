"""The network to train: frozen layers, precision, similarity."""

import dataclasses

import pytest

from mundap.errors import ModelError, UsageError
from tests.training.parts import recipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


def test_frozen_layers_and_the_embeddings_do_not_move(files, tmp_path):
    from safetensors.torch import load_file

    from mundap.training.retriever import train

    train(recipe(files, tmp_path / "run", freeze_layers=1, dev=(), max_steps=2))
    before = load_file(files / "start" / "model.safetensors")
    after = load_file(tmp_path / "run" / "model" / "model.safetensors")
    moved = {name for name in before if not torch.equal(before[name], after[name])}
    assert any("encoder.layer.1." in name for name in moved)
    assert not any("encoder.layer.0." in name or "embeddings" in name for name in moved)


def test_one_layer_must_learn(files, tmp_path):
    from mundap.training.towers import build

    with pytest.raises(ModelError, match="has 2 layers, and at least one must learn"):
        build(recipe(files, tmp_path, freeze_layers=2))


def test_bf16_runs_where_the_cpu_has_it_and_is_refused_elsewhere(files, tmp_path, monkeypatch):
    from mundap.training import loop
    from mundap.training.retriever import train
    from mundap.training.towers import attention_for

    chosen = recipe(files, tmp_path / "run", precision="bf16", dev=(), max_steps=1)
    with monkeypatch.context() as patch:
        patch.setattr(loop, "cpu_has_bf16", lambda: False)
        with pytest.raises(UsageError, match="precision bf16 is many times slower"):
            train(chosen)
    with pytest.raises(UsageError, match="precision fp16"):
        train(dataclasses.replace(chosen, precision="fp16"))
    assert (attention_for("bf16"), attention_for("fp32")) == ("eager", None)
    monkeypatch.setattr(loop, "cpu_has_bf16", lambda: True)
    assert train(chosen).steps == 1


@pytest.mark.parametrize("similarity", ["cosine", "dot", "l2"])
def test_similarity_and_temperature_are_the_checkpoints(files, tmp_path, similarity):
    from mundap.encoder import checkpoints, layouts
    from mundap.training.towers import build, with_similarity

    temperature = 0.05 if similarity == "cosine" else 1.0
    loaded = checkpoints.open_checkpoint(files / "start")
    layouts.write({"question": checkpoints.with_settings(loaded, similarity=similarity)}, tmp_path / "start")
    told = []
    chosen = with_similarity(recipe(files, tmp_path, base_model=str(tmp_path / "start")), told.append)
    assert (chosen.similarity, chosen.temperature) == (similarity, temperature)
    assert f"similarity = {similarity}, temperature = {temperature:g}" in told[0]
    assert str(tmp_path / "start") in told[0]
    model, _ = build(recipe(files, tmp_path, base_model=str(tmp_path / "start")))
    assert (model.similarity, model.temperature) == (similarity, temperature)
    # What the recipe says, holds.
    given = with_similarity(dataclasses.replace(chosen, similarity="dot", temperature=0.3), told.append)
    assert (given.similarity, given.temperature, len(told)) == ("dot", 0.3, 1)


def test_every_option_of_a_trainer_gets_through_torchrun():
    """torchrun takes shortened options for its own, also behind the module: none of ours may look like one."""
    from torch.distributed.run import get_args_parser

    from mundap.cli.train import train

    for command in train.commands.values():
        for option in command.params:
            for name in option.opts:
                if name.startswith("-"):
                    words = ["mundap", "train", command.name, name, "x"]
                    found = get_args_parser().parse_args(["--nproc-per-node", "2", "-m", *words])
                    assert [found.training_script, *found.training_script_args] == words


def test_an_attention_that_keeps_its_own_number_is_told_it():
    from mundap.training.towers import _set_dropout

    attention = torch.nn.Module()
    attention.query = torch.nn.Linear(2, 2)
    attention.attention_dropout = 0.1
    _set_dropout(attention, 0.3, -1)
    assert attention.attention_dropout == 0.3
    _set_dropout(attention, -1, 0.0)
    assert attention.attention_dropout == 0.0
    _set_dropout(attention, -1, -1)
    assert attention.attention_dropout == 0.0


def test_prompts_and_the_title_as_a_prefix_are_trained_with(files, tmp_path):
    """A model that is asked with prompts must have learnt with them."""
    from mundap.encoder import checkpoints, layouts
    from mundap.training.towers import build

    loaded = checkpoints.open_checkpoint(files / "start")
    prompts = {"question_prompt": "we walk ", "passage_prompt": "by night "}
    layouts.write({"question": checkpoints.with_settings(loaded, title="prefix", **prompts)}, tmp_path / "start")
    _, inputs = build(recipe(files, tmp_path, base_model=str(tmp_path / "start")))
    _, plain = build(recipe(files, tmp_path))
    assert inputs.questions(["the river"]) == plain.questions(["we walk the river"])
    assert inputs.passages([("king", "of the hill")]) == plain.passages([("", "by night king. of the hill")])
