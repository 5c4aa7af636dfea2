"""The trainer of the reader, on tiny real checkpoints: gradients, losses, groups, resume."""

import json
import math
import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from mundap import cli
from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.text.answers import find_answers, has_answer
from mundap.training import recipe as recipes
from mundap.training.formats import writing
from mundap.training.recipe import DataSet, ReaderRecipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch

COMMON, ANSWERS = "abcdefghijklm", ("x", "y z", "zz")


@pytest.fixture(autouse=True)
def one_thread():
    """Models this small are only slowed down by threads, and sums come out the same in every process."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def example(number, chance):
    """A question about a passage in which the answer, letters found nowhere else, stands once or twice."""

    def letters(least, most):
        return list(chance.choice(list(COMMON), int(chance.integers(least, most))))

    answer = ANSWERS[number % 3]
    text = letters(6, 70 if number % 10 == 0 else 20)  # some passages need several windows
    for _ in range(1 + number % 2):
        text.insert(int(chance.integers(0, len(text))), answer)
    hard = tuple(Context(f"h{number}.{n}", "t", " ".join(letters(6, 20))) for n in range(2))
    question = Question(str(number), " ".join(["n", "o", *letters(1, 4)]), (answer,))
    return Example(question, (Context(f"p{number}", "a b", " ".join(text)),), hard)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    from tests.models.test_export import make_checkpoint

    folder = tmp_path_factory.mktemp("train")
    make_checkpoint(folder / "start")
    for name, seed, number in (("a", 1, 40), ("dev", 3, 12)):
        chance = np.random.default_rng(seed)
        with writing(folder / f"{name}.jsonl", "dpr-jsonl") as write:
            for n in range(number):
                write(example(n, chance))
    return folder


def recipe(files, out, **changes):
    facts = {
        "train": (DataSet(str(files / "a.jsonl")),),
        "dev": (DataSet(str(files / "dev.jsonl")),),
        "out": str(out),
        "start": str(files / "start"),
        "batch": 8,
        "epochs": 2,
        "rate": 3e-3,
        "question_length": 16,
        "passage_length": 48,
        "stride": 8,
        "longest": 4,
        "passages": 3,
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

    scratch = Path(chosen.out) / "data"
    scratch.mkdir(parents=True, exist_ok=True)
    return ReaderLearner(chosen, Alone(rank, world), scratch)


def gradients(chosen, rank=0, world=1):
    learner = make_learner(chosen, rank, world)
    learner.model.train()
    batch = next(learner._batches._from(0))
    torch.manual_seed(5)
    seen = learner.backward(batch, 1.0)
    found = {name: p.grad.clone() for name, p in learner.model.named_parameters() if p.grad is not None}
    assert any(gradient.abs().max() > 1e-4 for gradient in found.values())
    return seen, found, learner, batch


def assert_close(left, right):
    assert set(left) == set(right)
    for name in left:
        assert torch.allclose(left[name], right[name], rtol=1e-3, atol=1e-5), name


@pytest.mark.parametrize("spans", ["all", "best"])
@pytest.mark.parametrize("only", [False, True])
def test_the_gradient_is_that_of_the_loss_written_out(files, tmp_path, spans, only):
    """One row at a time without padding or caching, the loss spelt out: against one plain backward."""
    chosen = recipe(
        files, tmp_path, spans=spans, selection_only=only, null=0.5, null_span=0.4, dropout=0.0, cache=4, batch=16
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
                total = total - torch.log(likely.sum() if spans == "all" else likely.max())
            elif number != group.target:
                total = total - 0.4 / empty * torch.log(begin[0] * stop[0])
    value = total / len(batch.groups)
    value.backward()
    assert seen.loss == pytest.approx(float(value), rel=1e-4)
    written = {name: p.grad for name, p in learner.model.named_parameters() if p.grad is not None}
    assert_close({name: found[name] for name in written}, written)


def test_gradient_caching_gives_the_same_gradient(files, tmp_path):
    base = recipe(files, tmp_path, dropout=0.0)
    whole, cached = gradients(base), gradients(recipe(files, tmp_path, dropout=0.0, cache=5))
    assert whole[0].loss == pytest.approx(cached[0].loss, rel=1e-5)
    assert_close(whole[1], cached[1])


def test_gradient_caching_gives_the_same_gradient_with_dropout(files, tmp_path):
    """The second pass must draw the dropout of the first. The pieces are the same, so plain training draws it too."""
    whole = gradients(recipe(files, tmp_path, dropout=0.3))
    cached = gradients(recipe(files, tmp_path, dropout=0.3, cache=1000))
    assert whole[0].loss == pytest.approx(cached[0].loss, rel=1e-6)
    assert_close(whole[1], cached[1])
    without = gradients(recipe(files, tmp_path, dropout=0.0))
    assert without[0].loss != pytest.approx(whole[0].loss, rel=1e-3)  # dropout was really there


def test_the_gradients_of_two_processes_add_up_to_that_of_one(files, tmp_path):
    chosen = recipe(files, tmp_path, dropout=0.0, null=0.5)
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
    found = losses.reading(*logits, spans, null)
    assert found.tolist() == pytest.approx([-math.log(sum(likely)), nothing])
    found = losses.reading(*logits, spans, null, best_only=True)
    assert found.tolist() == pytest.approx([-math.log(max(likely)), nothing])
    # padding takes no share
    wider = [torch.cat([part, torch.full((2, 3), -torch.inf)], 1) for part in logits]
    assert losses.reading(*wider, spans, null).tolist() == pytest.approx([-math.log(sum(likely)), nothing])
    scores = [0.7, -0.2, 1.1]
    total = 1 + sum(map(math.exp, scores))
    assert float(losses.selecting(torch.tensor(scores), 2)) == pytest.approx(-math.log(math.exp(1.1) / total))
    assert float(losses.selecting(torch.tensor(scores), None)) == pytest.approx(-math.log(1 / total))


def test_a_passage_without_the_answer_has_no_gradient_when_its_span_does_not_count():
    from mundap.training import losses

    starts, ends = torch.zeros(1, 4, requires_grad=True), torch.zeros(1, 4, requires_grad=True)
    losses.reading(starts, ends, [[]], torch.tensor([0.0])).sum().backward()
    assert starts.grad.abs().max() == 0


@pytest.fixture(scope="module")
def real_tokenizer():
    from mundap.models import folder
    from mundap.models.session import open_tokenizer

    return open_tokenizer(folder.find(folder.DEFAULT) / "tokenizer.json")


@pytest.mark.parametrize(
    ("text", "answers", "mode", "expected"),
    [
        ("The river Thames runs by. THAMES water.", ["Thames"], "string", ["Thames", "THAMES"]),
        (
            "It won the Palme d'Or in 2019.",
            ["palme d'or", "the Palme d'Or"],
            "string",
            ["Palme d'Or", "the Palme d'Or"],
        ),
        ("Born on 4 July 1976, or 1867?", [r"1[89]\d\d"], "regex", ["1976", "1867"]),
        ("Zoë met 🎬 a <b>Zoë</b>", ["Zoë"], "string", ["Zoë", "Zoë"]),
        ("so Zoe\u0308 went", ["Zoë"], "string", ["Zoe\u0308"]),  # decomposed: no token has the mark
        ("기생충은 황금 종려상을 받았다. 황금종려상!", ["황금종려상"], "cjk", ["황금 종려상", "황금종려상"]),
        ("of the kingdoms", ["king"], "string", []),
        ("ירושלים היא בירת ישראל", ["בירת ישראל"], "string", ["בירת ישראל"]),
    ],
)
def test_answers_come_back_from_their_tokens(real_tokenizer, text, answers, mode, expected):
    from mundap.models.folder import ReaderConfig
    from mundap.models.windows import Windows
    from mundap.training.reader_data import tokens_of

    made = Windows(real_tokenizer, ReaderConfig(name="t", max_length=48, question_length=4, stride=16))
    filler = "nothing at all is here to see. " * 10
    shift = len(filler)
    places = [(a + shift, b + shift) for a, b in find_answers(text, answers, mode)]
    whole = filler + text + " " + filler
    assert places == find_answers(whole, answers, mode)
    assert Counter(whole[a:b] for a, b in places) == Counter(expected)
    (rows,) = made.of("who is it?", [("title", whole)])
    found = set()
    for window in rows:
        for first, last in tokens_of(window, places):
            span = window.offsets[first - window.first, 0], window.offsets[last - window.first, 1]
            found.add(tuple(map(int, span)))
    # Some window has each of them whole, and none has half of one; of an accent that no token has, the run time
    # takes care.
    assert found == {(a, b - whole[a:b].count("\u0308")) for a, b in places}


def test_a_span_over_the_edge_of_a_window_is_left_out(real_tokenizer):
    from mundap.models.folder import ReaderConfig
    from mundap.models.windows import Windows
    from mundap.training.reader_data import tokens_of

    made = Windows(real_tokenizer, ReaderConfig(name="t", max_length=13, question_length=4, stride=0))
    (rows,) = made.of("q", [("", "a b c d e f g h i j k l m n")])
    assert [len(window.offsets) for window in rows] == [9, 5]
    text = "a b c d e f g h i j k l m n"
    edge, inside = (text.index("i"), text.index("j") + 1), (text.index("j"), text.index("k") + 1)
    assert tokens_of(rows[0], [edge, inside]) == []
    assert tokens_of(rows[1], [edge, inside]) == [(4, 5)]


def loaded(path, scratch, **options):
    from mundap.training.reader_data import example_file

    scratch.mkdir(exist_ok=True)
    found = example_file(DataSet(str(path), **options), scratch)
    return found, [found[number] for number in range(len(found))]


def squad(*paragraphs):
    return {
        "version": "v2.0",
        "data": [
            {
                "title": "Some_Title",
                "paragraphs": [
                    {
                        "context": context,
                        "qas": [
                            {
                                "id": name,
                                "question": f"who is {name}?",
                                "is_impossible": answer is None,
                                "answers": [{"text": answer, "answer_start": context.index(answer)}] if answer else [],
                            }
                            for name, answer in asked.items()
                        ],
                    }
                    for context, asked in paragraphs
                ],
            }
        ],
    }


def test_squads_shape_is_learnt_from(tmp_path):
    path = tmp_path / "squad.json"
    path.write_text(json.dumps(squad(("Rome is old.", {"q1": "Rome", "q2": None}), ("Oslo is cold.", {"q3": "cold"}))))
    _, rows = loaded(path, tmp_path / "scratch")
    assert [(one.question.id, one.question.answers) for one in rows] == [("q1", ("Rome",)), ("q3", ("cold",))]
    assert rows[0].positives == (Context("", "Some Title", "Rome is old."),)
    assert rows[0].hard == ()


def test_dprs_results_are_learnt_from(tmp_path):
    """Which passages are right is looked up in their texts, whatever the file says of them."""
    contexts = [
        {"id": "wiki:1", "title": "A", "text": "Oslo is cold", "score": "9.5", "has_answer": True},
        {"id": "wiki:2", "title": "B", "text": "Rome is old", "score": "8.5", "has_answer": False},
        {"id": "wiki:3", "title": "C", "text": "Bonn", "score": "7", "has_answer": False},
    ]
    rows = [
        {"question": "what is old?", "answers": ["Rome"], "ctxs": contexts},
        {"question": "what is new?", "answers": ["Bern"], "ctxs": contexts},  # no passage has it
        {
            "question": "어디?",
            "answers": ["서울"],
            "ctxs": [{"id": "4", "title": "", "text": "서울은 크다", "score": "1"}],
        },
    ]
    (tmp_path / "results.json").write_text(json.dumps(rows))
    _, found = loaded(tmp_path / "results.json", tmp_path / "scratch")
    assert [one.question.text for one in found] == ["what is old?", "어디?"]
    assert [context.id for context in found[0].positives] == ["wiki:2"]
    assert [context.id for context in found[0].hard] == ["wiki:1", "wiki:3"]


def test_dprs_training_files_are_learnt_from(files, tmp_path):
    chance = np.random.default_rng(1)
    made = [example(number, chance) for number in range(5)]
    for name in ("dpr-json", "dpr-jsonl", "tevatron"):
        with writing(tmp_path / name, name) as write:
            for one in made:
                write(one)
        source, found = loaded(tmp_path / name, tmp_path / "scratch", name=name)
        assert [one.question.text for one in found] == [one.question.text for one in made]
        assert [one.positives[0].text for one in found] == [one.positives[0].text for one in made]
        assert [[context.text for context in one.hard] for one in found] == [
            [context.text for context in one.hard] for one in made
        ]
        assert source.match == "string"


def test_files_of_the_same_name_are_not_mistaken_for_each_other(tmp_path):
    """SQuAD and KorQuAD both have a train.json: in one run each must be itself."""
    texts = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        path = tmp_path / name / "train.json"
        path.write_text(json.dumps(squad((f"{name} is it.", {"q": name}))))
        _, rows = loaded(path, tmp_path / "scratch")
        texts.append(rows[0].positives[0].text)
    assert texts == ["one is it.", "two is it."]


def groups(chosen, count):
    learner = make_learner(chosen)
    stream = learner._batches._from(0)
    return [group for _ in range(count) for group in next(stream).groups]


def test_about_the_told_share_of_the_questions_has_no_answer_among_its_passages(files, tmp_path):
    for share in (0.0, 0.5):
        found = groups(recipe(files, tmp_path / str(share), null=share), 50)
        assert len(found) == 400
        assert sum(group.target is None for group in found) / 400 == pytest.approx(share, abs=0.08)
        for group in found:
            assert len(group.windows) == len(group.spans) == 3
            held = [has_answer(one.text, group.question.answers) for one in group.passages]
            if group.target is None:
                assert not any(held)
                assert group.spans == [[], [], []]
            else:
                assert held == [True, False, False]
                assert group.spans[0]
                assert group.spans[1:] == [[], []]


def test_groups_are_the_same_from_any_step_and_differ_between_epochs(files, tmp_path):
    learner = make_learner(recipe(files, tmp_path))
    batches = learner._batches
    assert batches.an_epoch == 5

    def rows(batch):
        return [window.ids for group in batch.groups for window in group.windows]

    whole = [rows(batch) for batch, _ in zip(batches._from(0), range(12), strict=False)]
    later = [rows(batch) for batch, _ in zip(batches.since(7), range(5), strict=False)]
    assert later == whole[7:]
    assert sorted(map(str, whole[0:5])) != sorted(map(str, whole[5:10]))


def test_without_negatives_of_their_own_questions_take_those_of_their_neighbours(tmp_path, files):
    path = tmp_path / "squad.json"
    paragraphs = [(f"{letter} is the {letter}{letter} here", {f"q{letter}": f"{letter}{letter}"}) for letter in COMMON]
    path.write_text(json.dumps(squad(*paragraphs)))
    chosen = recipe(files, tmp_path, train=(DataSet(str(path)),), dev=(), batch=4, null=0.0)
    for group in groups(chosen, 6):
        assert len(group.windows) == 3
        assert group.passages[0].text not in [one.text for one in group.passages[1:]]
        assert not any(has_answer(one.text, group.question.answers) for one in group.passages[1:])


def test_a_positive_in_which_the_answer_is_not_found_is_selected_but_its_span_is_left_open(files, tmp_path):
    """The answer is there, in other words: that no span is right would be a lie."""
    with writing(tmp_path / "other.jsonl", "dpr-jsonl") as write:
        for n in range(4):
            write(Example(Question(str(n), "n o", ("absent",)), (Context("", "t", f"a b {COMMON[n]}"),)))
    data = (DataSet(str(tmp_path / "other.jsonl")),)
    chosen = recipe(files, tmp_path, train=data, dev=(), batch=4, passages=1, null=0.0, null_span=5.0, dropout=0.0)
    seen, found, learner, batch = gradients(chosen)
    assert [(group.target, group.spans) for group in batch.groups] == [(0, [[]])] * 4
    total = 0.0
    for group in batch.groups:
        ids = torch.tensor([group.windows[0].ids])
        score = float(learner.model(ids, torch.ones_like(ids))[2])
        total -= math.log(math.exp(score) / (1 + math.exp(score)))
    assert seen.loss == pytest.approx(total / 4, rel=1e-4)
    assert "spans.weight" not in found or found["spans.weight"].abs().max() == 0


def log_of(out):
    rows = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("dev")) for row in rows]


def test_training_learns_and_leaves_a_model_that_answers(files, tmp_path):
    from mundap.models.export_reader import export_reader
    from mundap.models.reader import Reader
    from mundap.models.reader_checkpoint import open_reader
    from mundap.records import Hit, Passage
    from mundap.text.judge import judge
    from mundap.training.reader import train

    seen = []
    chosen = recipe(files, tmp_path / "run", epochs=8, metric="gold_f1", dropout=0.0)
    done = train(chosen, seen.append)
    assert (done.steps, seen[-1].step, done.stopped) == (40, 40, "all steps done")
    before, after = done.before["all"], done.figures["all"]
    assert after["gold_f1"] > max(60, before["gold_f1"] + 20)
    assert after["nll"] < before["nll"]
    assert seen[-1].loss < seen[0].loss / 2
    # Exported, it runs without torch, and reads the dev set as the validation did.
    export_reader(tmp_path / "run" / "model", tmp_path / "onnx", precisions=["fp32"])
    assert open_reader(tmp_path / "run" / "model").layout == "dpr"
    reader = Reader(tmp_path / "onnx")
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
    """The best span of the passage with the highest selection score, settings as in the recipe."""
    from dataclasses import replace

    from mundap.reader.ask import read

    reader.config = replace(reader.config, ranking="selection", max_length=48, question_length=16, stride=8, longest=4)
    return read(reader, question, hits).answers[0].text


CODE = """
import sys
from mundap.training import reader, recipe
chosen = recipe.load(recipe.ReaderRecipe, sys.argv[1])
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


