"""The trainer of the dual encoder, on tiny real checkpoints: gradients, masks, resume, processes."""

import dataclasses
import json
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from mundap.errors import ModelError, MundapError, UsageError
from mundap.training import recipe as recipes
from mundap.training.recipe import DataSet
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
    from mundap.training.batches import Batches, Tokens
    from mundap.training.examples import ExampleFile
    from mundap.training.step import Step

    model, tokenizer = towers.build(chosen)
    model.train(drop)
    tokens = Tokens(tokenizer, chosen)
    sets = [ExampleFile(one, None) for one in chosen.train]
    batch = next(Batches(sets, chosen, tokens)._from(0))
    torch.manual_seed(5)
    seen = Step(model, chosen, Alone(), tokens.pad).backward(batch)
    found = {name: p.grad.clone() for name, p in model.named_parameters() if p.grad is not None}
    return seen, found, model, batch, tokens


@pytest.mark.parametrize("similarity, temperature", [("dot", 1.0), ("cosine", 0.05), ("l2", 1.0)])
@pytest.mark.parametrize("loss", ["nll", "triplet"])
def test_the_gradient_is_that_of_the_loss_written_out(files, tmp_path, similarity, temperature, loss):
    """The cut between vectors and network changes nothing: against one plain backward through everything."""
    chosen = recipe(files, tmp_path, similarity=similarity, temperature=temperature, loss=loss, hard=2, towers="two")
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
        others = [c for c in range(len(p)) if c != target and not batch.left_out[row, c]]
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


@pytest.mark.parametrize("drop", [False, True])
def test_gradient_caching_gives_the_same_gradient(files, tmp_path, drop):
    base = recipe(files, tmp_path, batch=16, hard=2, dropout=0.1 if drop else 0.0)
    cached = dataclasses.replace(base, cache=4)
    (first, left, *_), (second, right, *_) = gradients(base, drop=False), gradients(cached, drop=False)
    assert first.loss == pytest.approx(second.loss, rel=1e-5)
    for name in left:
        assert torch.allclose(left[name], right[name], rtol=1e-3, atol=1e-5), name
    if drop:  # the second pass must see the dropout of the first: the loss it differentiates is the one it saw
        _, once, *_ = gradients(cached, drop=True)
        _, again, *_ = gradients(cached, drop=True)
        assert all(torch.equal(once[name], again[name]) for name in once)


def log_of(out):
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("dev")) for row in rows]


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_training_learns_and_leaves_a_model_that_can_be_exported(files, tmp_path, kind):
    from mundap.training.retriever import train
    from tests.models.test_export import make_checkpoint

    seen = []
    known = (DataSet(str(files / "a.jsonl")),)
    start = str(make_checkpoint(tmp_path / "start", kind))
    learns = {"metric": "nll", "similarity": "cosine", "temperature": 0.1, "mask": False, "pooling": "mean"}
    chosen = recipe(files, tmp_path / "run", start=start, dev=known, epochs=4, **learns)
    done = train(chosen, seen.append)
    assert (done.steps, seen[-1].step, done.stopped) == (32, 32, "all steps done")
    assert done.figures["all"]["nll"] < done.before["all"]["nll"] - 1
    assert set(done.figures) == {"a", "all"}
    # exported, it runs without torch and gives the same vectors
    from mundap import Encoder
    from mundap.models.export import export

    parity = export(tmp_path / "run" / "model", tmp_path / "onnx", precisions=["fp32"])
    assert parity["fp32"] > 0.9999
    assert Encoder.from_pretrained(tmp_path / "onnx").config.normalized
    kept = recipes.load(recipes.Recipe, tmp_path / "run" / "recipe.toml")
    assert kept.metric == "nll"
    assert kept.train[1].weight == 2.0


CODE = """
import sys
from mundap.training import recipe, retriever
chosen = recipe.load(recipe.Recipe, sys.argv[1])
retriever.train(chosen, lambda p: print(p.step, flush=True))
"""


def run(folder, *, kill_at=None, processes=0, **environment):
    command = [sys.executable]
    if processes:
        command += [
            "-m",
            "torch.distributed.run",
            "--nproc-per-node",
            str(processes),
            "--master-port",
            str(29500 + os.getpid() % 1000),
        ]
    (folder / "go.py").write_text(CODE)
    command += [str(folder / "go.py"), str(folder / "recipe.toml")]
    env = {**os.environ, "OMP_NUM_THREADS": "1", **environment}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    for line in process.stdout:
        if kill_at is not None and line.strip() == str(kill_at):
            process.send_signal(signal.SIGKILL)
            break
    _, errors = process.communicate(timeout=240)
    assert kill_at is not None or process.returncode == 0, errors
    return process.returncode


def test_killed_and_resumed_the_loss_curve_continues_exactly(files, tmp_path):
    curves = []
    for name, kill in (("whole", None), ("killed", 11)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, folder / "out", checkpoint=1e-4, dropout=0.1, validate=4, steps=16)
        (folder / "recipe.toml").write_text(recipes.dump(chosen))
        if kill:
            assert run(folder, kill_at=kill) == -signal.SIGKILL
            assert not (folder / "out" / "model").exists()
        run(folder)
        curves.append(log_of(folder / "out"))
    assert len(curves[0]) == 16 + 1 + 4
    assert curves[0] == curves[1]


