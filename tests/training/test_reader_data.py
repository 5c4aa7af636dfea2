"""What a reader learns from: files of any kind into examples, examples into groups, answers into tokens."""

import json
import math
from collections import Counter

import numpy as np
import pytest

from mundap.datasets.examples import writing
from mundap.errors import MundapError
from mundap.records import Context, Example, Question
from mundap.text.answers import find_answers, has_answer
from mundap.training.recipe import DataSet
from tests.training.test_reader import COMMON, example, files, gradients, loaded, make_learner, recipe

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch
__all__ = ["files"]  # fixtures


@pytest.fixture(scope="module")
def real_tokenizer():
    from mundap.models import folder
    from mundap.models.tokenizer import open_tokenizer

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
    from mundap.reader.inputs import Windows
    from mundap.training.reader_data import _tokens_of

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
        for first, last in _tokens_of(window, places):
            span = window.offsets[first - window.first, 0], window.offsets[last - window.first, 1]
            found.add(tuple(map(int, span)))
    # Some window has each of them whole, and none has half of one; of an accent that no token has, the run time
    # takes care.
    assert found == {(a, b - whole[a:b].count("\u0308")) for a, b in places}


def test_a_span_over_the_edge_of_a_window_is_left_out(real_tokenizer):
    from mundap.models.folder import ReaderConfig
    from mundap.reader.inputs import Windows
    from mundap.training.reader_data import _tokens_of

    made = Windows(real_tokenizer, ReaderConfig(name="t", max_length=13, question_length=4, stride=0))
    (rows,) = made.of("q", [("", "a b c d e f g h i j k l m n")])
    assert [len(window.offsets) for window in rows] == [9, 5]
    text = "a b c d e f g h i j k l m n"
    edge, inside = (text.index("i"), text.index("j") + 1), (text.index("j"), text.index("k") + 1)
    assert _tokens_of(rows[0], [edge, inside]) == []
    assert _tokens_of(rows[1], [edge, inside]) == [(4, 5)]


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
    for _ in range(2):  # the second time from what was rewritten
        source, found = loaded(tmp_path / "results.json", tmp_path / "scratch")
        assert source.left_out == {"no passage of the question has the answer": 1}
    assert [one.question.text for one in found] == ["what is old?", "어디?"]
    assert [context.id for context in found[0].positives] == ["wiki:2"]
    assert [context.id for context in found[0].hard] == ["wiki:1", "wiki:3"]


def test_dprs_training_files_are_learnt_from(files, tmp_path):
    rng = np.random.default_rng(1)
    made = [example(number, rng) for number in range(5)]
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


def test_a_file_that_has_changed_is_read_again(tmp_path):
    path = tmp_path / "train.json"
    for text in ("Rome is old.", "Oslo is so cold."):
        path.write_text(json.dumps(squad((text, {"q": text[:4]}))))
        assert loaded(path, tmp_path / "scratch")[1][0].positives[0].text == text


@pytest.mark.parametrize(
    "rows, why",
    [
        ([{"question": "a?", "answers": ["a"], "ctxs": [{"docid": "1", "score": 2}]}], "the passages have no text"),
        ([{"question": "a?", "answers": ["a"], "ctxs": [{"text": "b"}]}], "no passage of the question has the answer"),
        ([{"question": "a?", "answers": ["a"]}], "`mundap data make`"),
    ],
)
def test_a_file_with_nothing_to_learn_from_says_why(tmp_path, rows, why):
    (tmp_path / "x.json").write_text(json.dumps(rows))
    with pytest.raises(MundapError, match=why) as caught:
        loaded(tmp_path / "x.json", tmp_path / "scratch")
    assert str(caught.value).startswith(str(tmp_path / "x.json"))


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
    stream = learner._batches._iterate(0)
    return [group for _ in range(count) for group in next(stream).groups]


def test_about_the_told_share_of_the_questions_has_no_answer_among_its_passages(files, tmp_path):
    for share in (0.0, 0.5):
        found = groups(recipe(files, tmp_path / str(share), no_answer_ratio=share), 50)
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
    assert batches.batches_per_epoch == 5

    def rows(batch):
        return [window.ids for group in batch.groups for window in group.windows]

    whole = [rows(batch) for batch, _ in zip(batches._iterate(0), range(12), strict=False)]
    later = [rows(batch) for batch, _ in zip(batches.batches_from(7), range(5), strict=False)]
    assert later == whole[7:]
    assert sorted(map(str, whole[0:5])) != sorted(map(str, whole[5:10]))


