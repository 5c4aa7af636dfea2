"""Every experiment from end to end at a scale below tiny, on a tiny real checkpoint."""

import html
import json
from dataclasses import replace

import pytest

from mundap import experiments
from mundap.errors import MundapError

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.torch


@pytest.mark.parametrize("name", list(experiments.EXPERIMENTS))
def test_the_experiment_runs(name, inputs):
    from dataclasses import replace

    if name == "ance":
        pytest.importorskip("sklearn")
    small = replace(inputs, scale=replace(inputs.scale, seeds=1))
    found = experiments.run(name, small)
    assert found["arms"]
    for row in found["arms"].values():
        for figure, value in row.items():
            if set(value) == {"paper"}:  # a column that is not measured for this arm
                continue
            assert value["mean"] >= 0, figure
            if figure.endswith(("top20", "top5", "top100", "top1", "exact_match", "f1")):
                assert value["mean"] <= 100
    for claim in found["claims"]:
        assert claim["verdict"] in ("holds", "contradicted", "not settled")
        assert {claim["better_arm"], claim["worse_arm"]} <= set(found["arms"])
    assert json.loads((inputs.out / "results.json").read_text())["claims"] == found["claims"]
    page = (inputs.out / "report.html").read_text()
    assert found["title"] in page
    assert "http" not in page
    assert page.count("<circle") >= len([row for row in found["arms"].values() if row])  # a plot of the table
    assert found["title"] in (inputs.out / "results.md").read_text()
    for one in found["quoted"]:
        assert one["source"] in page
    left = sum(path.stat().st_size for path in inputs.out.rglob("*") if path.is_file())
    assert not list(inputs.out.glob("runs/*/model")) and not list(inputs.out.glob("runs/*/checkpoints"))
    assert left < 4_000_000
    if name in _CHECKS:
        _CHECKS[name](found, inputs.out, page)


def runs_of(out):
    """By arm and seed: the folder of the run."""
    return {key: out / "runs" / folder for key, folder in json.loads((out / "runs.json").read_text()).items()}


def recipe_of(run):
    return (run / "recipe.toml").read_text()


def orqa_is_trained_over_what_ict_finds(found, out, page):
    runs = runs_of(out)
    recipe = recipe_of(runs["orqa-reader-0"])
    assert 'span_loss = "global_marginal"' in recipe
    assert f'retriever = "{runs["ict-0"] / "model"}"' in recipe
    (row,) = (row for title, row in found["arms"].items() if title.startswith("ORQA"))
    assert {"mean", "paper"} <= set(row["exact_match"])
    assert "mean" in row["top20"]


def readers_are_fine_tuned_and_read_what_both_find(found, out, page):
    orqa_is_trained_over_what_ict_finds(found, out, page)
    runs = runs_of(out)
    assert "mean" in found["arms"]["BM25+BERT"]["exact_match"]
    recipe = recipe_of(runs["bm25-bert-0"])
    assert 'span_loss = "global_marginal"' in recipe and 'retriever = ""' in recipe
    assert not {"BM25+BERT", "ORQA"} & {one["name"] for one in found["quoted"]}
    recipe = recipe_of(runs["reader-multi-tuned-0"])
    assert str(runs["reader-multi-0"] / "model") in recipe
    assert "two-train" in recipe or "two.jsonl" in recipe
    assert "mean" in found["arms"]["multi DPR, reader fine-tuned"]["two exact_match"]
    multi = found["arms"]["multi BM25+DPR, reader fine-tuned"]
    assert {"mean", "paper"} <= set(multi["exact_match"]) and "mean" in multi["two exact_match"]
    assert multi["exact_match"]["paper"] == 38.8
    for name in ("BM25", "DPR"):  # the same reader and passages, another way to choose
        row = found["arms"][f"{name}, likeliest span of all passages"]
        assert row["top20"]["mean"] == found["arms"][name]["top20"]["mean"]
        assert "mean" in row["f1"]


def ance_goes_on_from_multi(found, out, page):
    from mundap.experiments.retrievers import _paper

    assert _paper("multi ANCE", "nq") == {"nq top20": 82.1, "nq top100": 87.9}
    assert _paper("multi ANCE", "trec") == {}
    assert all("mean" in found["arms"]["multi ANCE"][f"{one} top20"] for one in ("one", "two"))
    runs = runs_of(out)
    recipe = recipe_of(runs["ance-multi-0"])
    assert f'base_model = "{runs["multi-0"] / "model"}"' in recipe
    assert "one-train.jsonl" in recipe and "two-train.jsonl" in recipe


def the_vector_index_is_timed(found, out, page):
    flat, graph = (found["arms"][f"vector index, {kind}, per passage"]["ms"] for kind in ("flat", "HNSW"))
    assert 0 < flat["mean"] < graph["mean"]
    assert graph["paper"] == pytest.approx(1.456, abs=1e-3)  # 8.5 hours for 21,015,324
    assert len(found["quoted"]) == 11


