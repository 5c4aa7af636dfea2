"""The marginal likelihood over passages and spans: by enumeration, its gradients, its groups, its recipes."""

import dataclasses
import math

import numpy as np
import pytest

from mundap.errors import UsageError
from mundap.records import Context, Example, Question
from mundap.text.answers import has_answer
from mundap.training.recipe import ReaderRecipe
from tests.training.test_reader import Alone, files, gradients, loaded, make_learner, recipe

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
__all__ = ["files"]  # fixtures

LONGEST = 3


def group_of(sizes, spans, answering):
    """A group whose windows have so many tokens of text behind two of the question."""
    from mundap.reader.inputs import Window
    from mundap.training.reader_data import Group

    windows = [Window([1] * (2 + size), [0] * (2 + size), 2, np.zeros((size, 2), np.int64)) for size in sizes]
    return Group(windows, spans, 0, Question("1", "q", ("a",)), [Context()] * len(sizes), "string", answering)


def enumerated(group, logits, retrieval, weight):
    """The loss and the shares of the passages, in float64, span by span."""
    right, every = 0.0, 0.0
    for window, spans, (starts, ends, chosen), score in zip(group.windows, group.spans, logits, retrieval, strict=True):
        for first in range(window.first, len(window.ids)):
            for last in range(first, min(first + LONGEST, len(window.ids))):
                share = math.exp(score + chosen + starts[first] + ends[last])
                every += share
                if (first, last) in spans:
                    right += share
    early = sum(map(math.exp, retrieval[: group.answering])) / sum(map(math.exp, retrieval))
    full = 0.0
    if right:
        full = -math.log(right / every)
    return full - weight * math.log(early)


# The span (2, 6) is longer than an answer may be; a window without text has no spans.
GROUPS = (
    ([5, 3, 4], [[(2, 2), (4, 5)], [(3, 4)], []], 2),
    ([6, 2, 0], [[(2, 6), (4, 6)], [], []], 1),
    ([6, 2], [[(2, 6)], []], 1),  # nothing to find: only the early loss is left
)


def test_the_loss_by_enumeration_of_all_spans():
    from mundap.training.marginal_loss import MarginalLoss

    rng = np.random.default_rng(3)
    groups = [group_of(*one) for one in GROUPS]
    settings = ReaderRecipe(
        span_loss="global_marginal", no_answer_ratio=0.0, max_answer_length=LONGEST, retriever_weight=0.5
    )
    windows = [window for group in groups for window in group.windows]
    width = max(len(window.ids) for window in windows)
    starts, ends = rng.normal(0, 2, (2, len(windows), width))
    chosen = rng.normal(0, 2, len(windows))
    retrieval = [rng.normal(0, 2, len(group.windows)) for group in groups]
    order = rng.permutation(len(windows)).tolist()  # they are run in an order and in chunks of the trainer's
    chunks = [order[:3], order[3:]]
    outputs = [tuple(torch.tensor(part[chunk]) for part in (starts, ends, chosen)) for chunk in chunks]
    scores = [torch.tensor(row) for row in retrieval]
    total, ranks = MarginalLoss(groups, settings, torch.device("cpu"), scores).of(chunks, outputs)
    plain, _ = MarginalLoss(groups, settings, torch.device("cpu")).of(chunks, outputs)
    expected, without, first = 0.0, 0.0, 0
    for group, row in zip(groups, retrieval, strict=True):
        last = first + len(group.windows)
        logits = list(zip(starts[first:last], ends[first:last], chosen[first:last], strict=True))
        expected += enumerated(group, logits, row.tolist(), 0.5)
        without += enumerated(group, logits, [0.0] * len(row), 0.0)
        first = last
    assert float(total) == pytest.approx(expected, rel=1e-9)
    assert float(plain) == pytest.approx(without, rel=1e-9)
    assert len(ranks) == 3


def test_a_batch_without_any_span_to_find_has_a_gradient_of_nothing():
    from mundap.training.marginal_loss import MarginalLoss

    settings = ReaderRecipe(span_loss="global_marginal", no_answer_ratio=0.0, max_answer_length=LONGEST)
    logits = [torch.zeros((2, 8), requires_grad=True) for _ in range(2)]
    loss = MarginalLoss([group_of([6, 0], [[], []], 1)], settings, torch.device("cpu"))
    total, _ = loss.of([[0, 1]], [(*logits, torch.zeros(2, requires_grad=True))])
    total.backward()
    assert float(total.detach()) == 0
    assert not logits[0].grad.abs().max() > 0


def chosen_recipe(files, out, **changes):
    facts = {"span_loss": "global_marginal", "no_answer_ratio": 0.0, "dropout": 0.0, "dev": ()}
    return recipe(files, out, **{**facts, **changes})


def joint_learner(files, tmp_path, **changes):
    from mundap.training.joint import JointLearner

    return JointLearner(chosen_recipe(files, tmp_path, retriever=str(files / "start"), **changes), Alone(), tmp_path)


def largest(module):
    """The largest gradient of a part, 0 if it has none."""
    found = [float(one.grad.abs().max()) for one in module.parameters() if one.grad is not None]
    return max(found, default=0.0)


