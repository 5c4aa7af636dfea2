"""The choice among spans of several passages, with scores made by hand."""

import math
import re

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mundap.models.folder import ReaderConfig
from mundap.reader.answers import rank, selection
from mundap.reader.confidence import FEATURES, confidence
from mundap.reader.inputs import Window
from mundap.reader.runtime import Scored

FIRST = 3  # [CLS], a word of the question, [SEP]
LOW = -20.0


def scored(text, spans, selected=0.0, pieces=r"\S+", null=LOW):
    """A window over the whole text; `spans` says for a piece, or for (first, last) piece, the logit of each end."""
    places = [match.span() for match in re.finditer(pieces, text)]
    found = [text[start:end] for start, end in places]
    starts, ends = np.full(FIRST + len(places), LOW), np.full(FIRST + len(places), LOW)
    starts[0] = ends[0] = null
    for span, logit in spans.items():
        first, last = span if isinstance(span, tuple) else (span, span)
        starts[FIRST + found.index(first)] = logit
        ends[FIRST + found.index(last)] = logit
    ids = list(range(len(starts)))
    window = Window(ids, [0] * len(ids), FIRST, np.array(places, np.int64).reshape(-1, 2))
    return Scored(window, starts, ends, selected)


def config(**changes):
    return ReaderConfig(name="test", **changes)


def ranked(passages, retrieval=None, **changes):
    """Texts of the answers with their candidates, for (text, scored...) passages; but for words nobody likes."""
    texts = [text for text, *_ in passages]
    read = [windows for _, *windows in passages]
    found = rank(texts, read, retrieval or [0.0] * len(texts), config(**changes))
    return [(texts[one.passage][one.start : one.end], one) for one in found if one.span > 1e-6]


def simple(text, spans, selected=0.0, **options):
    return text, scored(text, spans, selected, **options)


def test_the_passage_decides_or_the_product_does():
    """A passage that is a little better, with a span that is much worse."""
    better = simple("maybe Rome maybe Oslo maybe Bonn", {"Rome": 1.0, "Oslo": 0.9, "Bonn": 0.8}, 2.0)
    surer = simple("surely Paris", {"Paris": 5.0}, 1.5)
    assert ranked([surer, better], ranking="selection")[0][0] == "Rome"
    assert ranked([surer, better], ranking="product")[0][0] == "Paris"


def test_scores_are_products_of_probabilities():
    first = simple("Rome or Oslo", {"Rome": 1.0, "Oslo": 0.0}, 0.7)
    second = simple("Bonn", {"Bonn": 0.0}, 0.2)
    found = dict(ranked([first, second]))
    chosen = math.exp(0.7) / (math.exp(0.7) + math.exp(0.2))
    rest = 4 * math.exp(LOW)  # [CLS], the question, [SEP] and "or"
    rome = math.e / (math.e + 1 + rest)
    assert found["Rome"].selection == pytest.approx(chosen)
    assert found["Rome"].span == pytest.approx(rome**2)
    assert found["Rome"].score == pytest.approx(math.log(chosen * rome**2))
    assert found["Oslo"].score == pytest.approx(math.log(chosen * (1 - rome) ** 2), abs=1e-6)


def test_the_retrieval_score_counts_as_much_as_it_is_told_to():
    passages = [simple("Rome", {"Rome": 1.0}, 0.5), simple("Oslo", {"Oslo": 1.0}, 0.0)]
    assert [text for text, _ in ranked(passages, [1.0, 3.0])] == ["Rome", "Oslo"]
    assert [text for text, _ in ranked(passages, [1.0, 3.0], retrieval_weight=0.2)] == ["Rome", "Oslo"]
    for scores in ([1.0, 3.0], [100.0, 300.0]):  # one and minus one standard deviation, whatever their size
        assert [text for text, _ in ranked(passages, scores, retrieval_weight=0.3)] == ["Oslo", "Rome"]


def test_how_far_a_passage_stands_out_is_told_among_the_first_ten():
    """Whatever the size of the scores, and however many more were found; fewer are too few to tell."""
    passage = simple("Rome", {"Rome": 1.0})
    place = FEATURES.index("retrieval")
    ten = [3.0, *[1.0] * 9]
    for scores in (ten, [100 * score + 7 for score in ten], [*ten, *[-50.0] * 90]):
        ((_, one),) = ranked([passage], scores)
        assert one.features[place] == pytest.approx(3.0)  # nine tenths of 2, in deviations of .6
    ((_, one),) = ranked([passage], ten[:9])
    assert math.isnan(one.features[place])
    ((_, one),) = ranked([passage], [3.8220001, *[3.822] * 9])  # equals, but for rounding
    assert one.features[place] == 0