def documents_and_gradients_are_shown(found, out, page):
    rows = found["arms"]
    assert rows["warm-up -> ANCE (MaxP)"]["documents_ndcg10"]["paper"] == 0.628
    assert "mean" in rows["warm-up -> ANCE (MaxP)"]["documents_rerank_ndcg10"]
    assert rows["random"]["documents_ndcg10"] == {"paper": 0.543}  # quoted: not measured
    assert rows["random"]["recall"]["mean"] == 1.0  # of a corpus with fewer than a thousand passages
    assert "[0.543]" in page
    assert "Norm of the gradient over the steps, bottom third of the layers" in page
    assert "middle third of the layers" not in page  # there is none of two layers
    assert "judged" in found["caution"] and "hole" not in page.replace(html.escape(found["caution"]), "")


_CHECKS = {
    "ict": orqa_is_trained_over_what_ict_finds,
    "qa": readers_are_fine_tuned_and_read_what_both_find,
    "table2": ance_goes_on_from_multi,
    "speed": the_vector_index_is_timed,
    "ance": documents_and_gradients_are_shown,
}


def test_the_vectors_of_a_run_are_kept_until_its_models_go(inputs, monkeypatch):
    from mundap.experiments.lab import Lab
    from mundap.experiments.ranking import Model

    folder = Lab(inputs).trained("dpr", 0)
    first = Lab(inputs).model(folder)
    encoded = []
    monkeypatch.setattr(Model, "_encoded", lambda self, side, ids: encoded.append(side))
    again = Lab(inputs)
    assert (again.model(folder).vectors == first.vectors).all()
    assert not encoded
    again.tidy()
    assert not list(folder.parent.glob("*.npy"))


def test_of_a_document_the_best_chunk_counts(inputs):
    from mundap.experiments.lab import Lab
    from mundap.records import Context

    lab = Lab(inputs)
    model = lab.model(lab.data.base_model, index=str(lab.documents), precision="fp32", **lab.chunked)
    assert len(model.vectors) > len(model.numbers) == len(set(model.numbers.tolist()))
    text = lab.ranking().texts[0]
    (asked,) = model.questions([text])
    numbers, scores = model.top([text], 5)
    for number, score in zip(numbers[0].tolist(), scores[0].tolist(), strict=True):
        document = model.corpus.context(number)
        chunks = [Context("", document.title, part) for part in model.tokens.chunks(document.text)]
        best = float((model.passages(chunks) @ asked).max())
        assert score == pytest.approx(best, abs=1e-5)
        assert model.similarities(asked, [document.id]) == pytest.approx([best], abs=1e-5)
    assert scores[0].tolist() == sorted(scores[0].tolist(), reverse=True)


def judged_copy(data, folder):
    """The first set with judgements instead of answers, in MS MARCO's columns; some passages are judged not relevant."""
    rows = [json.loads(line) for line in (data / "corpus.jsonl").read_text().splitlines()]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    by_text = {row["text"]: row["_id"] for row in rows}
    judged = []
    for part in ("train", "test"):
        lines = []
        for number, line in enumerate((data / f"one-{part}.jsonl").read_text().splitlines()):
            row = json.loads(line)
            name = f"{part}{number}"
            lines.append(f"{name}\t{row['question']}\n")
            judged.append(f"{name} 0 {by_text[row['positive_ctxs'][0]['text']]} 2\n")
            judged.append(f"{name} 0 x{number} 0\n")
        (folder / f"judged-{part}.tsv").write_text("".join(lines))
    (folder / "qrels-judged.tsv").write_text("".join(judged))


@pytest.fixture
def judged(data, tmp_path):
    """What `inputs` is, of judged questions."""
    from mundap.experiments.data import find_data
    from mundap.experiments.lab import Inputs
    from tests.experiments.conftest import SCALE

    (tmp_path / "data").mkdir()
    judged_copy(data, tmp_path / "data")
    return Inputs(find_data(tmp_path / "data"), data / "base", tmp_path / "out", SCALE)


def test_full_scale_names_the_judgements(judged, tmp_path):
    from mundap.experiments.estimate import tell_ahead

    told = []
    tell_ahead(judged, told.append)
    assert any(line.startswith("judged: 80 judgements of 40 questions in ") and "qrels-judged" in line for line in told)
    empty = tmp_path / "qrels-judged.tsv"
    empty.touch()
    with pytest.raises(MundapError, match=r"qrels-judged\.tsv"):
        tell_ahead(replace(judged, files=replace(judged.files, qrels={"judged": empty})), told.append)


