"""The trainer of the reader, on tiny real checkpoints: gradients, losses, groups, resume."""

import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mundap import cli
from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.training import recipe_files
from mundap.training.recipe import DataSet, ReaderRecipe
from tests.systems import not_windows
from tests.training.parts import write_files

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

COMMON, ANSWERS = "abcdefghijklm", ("x", "y z", "zz")


def example(number, rng):
    """A question about a passage in which the answer, letters found nowhere else, stands once or twice."""

    def letters(least, most):
        return list(rng.choice(list(COMMON), int(rng.integers(least, most))))

    answer = ANSWERS[number % 3]
    text = letters(6, 70 if number % 10 == 0 else 20)  # some passages need several windows
    for _ in range(1 + number % 2):
        text.insert(int(rng.integers(0, len(text))), answer)
    hard = tuple(Context(f"h{number}.{n}", "t", " ".join(letters(6, 20))) for n in range(2))
    question = Question(str(number), " ".join(["n", "o", *letters(1, 4)]), (answer,))
    return Example(question, (Context(f"p{number}", "a b", " ".join(text)),), hard)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    return write_files(tmp_path_factory.mktemp("train"), example, (("a", 1, 40), ("dev", 3, 12)))


def recipe(files, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")),),
        "dev": (DataSet(str(files / "dev.jsonl")),),
        "output_dir": str(out),
        "base_model": str(files / "start"),
        "batch_size": 8,
        "epochs": 2,
        "learning_rate": 3e-3,
        "question_length": 16,
        "passage_length": 48,
        "stride": 8,
        "max_answer_length": 4,
        "num_passages": 3,
    }
    return ReaderRecipe(**{**facts, **changes})


class Alone:
    """One process of several, without the others."""

    device = torch.device("cpu")

    def __init__(self, rank=0, world=1):
        self.rank, self.world, self.first = rank, world, rank == 0

    def gather(self, rows):
        return rows


def make_learner(chosen, rank=0, world=1):
    from mundap.training.reader import ReaderLearner

    scratch = Path(chosen.output_dir) / "data"
    scratch.mkdir(parents=True, exist_ok=True)
    return ReaderLearner(chosen, Alone(rank, world), scratch)


def gradients(chosen, rank=0, world=1):
    learner = make_learner(chosen, rank, world)
    learner.model.train()
    batch = next(learner._batches._iterate(0))
    torch.manual_seed(5)
    seen = learner.backward(batch, 1.0)
    found = {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}
    assert any(gradient.abs().max() > 1e-4 for gradient in found.values())
    return seen, found, learner, batch


