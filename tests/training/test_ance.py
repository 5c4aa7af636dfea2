"""ANCE on a tiny real checkpoint: two real processes, kill -9, repeatable runs, and each part by its definition."""

import json
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.training import recipe as recipes
from mundap.training.recipe import AnceRecipe, DataSet
from tests.training.test_retriever import Alone, files  # noqa: F401

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


@pytest.fixture(scope="module")
def pool(files, tmp_path_factory):  # noqa: F811
    """An index with all passages of the training files and some others; short ones."""
    from mundap.index.index import Index

    folder = tmp_path_factory.mktemp("pool")
    rows, seen = ["id\ttext\ttitle"], set()
    for name in ("a", "b"):
        for line in (files / f"{name}.jsonl").read_text().splitlines():
            found = json.loads(line)
            for context in found["positive_ctxs"] + found["hard_negative_ctxs"]:
                if context["text"] not in seen:
                    seen.add(context["text"])
                    rows.append(f"{name}{len(seen)}\t{context['text']}\t{context['title']}")
    (folder / "passages.tsv").write_text("\n".join(rows) + "\n")
    Index.build([folder / "passages.tsv"], folder / "index", model="none")
    return folder / "index"


def recipe(files, pool, out, **changes):  # noqa: F811
    facts = {
        "train": (DataSet(str(files / "a.jsonl")), DataSet(str(files / "b.jsonl"))),
        "out": str(out),
        "start": str(files / "start"),
        "index": str(pool),
        "batch": 8,
        "epochs": 100,
        "rate": 1e-3,
        "question_length": 16,
        "passage_length": 48,
        "shard": 60,
        "depth": 20,
    }
    return AnceRecipe(**{**facts, **changes})


def inferencer(chosen, meeting, **options):
    from mundap.training.ance.inferencer import Inferencer
    from mundap.training.batches import ExampleFile

    sets = [ExampleFile(one, None) for one in chosen.train]
    return Inferencer(chosen, sets, meeting, torch.device("cpu"), **options), sets


def weights(chosen):
    from mundap.training import towers

    return towers.build(chosen)[0]


def log_of(folder):
    rows = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [(row["step"], row.get("loss"), row.get("stale")) for row in rows if "loss" in row]


def start(folder, *more, code=None, **options):
    program = ["-c", code] if code else ["-m", "mundap"]
    command = [sys.executable, *program, "train", "ance", str(folder / "recipe.toml"), *more]
    return subprocess.Popen(command, stderr=subprocess.PIPE, stdout=subprocess.PIPE, text=True, **options)


def finish(process):
    out, errors = process.communicate(timeout=200)
    assert process.returncode == 0, errors
    return out


def wait_for(what, seconds=90):
    until = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < until
        time.sleep(0.02)


SABOTAGE = """
import os, signal
from mundap.training.ance import meeting
def die(path, data):
    os.kill(os.getpid(), signal.SIGKILL)
meeting.write_atomic = die
from mundap.cli import run
run()
"""


