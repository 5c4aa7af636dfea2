"""Negatives by their definition, and the folder they are handed over in."""

import dataclasses
import random
import shutil
import threading
from collections import Counter

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from tests.training.ance.parts import inferencer, log_of, recipe, weights

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("similarity", ["dot", "cosine", "l2"])
def test_published_negatives_are_the_nearest_wrong_passages(files, pool, tmp_path, similarity):
    """Against the model's own scores of every question with every passage of the index, counted out."""
    from mundap.index.index import Index
    from mundap.text.answers import has_answer
    from mundap.text.overlap import containment, shingles
    from mundap.training.ance.exchange import ExchangeFolder
    from mundap.training.ance.negatives import Generation
    from mundap.training.tokens import Tokens
    from mundap.training.towers import build

    chosen = recipe(files, pool, tmp_path, similarity=similarity)
    exchange = ExchangeFolder(tmp_path / "ance")
    model, tokenizer = build(chosen)
    exchange.put_weights(7, model)
    one, sets = inferencer(chosen, exchange)
    one.round(exchange.next_round())
    found = Generation.open(exchange, 7)
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


def test_several_inferencers_share_a_round_and_one_publishes(files, pool, tmp_path):
    from mundap.training.ance.exchange import ExchangeFolder

    chosen = recipe(files, pool, tmp_path, shard_size=15)
    ExchangeFolder(tmp_path / "ance").put_weights(0, weights(chosen))
    told = []
    crew = [inferencer(chosen, ExchangeFolder(tmp_path / "ance"), tell=told.append)[0] for _ in range(3)]
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
    assert ExchangeFolder(tmp_path / "ance").published() == [0]


def test_text_is_tokenised_once(files, pool, tmp_path, monkeypatch):
    from mundap.encoder.inputs import EncoderInputs
    from mundap.training.ance.exchange import ExchangeFolder

    chosen = recipe(files, pool, tmp_path)
    exchange = ExchangeFolder(tmp_path / "ance")
    exchange.put_weights(0, weights(chosen))
    inferencer(chosen, exchange)[0].round(0)
    kept = {path.name: path.stat().st_mtime_ns for path in exchange.tokens.iterdir()}
    assert len(kept) >= 3
    monkeypatch.setattr(EncoderInputs, "passages", lambda *_: pytest.fail("tokenised again"))
    exchange.put_weights(5, weights(chosen))
    inferencer(chosen, exchange)[0].round(5)
    assert {path.name: path.stat().st_mtime_ns for path in exchange.tokens.iterdir()} == kept


def test_tokens_of_texts_that_are_gone_are_swept(files, pool, tmp_path):
    from mundap.index.build import compact, delete
    from mundap.training.ance.exchange import ExchangeFolder

    shutil.copytree(pool, tmp_path / "i")
    chosen = recipe(files, tmp_path / "i", tmp_path / "out", shard_size=1000)
    exchange = ExchangeFolder(tmp_path / "ance")
    exchange.put_weights(0, weights(chosen))
    inferencer(chosen, exchange)[0].round(0)
    before = {path.name for path in exchange.tokens.iterdir()}
    assert len(before) == 1
    delete(tmp_path / "i", documents=[one_corpus(chosen, np.array([3]))[0].id])
    compact(tmp_path / "i")
    exchange.put_weights(5, weights(chosen))
    inferencer(chosen, exchange)[0].round(5)
    after = {path.name for path in exchange.tokens.iterdir()}
    assert len(after) == 1 and not after & before


def test_negatives_of_another_recipe_are_named_and_not_used(files, pool, tmp_path, caplog):
    """An inferencer on another machine has another recipe: its lists are of other numbers of questions, or scores."""
    from mundap.training.ance.exchange import ExchangeFolder
    from mundap.training.ance.trainer import train

    chosen = recipe(files, pool, tmp_path, max_steps=3, refresh_batches=10)
    exchange = ExchangeFolder(tmp_path / "ance")
    exchange.put_weights(0, weights(chosen))
    inferencer(dataclasses.replace(chosen, similarity="cosine", train=chosen.train[:1]), exchange)[0].round(0)
    train(chosen)
    assert "questions [40], not [40, 12]; similarity cosine, not dot" in caplog.text
    assert [age for _, _, age in log_of(tmp_path)] == [None] * 3


