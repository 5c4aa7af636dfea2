"""Which examples are in which batch, and which passages of it are negatives."""

import dataclasses
import json

import numpy as np
import pytest

from mundap.datasets.examples import writing
from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.training.recipe import DataSet, RetrieverRecipe
from tests.training.parts import example, recipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


def test_false_negatives_are_masked(files):
    from mundap.training.batches import excluded_mask

    def one(n, text, answer, hard=()):
        return Example(Question(str(n), "q", (answer,)), (Context("", "", text),), hard)

    examples = [one(0, "the king", "king"), one(1, "a king too", "too"), one(2, "the king", "king"), one(3, "x", "x")]
    columns = [e.positives[0] for e in examples] + [Context("", "", "a river")]
    targets = np.arange(4)
    masked = excluded_mask(examples, columns, [0, 1, 2, 3, 0], targets, RetrieverRecipe(), ["string"] * 4)
    assert masked.tolist() == [
        [False, True, True, False, False],  # 1 has the answer, 2 is the same passage
        [False, False, True, False, False],  # of copies one counts
        [True, True, False, False, False],
        [False, False, True, False, False],
    ]
    own = excluded_mask(
        examples,
        columns,
        [0, 1, 2, 3, 0],
        targets,
        RetrieverRecipe(in_batch_negatives=False, mask_false_negatives=False),
        ["string"] * 4,
    )
    assert own[0].tolist() == [False, True, True, True, False]
    assert own[3].tolist() == [True, True, True, False, True]


def test_questions_of_one_passage_share_it_in_any_number_of_processes(files, tmp_path):
    from mundap.training import losses, towers
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile
    from mundap.training.tokens import Tokens

    rng = np.random.default_rng(7)
    base = [example(n, rng) for n in range(6)]
    with writing(tmp_path / "shared.jsonl", "dpr-jsonl") as write:
        for number in range(24):  # four questions a passage
            asked = dataclasses.replace(base[number % 6].question, id=str(number), text=f"question {number}")
            write(dataclasses.replace(base[number % 6], question=asked))
    chosen = recipe(
        files, tmp_path, train=(DataSet(str(tmp_path / "shared.jsonl")),), questions_per_passage=4, batch_size=8
    )
    model, tokenizer = towers.build(chosen)
    model.eval()
    tokens = Tokens(tokenizer, chosen)
    sets = [ExampleFile(one, None) for one in chosen.train]

    def loss(world):
        parts = [next(RetrieverBatches(sets, chosen, tokens, rank, world)._iterate(0)) for rank in range(world)]
        asked, found = (
            [ids for part in parts for ids in part.questions],
            [ids for part in parts for ids in part.passages],
        )
        with torch.no_grad():
            vectors = [torch.cat([model.question(torch.tensor([ids]), torch.ones(1, len(ids))) for ids in asked])]
            vectors += [torch.cat([model.passage(torch.tensor([ids]), torch.ones(1, len(ids))) for ids in found])]
            targets, excluded = torch.from_numpy(parts[0].targets), torch.from_numpy(parts[0].excluded)
            return float(losses.nll(model.scores(*vectors), targets, excluded).mean()), len(found)

    alone, passages = loss(1)
    assert passages == 4  # two positives and a negative of each, for eight questions
    assert loss(2)[0] == pytest.approx(alone, rel=1e-5)
    assert loss(8)[0] == pytest.approx(alone, rel=1e-5)  # every process has its own copy, of which one counts
    with pytest.raises(UsageError, match="in_batch"):
        dataclasses.replace(chosen, in_batch_negatives=False)
    spread = dataclasses.replace(chosen, questions_per_passage=1)
    assert len(next(RetrieverBatches(sets, spread, tokens)._iterate(0)).passages) > passages


def test_neighbours_are_questions_on_one_article(files, tmp_path):
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile

    rng = np.random.default_rng(7)
    with writing(tmp_path / "articles.jsonl", "dpr-jsonl") as write:
        for number in range(32):
            one = example(number, rng)
            positive = dataclasses.replace(one.positives[0], title=f"article {number % 4}" if number < 24 else "")
            write(dataclasses.replace(one, positives=(positive,)))
    chosen = recipe(
        files,
        tmp_path,
        train=(DataSet(str(tmp_path / "articles.jsonl")),),
        questions_per_article=6,
        group_by_length=False,
    )
    order = RetrieverBatches([ExampleFile(one, None) for one in chosen.train], chosen, None)._epoch_order(0)[:, 1]
    assert sorted(order) == list(range(32))
    places = {number: place for place, number in enumerate(order.tolist())}
    for article in range(4):
        own = sorted(places[number] for number in range(article, 24, 4))
        assert own == list(range(own[0], own[0] + 6))
    rest = sorted(places[number] for number in range(24, 32))
    assert rest != list(range(rest[0], rest[0] + 8))  # passages without a title are no article


