"""The trainer of the dual encoder, on tiny real checkpoints: gradients, masks, resume, processes."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from mundap.errors import ModelError, MundapError
from mundap.training import recipe_files
from mundap.training.recipe import DataSet, RetrieverRecipe
from tests.program import mundap
from tests.systems import not_windows
from tests.training.parts import recipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


class Alone:
    """One process that stands for itself."""

    rank, world, first, device = 0, 1, True, torch.device("cpu")

    def gather(self, rows):
        return rows


def gradients(chosen, batch_of=None, drop=False):
    from mundap.training import towers
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile
    from mundap.training.step import RetrieverStep
    from mundap.training.tokens import Tokens

    model, tokenizer = towers.build(chosen)
    model.train(drop)
    tokens = Tokens(tokenizer, chosen)
    sets = [ExampleFile(one, None) for one in chosen.train]
    batch = next(RetrieverBatches(sets, chosen, tokens)._iterate(0))
    torch.manual_seed(5)
    seen = RetrieverStep(model, chosen, Alone(), tokens.pad).backward(batch)
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return seen, found, model, batch, tokens


@pytest.mark.parametrize("similarity, temperature", [("dot", 1.0), ("cosine", 0.05), ("l2", 1.0)])
@pytest.mark.parametrize("loss", ["nll", "triplet"])
def test_the_gradient_is_that_of_the_loss_written_out(files, tmp_path, similarity, temperature, loss):
    """The cut between vectors and network changes nothing: against one plain backward through everything."""
    chosen = recipe(
        files, tmp_path, similarity=similarity, temperature=temperature, loss=loss, hard_negatives=2, towers="two"
    )
    seen, found, model, batch, tokens = gradients(chosen)
    model.zero_grad()

    def vectors(tower, texts):
        return torch.cat([tower(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)) for ids in texts])

    q, p = vectors(model.question, batch.questions), vectors(model.passage, batch.passages)
    if similarity == "cosine":
        q, p = q / q.norm(dim=1, keepdim=True), p / p.norm(dim=1, keepdim=True)
    scores = (-(torch.cdist(q, p) ** 2) if similarity == "l2" else q @ p.T) / temperature
    total = 0
    for row in range(len(q)):
        target = int(batch.targets[row])
        others = [c for c in range(len(p)) if c != target and not batch.excluded[row, c]]
        if loss == "nll":
            total = total - torch.log_softmax(scores[row, [target, *others]], 0)[0]
        else:
            total = total + sum((1 - scores[row, target] + scores[row, c]).clamp(min=0) for c in others) / len(others)
    value = total / len(q)
    value.backward()
    assert seen.loss == pytest.approx(float(value), rel=1e-4)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(found[name], parameter.grad, rtol=1e-3, atol=2e-5), name


def assert_close(left, right):
    assert set(left) == set(right)
    for name in left:
        assert torch.allclose(left[name], right[name], rtol=1e-3, atol=1e-5), name


def test_gradient_caching_gives_the_same_gradient(files, tmp_path):
    base = recipe(files, tmp_path, batch_size=16, hard_negatives=2, dropout=0.0)
    first, left, *_ = gradients(base)
    second, right, *_ = gradients(dataclasses.replace(base, grad_cache=4))
    assert first.loss == pytest.approx(second.loss, rel=1e-5)
    assert_close(left, right)


def test_gradient_caching_gives_the_same_gradient_with_dropout(files, tmp_path):
    """The second pass must draw the dropout of the first. The chunks are the same, so plain training draws it too."""
    base = recipe(files, tmp_path, batch_size=16, hard_negatives=2, dropout=0.3)
    first, left, *_ = gradients(base, drop=True)
    second, right, *_ = gradients(dataclasses.replace(base, grad_cache=1000), drop=True)
    assert first.loss == pytest.approx(second.loss, rel=1e-6)
    assert_close(left, right)
    without, *_ = gradients(dataclasses.replace(base, dropout=0.0), drop=True)
    assert without.loss != pytest.approx(first.loss, rel=1e-3)  # dropout was really there


def log_of(out):
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("dev")) for row in rows]


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_training_learns_and_leaves_a_model_that_can_be_exported(files, tmp_path, kind):
    from mundap.training.retriever import train
    from tests.encoder.test_export import make_checkpoint

    seen = []
    known = (DataSet(str(files / "a.jsonl")),)
    start = str(make_checkpoint(tmp_path / "start", kind))
    learns = {
        "metric": "nll",
        "similarity": "cosine",
        "temperature": 0.1,
        "mask_false_negatives": False,
        "pooling": "mean",
    }
    chosen = recipe(files, tmp_path / "run", base_model=start, dev=known, epochs=4, **learns)
    done = train(chosen, seen.append)
    assert (done.steps, seen[-1].step, done.stopped) == (32, 32, "all steps done")
    assert done.figures["all"]["nll"] < done.before["all"]["nll"] - 1
    assert set(done.figures) == {"a", "all"}
    # exported, it runs without torch and gives the same vectors
    from mundap import Encoder
    from mundap.encoder.export import export

    parity = export(tmp_path / "run" / "model", tmp_path / "onnx", precisions=["fp32"])
    assert parity["fp32"] > 0.9999
    assert Encoder.from_pretrained(tmp_path / "onnx").config.normalized
    kept = recipe_files.load(RetrieverRecipe, tmp_path / "run" / "recipe.toml")
    assert kept.metric == "nll"
    assert kept.train[1].weight == 2.0


CODE = """
import sys
from mundap.training import recipe_files, retriever
from mundap.training.recipe import RetrieverRecipe
chosen = recipe_files.load(RetrieverRecipe, sys.argv[1])
retriever.train(chosen, lambda p: print(p.step, flush=True))
"""


def run_and_kill(folder, step):
    """Train in a process of its own, until it has done so many steps."""
    (folder / "go.py").write_text(CODE)
    command = [sys.executable, str(folder / "go.py"), str(folder / "recipe.toml")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    for line in process.stdout:
        if line.strip() == str(step):
            process.send_signal(signal.SIGKILL)
            break
    _, errors = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, errors


@not_windows
def test_killed_and_resumed_the_loss_curve_continues_exactly(files, tmp_path):
    from mundap.training.retriever import train

    curves = []
    for name, kill in (("whole", None), ("killed", 11)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, folder / "out", checkpoint_minutes=1e-4, dropout=0.1, eval_steps=4, max_steps=16)
        (folder / "recipe.toml").write_text(recipe_files.dump(chosen))
        if kill:
            run_and_kill(folder, kill)
            assert not (folder / "out" / "model").exists()
        assert bool(train(chosen).resumed) == bool(kill)
        curves.append(log_of(folder / "out"))
    assert len(curves[0]) == 16 + 1 + 4
    assert curves[0] == curves[1]


@not_windows
def test_a_full_disk_at_checkpoint_time_is_said_and_leaves_no_half(files, tmp_path):
    """The system refuses to let files grow beyond a limit, as a full disk would."""
    chosen = recipe(files, tmp_path / "out", dev=(), max_steps=4)
    (tmp_path / "recipe.toml").write_text(recipe_files.dump(chosen))
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000)); from mundap.cli import run; run()"
    command = [sys.executable, "-c", code, "train", "retriever", str(tmp_path / "recipe.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []


def test_two_processes_of_torchrun_train_as_one(files, tmp_path):
    """Cross-batch negatives with the right gradient: the same global batches, the same losses and dev figures."""
    chosen = recipe(files, "", base_model="", dropout=0.0, max_steps=6, eval_steps=3, hard_negatives=2)
    (tmp_path / "recipe.toml").write_text(recipe_files.dump(chosen))
    torchrun = [
        "torch.distributed.run",
        "--nproc-per-node",
        "2",
        "--master-port",
        str(29500 + os.getpid() % 1000),
        "-m",
    ]
    # The form that docs/training.md gives, with options that torchrun must leave to the module.
    words = ["train", "retriever", tmp_path / "recipe.toml", "--base-model", files / "start", "-o"]
    code, _, errors = mundap(*words, tmp_path / "one")
    assert code == 0, errors
    command = [sys.executable, "-m", *torchrun, "mundap", *words, tmp_path / "two"]
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stderr
    curves = [log_of(tmp_path / name) for name in ("one", "two")]
    for (step, loss, dev), (step2, loss2, dev2) in zip(*curves, strict=True):
        assert step == step2
        if loss is not None:
            assert loss == pytest.approx(loss2, rel=1e-4)
        else:
            assert dev["all"]["nll"] == pytest.approx(dev2["all"]["nll"], rel=1e-4)
            assert dev["all"]["rank"] == pytest.approx(dev2["all"]["rank"], abs=0.5)


def test_validation_by_its_definition(files, tmp_path):
    """Ranks and likelihoods over the whole corpus of a dev set, counted out one by one."""
    from mundap.training import towers
    from mundap.training.examples import ExampleFile
    from mundap.training.tokens import Tokens
    from mundap.training.validate import dev_set, encode, validate

    chosen = recipe(files, tmp_path)
    source = ExampleFile(chosen.dev[0], None)
    doubled = dataclasses.replace(source[0], positives=source[0].positives * 2)  # the same passage twice
    source.__class__.__getitem__, original = (
        lambda self, n: doubled if n == 0 else original(self, n),
        source.__class__.__getitem__,
    )
    try:
        one = dev_set(source, 12)
    finally:
        source.__class__.__getitem__ = original
    assert one.right[0][1:] == [] or one.right[0][0] not in one.right[0][1:]
    model, tokenizer = towers.build(chosen)
    tokens = Tokens(tokenizer, chosen)
    figures = validate(model, [one], tokens, Alone())["dev"]
    model.eval()
    questions = encode(model.question, tokens.questions(one.questions), tokens.pad, Alone()).numpy()
    passages = encode(model.passage, tokens.passages(one.passages), tokens.pad, Alone()).numpy()
    ranks, values = [], []
    for vector, right in zip(questions, one.right, strict=True):
        scores = passages @ vector
        others = [scores[n] for n in range(len(passages)) if n not in right[1:]]
        ranks.append(1 + sum(score > scores[right[0]] for score in others))
        values.append(np.log(np.exp(np.array(others) - scores[right[0]]).sum()))
    assert figures["rank"] == pytest.approx(np.mean(ranks), abs=0.5)  # scores of an untrained model nearly tie
    assert figures["nll"] == pytest.approx(np.mean(values), rel=1e-4)
    assert figures["top5"] == pytest.approx(100 * np.mean(np.array(ranks) <= 5), abs=9)


def test_a_frozen_tower_does_not_move(files, tmp_path):
    from safetensors.torch import load_file

    from mundap.training import towers
    from mundap.training.retriever import train

    chosen = recipe(files, tmp_path / "run", towers="two", freeze_tower="passage", dev=(), max_steps=4)
    train(chosen)
    start = load_file(files / "start" / "model.safetensors")
    model, _ = towers.build(chosen)
    for tower, moves in (("question", True), ("passage", False)):
        now = load_file(tmp_path / "run" / "model" / tower / "model.safetensors")
        same = all(torch.equal(now[name], start[name]) for name in now if name in start)
        assert same != moves


def test_early_stopping(files, tmp_path):
    from mundap.training.retriever import train

    wild = {"learning_rate": 0.5, "max_grad_norm": 1e6, "eval_steps": 1, "early_stopping_patience": 2, "epochs": 9}
    done = train(recipe(files, tmp_path / "run", **wild))
    assert "no improvement in 2 validations" in done.stopped
    assert done.steps < 20


def test_interpolation_with_the_base_model(files, tmp_path):
    from safetensors.torch import load_file

    from mundap.training.retriever import train

    weights = {"base": load_file(files / "start" / "model.safetensors")}
    for name, share in (("trained", 0.0), ("mixed", 0.25)):
        train(recipe(files, tmp_path / name, dev=(), max_steps=2, interpolate_with_base=share))
        weights[name] = load_file(tmp_path / name / "model" / "model.safetensors")
    assert any(not torch.equal(weights["base"][key], value) for key, value in weights["trained"].items())
    for key, value in weights["mixed"].items():
        expected = 0.25 * weights["base"][key] + 0.75 * weights["trained"][key]
        torch.testing.assert_close(value, expected, rtol=1e-4, atol=1e-6)


def test_nan_stops_with_the_last_good_checkpoint(files, tmp_path):
    from mundap.training import checkpoints
    from mundap.training.retriever import train

    with pytest.raises(MundapError, match="Lower the learning rate"):
        train(
            recipe(
                files,
                tmp_path / "run",
                learning_rate=1e18,
                max_grad_norm=1e30,
                checkpoint_minutes=1e-6,
                warmup_ratio=0.0,
                dev=(),
                max_steps=30,
            )
        )
    assert checkpoints.newest(tmp_path / "run" / "checkpoints") is not None


def test_another_recipe_in_the_same_folder_is_refused(files, tmp_path):
    from mundap.training.retriever import train

    train(recipe(files, tmp_path / "run", max_steps=2, dev=()))
    with pytest.raises(MundapError, match="another recipe"):
        train(recipe(files, tmp_path / "run", max_steps=2, dev=(), learning_rate=5e-5))


def test_starts_that_cannot_be_used(files, tmp_path):
    from mundap.training import towers

    with pytest.raises(ModelError, match="no config.json"):
        towers.build(recipe(files, tmp_path, base_model=str(tmp_path)))
    with pytest.raises(ModelError, match="at most 80 tokens"):
        towers.build(recipe(files, tmp_path, passage_length=300))


def test_padding_is_little_and_every_text_is_there():
    from mundap.encoder.network import chunks

    lengths = np.random.default_rng(0).integers(3, 250, 100).tolist()
    groups = chunks(lengths)
    assert sorted(position for group in groups for position in group) == list(range(100))
    padded = sum(max(lengths[p] for p in group) * len(group) for group in groups)
    assert padded < 1.2 * sum(lengths)
    assert max(map(len, chunks(lengths, 4))) <= 4


def test_no_other_chunks_cost_less():
    """All ways to cut eight texts, in the order of their lengths, are tried."""
    from itertools import combinations

    from mundap.encoder.network import _CHUNK_COST, chunks

    def cost(groups):
        return sum(group[0] * len(group) + _CHUNK_COST for group in groups)

    for seed in range(20):
        lengths = sorted(np.random.default_rng(seed).integers(3, 400, 8).tolist(), reverse=True)
        every = []
        for cuts in (cuts for size in range(8) for cuts in combinations(range(1, 8), size)):
            places = [0, *cuts, 8]
            every.append(cost([lengths[a:b] for a, b in zip(places, places[1:], strict=False)]))
        assert cost([[lengths[position] for position in group] for group in chunks(lengths)]) == min(every)


def test_dropout_inside_of_the_attention_is_a_choice_of_its_own(files, tmp_path):
    from mundap.training.towers import build

    def shares(**settings):
        model, _ = build(recipe(files, tmp_path, **settings))
        named = [(name, part.p) for name, part in model.named_modules() if isinstance(part, torch.nn.Dropout)]
        inside = {share for name, share in named if ".self." in name}
        return inside, {share for name, share in named if ".self." not in name}

    assert shares(dropout=0.3) == ({0.3}, {0.3})
    assert shares(dropout=0.3, attention_dropout=0.0) == ({0.0}, {0.3})
    assert shares(attention_dropout=0.0) == ({0.0}, {0.1})