def test_both_may_be_killed_at_any_moment(files, pool, tmp_path):  # noqa: F811
    """Processes of their own: an inferencer dies between its files and the rename, later the trainer between steps."""
    chosen = recipe(files, pool, tmp_path / "out", steps=60, refresh=10, checkpoint=1e-4)
    (tmp_path / "recipe.toml").write_text(recipes.dump(chosen))
    meeting = tmp_path / "out" / "ance"
    trainer, second = start(tmp_path, "--only", "trainer", "--json"), None
    try:
        wait_for((meeting / "weights" / "step-00000000.safetensors").exists)
        trainer.send_signal(signal.SIGSTOP)
        killed = start(tmp_path, "--only", "inferencer", code=SABOTAGE)
        killed.communicate(timeout=90)
        assert killed.returncode == -signal.SIGKILL
        left = sorted(path.name for path in (meeting / "negatives").iterdir())
        assert left and all(name.startswith(".") for name in left)  # half a generation, which nobody reads
        done = len(list((meeting / "rounds").glob("*/*.npy")))
        assert done >= 4  # the shards it had encoded are not lost

        second = start(tmp_path, "--only", "inferencer")
        wait_for(lambda: any(not path.name.startswith(".") for path in (meeting / "negatives").iterdir()))
        trainer.send_signal(signal.SIGCONT)
        wait_for((tmp_path / "out" / "checkpoints" / "step-00000025").exists)
        trainer.kill()
        trainer.communicate()
        trainer = start(tmp_path, "--only", "trainer", "--json")
        figures = json.loads(finish(trainer))
        finish(second)  # it leaves by itself when the trainer has finished
    finally:
        for process in (trainer, second):
            if process and process.poll() is None:
                process.kill()
    assert figures["steps"] == 60
    assert figures["resumed"] > 20
    ages = [age for _, _, age in log_of(tmp_path / "out")]
    assert len(ages) == 60
    used = [number for number, age in enumerate(ages) if age is not None]
    assert used and all(ages[number] is not None for number in range(used[0], 60))  # once there, always there
    generations = {number - ages[number] for number in used}
    assert generations <= set(range(0, 60, 10))
    assert 0 in generations
    assert not list((meeting / "negatives").glob(".*"))
    assert (tmp_path / "out" / "model" / "config.json").exists()


def test_one_command_runs_both_and_leaves_no_process(files, pool, tmp_path):  # noqa: F811
    chosen = recipe(files, pool, tmp_path / "out", steps=60, refresh=20)
    (tmp_path / "recipe.toml").write_text(recipes.dump(chosen))
    process = start(tmp_path, "--json", env=dict(os.environ, MUNDAP_THREADS="2"))
    meeting = tmp_path / "out" / "ance"
    wait_for((meeting / "weights" / "step-00000000.safetensors").exists)
    process.send_signal(signal.SIGSTOP)  # it would be done before the other has loaded its libraries
    wait_for(lambda: list((meeting / "negatives").glob("step-*")))
    process.send_signal(signal.SIGCONT)
    assert json.loads(finish(process))["steps"] == 60
    rows = log_of(tmp_path / "out")
    generations = {step - 1 - age for step, _, age in rows if age is not None}
    assert generations, "no negatives arrived in time"
    assert all(generation % 20 == 0 for generation in generations)
    kept = list((tmp_path / "out" / "ance" / "negatives").glob("step-*"))
    assert 1 <= len(kept) <= 3
    alive = subprocess.run(["pgrep", "-f", str(tmp_path / "out" / "ance" / "recipe.toml")], capture_output=True)
    assert alive.stdout == b""


CODE = (
    "import sys; from mundap.training.ance import run; from mundap.training import recipe\n"
    "run.train(recipe.load(recipe.AnceRecipe, sys.argv[3]), lambda p: print(p.step, flush=True))"
)


def run_watched(folder, kill_at=None):
    process = start(folder, code=CODE)
    for line in process.stdout:
        if kill_at is not None and line.strip() == str(kill_at):
            process.send_signal(signal.SIGKILL)
            break
    process.communicate(timeout=200)
    return process.returncode


def test_the_synchronous_mode_repeats_itself_also_after_kill(files, pool, tmp_path):  # noqa: F811
    curves = []
    for name, kill in (("whole", None), ("killed", 13)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, pool, folder / "out", steps=18, refresh=5, own=3, synchronous=True, dropout=0.1,
                        checkpoint=1e-4, hard=2)  # fmt: skip
        (folder / "recipe.toml").write_text(recipes.dump(chosen))
        if kill:
            assert run_watched(folder, kill) == -signal.SIGKILL
        assert run_watched(folder) == 0
        curves.append(log_of(folder / "out"))
    assert curves[0] == curves[1]
    assert [age for _, _, age in curves[0]] == [None] * 3 + [0, 1, 2, 3, 4] * 3


