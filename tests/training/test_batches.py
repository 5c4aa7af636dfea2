"""Which examples are in which batch, and which passages of it are negatives."""

import dataclasses

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.training.formats import writing
from mundap.training.recipe import DataSet, Recipe
from tests.training.parts import example, recipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


def test_false_negatives_are_masked(files):
    from mundap.training.batches import left_out

    def one(n, text, answer, hard=()):
        return Example(Question(str(n), "q", (answer,)), (Context("", "", text),), hard)

    examples = [one(0, "the king", "king"), one(1, "a king too", "too"), one(2, "the king", "king"), one(3, "x", "x")]
    columns = [e.positives[0] for e in examples] + [Context("", "", "a river")]
    targets = np.arange(4)
    masked = left_out(examples, columns, [0, 1, 2, 3, 0], targets, Recipe(), ["string"] * 4)
    assert masked.tolist() == [
        [False, True, True, False, False],  # 1 has the answer, 2 is the same passage
        [False, False, True, False, False],  # of copies one counts
        [True, True, False, False, False],
        [False, False, True, False, False],
    ]
    own = left_out(examples, columns, [0, 1, 2, 3, 0], targets, Recipe(in_batch=False, mask=False), ["string"] * 4)
    assert own[0].tolist() == [False, True, True, True, False]
    assert own[3].tolist() == [True, True, True, False, True]


def test_questions_of_one_passage_share_it_in_any_number_of_processes(files, tmp_path):
    from mundap.training import losses, towers
    from mundap.training.batches import Batches, Tokens
    from mundap.training.examples import ExampleFile

    chance = np.random.default_rng(7)
    base = [example(n, chance) for n in range(6)]
    with writing(tmp_path / "shared.jsonl", "dpr-jsonl") as write:
        for number in range(24):  # four questions a passage
            asked = dataclasses.replace(base[number % 6].question, id=str(number), text=f"question {number}")
            write(dataclasses.replace(base[number % 6], question=asked))
    chosen = recipe(files, tmp_path, train=(DataSet(str(tmp_path / "shared.jsonl")),), together=4, batch=8)
    model, tokenizer = towers.build(chosen)
    model.eval()
    tokens = Tokens(tokenizer, chosen)
    sets = [ExampleFile(one, None) for one in chosen.train]

    def loss(world):
        parts = [next(Batches(sets, chosen, tokens, rank, world)._from(0)) for rank in range(world)]
        asked, found = (
            [ids for part in parts for ids in part.questions],
            [ids for part in parts for ids in part.passages],
        )
        with torch.no_grad():
            vectors = [torch.cat([model.question(torch.tensor([ids]), torch.ones(1, len(ids))) for ids in asked])]
            vectors += [torch.cat([model.passage(torch.tensor([ids]), torch.ones(1, len(ids))) for ids in found])]
            targets, left_out = torch.from_numpy(parts[0].targets), torch.from_numpy(parts[0].left_out)
            return float(losses.nll(model.scores(*vectors), targets, left_out).mean()), len(found)

    alone, passages = loss(1)
    assert passages == 4  # two positives and a negative of each, for eight questions
    assert loss(2)[0] == pytest.approx(alone, rel=1e-5)
    assert loss(8)[0] == pytest.approx(alone, rel=1e-5)  # every process has its own copy, of which one counts
    with pytest.raises(UsageError, match="in_batch"):
        dataclasses.replace(chosen, in_batch=False)
    spread = dataclasses.replace(chosen, together=1)
    assert len(next(Batches(sets, spread, tokens)._from(0)).passages) > passages


def test_neighbours_are_questions_on_one_article(files, tmp_path):
    from mundap.training.batches import Batches
    from mundap.training.examples import ExampleFile

    chance = np.random.default_rng(7)
    with writing(tmp_path / "articles.jsonl", "dpr-jsonl") as write:
        for number in range(32):
            one = example(number, chance)
            positive = dataclasses.replace(one.positives[0], title=f"article {number % 4}" if number < 24 else "")
            write(dataclasses.replace(one, positives=(positive,)))
    chosen = recipe(files, tmp_path, train=(DataSet(str(tmp_path / "articles.jsonl")),), neighbours=6, group=False)
    order = Batches([ExampleFile(one, None) for one in chosen.train], chosen, None)._order(0)[:, 1]
    assert sorted(order) == list(range(32))
    places = {number: place for place, number in enumerate(order.tolist())}
    for article in range(4):
        own = sorted(places[number] for number in range(article, 24, 4))
        assert own == list(range(own[0], own[0] + 6))
    rest = sorted(places[number] for number in range(24, 32))
    assert rest != list(range(rest[0], rest[0] + 8))  # passages without a title are no article


def test_an_example_taken_twice_is_not_beside_itself(files, tmp_path):
    from mundap.training.batches import Batches
    from mundap.training.examples import ExampleFile

    chosen = recipe(files, tmp_path, together=8, group=False)
    batches = Batches([ExampleFile(one, None) for one in chosen.train], chosen, None)
    order = batches._order(0)
    assert len(np.unique(order, axis=0)) == 40 + 12 == len(order) - 12
    beside = (order[1:] == order[:-1]).all(1)
    assert not beside.any()


def test_batches_are_the_same_from_any_step_and_sets_are_weighted(files, tmp_path):
    from mundap.training import towers
    from mundap.training.batches import Batches, Tokens
    from mundap.training.examples import ExampleFile

    chosen = recipe(files, tmp_path)
    _, tokenizer = towers.build(chosen)
    tokens = Tokens(tokenizer, chosen)
    batches = Batches([ExampleFile(one, None) for one in chosen.train], chosen, tokens)
    assert batches.an_epoch == (40 + 2 * 12) // 8
    whole = [batch for batch, _ in zip(batches._from(0), range(20), strict=False)]
    later = [batch for batch, _ in zip(batches.since(7), range(13), strict=False)]
    assert [b.passages for b in later] == [b.passages for b in whole[7:]]
    order = batches._order(0)
    assert np.bincount(order[:, 0]).tolist() == [40, 24]
    assert (np.unique(order, axis=0, return_counts=True)[1].max()) == 2
    assert not np.array_equal(order, batches._order(1))