def assert_close(left, right):
    assert set(left) == set(right)
    for name in left:
        assert torch.allclose(left[name], right[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("spans", ["marginal", "hard_em"])
@pytest.mark.parametrize("only", [False, True])
def test_the_gradient_is_that_of_the_loss_written_out(files, tmp_path, spans, only):
    """One row at a time without padding or caching, the loss spelt out: against one plain backward."""
    chosen = recipe(
        files,
        tmp_path,
        span_loss=spans,
        selection_only=only,
        no_answer_ratio=0.5,
        no_answer_span_weight=0.4,
        dropout=0.0,
        grad_cache=4,
        batch_size=16,
    )
    seen, found, learner, batch = gradients(chosen)
    assert {group.target for group in batch.groups} == {None, 0}
    if not only:
        assert max(len(places) for group in batch.groups for places in group.spans) > 1
    learner.model.zero_grad()
    total = 0.0
    for group in batch.groups:
        outputs = []
        for window in group.windows:
            ids = torch.tensor([window.ids])
            outputs.append(learner.model(ids, torch.ones_like(ids)))
        scores = torch.cat([selection for _, _, selection in outputs])
        everything = scores.exp().sum() + 1  # the score of "none of them" is 0
        right = 1 if group.target is None else scores[group.target].exp()
        total = total - torch.log(right / everything)
        if only:
            continue
        empty = sum(not places for places in group.spans)
        for number, ((starts, ends, _), places) in enumerate(zip(outputs, group.spans, strict=True)):
            begin, stop = torch.softmax(starts[0], 0), torch.softmax(ends[0], 0)
            if places:
                likely = torch.stack([begin[a] * stop[b] for a, b in places])
                total = total - torch.log(likely.sum() if spans == "marginal" else likely.max())
            elif number != group.target:
                total = total - 0.4 / empty * torch.log(begin[0] * stop[0])
    value = total / len(batch.groups)
    value.backward()
    assert seen.loss == pytest.approx(float(value), rel=1e-4)
    written = {name: p.grad for name, p in learner.model.named_parameters() if p.grad is not None}
    assert_close({name: found[name] for name in written}, written)


def test_gradient_caching_gives_the_same_gradient(files, tmp_path):
    base = recipe(files, tmp_path, dropout=0.0)
    whole, cached = gradients(base), gradients(recipe(files, tmp_path, dropout=0.0, grad_cache=5))
    assert whole[0].loss == pytest.approx(cached[0].loss, rel=1e-5)
    assert_close(whole[1], cached[1])


def test_gradient_caching_gives_the_same_gradient_with_dropout(files, tmp_path):
    """The second pass must draw the dropout of the first. The pieces are the same, so plain training draws it too."""
    whole = gradients(recipe(files, tmp_path, dropout=0.3))
    cached = gradients(recipe(files, tmp_path, dropout=0.3, grad_cache=1000))
    assert whole[0].loss == pytest.approx(cached[0].loss, rel=1e-6)
    assert_close(whole[1], cached[1])
    without = gradients(recipe(files, tmp_path, dropout=0.0))
    assert without[0].loss != pytest.approx(whole[0].loss, rel=1e-3)  # dropout was really there


def test_the_gradients_of_two_processes_add_up_to_that_of_one(files, tmp_path):
    chosen = recipe(files, tmp_path, dropout=0.0, no_answer_ratio=0.5)
    seen, whole, _, batch = gradients(chosen)
    (left_seen, left, _, first), (right_seen, right, _, second) = (gradients(chosen, rank, 2) for rank in (0, 1))
    assert [len(part.groups) for part in (batch, first, second)] == [8, 4, 4]
    ids = [[window.ids for group in part.groups for window in group.windows] for part in (batch, first, second)]
    assert ids[0] == ids[1] + ids[2]
    assert seen.loss == pytest.approx(left_seen.loss + right_seen.loss, rel=1e-5)
    assert_close(whole, {name: left[name] + right[name] for name in left})


def log_softmax(row, place):
    return row[place] - math.log(sum(map(math.exp, row)))


def test_losses_by_hand():
    from mundap.training import losses

    starts, ends = [[0.5, 2.0, -1.0, 0.3], [1.0, 0.2, 0.1, -0.4]], [[0.1, -0.7, 1.5, 0.9], [0.8, 0.0, 0.3, 0.6]]
    logits = torch.tensor(starts), torch.tensor(ends)
    null = torch.tensor([0.0, 0.25])
    spans = [[(1, 2), (3, 3)], []]
    likely = [math.exp(log_softmax(starts[0], a) + log_softmax(ends[0], b)) for a, b in spans[0]]
    nothing = -0.25 * (log_softmax(starts[1], 0) + log_softmax(ends[1], 0))
    found = losses.span_nll(*logits, spans, null)
    assert found.tolist() == pytest.approx([-math.log(sum(likely)), nothing])
    found = losses.span_nll(*logits, spans, null, best_only=True)
    assert found.tolist() == pytest.approx([-math.log(max(likely)), nothing])
    # padding takes no share
    wider = [torch.cat([part, torch.full((2, 3), -torch.inf)], 1) for part in logits]
    assert losses.span_nll(*wider, spans, null).tolist() == pytest.approx([-math.log(sum(likely)), nothing])
    scores = [0.7, -0.2, 1.1]
    total = 1 + sum(map(math.exp, scores))
    assert float(losses.selection_nll(torch.tensor(scores), 2)) == pytest.approx(-math.log(math.exp(1.1) / total))
    assert float(losses.selection_nll(torch.tensor(scores), None)) == pytest.approx(-math.log(1 / total))


def test_a_passage_without_the_answer_has_no_gradient_when_its_span_does_not_count():
    from mundap.training import losses

    starts, ends = torch.zeros(1, 4, requires_grad=True), torch.zeros(1, 4, requires_grad=True)
    losses.span_nll(starts, ends, [[]], torch.tensor([0.0])).sum().backward()
    assert starts.grad.abs().max() == 0


def loaded(path, scratch, **options):
    from mundap.training.reader_data import example_file

    scratch.mkdir(exist_ok=True)
    found = example_file(DataSet(str(path), **options), scratch)
    return found, [found[number] for number in range(len(found))]


def log_of(out):
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("dev")) for row in rows]