@pytest.mark.slow
def test_two_processes_of_torchrun_share_rounds_and_batches(files, pool, tmp_path):  # noqa: F811
    curves = []
    for name, processes in (("one", 0), ("two", 2)):
        folder = tmp_path / name
        folder.mkdir()
        chosen = recipe(files, pool, folder / "out", steps=6, refresh=3, synchronous=True, dropout=0.0, hard=2)
        (folder / "recipe.toml").write_text(recipes.dump(chosen))
        tool = ["torch.distributed.run", "--nproc-per-node", "2", "--standalone", "-m"] if processes else []
        command = [sys.executable, "-m", *tool, "mundap", "train", "ance", str(folder / "recipe.toml")]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200)
        assert done.returncode == 0, done.stderr
        curves.append(log_of(folder / "out"))
    for (step, loss, age), (step2, loss2, age2) in zip(*curves, strict=True):
        assert (step, age) == (step2, age2)
        assert loss == pytest.approx(loss2, rel=2e-3)  # of two near neighbours either may be the 20th


@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_published_negatives_are_the_nearest_wrong_passages(files, pool, tmp_path, similarity):  # noqa: F811
    """Against the model's own scores of every question with every passage of the index, counted out."""
    from mundap.index.index import Index
    from mundap.text.answers import has_answer
    from mundap.text.overlap import containment, shingles
    from mundap.training.ance.meeting import Meeting
    from mundap.training.ance.negatives import Generation
    from mundap.training.batches import Tokens
    from mundap.training.towers import build

    chosen = recipe(files, pool, tmp_path, similarity=similarity)
    meeting = Meeting(tmp_path / "ance")
    model, tokenizer = build(chosen)
    meeting.put_weights(7, model)
    one, sets = inferencer(chosen, meeting)
    one.round(meeting.next_round())
    found = Generation.open(meeting, 7)
    assert found.step == 7
    index = Index(pool)
    passages = list(index.passages())
    tokens = Tokens(tokenizer, chosen)
    model.eval()

    def vectors(tower, texts):
        with torch.no_grad():
            return torch.cat([tower(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)) for ids in texts])

    corpus = vectors(model.passage, tokens.passages([(passage.title, passage.text) for passage in passages]))
    examples = [part[number] for part in sets for number in range(len(part))]
    for row in (0, 17, 45):
        example = examples[row]
        question = vectors(model.question, tokens.questions([example.question.text]))
        scores = model.scores(question, corpus)[0].numpy()
        right = {positive.text for positive in example.positives}
        wrong = [
            number
            for number in np.argsort(-scores)[:20]
            if passages[number].text not in right
            and not has_answer(passages[number].text, example.question.answers, "string")
            and all(containment(shingles(passages[number].text), shingles(text)) < 0.8 for text in right)
        ]
        kept = found.numbers[row][found.numbers[row] >= 0]
        texts = [context.text for context in one_corpus(chosen, kept)]
        assert 10 < len(kept) <= 20
        missed = {passages[number].text: scores[number] for number in wrong if passages[number].text not in texts}
        last = np.sort(scores)[-20]
        assert all(score - last < 1e-4 for score in missed.values())  # of near neighbours either is the 20th
        assert len(missed) <= 3
        assert not set(texts) & right
        assert not any(has_answer(text, example.question.answers, "string") for text in texts)
        assert (np.diff(found.scores[row][: len(kept)]) <= 1e-5).all()


def one_corpus(chosen, numbers):
    from mundap.training.ance.corpus import ShardedCorpus

    corpus = ShardedCorpus(chosen)
    return [corpus.context(number) for number in numbers.tolist()]


