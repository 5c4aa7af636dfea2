from mundap.evaluation.compare import against_first, answered_by_one, changed, comparison, word_overlap
from mundap.evaluation.outcomes import by_answers, summary
from mundap.records import Context, Question, Result

ASKED = [
    Question("0", "Who is the bad guy in Lord of the Rings?", ("Sala Baker",)),
    Question("1", "What is the river?", ("Han",)),
    Question("2", "And then?", ("x",)),
]
VILLAIN = Context("a", "Sala Baker", "Sala Baker is best known for portraying the villain Sauron.")
WORDS = Context("b", "Rings", "A bad guy and a lord of rings are in this text.")
RIVER = Context("c", "", "The Han flows.")


def results(*rankings):
    return [Result(question, tuple(ranking)) for question, ranking in zip(ASKED, rankings, strict=False)]


def test_ranks_gold_and_missing():
    gold = [["a"], ["z"], []]
    system = by_answers("dense", ASKED, results([WORDS, VILLAIN], [RIVER]), gold=gold)
    assert [(o.rank, o.gold) for o in system.outcomes] == [(2, 2), (1, 0), (0, None)]
    figures = summary(system, (1, 5))
    assert figures == {
        "questions": 3,
        "accuracy": {"1": 33.33, "5": 66.67},
        "gold": {"questions": 2, "accuracy": {"1": 0.0, "5": 50.0}},
        "missing": 1,
    }


def test_results_are_matched_by_the_question_or_by_its_id():
    found = [
        Result(Question("other", ASKED[1].text.replace("What is", "What  is")), (RIVER,)),
        Result(Question("0", ""), (VILLAIN,)),
        Result(Question("0", "something else that nobody asked"), (RIVER,)),
        Result(Question("2", ASKED[2].text), (RIVER,)),
    ]
    system = by_answers("x", ASKED, found)
    assert [outcome.rank for outcome in system.outcomes] == [1, 1, 0]
    assert (system.unmatched, system.missing) == (1, 0)


def test_a_question_asked_twice_takes_two_results():
    asked = [ASKED[1], ASKED[1]]
    system = by_answers("x", asked, [Result(ASKED[1], (RIVER,)), Result(ASKED[1], ())])
    assert ([outcome.rank for outcome in system.outcomes], system.missing) == ([1, 0], 0)
    curly = [Question("a", "who\u2019s it", ("Han",))]
    assert by_answers("x", curly, [Result(Question("b", "who's it"), (RIVER,))]).outcomes[0].rank == 1


def test_texts_are_looked_up_and_flags_are_checked():
    bare = [Context("a", has_answer=True), Context("q", has_answer=None)]
    with_text = [Context("a", text="nothing here", has_answer=True)]
    system = by_answers("x", ASKED, results(bare, with_text))
    assert [outcome.rank for outcome in system.outcomes] == [1, 0, 0]
    assert (system.without_text, system.disagreements) == (1, 1)
    looked = by_answers("x", ASKED, results([Context("a")]), lookup=lambda name: VILLAIN if name == "a" else None)
    assert looked.outcomes[0].rank == 1


def test_who_finds_what():
    sparse = by_answers("bm25", ASKED, results([WORDS], [RIVER], []))
    dense = by_answers("dense", ASKED, results([VILLAIN], [WORDS, RIVER], []))
    (case,) = changed(sparse, dense, 5)
    assert (case.winner, case.loser, case.found.id, case.top.id) == ("dense", "bm25", "a", "b")
    assert word_overlap(ASKED[0].text, WORDS) == 1
    assert word_overlap(ASKED[0].text, VILLAIN) == 0
    both = comparison([sparse, dense], (1, 5), 5, against_first([sparse, dense], (1, 5)))
    assert (both["both"], both["only_first"], both["only_second"], both["neither"]) == (1, 0, 1, 1)
    assert both["figures"]["top-1"]["first"] == both["figures"]["top-1"]["second"]
    assert both["changed"][0]["passage"]["word_overlap"] == 0
    assert [len(cases) for cases in answered_by_one([sparse, dense], 1).values()] == [1, 1]


def test_the_judged_result_is_passed_on():
    seen = []
    by_answers("x", ASKED, results([WORDS, VILLAIN]), watch=seen.append)
    assert [context.has_answer for context in seen[0].contexts] == [False, True]
    assert seen[0].question is ASKED[0]