def test_a_full_disk_at_checkpoint_time_is_said_and_leaves_no_half(files, tmp_path):
    """The system refuses to let files grow beyond a limit, as a full disk would."""
    chosen = recipe(files, tmp_path / "out", dev=(), steps=4)
    (tmp_path / "recipe.toml").write_text(recipes.dump(chosen))
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (120_000, 120_000)); from mundap.cli import run; run()"
    command = [sys.executable, "-c", code, "train", "retriever", str(tmp_path / "recipe.toml")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1, done.stderr
    assert "cannot write to" in done.stderr
    assert "Traceback" not in done.stderr
    assert list((tmp_path / "out" / "checkpoints").iterdir()) == []


def test_two_processes_train_as_one(files, tmp_path):
    """Cross-batch negatives with the right gradient: the same global batches, the same losses and dev figures."""
    curves = []
    for name, processes in (("one", 0), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, folder / "out", dropout=0.0, steps=6, validate=3, hard=2)
        (folder / "recipe.toml").write_text(recipes.dump(chosen))
        run(folder, processes=processes)
        curves.append(log_of(folder / "out"))
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
    from mundap.training.batches import Tokens
    from mundap.training.examples import ExampleFile
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
    figures = validate(model, [one], tokens, chosen, Alone())["dev"]
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

    chosen = recipe(files, tmp_path / "run", towers="two", freeze="passage", dev=(), steps=4)
    train(chosen)
    start = load_file(files / "start" / "model.safetensors")
    model, _ = towers.build(chosen)
    for tower, moves in (("question", True), ("passage", False)):
        now = load_file(tmp_path / "run" / "model" / tower / "model.safetensors")
        same = all(torch.equal(now[name], start[name]) for name in now if name in start)
        assert same != moves


def test_early_stopping_and_averaging(files, tmp_path):
    from mundap.training.retriever import train

    done = train(recipe(files, tmp_path / "run", rate=0.5, clip=1e6, validate=1, patience=2, epochs=9, average=0.5))
    assert "no improvement" in done.stopped
    assert done.steps < 20


def test_nan_stops_with_the_last_good_checkpoint(files, tmp_path):
    from mundap.training import checkpoints
    from mundap.training.retriever import train

    with pytest.raises(MundapError, match="Lower the learning rate"):
        train(recipe(files, tmp_path / "run", rate=1e18, clip=1e30, checkpoint=1e-6, warmup=0.0, dev=(), steps=30))
    assert checkpoints.newest(tmp_path / "run" / "checkpoints") is not None


def test_another_recipe_in_the_same_folder_is_refused(files, tmp_path):
    from mundap.training.retriever import train

    train(recipe(files, tmp_path / "run", steps=2, dev=()))
    with pytest.raises(MundapError, match="another recipe"):
        train(recipe(files, tmp_path / "run", steps=2, dev=(), rate=5e-5))


@pytest.mark.parametrize(
    "text, message",
    [
        ("learning_rate = 1", "Did you mean rate"),
        ("rat = 1", "Did you mean rate"),
        ("batch = 'many'", "expected int"),
        ("batch = 0", "at least 1"),
        ("similarity = 'dott'", "choose one of"),
        ("towers = 'shared'\nfreeze = 'passage'", "two towers"),
        ("[[train]]\npath = 'x'\nweigth = 2", "keys match, name, path, weight"),
        ("broken", "recipe.toml"),
    ],
)
def test_recipes_with_mistakes(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        recipes.load(recipes.Recipe, path)


def test_recipes_come_back_as_they_went(files, tmp_path):
    chosen = recipe(files, tmp_path, similarity="cosine", temperature=0.05)
    (tmp_path / "r.toml").write_text(recipes.dump(chosen))
    assert recipes.load(recipes.Recipe, tmp_path / "r.toml") == chosen
    assert recipes.load(recipes.Recipe, tmp_path / "r.toml", {"batch": "4", "in_batch": "false"}).batch == 4


def test_starts_that_cannot_be_used(files, tmp_path):
    from mundap.training import towers

    with pytest.raises(ModelError, match="no config.json"):
        towers.build(recipe(files, tmp_path, start=str(tmp_path)))
    with pytest.raises(ModelError, match="at most 80 tokens"):
        towers.build(recipe(files, tmp_path, passage_length=300))


def test_padding_is_little_and_every_text_is_there():
    from mundap.training.towers import chunks

    lengths = np.random.default_rng(0).integers(3, 250, 100).tolist()
    groups = chunks(lengths)
    assert sorted(position for group in groups for position in group) == list(range(100))
    padded = sum(max(lengths[p] for p in group) * len(group) for group in groups)
    assert padded < 1.2 * sum(lengths)
    assert max(map(len, chunks(lengths, 4))) <= 4


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
