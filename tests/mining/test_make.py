import pytest

from mundap import Index
from mundap.errors import UsageError
from mundap.mining.make import MiningReport, Rules, make, with_gold
from mundap.mining.negatives import Counts
from mundap.mining.positives import EvidenceRules, search_text, select_evidence
from mundap.records import Context, Passage, Question, Skipped
from mundap.text.answers import has_answer
from mundap.text.overlap import containment, shingles

PARIS = "Paris is the capital of France and lies on the river Seine, with two million people living in it today."


@pytest.fixture(scope="module")
def pool(tmp_path_factory, tiny_model):
    folder = tmp_path_factory.mktemp("pool")
    texts = {
        "paris": PARIS,
        "copy": PARIS.replace("two million", "2 million").replace("Paris", "The city"),
        "seine": "The Seine is a river of France. It passes many a city on the way to the sea.",
        "rome": "Rome is the capital of Italy. The river there is the Tiber, and the city is old.",
        "short": "Paris.",
        "texas": "paris is also a small town in Texas, which people often confuse with the capital far away.",
    }
    for name, text in texts.items():
        (folder / name).write_text(text)
    for number in range(30):
        (folder / f"film{number}").write_text(f"Film number {number} is about a king in a city by the river.")
    return Index.build([folder], folder / "i", model=tiny_model)


def made(pool, questions, **options):
    report = MiningReport()
    why = {}
    examples = list(make(pool, questions, Rules(**options), report, lambda q, reason: why.update({q.id: reason})))
    return examples, report, why


def test_gold_is_mapped_to_the_pool_and_negatives_do_not_answer(pool):
    question = Question(
        "a", "What is the capital of France on the river?", ("Paris",), (Context("", "Paris", PARIS),), 0
    )
    (example,), report, _ = made(pool, [question], counts=Counts(bm25=5, tfidf=3, dense=3, random=4))
    assert [one.id for one in example.positives] == ["paris"]
    assert len(example.negatives) == 4
    names = [one.id for one in example.hard + example.negatives]
    assert len(set(names)) == len(names)
    assert "paris" not in names
    assert "copy" not in names, "it says the same in nearly the same words"
    for one in example.hard + example.negatives:
        assert not has_answer(one.text, ("Paris",))
        assert containment(shingles(one.text), shingles(PARIS)) < 0.7
    assert names[0] in ("seine", "rome")
    assert (report.kept, report.from_gold, report.from_search, report.hard, report.negatives) == (1, 1, 0, 11, 4)


def test_without_gold_the_evidence_is_searched_for(pool):
    question = Question("a", "What is the capital of France?", ("Paris",))
    (example,), report, _ = made(pool, [question])
    assert example.positives[0].id == "paris"
    assert (report.from_gold, report.from_search) == (0, 1)


def test_what_is_dropped_and_why(pool):
    questions = [
        Skipped("x:1", "broken"),
        Question("gold", "Who?", ("x",), (Context("", "", "A text that is nowhere in the pool at all."),)),
        Question("none", "Who wrote it?", ("Tolstoy",)),
        Question("nothing", "Who?"),
        Question("same", "What is the capital of France?", ("Paris",)),
        Question("again", "What is the capital of France?", ("Paris",)),
        Question("long", "x" * 200_000, ("Paris",)),
        Question("name", "What is the capital of Atlantis?", ("Paris",)),
    ]
    examples, report, why = made(pool, questions)
    assert [example.question.id for example in examples] == ["same"]
    assert set(why) == {"gold", "none", "nothing", "again", "long", "name"}
    assert "gold passage" in why["gold"]
    assert why["none"] == "no passage with the answer in the top 100"
    assert "shares a name" in why["name"]
    assert (report.questions, report.kept, report.dropped.total(), len(report.skipped)) == (7, 1, 6, 1)


def test_questions_of_a_test_set_are_left_out(pool):
    report = MiningReport()
    questions = [
        Question("a", "What is the capital of France?", ("Paris",)),
        Question("b", "Paris is where?", ("France",)),
    ]
    examples = list(make(pool, questions, Rules(), report, excluded={"what is capital of france"}))
    assert [example.question.id for example in examples] == ["b"]
    assert report.dropped == {"the question is in an excluded file": 1}


def test_the_same_seed_the_same_file_whatever_the_order(pool):
    questions = [Question(str(n), f"Which king is in film {n}?", ("king",)) for n in range(3)]
    questions = [*questions, Question("p", "What is the capital of France?", ("Paris",))]
    first, _, _ = made(pool, questions, counts=Counts(random=5), seed=3)
    second, _, _ = made(pool, questions[::-1], counts=Counts(random=5), seed=3)
    assert first == second[::-1]
    other, _, _ = made(pool, questions, counts=Counts(random=5), seed=4)
    assert [example.negatives for example in other] != [example.negatives for example in first]


