import html.parser

from mundap.evaluation.compare import against_first
from mundap.evaluation.outcomes import by_answers, by_qrels
from mundap.evaluation.report import write_report
from mundap.records import Context, Question, Result


class Page(html.parser.HTMLParser):
    """What is on a page: its text, its tags, and whatever it would load."""

    def __init__(self, text):
        super().__init__()
        self.words, self.tags, self.loads = "", [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        self.loads += [value for name, value in attrs if name in ("src", "href")]

    def handle_data(self, data):
        self.words += data


ASKED = [Question(str(n), f"question <b>{n}</b>?", ("yes",)) for n in range(20)]


def system(name, right):
    found = [
        Result(q, (Context("n", "<script>", "no"), Context("y", "T", "yes & more"))[:: -1 if n in right else 1])
        for n, q in enumerate(ASKED)
    ]
    return by_answers(name, ASKED, found)


def test_the_page_has_a_chart_a_table_and_the_questions_each_alone_got_right(tmp_path):
    systems = [system("bm25", {0, 1}), system("dense", set(range(1, 15)))]
    path = write_report(tmp_path / "deep" / "er", systems, (1, 5), 1, "A & B", against_first(systems, (1, 5)))
    page = Page(path.read_text("utf-8"))
    assert page.tags.count("polyline") == 2
    assert page.loads == []
    assert "script" not in page.tags, "what stands in a document must not become a part of the page"
    assert "Only bm25 answers in the top 1: 1" in page.words
    assert "Only dense answers in the top 1: 13" in page.words
    assert "question <b>0</b>?" in page.words
    assert "10.0" in page.words
    assert "+60.0, p = .002" in page.words


def test_one_system_shows_what_it_missed(tmp_path):
    page = Page(write_report(tmp_path, [system("bm25", {0, 1})], (1, 5), 1, "T", {}).read_text())
    assert "Not answered in the top 1: 18" in page.words


def test_judged_systems(tmp_path):
    qrels = {"a": {"d": 1}, "b": {"d": 2}}
    found = [Result(Question(name, "q"), (Context("d"),)) for name in "ab"]
    systems = [by_qrels("x", qrels, found, (10,)), by_qrels("y", qrels, found[:1], (10,))]
    page = Page(write_report(tmp_path, systems, (10,), 10, "T", against_first(systems, (10,))).read_text())
    assert "ndcg@10" in page.words
    assert "randomisation" in page.words