def test_killed_and_resumed_the_loss_curve_continues_exactly(files, tmp_path):
    from mundap.training.reader import train

    curves = []
    for name, kill in (("whole", None), ("killed", 5)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, folder / "out", checkpoint=1e-4, dropout=0.1, validate=4, steps=8, cache=8)
        (folder / "recipe.toml").write_text(recipes.dump(chosen))
        if kill:
            run_and_kill(folder, kill)
            assert not (folder / "out" / "model").exists()
        done = train(chosen)
        assert bool(done.resumed) == bool(kill)
        curves.append(log_of(folder / "out"))
    assert len(curves[0]) == 8 + 1 + 2
    assert curves[0] == curves[1]


def test_a_run_of_an_older_version_goes_on(files, tmp_path):
    """A key that is new, with the value that means what the older version did, is no other recipe."""
    from mundap.training.reader import train

    chosen = recipe(files, tmp_path / "run", steps=1, dev=())
    train(chosen)
    path = tmp_path / "run" / "recipe.toml"
    lines = path.read_text().splitlines(keepends=True)
    older = [line for line in lines if not line.startswith("retriever_weight")]
    assert len(older) == len(lines) - 1
    path.write_text("".join(older))
    assert train(chosen).resumed == 1


def test_selection_only_on_the_command_line(files, tmp_path):
    """A reranker: the head for selection learns, that for spans stays as chance made it."""
    from mundap.models.reader_checkpoint import open_reader

    options = ["--train", files / "a.jsonl", "--dev", files / "dev.jsonl", "--start", files / "start"]
    options += ["-o", tmp_path / "run", "--set", "steps=15", "--set", "rate=3e-3", "--set", "passage_length=48"]
    words = ["train", "reader", "--selection-only", *options, "--set", "passages=3", "--json"]
    done = CliRunner().invoke(cli.main, list(map(str, words)), catch_exceptions=False)
    facts = json.loads(done.output)
    assert facts["steps"] == 15
    assert facts["figures"]["all"]["rank"] <= facts["before"]["all"]["rank"]
    kept = recipes.load(ReaderRecipe, tmp_path / "run" / "recipe.toml")
    assert (kept.selection_only, kept.metric) == (True, "rank")
    made = open_reader(tmp_path / "run" / "model").model
    torch.manual_seed(0)
    start = open_reader(files / "start", fresh=True).model
    assert torch.equal(made.spans.weight, start.spans.weight)
    assert not torch.equal(made.selection.weight, start.selection.weight)