def test_several_inferencers_share_a_round_and_one_publishes(files, pool, tmp_path):  # noqa: F811
    from mundap.training.ance.meeting import Meeting

    chosen = recipe(files, pool, tmp_path, shard=15)
    Meeting(tmp_path / "ance").put_weights(0, weights(chosen))
    told = []
    crew = [inferencer(chosen, Meeting(tmp_path / "ance"), tell=told.append)[0] for _ in range(3)]
    threads = [threading.Thread(target=one.round, args=(0,)) for one in crew]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    counts = Counter(one.what for one in told)
    encoded = [what for what in counts if what.startswith("encoding")]
    assert len(encoded) >= 8
    assert all(counts[what] == 1 for what in encoded)
    assert counts["published"] == 1
    assert Meeting(tmp_path / "ance").published() == [0]


def test_text_is_tokenised_once(files, pool, tmp_path, monkeypatch):  # noqa: F811
    from mundap.training.ance.meeting import Meeting
    from mundap.training.batches import Tokens

    chosen = recipe(files, pool, tmp_path)
    meeting = Meeting(tmp_path / "ance")
    meeting.put_weights(0, weights(chosen))
    inferencer(chosen, meeting)[0].round(0)
    kept = {path.name: path.stat().st_mtime_ns for path in meeting.tokens.iterdir()}
    assert len(kept) >= 3
    monkeypatch.setattr(Tokens, "passages", lambda *_: pytest.fail("tokenised again"))
    meeting.put_weights(5, weights(chosen))
    inferencer(chosen, meeting)[0].round(5)
    assert {path.name: path.stat().st_mtime_ns for path in meeting.tokens.iterdir()} == kept


def test_old_generations_are_swept_and_a_damaged_one_is_not_read(files, pool, tmp_path):  # noqa: F811
    from mundap.training.ance.meeting import Meeting
    from mundap.training.ance.negatives import Generation

    chosen = recipe(files, pool, tmp_path)
    meeting = Meeting(tmp_path / "ance")
    model = weights(chosen)
    arrays = {"numbers": np.zeros((2, 3), np.int64), "scores": np.zeros((2, 3), np.float32)}
    for step in (0, 10, 20, 30):
        meeting.put_weights(step, model)
        meeting.publish(step, arrays, {"index": 1})
    meeting.sweep(30, needed=15, weights_too=True)
    assert meeting.published() == [10, 20, 30]  # a checkpoint of step 15 would go on with 10
    assert meeting.has_weights(10)
    meeting.sweep(30, needed=30, weights_too=False)
    assert meeting.published() == [20, 30]
    assert not meeting.has_weights(0)
    path = tmp_path / "ance" / "negatives" / "step-00000030" / "numbers.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert Generation.open(meeting, 30) is None
    assert Generation.open(meeting, 20) is not None
    meeting.begin(20)  # the trainer was killed, and its checkpoint is older: what came later is of a lost run
    assert not meeting.has_weights(30)
    assert meeting.published() == [20]
    meeting.publish(40, arrays, {"index": 1})  # by an inferencer that did not know
    meeting.sweep(20, needed=20, weights_too=False)
    assert meeting.published() == [20]


def test_sampling_by_rank_and_by_margin(files, pool, tmp_path):  # noqa: F811
    from mundap.training.ance.negatives import Generation

    numbers = np.array([[10, 11, 12, 13, 14, -1]])
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0, -np.inf]], np.float32)
    one = Generation(0, 1, numbers, scores, np.array([4.5], np.float32))

    def drawn(**changes):
        chosen = recipe(files, pool, tmp_path, depth=6, last=6, **changes)
        return {n for seed in range(60) for n in one.sample(0, chosen, random.Random(seed))}

    assert drawn() == {10, 11, 12, 13, 14}
    assert drawn(sampling="window", first=2, **{"hard": 1}) == {11, 12, 13, 14}
    assert drawn(sampling="margin", gap=1.0) == {10, 11}
    assert drawn(sampling="margin", gap=0.0) == {10}
    assert len(one.sample(0, recipe(files, pool, tmp_path, hard=9), random.Random(0))) == 5