def test_what_several_passages_say_is_one_answer_with_their_support():
    twice = [
        simple("it won Palme d'Or", {("Palme", "d'Or"): 2.0}, 0.1),
        simple("PALME d'Or! Yes", {("PALME", "d'Or!"): 2.0}),
    ]
    once = simple("a Lion here", {"Lion": 2.0}, 0.3)
    alone = ranked([twice[0], once])
    assert [(text, one.support) for text, one in alone] == [("Lion", 1), ("Palme d'Or", 1)]
    found = ranked([*twice, once])
    assert [(text, one.support) for text, one in found] == [("Palme d'Or", 2), ("Lion", 1)]
    share = (math.exp(0.1) + 1) / (math.exp(0.1) + 1 + math.exp(0.3))
    assert found[0][1].score == pytest.approx(math.log(share), abs=1e-6)
    listed = ranked([*twice, once], ranking="selection")  # here the passage decides, whatever others say
    assert [(text, one.support) for text, one in listed] == [("Lion", 1), ("Palme d'Or", 2)]


@pytest.mark.parametrize(
    ("one", "other", "same"),
    [
        ("1.5 km", "15 km", False),
        ("-3 degrees", "3 degrees", False),
        ("C++", "C", False),
        ("C#", "C", False),
        ("the Nile", "Nile.", True),
        ("“Emma”", "emma", True),
        ("An  axe", "axe", True),
        ("A", "B", False),
    ],
)
def test_answers_are_the_same_only_if_they_say_the_same(one, other, same):
    passages = [simple(text, {(text.split()[0], text.split()[-1]): 3.0}) for text in (one, other)]
    assert len(ranked(passages)) == (1 if same else 2)


def test_support_counts_passages_and_not_how_often_they_say_it():
    first = simple("so Rome", {"Rome": 3.0})
    text = "Rome and Rome and Rome"
    again = scored(text, {"Rome": 1.0})
    for place in (FIRST, FIRST + 2, FIRST + 4):
        again.starts[place] = again.ends[place] = 1.0
    ((_, one),) = [pair for pair in ranked([first, (text, again)]) if pair[0] == "Rome"]
    assert one.support == 2


def test_overlapping_spans_are_one_answer():
    text = "in New York City now"
    window = scored(text, {("New", "York"): 3.0})
    window.ends[FIRST + 3] = 2.9  # New York City
    window.starts[FIRST + 2] = 2.8  # York, York City
    found = ranked([(text, window)])
    assert [text for text, _ in found] == ["New York"]


def test_overlapping_spans_are_one_answer_in_a_second_passage_too():
    """Where the second passage says the same, the longer span around it is no answer of its own."""
    text = "in New York City now"
    window = scored(text, {("New", "York"): 3.0})
    window.ends[FIRST + 3] = 2.9
    found = ranked([simple("New York it is", {("New", "York"): 5.0}, 1.0), (text, window)])
    assert [(text, one.support) for text, one in found] == [("New York", 2)]