def test_batches_hold_passages_of_one_length_whatever_the_length_of_the_negatives(files, tmp_path):
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile

    rows = []
    sizes = np.random.default_rng(0).integers(5, 400, 64).tolist()
    for number, size in enumerate(sizes):
        positive, negative = "word " * (100 if number % 2 else 10), "word " * size
        rows.append({"question": f"q{number}", "answers": [], "positive_ctxs": [{"title": "", "text": positive}],
                     "hard_negative_ctxs": [{"title": "", "text": negative + str(number)}]})  # fmt: skip
    (tmp_path / "lengths.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    chosen = recipe(files, tmp_path, train=(DataSet(str(tmp_path / "lengths.jsonl")),))
    order = RetrieverBatches([ExampleFile(one, None) for one in chosen.train], chosen, None)._epoch_order(0)[:, 1]
    kinds = (order % 2).reshape(-1, chosen.batch_size)
    assert (kinds.min(1) == kinds.max(1)).all()
    assert sorted(order.tolist()) == list(range(64))


def test_an_example_taken_twice_is_not_beside_itself(files, tmp_path):
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile

    chosen = recipe(files, tmp_path, questions_per_passage=8, group_by_length=False)
    batches = RetrieverBatches([ExampleFile(one, None) for one in chosen.train], chosen, None)
    order = batches._epoch_order(0)
    assert len(np.unique(order, axis=0)) == 40 + 12 == len(order) - 12
    beside = (order[1:] == order[:-1]).all(1)
    assert not beside.any()


def test_batches_are_the_same_from_any_step_and_sets_are_weighted(files, tmp_path):
    from mundap.training import towers
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile
    from mundap.training.tokens import Tokens

    chosen = recipe(files, tmp_path)
    _, tokenizer = towers.build(chosen)
    tokens = Tokens(tokenizer, chosen)
    batches = RetrieverBatches([ExampleFile(one, None) for one in chosen.train], chosen, tokens)
    assert batches.batches_per_epoch == (40 + 2 * 12) // 8
    whole = [batch for batch, _ in zip(batches._iterate(0), range(20), strict=False)]
    later = [batch for batch, _ in zip(batches.batches_from(7), range(13), strict=False)]
    assert [b.passages for b in later] == [b.passages for b in whole[7:]]
    order = batches._epoch_order(0)
    assert np.bincount(order[:, 0]).tolist() == [40, 24]
    assert (np.unique(order, axis=0, return_counts=True)[1].max()) == 2
    assert not np.array_equal(order, batches._epoch_order(1))


def test_gold_negatives_are_positives_of_questions_outside_the_batch(files, tmp_path):
    from mundap.training import towers
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile
    from mundap.training.tokens import Tokens

    chosen = recipe(
        files, tmp_path, in_batch_negatives=False, hard_negatives=0, gold_negatives=3, mask_false_negatives=False
    )
    sets = [ExampleFile(one, None) for one in chosen.train]
    _, tokenizer = towers.build(chosen)
    batches = RetrieverBatches(sets, chosen, Tokens(tokenizer, chosen))
    places = batches._epoch_order(0)[:8].tolist()
    batch = batches._collate(places, 0)
    assert (~batch.excluded).sum(1).tolist() == [4] * 8  # the positive and three negatives, all its own
    in_batch = {sets[a][b].positives[0].text for a, b in places}
    positives = {sets[a][b].positives[0].text for a in (0, 1) for b in range(len(sets[a]))}
    for place in places:
        example = sets[place[0]][place[1]]
        drawn = [one.text for one in batches._gold_negatives(example, 0, place, places)]
        assert len(set(drawn)) == 3
        assert set(drawn) <= positives - in_batch
        assert not any(example.question.answers[0] in text.split() for text in drawn)
    other_epoch = batches._gold_negatives(sets[0][0], 1, [0, 0], places)
    assert other_epoch != batches._gold_negatives(sets[0][0], 0, [0, 0], places)


def test_a_limit_draws_the_same_examples_each_epoch_and_larger_ones_contain_smaller_ones(files, tmp_path):
    from mundap.training.batches import RetrieverBatches
    from mundap.training.examples import ExampleFile

    def questions(count, seed=0):
        one = ExampleFile(DataSet(str(files / "a.jsonl"), max_examples=count, sample_seed=seed), None)
        return [one[number].question.id for number in range(len(one))]

    ten, twenty = questions(10), questions(20)
    assert (len(ten), len(twenty), len(questions(1000))) == (10, 20, 40)
    assert set(ten) < set(twenty)
    assert questions(10) == ten != questions(10, seed=1)
    chosen = recipe(files, tmp_path, train=(DataSet(str(files / "a.jsonl"), max_examples=10),), batch_size=5)
    batches = RetrieverBatches([ExampleFile(chosen.train[0], None)], chosen, None)
    epochs = [set(batches._epoch_order(epoch)[:, 1].tolist()) for epoch in range(3)]
    assert epochs == [set(range(10))] * 3


def test_examples_are_parsed_once(files, tmp_path, monkeypatch):
    from mundap.training import examples

    read = []
    parse = examples.examples.example
    monkeypatch.setattr(examples.examples, "example", lambda *row: read.append(row) or parse(*row))
    whole = examples.ExampleFile(DataSet(str(files / "b.jsonl")), None)
    known = [whole[number] for number in range(len(whole))] * 2
    assert len(read) == len(whole) == 12
    monkeypatch.setattr(examples, "_IN_MEMORY", 10)  # a larger file is read when an example is drawn
    drawn = examples.ExampleFile(DataSet(str(files / "b.jsonl")), None)
    assert [drawn[number] for number in range(12)] * 2 == known
    assert len(read) == 12 + 12 + 12 + 12  # the scan, the first ones for how answers are matched, and the draws