def test_without_negatives_of_their_own_questions_take_those_of_their_neighbours(tmp_path, files):
    path = tmp_path / "squad.json"
    paragraphs = [(f"{letter} is the {letter}{letter} here", {f"q{letter}": f"{letter}{letter}"}) for letter in COMMON]
    path.write_text(json.dumps(squad(*paragraphs)))
    chosen = recipe(files, tmp_path, train=(DataSet(str(path)),), dev=(), batch_size=4, no_answer_ratio=0.0)
    for group in groups(chosen, 6):
        assert len(group.windows) == 3
        assert group.passages[0].text not in [one.text for one in group.passages[1:]]
        assert not any(has_answer(one.text, group.question.answers) for one in group.passages[1:])


def test_a_passage_is_never_its_own_negative(files, tmp_path):
    """Data for ranking has no answers: two questions on one passage, and a list with it among the wrong ones."""
    shared, other = Context("1", "t", "a b c"), Context("2", "t", "d e f")
    asked = [(shared, ()), (shared, (shared,)), (other, ()), (shared, ())]
    with writing(tmp_path / "ranking.jsonl", "dpr-jsonl") as write:
        for n, (positive, hard) in enumerate(asked):
            write(Example(Question(str(n), f"n {n}", ()), (positive,), hard))
    data = (DataSet(str(tmp_path / "ranking.jsonl")),)
    chosen = recipe(files, tmp_path, train=data, dev=(), batch_size=4, no_answer_ratio=0.0, selection_only=True)
    found = groups(chosen, 6)
    assert len(found) == 24
    assert all(len({one.text for one in group.passages}) == len(group.passages) == 2 for group in found)


def test_dev_questions_of_squads_shape_compete_with_their_neighbours(tmp_path):
    """The passages of the questions next to it, without the answer and each once; the same ones each time."""
    from mundap.training.reader_data import dev_questions

    paragraphs = [
        ("Rome is old.", {"q1": "Rome", "q2": "old"}),
        ("Oslo is cold and old.", {"q3": "Oslo", "q4": "cold"}),
        ("Bonn is small.", {"q5": "Bonn"}),
    ]
    (tmp_path / "dev.json").write_text(json.dumps(squad(*paragraphs)))
    source, _ = loaded(tmp_path / "dev.json", tmp_path / "scratch")

    def texts(limit, passages):
        return [[one.text.split()[0] for one in row.passages] for row in dev_questions(source, limit, passages)]

    assert texts(5, 4) == [
        ["Rome", "Oslo", "Bonn"],
        ["Rome", "Bonn"],  # Oslo is old too
        ["Oslo", "Bonn", "Rome"],
        ["Oslo", "Bonn", "Rome"],
        ["Bonn", "Rome", "Oslo"],
    ]
    assert texts(5, 1) == texts(5, 2) == [row[:2] for row in texts(5, 4)]
    assert texts(1, 4) == [["Rome"]]  # nobody else was asked


def test_dev_questions_with_negatives_of_their_own_keep_them(files, tmp_path):
    from mundap.training.reader_data import dev_questions

    source, rows = loaded(files / "dev.jsonl", tmp_path / "scratch")
    found = dev_questions(source, 100, 4)
    assert [row.passages for row in found] == [(one.positives[0], *one.hard) for one in rows]


def test_a_positive_in_which_the_answer_is_not_found_is_selected_but_its_span_is_left_open(files, tmp_path):
    """The answer is there, in other words: that no span is right would be a lie."""
    with writing(tmp_path / "other.jsonl", "dpr-jsonl") as write:
        for n in range(4):
            write(Example(Question(str(n), "n o", ("absent",)), (Context("", "t", f"a b {COMMON[n]}"),)))
    data = (DataSet(str(tmp_path / "other.jsonl")),)
    chosen = recipe(
        files,
        tmp_path,
        train=data,
        dev=(),
        batch_size=4,
        num_passages=1,
        no_answer_ratio=0.0,
        no_answer_span_weight=5.0,
        dropout=0.0,
    )
    seen, found, learner, batch = gradients(chosen)
    assert [(group.target, group.spans) for group in batch.groups] == [(0, [[]])] * 4
    total = 0.0
    for group in batch.groups:
        ids = torch.tensor([group.windows[0].ids])
        score = float(learner.model(ids, torch.ones_like(ids))[2])
        total -= math.log(math.exp(score) / (1 + math.exp(score)))
    assert seen.loss == pytest.approx(total / 4, rel=1e-4)
    assert "spans.weight" not in found or found["spans.weight"].abs().max() == 0