def test_the_table_of_ance_has_the_hole_rate_of_judged_questions(judged):
    from mundap.experiments import ance
    from mundap.experiments.lab import Lab

    lab = Lab(judged)
    plan = ance.plan(lab)
    assert [column.title for column in plan.columns][-1] == "Hole@10"
    arms = {arm.name: arm for arm in plan.arms}
    for name in ("BM25", "base"):
        values = arms[name].measure(lab, 0)
        assert values["hole10"].shape == values["mrr10"].shape == (8,)
        assert 0.7 < values["hole10"].mean() < 1  # two passages are judged for each question
    assert arms["BM25"].measure(lab, 0)["mrr10"].mean() > 0.5


@pytest.mark.slow
def test_ance_is_run_whole_on_judged_questions(judged):
    pytest.importorskip("sklearn")
    found = experiments.run("ance", judged)
    assert all("mean" in row["hole10"] for row in found["arms"].values())
    assert "Hole@10" in (judged.out / "results.md").read_text()


@pytest.mark.parametrize("passages", [90, 0])
def test_judgements_survive_the_cut_and_figures_are_those_of_trec_eval(passages, judged, tmp_path):
    from dataclasses import replace

    from mundap.experiments.data import prepare
    from mundap.experiments.ranking import Ranking

    pytrec_eval = pytest.importorskip("pytrec_eval")
    scale = replace(judged.scale, passages=passages)
    made = prepare(judged.files, judged.base_model, scale, tmp_path / "made", lambda line: None)
    test = made.test["judged"]
    assert all(sorted(grades.values()) == [0, 2] for grades in test.judged.values())
    ranking = Ranking(made.index, test)
    listed = ranking.by_bm25(60)
    run = {}
    for question, row in zip(test.questions, listed, strict=True):
        run[question.id] = {name: float(-rank) for rank, (name, _) in enumerate(row)}
    judge = pytrec_eval.RelevanceEvaluator(test.judged, {"ndcg_cut.10", "recall.1000", "recip_rank"})
    theirs = judge.evaluate(run)
    ours = ranking.figures(listed)
    for number, question in enumerate(test.questions):
        row = theirs[question.id]
        assert ours["ndcg10"][number] == pytest.approx(row["ndcg_cut_10"])
        assert ours["recall"][number] == pytest.approx(row["recall_1000"])
        if row["recip_rank"] >= 0.1:
            assert ours["mrr10"][number] == pytest.approx(row["recip_rank"])
        first = [name for name, _ in listed[number][:10]]
        unjudged = set(first) - set(test.judged[question.id])
        assert ours["hole10"][number] == pytest.approx(len(unjudged) / len(first))


def test_documents_are_judged_where_the_index_has_their_passages(tmp_path):
    from mundap import Index
    from mundap.experiments.data import TestSet
    from mundap.experiments.ranking import Ranking
    from mundap.records import Question

    sentence = "The lighthouse keeper of the northern harbour wrote a letter every evening. "
    rows = [{"_id": name, "title": name, "text": sentence * 30} for name in ("d1", "d2", "d3")]
    (tmp_path / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    index = Index.build([tmp_path / "corpus.jsonl"], tmp_path / "index", model="none", words=60, chunks=4)
    assert len(index) > 3
    asked = [Question("q", "Who wrote a letter?")]
    ranking = Ranking(tmp_path / "index", TestSet(asked, "string", {"q": {"d2": 1}}))
    found = ranking.figures([[("d1#2", ""), ("d1#1", ""), ("d2#3", "")]])
    assert found["mrr10"].tolist() == [0.5]
    assert found["hole10"].tolist() == [0.5]


@pytest.mark.parametrize("passages", [90, 0])
def test_judged_documents_survive_the_cut(passages, judged, tmp_path):
    from dataclasses import replace

    from mundap import Index
    from mundap.experiments.data import prepare
    from mundap.experiments.ranking import Ranking

    pool = tmp_path / "cut"
    index = Index.build(list(judged.files.corpus), pool, model="none", words=10, chunks=4)
    assert index.passage("one0") is None and len(index.passages_of("one0")) > 1
    files, scale = replace(judged.files, corpus=(pool,)), replace(judged.scale, passages=passages)
    made = prepare(files, judged.base_model, scale, tmp_path / "made", lambda line: None)
    ranking = Ranking(made.index, made.test["judged"])
    found = ranking.figures(ranking.by_bm25(60))
    assert found["mrr10"].mean() > 0.5
    assert found["hole10"].mean() < 1


def test_training_questions_need_no_answers_where_the_gold_passage_is_known(inputs, tmp_path):
    from dataclasses import replace

    from mundap.experiments.data import prepare

    train, test = inputs.files.sets["one"]
    rows = [json.loads(line) | {"answers": []} for line in train.read_text().splitlines()]
    (tmp_path / "bare-train.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    files = replace(inputs.files, sets={"bare": (tmp_path / "bare-train.jsonl", test)})
    made = prepare(files, inputs.base_model, inputs.scale, tmp_path / "made", lambda line: None)
    assert made.questions["bare"] >= inputs.scale.batch_size
