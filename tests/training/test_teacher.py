"""A teacher's opinions in the learner's tokens, and what is learnt from them."""

import dataclasses

import numpy as np
import pytest

from mundap.datasets.examples import writing
from mundap.errors import UsageError
from mundap.reader.inputs import Window
from mundap.reader.runtime import Scored
from mundap.training.recipe import DataSet, ReaderRecipe

torch = pytest.importorskip("torch")
pytest.importorskip("transformers")
pytestmark = pytest.mark.torch


def window(first, *offsets):
    count = first + len(offsets)
    return Window(list(range(count)), [0] * count, first, np.array(offsets).reshape(-1, 2))


def test_opinions_are_moved_to_the_tokens_they_are_in():
    from mundap.training.teacher import _aligned

    # "in New York City": the learner's tokens are the words, the teacher's are parts of them, after one more token.
    own = window(2, (0, 2), (3, 6), (7, 11), (12, 16))
    theirs = window(3, (0, 2), (3, 5), (5, 6), (7, 11), (12, 14), (14, 16))
    with np.errstate(divide="ignore"):
        starts = np.log(np.array([0.1, 0, 0, 0, 0.6, 0.2, 0.1, 0, 0]))
        ends = np.log(np.array([0.1, 0.05, 0, 0, 0, 0, 0.2, 0.25, 0.4]))
    found = _aligned(Scored(theirs, starts, ends, 1.5), own)
    assert found.starts == pytest.approx([0.1, 0, 0, 0.8, 0.1, 0])
    assert found.ends == pytest.approx(np.array([0.1, 0, 0, 0, 0.2, 0.65]) / 0.95)  # the question's .05 does not count
    assert found.selection == 1.5


def test_of_several_windows_the_nearest_is_taken():
    from mundap.training.teacher import _nearest

    scored = [
        Scored(window(1, *((n, n + 1) for n in part)), np.zeros(1), np.zeros(1), 0.0)
        for part in (range(0, 40), range(20, 60), range(40, 70))
    ]
    assert _nearest(scored, window(1, *((n, n + 1) for n in range(30, 62)))) is scored[1]
    assert _nearest(scored[:1], window(1)) is scored[0]


@pytest.fixture(scope="module")
def taught(tmp_path_factory):
    """Examples that fit into a window, a reader, and the same reader as a teacher."""
    from mundap.reader.export import export_reader
    from tests.encoder.test_export import make_checkpoint
    from tests.training.test_reader import example, make_learner, recipe

    folder = tmp_path_factory.mktemp("taught")
    make_checkpoint(folder / "start")
    rng = np.random.default_rng(4)
    for name in ("a", "dev"):
        with writing(folder / f"{name}.jsonl", "dpr-jsonl") as write:
            for number in range(1, 10):
                write(example(number, rng))
    chosen = recipe(folder, folder / "run", dropout=0.0, no_answer_ratio=0.4)
    make_learner(chosen).save(folder / "reader")
    export_reader(folder / "reader", folder / "teacher", precisions=["fp32"])
    return folder, dataclasses.replace(chosen, teacher=str(folder / "teacher"), teacher_weight=1.0)


def test_who_thinks_as_the_teacher_has_nothing_to_learn(taught):
    """The gradient of a cross-entropy with one's own shares is 0; a learner that thinks otherwise has one."""
    from tests.training.test_reader import make_learner

    folder, chosen = taught

    def slope(**changes):
        learner = make_learner(dataclasses.replace(chosen, **changes))
        learner.model.train()
        learner.backward(next(learner._batches._iterate(0)), 1.0)
        return max(float(p.grad.abs().max()) for p in learner.model.parameters() if p.grad is not None)

    same, other = slope(base_model=str(folder / "reader")), slope(seed=99)
    assert same < 1e-4 < 1e-2 < other
    assert slope(base_model=str(folder / "reader"), teacher_weight=0.5) > 1e-2  # the answers' share is learnt as ever


def test_a_teacher_of_spans_alone(taught):
    """Only windows with the answer are shown to it; selection and "no answer" come from the labels."""
    from mundap.training.reader_loss import ReaderLoss
    from mundap.training.teacher import Teacher
    from tests.training.test_reader import make_learner

    folder, chosen = taught
    chosen = dataclasses.replace(chosen, base_model=str(folder / "reader"), distil="spans")
    learner = make_learner(chosen)
    groups = next(learner._batches._iterate(0)).groups
    told = Teacher(chosen.teacher, spans_only=True).predict(groups)
    answered = [bool(spans) for group in groups for spans in group.spans]
    assert [one is not None for one in told] == answered
    assert 0 < sum(answered) < len(answered)

    def selection(distil, teacher):
        group = groups[0]
        loss = ReaderLoss([group], dataclasses.replace(chosen, distil=distil), teacher, "cpu")
        return float(loss._selection_loss(group, torch.arange(len(group.windows), dtype=torch.float32), 0))

    every = Teacher(chosen.teacher).predict(groups)
    assert selection("spans", told) == selection("all", None)
    assert selection("all", every) != pytest.approx(selection("all", None))

    learner.model.train()
    learner.backward(next(learner._batches._iterate(0)), 1.0)
    slopes = {name: float(p.grad.abs().max()) for name, p in learner.model.named_parameters() if p.grad is not None}
    assert slopes["selection.weight"] > 1e-2


def test_training_brings_the_learner_near_the_teacher(taught):
    from mundap.training.reader import train
    from tests.training.test_reader import make_learner

    folder, chosen = taught
    chosen = dataclasses.replace(chosen, seed=99, output_dir=str(folder / "near"), max_steps=25, epochs=40, dev=())
    learner = make_learner(chosen)
    batch = next(learner._batches._iterate(0))
    before = learner.backward(batch, 1.0).loss
    least = make_learner(dataclasses.replace(chosen, base_model=str(folder / "reader"))).backward(batch, 1.0).loss
    done = train(chosen)
    after = make_learner(dataclasses.replace(chosen, base_model=done.model)).backward(batch, 1.0).loss
    assert least < after < least + 0.5 * (before - least)


def test_who_cannot_teach_is_refused(taught):
    from mundap.training.teacher import Teacher

    folder, _ = taught
    with pytest.raises(UsageError, match="share"):
        ReaderRecipe(train=(DataSet("x"),), teacher_weight=1.5)
    with pytest.raises(UsageError, match="selection_only"):
        ReaderRecipe(teacher="x", selection_only=True)
    config = (folder / "teacher" / "config.json").read_text()
    (folder / "teacher" / "config.json").write_text(
        config.replace('"head"', '"null"').replace('"config.json"', '"edited"')
    )
    try:
        with pytest.raises(UsageError, match="how well a passage fits"):
            Teacher(str(folder / "teacher"))
    finally:
        (folder / "teacher" / "config.json").write_text(config)