def test_answers_as_patterns(pool):
    (example,), _, _ = made(pool, [Question("a", "capital of France?", ("Par[ij]s|Lutetia",))], match="regex")
    assert example.positives[0].id == "paris"
    assert not any("Paris" in one.text for one in example.hard)


def test_a_threshold_that_makes_no_sense():
    with pytest.raises(UsageError):
        Rules(duplicate=0)


def passage(name, text):
    return Passage(name, name, "", text, "", 0, len(text))


def test_rules_of_evidence(pool):
    analyzer = pool.analyzer
    question = Question("q", "who did Marie Curie marry", ("Pierre",))
    ranked = [
        passage("short", "Pierre."),
        passage("nobody", "In those days a man named Pierre was in the town and he was rich."),
        passage("one", "Pierre and Curie worked together for many years on the same thing."),
        passage("more", "Marie Curie did marry a physicist by the name of Pierre in the year 1895."),
        passage("wrong", "Marie Curie did marry, it is said, a physicist in the year 1895."),
    ]
    assert select_evidence(question, ranked, "string", EvidenceRules(), analyzer).id == "one"
    assert select_evidence(question, ranked, "string", EvidenceRules(by="overlap"), analyzer).id == "more"
    assert select_evidence(question, ranked, "string", EvidenceRules(names=False), analyzer).id == "nobody"
    assert select_evidence(question, ranked, "string", EvidenceRules(names=False, shortest=1), analyzer).id == "short"
    assert "too short or too long" in select_evidence(
        question, ranked, "string", EvidenceRules(longest=3, shortest=1), analyzer
    )
    assert "shares a name" in select_evidence(question, ranked[:2], "string", EvidenceRules(), analyzer)
    # A question all in small letters: the passages show what is a name.
    small = Question("q", "who did marie curie marry", ("Pierre",))
    assert select_evidence(small, ranked, "string", EvidenceRules(), analyzer).id == "one"
    # Korean has no capitals: a word in common is enough.
    korean = Question("q", "기생충의 감독은?", ("봉준호",))
    films = [
        passage("a", "봉준호는 대구에서 태어나 서울에서 살고 있는 사람으로 널리 알려져 있다."),
        passage("b", "기생충은 봉준호가 만든 영화로 칸에서 상을 받았으며 널리 알려져 있다."),
    ]
    assert select_evidence(korean, films, "cjk", EvidenceRules(), analyzer).id == "b"


def test_evidence_for_a_question_in_small_letters_shares_a_content_word(pool):
    question = Question("q", "what county is seattle in", ("King County",))
    unrelated = passage("unrelated", "The court of King County heard a case about two brothers and a horse.")
    related = passage("related", "Seattle is a port, and King County is where the seat of government lies.")
    chosen = select_evidence(question, [unrelated, related], "string", EvidenceRules(), pool.analyzer)
    assert chosen.id == "related", "county is a word of the answer: every passage with the answer has it"
    # No passage has a name of the question, and none has another of its words.
    assert select_evidence(question, [unrelated], "string", EvidenceRules(), pool.analyzer) == (
        "no passage with the answer shares a content word with the question"
    )
    assert select_evidence(question, [unrelated], "string", EvidenceRules(names=False), pool.analyzer).id == "unrelated"


def test_judged_passages_are_the_positives(pool):
    questions = [Question("1", "who is there?"), Question("2", "what is it?"), Skipped("x:3", "broken")]
    judged = list(with_gold(questions, {"1": {"rome": 2, "seine": 1, "paris": 0}}, level=1))
    (example,), report, why = made(pool, judged)
    assert [one.id for one in example.positives] == ["rome", "seine"]
    assert list(why) == ["2"] and len(report.skipped) == 1
    (only,), _, _ = made(pool, with_gold(questions[:1], {"1": {"rome": 2, "seine": 1}}, level=2))
    assert [one.id for one in only.positives] == ["rome"]


def test_unanswerable_questions_become_no_examples(pool):
    question = Question("a", "What is the capital of France?", (), (Context("", "", PARIS),), None, True)
    examples, _, why = made(pool, [question])
    assert not examples and why["a"] == "marked as unanswerable"


def test_patterns_and_many_aliases_do_not_drown_the_question(pool):
    assert search_text(Question("q", "when?", (r"Sept?(ember)?\s+1",)), "regex", pool.analyzer).split()[1:] == [
        "Sept", "ember", "1",
    ]  # fmt: skip
    many = tuple(f"alias number{n}" for n in range(40))
    assert search_text(Question("q", "who?", many), "string", pool.analyzer) == "who? alias number0 alias number1"