@pytest.mark.parametrize(
    ("text", "pieces", "span", "answer"),
    [
        ("the Mississippi river", r"Missi|ssippi|\S+", "ssippi", "Mississippi"),
        ("the Mississippi river", r"Missi|ssippi|\S+", "Missi", "Mississippi"),
        ("in 1969, they", r"19|69|\w+|,", "69", "1969"),
        ("상은 황금종려상을 받았다", r"황금종려상|[을은상]|받았다", "황금종려상", "황금종려상"),
        ("이름은 Parasite이다", r"Para|site|이다|\S+", "Para", "Parasite"),
        ("2019년에", r"20|19|년에", "19", "2019"),
        ("東京都は", r"東京|都|は", "東京", "東京"),
        ("của Nguyễn Du", r"Nguy|ễn|\S+", "Nguy", "Nguyễn"),  # Vietnamese is Latin writing too
        ("né à Orléans", r"Orl|éans|\S+", "éans", "Orléans"),
        ("set core.hooksPath first", r"core|\.|hooks|Path|\w+", "hooks", "core.hooksPath"),
        ("set work_mem first", r"work|_|mem|\w+", "mem", "work_mem"),
        ("at 5,895 metres", r"5|,|895|\w+", "895", "5,895"),
        ("version 1.2 of it", r"1|\.|2|\w+", "1", "1.2"),
        ("with --no-verify it", r"-|no|verify|\w+", ("no", "verify"), "--no-verify"),
        ("in ~/.ssh or /etc/fstab now", r"etc/fstab|\S", "etc/fstab", "/etc/fstab"),
        ("from 1990-1995 on", r"1990|-|1995|\w+", "1995", "1995"),
        ("It ended.then came", r"ended|\.|then|\w+", "came", "came"),
        ("it was -3 degrees", r"-|\w+", "3", "-3"),
        ("we \u2764\ufe0f it", r"\u2764|\w+", "\u2764", "\u2764\ufe0f"),  # what makes the heart red belongs to it
    ],
)
def test_latin_words_are_whole_and_a_korean_particle_stays_off(text, pieces, span, answer):
    assert ranked([simple(text, {span: 5.0}, pieces=pieces)])[0][0] == answer


@pytest.mark.parametrize("text", ["... --- !!!", "", "   "])
def test_a_passage_without_words_has_no_answer_and_does_no_harm(text):
    empty = simple(text, {}, 9.0)
    assert ranked([empty]) == []
    found = ranked([empty, simple("Rome", {"Rome": 1.0}, -5.0)])
    assert [(text, one.passage) for text, one in found] == [("Rome", 1)]
    assert found[0][1].selection == pytest.approx(1.0)  # it competes with no one


def test_nothing_read_is_no_answer():
    assert ranked([]) == []


def test_windows_of_one_passage_give_one_list_of_spans():
    """The second window begins later in the text; what both see counts once, as the better of the two sees it."""
    text = "Rome Oslo Bonn Bern"
    left = scored("Rome Oslo Bonn", {"Oslo": 1.0, "Rome": 0.5}, 0.1)
    places = np.array([match.span() for match in re.finditer(r"\S+", text)])[1:]
    logits = np.full(FIRST + 3, LOW)
    logits[FIRST], logits[FIRST + 2] = 3.0, 0.0
    right = Scored(Window([0] * 6, [0] * 6, FIRST, places), logits, logits, 0.4)
    found = dict(ranked([(text, left, right)]))
    assert {"Oslo", "Rome", "Bern"} <= set(found)
    assert found["Oslo"].span == pytest.approx((math.exp(3) / (math.exp(3) + 1)) ** 2, rel=1e-3)
    assert found["Oslo"].support == 1
    assert found["Oslo"].features[0] == pytest.approx(0.4)  # the passage is as good as its best window
    assert selection(text, [left, right], config()) == pytest.approx(0.4)


def test_without_a_head_for_it_the_margin_over_no_span_selects():
    sure = simple("so Rome", {"Rome": 3.0}, None, null=1.0)
    unsure = simple("so Oslo", {"Oslo": 6.0}, None, null=5.5)
    found = ranked([unsure, sure], selection="null", ranking="selection")
    assert [text for text, _ in found] == ["Rome", "Oslo"]
    assert [one.features[:2] for _, one in found] == [pytest.approx((4.0, 4.0)), pytest.approx((1.0, 1.0))]
    assert selection(sure[0], sure[1:], config(selection="null")) == pytest.approx(4.0)
    assert selection("", [scored("", {}, None)], config(selection="null")) < -100


numbers = st.floats(-1e4, 1e4)


@given(st.tuples(*[numbers] * len(FEATURES)), numbers, numbers)
def test_confidence_is_a_probability_for_any_scores(features, bias, weight):
    for curve in ({}, {"bias": bias, "selection": weight, "margin": weight, "retrieval": weight}):
        assert 0.0 <= confidence(features, curve) <= 1.0


@given(st.tuples(*[numbers] * len(FEATURES)), st.integers(0, 2), st.floats(0, 100))
def test_better_scores_never_make_it_less_sure(features, place, more):
    better = tuple(value + more * (n == place) for n, value in enumerate(features))
    for curve in ({}, {"bias": -1.0, "selection": 0.3, "margin": 0.1, "retrieval": 0.2}):
        assert confidence(better, curve) >= confidence(features, curve)