@pytest.mark.parametrize("kind", ["bert", "roberta", "mpnet"])
def test_training_learns_and_leaves_a_model_that_answers(files, tmp_path, kind):
    from mundap.reader.checkpoints import open_reader
    from mundap.reader.export import export_reader
    from mundap.reader.runtime import Reader
    from mundap.records import Hit, Passage
    from mundap.text.scores import judge
    from mundap.training.reader import train
    from tests.encoder.test_export import make_checkpoint

    seen, start = [], str(make_checkpoint(tmp_path / "start", kind))
    chosen = recipe(files, tmp_path / "run", base_model=start, epochs=8, metric="gold_f1", dropout=0.0)
    done = train(chosen, seen.append)
    assert (done.steps, seen[-1].step, done.stopped) == (40, 40, "all steps done")
    before, after = done.before["all"], done.figures["all"]
    assert after["gold_f1"] > max(60, before["gold_f1"] + 20)
    assert after["nll"] < before["nll"]
    assert seen[-1].result.loss < seen[0].result.loss / 2
    # Exported, it runs without torch, and reads the dev set as the validation did.
    export_reader(tmp_path / "run" / "model", tmp_path / "onnx", precisions=["fp32"])
    assert open_reader(tmp_path / "run" / "model").layout == "dpr"
    reader = Reader(tmp_path / "onnx")
    kept = reader.config
    assert (kept.max_length, kept.question_length, kept.stride, kept.max_answer_length) == (48, 16, 8, 4)
    figures = []
    _, dev = loaded(files / "dev.jsonl", tmp_path / "scratch")
    for one in dev:
        hits = []
        for rank, context in enumerate((one.positives[0], *one.hard), 1):
            hits.append(Hit(rank, 0.0, Passage("", "", context.title, context.text, "", 0, len(context.text))))
        figures.append(judge(answer_of(reader, one.question.text, hits), one.question.answers, "string"))
    assert 100 * np.mean([em for em, _ in figures]) == pytest.approx(after["em"])
    assert 100 * np.mean([f1 for _, f1 in figures]) == pytest.approx(after["f1"])


def answer_of(reader, question, hits):
    """The best span of the passage with the highest selection score; lengths are the recipe's, kept by the export."""
    from dataclasses import replace

    from mundap.reader.answering import answer_from

    reader.config = replace(reader.config, ranking="selection")
    return answer_from(reader, question, hits).answers[0].text


CODE = """
import sys
from mundap.training import reader, recipe_files
from mundap.training.recipe import ReaderRecipe
chosen = recipe_files.load(ReaderRecipe, sys.argv[1])
reader.train(chosen, lambda p: print(p.step, flush=True))
"""


def run_and_kill(folder, step):
    """Train in a process of its own, until it has done so many steps."""
    command = [sys.executable, "-c", CODE, str(folder / "recipe.toml")]
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=env)
    for line in process.stdout:
        if line.strip() == str(step):
            process.send_signal(signal.SIGKILL)
            break
    _, errors = process.communicate(timeout=240)
    assert process.returncode == -signal.SIGKILL, errors