def test_old_generations_are_swept_and_a_damaged_one_is_not_read(files, pool, tmp_path):
    from mundap.training.ance.exchange import ExchangeFolder
    from mundap.training.ance.negatives import Generation

    chosen = recipe(files, pool, tmp_path)
    exchange = ExchangeFolder(tmp_path / "ance")
    model = weights(chosen)
    arrays = {"numbers": np.zeros((2, 3), np.int64), "scores": np.zeros((2, 3), np.float32)}
    for step in (0, 10, 20, 30):
        exchange.put_weights(step, model)
        exchange.publish(step, arrays, {"index": 1, "settings": {}})
    exchange.sweep(30, needed=15, weights_too=True)
    assert exchange.published() == [10, 20, 30]  # a checkpoint of step 15 would go on with 10
    assert exchange.has_weights(10)
    exchange.sweep(30, needed=30, weights_too=False)
    assert exchange.published() == [20, 30]
    assert not exchange.has_weights(0)
    path = tmp_path / "ance" / "negatives" / "step-00000030" / "numbers.npy"
    path.write_bytes(path.read_bytes()[:-1] + b"\x07")
    assert Generation.open(exchange, 30) is None
    assert Generation.open(exchange, 20) is not None
    exchange.begin(20)  # the trainer was killed, and its checkpoint is older: what came later is of a lost run
    assert not exchange.has_weights(30)
    assert exchange.published() == [20]
    exchange.publish(40, arrays, {"index": 1, "settings": {}})  # by an inferencer that did not know
    exchange.sweep(20, needed=20, weights_too=False)
    assert exchange.published() == [20]


def test_sampling_by_rank_and_by_margin(files, pool, tmp_path):
    from mundap.training.ance.negatives import Generation

    numbers = np.array([[10, 11, 12, 13, 14, -1]])
    scores = np.array([[5.0, 4.0, 3.0, 2.0, 1.0, -np.inf]], np.float32)
    one = Generation(0, 1, {}, numbers, scores, np.array([4.5], np.float32))

    def drawn(**changes):
        chosen = recipe(files, pool, tmp_path, top_k=6, last_rank=6, **changes)
        return {n for seed in range(60) for n in one.sample(0, chosen, random.Random(seed))}

    assert drawn() == {10, 11, 12, 13, 14}
    assert drawn(sampling="window", first_rank=2, **{"hard_negatives": 1}) == {11, 12, 13, 14}
    assert drawn(sampling="margin", score_gap=1.0) == {10, 11}
    assert drawn(sampling="margin", score_gap=0.0) == {10}
    assert len(one.sample(0, recipe(files, pool, tmp_path, hard_negatives=9), random.Random(0))) == 5


def test_a_positive_cut_otherwise_is_no_negative(files, pool, tmp_path):
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.negatives import NegativeFilter

    corpus = ShardedCorpus(recipe(files, pool, tmp_path))
    numbers = corpus.shards[0].numbers[:5].tolist()
    text = max((corpus.context(number).text for number in numbers), key=len)
    which = next(number for number in numbers if corpus.context(number).text == text)
    cut = Example(Question("q", "?", ()), (Context("elsewhere", "", text[: len(text) * 3 // 4]),))
    kept = NegativeFilter(corpus).positions(cut, numbers, "string")
    assert which not in [numbers[position] for position in kept]


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"refresh_batches": 0}, "refresh_batches = 0"),
        ({"sampling": "window", "first_rank": 5, "last_rank": 3}, "window from rank 5"),
        ({"hard_negatives": 0}, "hard_negatives = 0"),
        ({"static_negative_batches": -1}, "static_negative_batches = -1"),
    ],
)
def test_nonsense_is_refused(files, pool, tmp_path, changes, message):
    with pytest.raises(UsageError, match=message):
        recipe(files, pool, tmp_path, **changes)


def test_an_index_that_changes_within_a_round_mixes_nothing_up(files, pool, tmp_path):
    """Vectors are kept by the state of the index they were made from."""
    from mundap.index.build import delete
    from mundap.training.ance.corpus import ShardedCorpus
    from mundap.training.ance.exchange import ExchangeFolder
    from mundap.training.ance.negatives import Generation

    shutil.copytree(pool, tmp_path / "i")
    chosen = recipe(files, tmp_path / "i", tmp_path / "out")
    exchange = ExchangeFolder(tmp_path / "ance")
    exchange.put_weights(0, weights(chosen))
    first, _ = inferencer(chosen, exchange)
    exchange.next_round()
    first._encode_unclaimed(0, exchange.round(0), ShardedCorpus(chosen), None)
    gone = ShardedCorpus(chosen).context(3).id
    delete(tmp_path / "i", documents=[gone])
    second, _ = inferencer(chosen, exchange)
    second.round(0)
    found = Generation.open(exchange, 0)
    assert 3 not in found.numbers
    other = ExchangeFolder(tmp_path / "other")
    other.put_weights(0, weights(chosen))
    inferencer(chosen, other)[0].round(other.next_round())
    assert np.array_equal(Generation.open(other, 0).numbers, found.numbers)