def test_confidence_follows_the_fitted_curve():
    curve = {"bias": -1.0, "selection": 0.5, "margin": 0.25}
    assert confidence((2.0, 4.0, 99.0, 99.0, 99.0), curve) == pytest.approx(1 / (1 + math.exp(-1.0)))
    assert confidence((1.0, 0.0, 0.0, 0.0, 0.0), {}) > confidence((0.0, 0.0, 0.0, 0.0, 0.0), {}) == 0.5


def test_a_feature_that_is_not_known_counts_as_it_typically_is():
    curve = {"bias": -1.0, "selection": 0.5, "margin": 0.25, "retrieval": 2.0, "typical": 0.75}
    assert confidence((1.0, 2.0, 0.5, 0.4, math.nan), curve) == confidence((1.0, 2.0, 0.5, 0.4, 0.75), curve)
    assert confidence((1.0, 2.0, 0.5, 0.4, math.nan), {}) == confidence((1.0, 2.0, 0.5, 0.4, 0.0), {})


def test_a_reader_says_so_when_it_does_not_know_the_writing(tiny_reader, tmp_path):
    from dataclasses import replace

    from mundap import Index
    from mundap.pipeline.ask import ask
    from mundap.reader.runtime import Reader

    (tmp_path / "a.txt").write_text("서울은 대한민국의 수도이다. The villain lives there.")
    index = Index.build([tmp_path / "a.txt"], tmp_path / "i", model="none")
    reader = Reader(tiny_reader)
    reader.config = replace(reader.config, scripts="latin")
    found = ask(index, "대한민국의 수도는?", reader)
    assert found.no_answer
    assert "English only" in found.note
    assert [hit.passage.document for hit in found.hits] == ["a.txt"]
    assert not ask(index, "who is the villain?", reader, threshold=0).no_answer


def test_an_answer_that_several_passages_give_has_the_larger_share():
    place = FEATURES.index("share")
    alone = ranked([simple("maybe Rome", {"Rome": 1.0}), simple("maybe Oslo", {"Oslo": 1.0})])
    agreed = ranked(
        [simple("maybe Rome", {"Rome": 1.0}), simple("maybe Oslo", {"Oslo": 1.0}), simple("and Oslo", {"Oslo": 1.0})]
    )
    assert dict(alone)["Oslo"].features[place] == pytest.approx(0.0, abs=1e-3)
    assert agreed[0][0] == "Oslo"
    assert agreed[0][1].features[place] == pytest.approx(math.log(2), abs=1e-3)


@pytest.mark.parametrize(
    ("text", "span", "answer"),
    [
        ("It keeps three connections. The value is less.", ("three", "value"), "three connections"),
        ("ports 65,535 | x", ("65,535", "|"), "65,535"),
        ("use compresslevel=9, then", "compresslevel=9,", "compresslevel=9"),
        ("founded by (Ian Murdock in", ("(Ian", "Murdock"), "Ian Murdock"),
        ("it was Mr. Smith again", ("Mr.", "Smith"), "Mr. Smith"),
        ("it ended 31 to 33. Then", ("31", "33."), "31 to 33"),
        ("built by Acme Inc. in Ohio", ("Acme", "Inc."), "Acme Inc."),
        ("انتهت سنة 1953، ثم", ("سنة", "1953،"), "سنة 1953"),
        ("run\n$ journalctl -b now", ("$", "-b"), "journalctl -b"),
        ("for $ 500 in all", ("$", "500"), "$ 500"),
        ("cold: -3 °C today", ("-3", "°C"), "-3 °C"),
        ("수도는 서울이다。 부산은", ("서울이다。", "부산은"), "서울"),
    ],
)
def test_an_answer_is_clean_at_its_edges_and_ends_with_its_sentence(text, span, answer):
    assert ranked([simple(text, {span: 5.0})])[0][0] == answer


def test_an_answer_stands_in_one_line():
    text = "100: Reserved.\n200: nobody"
    window = scored(text, {("100:", "200:"): 5.0, "200:": 4.5})
    assert ranked([(text, window)])[0][0] == "200"


def test_a_korean_answer_ends_before_its_particle():
    pytest.importorskip("kiwipiepy")
    found = ranked([simple("대한민국의 수도는 서울은 아니다", {"서울은": 5.0})])
    assert found[0][0] == "서울"