@pytest.mark.slow
@not_windows
def test_killed_and_resumed_the_loss_curve_continues_exactly(files, tmp_path):
    from mundap.training.reader import train

    curves = []
    for name, kill in (("whole", None), ("killed", 5)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(
            files, folder / "out", checkpoint_minutes=1e-4, dropout=0.1, eval_steps=4, max_steps=8, grad_cache=8
        )
        (folder / "recipe.toml").write_text(recipe_files.dump(chosen))
        if kill:
            run_and_kill(folder, kill)
            assert not (folder / "out" / "model").exists()
        done = train(chosen)
        assert bool(done.resumed) == bool(kill)
        curves.append(log_of(folder / "out"))
    assert len(curves[0]) == 8 + 1 + 2
    assert curves[0] == curves[1]


@pytest.mark.slow
def test_two_processes_of_torchrun_train_as_one(files, tmp_path):
    curves = []
    for name, tool in (("one", []), ("two", ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"])):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, folder / "out", dropout=0.0, max_steps=6, eval_steps=3)
        (folder / "recipe.toml").write_text(recipe_files.dump(chosen))
        command = [sys.executable, "-m", *tool, "mundap", "train", "reader", str(folder / "recipe.toml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        curves.append(log_of(folder / "out"))
    for (step, loss, dev), (step2, loss2, dev2) in zip(*curves, strict=True):
        assert step == step2
        assert loss == (None if loss2 is None else pytest.approx(loss2, rel=1e-4))
        if dev is not None:
            assert dev["all"] == pytest.approx(dev2["all"], rel=1e-3)


def test_a_run_of_an_older_version_goes_on(files, tmp_path):
    """A key that is new, with the value that means what the older version did, is no other recipe."""
    from mundap.training.reader import train

    chosen = recipe(files, tmp_path / "run", max_steps=1, dev=())
    train(chosen)
    path = tmp_path / "run" / "recipe.toml"
    lines = path.read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("retriever_weight")]
    assert len(older) == len(lines) - 1
    path.write_text("".join(older))
    assert train(chosen).resumed == 1


def test_selection_only_on_the_command_line(files, tmp_path):
    """A reranker: the head for selection learns, that for spans stays as chance made it."""
    from mundap.reader.checkpoints import open_reader

    options = ["--train", files / "a.jsonl", "--dev", files / "dev.jsonl", "--base-model", files / "start"]
    options += [
        "-o",
        tmp_path / "run",
        "--set",
        "max_steps=15",
        "--set",
        "learning_rate=3e-3",
        "--set",
        "passage_length=48",
    ]
    words = ["train", "reader", "--selection-only", *options, "--set", "num_passages=3", "--json"]
    done = CliRunner().invoke(cli.main, list(map(str, words)), catch_exceptions=False)
    facts = json.loads(done.output)
    assert facts["steps"] == 15
    assert facts["figures"]["all"]["rank"] <= facts["before"]["all"]["rank"]
    kept = recipe_files.load(ReaderRecipe, tmp_path / "run" / "recipe.toml")
    assert (kept.selection_only, kept.metric) == (True, "rank")
    made = open_reader(tmp_path / "run" / "model").model
    torch.manual_seed(0)
    start = open_reader(files / "start", fresh=True).model
    assert torch.equal(made.spans.weight, start.spans.weight)
    assert not torch.equal(made.selection.weight, start.selection.weight)


@pytest.mark.parametrize(
    "text, message",
    [
        ("num_pasages = 8", "Did you mean num_passages"),
        ("no_answer_rato = 1", "Did you mean no_answer_ratio"),
        ("rate = 1", "Did you mean learning_rate"),
        ("temperature = 1", "unknown key 'temperature'"),  # a retriever's
        ("span_loss = 'most'", "choose one of 'marginal', 'hard_em'"),
        ("no_answer_ratio = 1.0", "not including, 1"),
        ("num_passages = 0", "at least 1"),
        ("max_answer_length = 0", "at least 1"),
    ],
)
def test_recipes_with_mistakes(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        recipe_files.load(ReaderRecipe, path)


def test_recipes_come_back_as_they_went(files, tmp_path):
    chosen = recipe(files, tmp_path, span_loss="hard_em", selection_only=True, no_answer_ratio=0.1)
    (tmp_path / "r.toml").write_text(recipe_files.dump(chosen))
    assert recipe_files.load(ReaderRecipe, tmp_path / "r.toml") == chosen


def test_a_plain_qa_model_is_a_start_and_gets_a_head_for_selection(files, tmp_path):
    from mundap.reader.checkpoints import open_reader
    from mundap.training.reader import train
    from tests.reader.test_checkpoints import make_plain_qa

    make_plain_qa(tmp_path / "qa", "bert")
    train(recipe(files, tmp_path / "run", base_model=str(tmp_path / "qa"), max_steps=1))
    loaded = open_reader(tmp_path / "run" / "model")
    assert loaded.layout == "dpr"
    assert loaded.model.selection.weight.shape == (1, 32)


def test_joint_training_moves_the_question_side_and_leaves_the_passage_side(files, tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.reader.checkpoints import open_reader
    from mundap.training.reader import train

    retriever = str(files / "start")
    train(recipe(files, tmp_path / "run", retriever=retriever, max_steps=3, dev=()))
    assert open_reader(tmp_path / "run" / "model").model.selection is not None
    before = open_checkpoint(files / "start").network.state_dict()
    moved = {}
    for role in ("question", "passage"):
        after = open_checkpoint(tmp_path / "run" / "retriever", role).network.state_dict()
        moved[role] = max(float((after[key] - before[key]).abs().max()) for key in after)
    assert moved["passage"] == 0
    assert moved["question"] > 1e-4


def test_joint_training_cuts_passages_as_an_index_of_the_retriever_does(files, tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint, with_settings
    from mundap.encoder.layouts import write
    from mundap.training.joint import JointLearner

    short = with_settings(open_checkpoint(files / "start"), similarity="cosine", max_length=24)
    write({"question": short}, tmp_path / "short")
    chosen = recipe(files, tmp_path, retriever=str(tmp_path / "short"), dev=(), no_answer_ratio=0.0, dropout=0.0)
    learner = JointLearner(chosen, Alone(), tmp_path)
    batch = next(learner.batches_from(0))
    assert max(len(window.ids) for group in batch.groups for window in group.windows) > 24
    made = learner._as_batch(batch.groups)
    assert max(map(len, made.passages)) == 24
    assert not any(module.p for module in learner.model.modules() if isinstance(module, torch.nn.Dropout))