@pytest.mark.parametrize("early", [0.0, 1.0])
def test_the_gradient_reaches_reader_and_question_encoder_alone(files, tmp_path, early):
    """With the weight of the early loss at 0, the question encoder learns through the reader's likelihood alone."""
    learner = joint_learner(files, tmp_path, retriever_weight=early)
    learner.backward(next(learner.batches_from(0)), 1.0)
    assert largest(learner.model["reader"].spans) > 1e-4
    assert largest(learner.model["reader"].selection) > 1e-5
    assert largest(learner.model["question"]) > 1e-5
    assert largest(learner._retriever.passage) == 0
    assert learner._retriever.passage is not learner._retriever.question


def test_the_joint_gradient_is_that_of_the_loss_written_out(files, tmp_path):
    """In one graph, a text at a time: against chunks, caching and the cut between vectors and network."""
    from mundap.training.marginal_loss import MarginalLoss

    learner = joint_learner(files, tmp_path, grad_cache=4)
    with torch.no_grad():  # both towers begin alike: which of them encodes passages would not show
        for one in learner.model["question"].parameters():
            one += 0.05 * torch.randn_like(one)
    batch = next(learner.batches_from(0))
    seen = learner.backward(batch, 1.0)
    found = {name: one.grad.clone() for name, one in learner.model.named_parameters() if one.grad is not None}
    learner.model.zero_grad()
    dual, scores, outputs = learner._retriever, [], []
    for group in batch.groups:
        (asked,) = learner._tokens.questions([group.question.text])
        texts = learner._tokens.passages([(one.title, one.text) for one in group.passages])
        with torch.no_grad():
            vectors = torch.cat([dual.passage(torch.tensor([text])) for text in texts])
        scores.append(dual.scores(dual.question(torch.tensor([asked])), vectors)[0])
        for window in group.windows:
            ids = torch.tensor([window.ids])
            outputs.append(learner.reader(ids, torch.ones_like(ids)))
    loss = MarginalLoss(batch.groups, learner._recipe, torch.device("cpu"), scores)
    total, _ = loss.of([[number] for number in range(len(outputs))], outputs)
    (total / batch.examples).backward()
    assert seen.loss == pytest.approx(float(total.detach()) / batch.examples, rel=1e-4)
    for name, one in learner.model.named_parameters():
        if one.grad is not None:
            assert torch.allclose(found[name], one.grad, rtol=1e-3, atol=1e-5), name


def test_two_processes_add_up_without_a_retriever(files, tmp_path):
    settings = chosen_recipe(files, tmp_path)
    seen, whole, _, _ = gradients(settings)
    parts = [gradients(settings, rank, 2) for rank in (0, 1)]
    assert seen.loss == pytest.approx(sum(part[0].loss for part in parts), rel=1e-5)
    for name, gradient in whole.items():
        assert torch.allclose(gradient, parts[0][1][name] + parts[1][1][name], rtol=1e-3, atol=1e-5), name


def test_groups_have_all_kinds_of_passages_those_with_the_answer_first(files, tmp_path):
    """Several positives are in one group, with their spans, and which are drawn changes with the epoch."""
    from mundap.datasets.examples import writing
    from mundap.training.recipe import DataSet

    _, examples = loaded(files / "a.jsonl", tmp_path / "scratch")
    path = tmp_path / "several.jsonl"
    with writing(path, "dpr-jsonl") as write:
        for one in examples[:16]:
            (answer,) = one.question.answers
            more = tuple(Context(f"m{n}", "t", f"{'a b ' * n} {answer} c") for n in range(2))
            write(Example(one.question, (*one.positives, *more), one.hard))
    learner = make_learner(chosen_recipe(files, tmp_path, train=(DataSet(str(path)),)))
    counts, drawn = set(), set()
    stream = learner._batches._iterate(0)
    for _ in range(6):
        for group in next(stream).groups:
            assert len(group.windows) == len(group.passages) == 3
            assert len({one.text for one in group.passages}) == 3
            has = [has_answer(one.text, group.question.answers, group.match) for one in group.passages]
            assert has == [number < group.answering for number in range(3)]
            assert [bool(places) for places in group.spans] == has
            counts.add(group.answering)
            drawn.add((group.question.id, *sorted(one.text for one in group.passages)))
    assert counts == {1, 2, 3}
    assert len(drawn) > 20


def test_training_by_the_marginal_likelihood_learns_to_read_and_moves_the_question_side(files, tmp_path):
    from mundap.encoder.checkpoints import open_checkpoint
    from mundap.training.reader import train

    seen = []
    settings = chosen_recipe(files, tmp_path / "run", retriever=str(files / "start"), epochs=4)
    train(settings, seen.append)
    assert seen[-1].result.loss < seen[0].result.loss / 2
    before = open_checkpoint(files / "start").network.state_dict()
    moved = {}
    for role in ("question", "passage"):
        after = open_checkpoint(tmp_path / "run" / "retriever", role).network.state_dict()
        moved[role] = max(float((after[key] - before[key]).abs().max()) for key in after)
    assert moved["passage"] == 0
    assert moved["question"] > 1e-4


@pytest.mark.parametrize(
    "changes, message",
    [
        ({"no_answer_ratio": 0.25}, "set no_answer_ratio = 0"),
        ({"selection_only": True}, "leave out selection_only and teacher"),
        ({"teacher": "large"}, "leave out selection_only and teacher"),
        ({"num_passages": 1}, "num_passages to 2 or more"),
    ],
)
def test_recipes_that_make_no_sense_with_it(changes, message):
    fine = ReaderRecipe(span_loss="global_marginal", no_answer_ratio=0.0)
    with pytest.raises(UsageError, match=message):
        dataclasses.replace(fine, **changes)