@pytest.mark.parametrize("kind", ["exact", "ivf"])
def test_search_finds_the_best_chunk_of_each_document(tmp_path, kind):
    from mundap.training.ance.search import Vectors, nearest

    chance = np.random.default_rng(0)
    vectors = chance.normal(size=(4000, 16)).astype(np.float32)
    owners = np.repeat(np.arange(1000, dtype=np.int64), 4) * 3
    questions = chance.normal(size=(30, 16)).astype(np.float32)
    shards = []
    for number, rows in enumerate(np.split(np.arange(4000), [1600])):
        path = tmp_path / f"{number}.npy"
        np.save(path, vectors[rows])
        shards.append(Vectors(path, owners[rows]))
    found, scores = nearest(questions, shards, 10, kind, torch.device("cpu"))
    truth = (questions @ vectors.T).reshape(30, 1000, 4).max(2)
    best = np.argsort(-truth, 1)[:, :10]
    shared = np.mean([len(set(a) & set(b * 3)) / 10 for a, b in zip(found, best, strict=True)])
    assert shared == 1.0 if kind == "exact" else shared > 0.8
    for row in range(30):
        assert scores[row] == pytest.approx(truth[row, found[row] // 3], rel=1e-4)


def test_the_best_chunk_counts_in_training(files, tmp_path):  # noqa: F811
    """MaxP: the score of a passage is the largest of its chunks', and only that chunk learns."""
    from mundap.training import towers
    from mundap.training.batches import Batches, ExampleFile, Tokens
    from mundap.training.recipe import Recipe
    from mundap.training.step import Step

    chosen = Recipe(train=(DataSet(str(files / "a.jsonl")),), start=str(files / "start"), out=str(tmp_path), batch=8,
                    question_length=16, passage_length=24, chunks=3, chunk_words=7, dropout=0.0, hard=2)  # fmt: skip
    model, tokenizer = towers.build(chosen)
    tokens = Tokens(tokenizer, chosen)
    batch = next(Batches([ExampleFile(chosen.train[0], None)], chosen, tokens)._from(0))
    assert len(batch.passages) > batch.left_out.shape[1]
    assert max(Counter(batch.owners.tolist()).values()) == 3
    seen = Step(model, chosen, Alone(), tokens.pad).backward(batch)
    found = {name: parameter.grad.clone() for name, parameter in model.named_parameters() if parameter.grad is not None}
    model.zero_grad()

    def vectors(texts):
        return torch.cat(
            [model.question(torch.tensor([ids]), torch.ones(1, len(ids), dtype=torch.long)) for ids in texts]
        )

    scores = vectors(batch.questions) @ vectors(batch.passages).T
    best = torch.stack(
        [scores[:, torch.from_numpy(batch.owners == n)].amax(1) for n in range(batch.left_out.shape[1])], 1
    )
    best = best.masked_fill(torch.from_numpy(batch.left_out), -torch.inf)
    loss = torch.nn.functional.cross_entropy(best, torch.from_numpy(batch.targets))
    loss.backward()
    assert seen.loss == pytest.approx(float(loss.detach()), rel=1e-4)
    for name, parameter in model.named_parameters():
        if parameter.grad is not None:
            assert torch.allclose(found[name], parameter.grad, rtol=1e-3, atol=2e-5), name


def test_documents_of_several_chunks_from_index_to_negatives(files, tmp_path):  # noqa: F811
    """MaxP: index with --chunks, negatives are documents, and search by document takes the best chunk."""
    from mundap.index.index import Index
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.meeting import Meeting
    from mundap.training.ance.negatives import Generation

    rows = [
        json.dumps({"_id": f"d{n}", "title": "t", "text": " ".join(f"w{n}x{m}" for m in range(30))}) for n in range(50)
    ]
    (tmp_path / "corpus.jsonl").write_text("\n".join(rows) + "\n")
    Index.build([tmp_path / "corpus.jsonl"], tmp_path / "i", model="none", words=7, chunks=3)
    index = Index(tmp_path / "i")
    assert len(index) == 150  # three of five chunks each; rows are cut too where chunks were asked for
    chosen = recipe(files, tmp_path / "i", tmp_path / "out", chunks=3, chunk_words=7)
    corpus = ShardedCorpus(chosen)
    assert all(len(np.unique(corpus.rows(shard)[1])) * 3 == len(corpus.rows(shard)[1]) for shard in corpus.shards)
    meeting = Meeting(tmp_path / "ance")
    meeting.put_weights(0, weights(chosen))
    inferencer(chosen, meeting)[0].round(0)
    found = Generation.open(meeting, 0)
    context = corpus.context(int(found.numbers[0][0]))
    assert context.text.split()[0].endswith("x0") and len(context.text.split()) == 21
    assert len(set(found.numbers[0].tolist()) - {-1}) == 20
    with pytest.raises(UsageError, match="--words 9 --chunks 3"):
        ShardedCorpus(recipe(files, tmp_path / "i", tmp_path / "out", chunks=3, chunk_words=9))


def test_a_positive_cut_otherwise_is_no_negative(files, pool, tmp_path):  # noqa: F811
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.negatives import Sieve

    corpus = ShardedCorpus(recipe(files, pool, tmp_path))
    numbers = corpus.shards[0].numbers[:5].tolist()
    text = max((corpus.context(number).text for number in numbers), key=len)
    which = next(number for number in numbers if corpus.context(number).text == text)
    cut = Example(Question("q", "?", ()), (Context("elsewhere", "", text[: len(text) * 3 // 4]),))
    kept = Sieve(corpus).wrong(cut, numbers, "string")
    assert which not in [numbers[position] for position in kept]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"refresh": 0}, "refresh = 0"),
        ({"sampling": "window", "first": 5, "last": 3}, "window from rank 5"),
        ({"hard": 0}, "hard = 0"),
        ({"own": -1}, "own and gap"),
    ],
)
def test_nonsense_is_refused(files, pool, tmp_path, changes, message):  # noqa: F811
    with pytest.raises(UsageError, match=message):
        recipe(files, pool, tmp_path, **changes)


def test_a_damaged_generation_is_made_again_in_the_synchronous_mode(files, pool, tmp_path):  # noqa: F811
    from mundap.training.ance.meeting import Meeting
    from mundap.training.ance.trainer import train

    chosen = recipe(files, pool, tmp_path, steps=4, refresh=2, synchronous=True, accumulate=2)
    meeting = Meeting(tmp_path / "ance")
    arrays = {"numbers": np.zeros((52, 20), np.int64), "scores": np.zeros((52, 20), np.float32)}
    meeting.publish(0, arrays, {"index": 1})
    path = tmp_path / "ance" / "negatives" / "step-00000000" / "numbers.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    done = train(chosen)
    assert done.steps == 4
    assert [age for _, _, age in log_of(tmp_path)] == [1, 1, 1, 1]  # two batches a step, a refresh each


def test_an_index_that_changes_within_a_round_mixes_nothing_up(files, pool, tmp_path):  # noqa: F811
    """Vectors are kept by the state of the index they were made from."""
    import shutil

    from mundap.index.build import delete
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.meeting import Meeting
    from mundap.training.ance.negatives import Generation

    shutil.copytree(pool, tmp_path / "i")
    chosen = recipe(files, tmp_path / "i", tmp_path / "out")
    meeting = Meeting(tmp_path / "ance")
    meeting.put_weights(0, weights(chosen))
    first, _ = inferencer(chosen, meeting)
    meeting.next_round()
    first._encode_what_is_free(0, meeting.round(0), ShardedCorpus(chosen), None)
    gone = ShardedCorpus(chosen).context(3).id
    delete(tmp_path / "i", documents=[gone])
    second, _ = inferencer(chosen, meeting)
    second.round(0)
    found = Generation.open(meeting, 0)
    assert 3 not in found.numbers
    other = Meeting(tmp_path / "other")
    other.put_weights(0, weights(chosen))
    inferencer(chosen, other)[0].round(other.next_round())
    assert np.array_equal(Generation.open(other, 0).numbers, found.numbers)