@pytest.mark.parametrize(
    "text, message",
    [
        ("pasages = 8", "Did you mean passages"),
        ("nul_span = 1", "Did you mean null_span"),
        ("learning_rate = 1", "Did you mean rate"),
        ("temperature = 1", "unknown key 'temperature'"),  # a retriever's
        ("spans = 'most'", "choose one of 'all', 'best'"),
        ("null = 1.0", "not including, 1"),
        ("passages = 0", "at least 1"),
        ("longest = 0", "at least 1"),
    ],
)
def test_recipes_with_mistakes(tmp_path, text, message):
    path = tmp_path / "recipe.toml"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        recipes.load(ReaderRecipe, path)


def test_recipes_come_back_as_they_went(files, tmp_path):
    chosen = recipe(files, tmp_path, spans="best", selection_only=True, null=0.1)
    (tmp_path / "r.toml").write_text(recipes.dump(chosen))
    assert recipes.load(ReaderRecipe, tmp_path / "r.toml") == chosen


def test_a_plain_qa_model_is_a_start_and_gets_a_head_for_selection(files, tmp_path):
    from mundap.models.reader_checkpoint import open_reader
    from mundap.training.reader import train
    from tests.models.test_reader_checkpoint import make_plain_qa

    make_plain_qa(tmp_path / "qa", "bert")
    train(recipe(files, tmp_path / "run", start=str(tmp_path / "qa"), steps=1))
    loaded = open_reader(tmp_path / "run" / "model")
    assert loaded.layout == "dpr"
    assert loaded.model.selection.weight.shape == (1, 32)


def test_joint_training_moves_the_question_side_and_leaves_the_passage_side(files, tmp_path):
    from mundap.models.checkpoint import open_checkpoint
    from mundap.models.reader_checkpoint import open_reader
    from mundap.training.reader import train

    retriever = str(files / "start")
    train(recipe(files, tmp_path / "run", retriever=retriever, steps=3, dev=()))
    assert open_reader(tmp_path / "run" / "model").model.selection is not None
    before = open_checkpoint(files / "start").network.state_dict()
    moved = {}
    for role in ("question", "passage"):
        after = open_checkpoint(tmp_path / "run" / "retriever", role).network.state_dict()
        moved[role] = max(float((after[key] - before[key]).abs().max()) for key in after)
    assert moved["passage"] == 0
    assert moved["question"] > 1e-4
