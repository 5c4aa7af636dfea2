"""How long things take: DPR's run-time paragraph and ANCE's table of costs."""

import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from mundap.datasets.examples import read_examples
from mundap.disk import json_bytes, write_atomic
from mundap.experiments.frame import Arm, Column, Plan, Quoted
from mundap.experiments.lab import Lab
from mundap.index.index import Index
from mundap.records import Example
from mundap.training.ance.negatives import NegativeFilter
from mundap.training.batches import RetrieverBatches
from mundap.training.examples import ExampleFile
from mundap.training.processes import Processes
from mundap.training.step import RetrieverStep

_MS = 1000.0
_TEXTS = 64
_REPEATS = 5
_INDEXED = 2000  # passages
_WIKIPEDIA = 21_015_324  # passages that DPR's times are for
_HOUR = 3600.0
_QUOTED = (
    Quoted("encode all passages, for each refresh", {"hours": 10.0}, "ANCE, table 5"),
    Quoted("vector index of all passages", {"hours": 10 / _HOUR}, "ANCE, table 5"),
    Quoted("BM25 index of all passages", {"hours": 3.0}, "ANCE, table 5"),
    Quoted("dense retrieval of a question in all, batched", {"ms": 11.6}, "ANCE, table 5"),
    Quoted("BERT reranker, 100 passages", {"ms": 1150.0}, "ANCE, table 5"),
    Quoted("BM25 and BERT reranker in all", {"ms": 1420.0}, "ANCE, table 5"),
    Quoted("a question with FAISS in memory, 21 million passages", {"ms": _MS / 995}, "DPR, section 5.4"),
    Quoted("BM25 (Lucene) search of a question, a thread", {"ms": _MS / 23.7}, "DPR, section 5.4"),
    Quoted("BM25 (Lucene) index, 21 million passages", {"hours": 0.5}, "DPR, section 5.4"),
    Quoted("vector index (HNSW), 21 million passages", {"hours": 8.5}, "DPR, section 5.4"),
    Quoted(
        "encode 21 million passages on 8 GPUs", {"ms": _MS * 8.8 * _HOUR / _WIKIPEDIA, "hours": 8.8}, "DPR, section 5.4"
    ),
)


def plan(lab: Lab) -> Plan:
    """Every row is a time in milliseconds."""
    rows: dict[str, tuple[Callable[[Lab], list[float]], float | None]] = {
        "encode a passage": (_encode_passages, 4.5),
        "encode a question": (_encode_questions, 2.6),
        "dense search of a question, exact, batched": (_search, 9.0),
        "BM25 search of a question": (_bm25, 37.0),
        "rerank BM25's top 100 by vectors": (_rerank, None),
        "BM25 index, per passage": (_index_bm25, _MS * _HOUR / 2 / _WIKIPEDIA),
        "vector index, flat, per passage": (_index_flat, None),
        "vector index, HNSW, per passage": (_index_hnsw, _MS * 8.5 * _HOUR / _WIKIPEDIA),
        "negatives of a question out of its nearest 200": (_negatives, None),
        "prepare a batch": (_batch, 72.0),
        "forward and backward of a batch": (_step, 19.0),
    }
    arms = []
    for name, (measure, paper) in rows.items():
        figures = {}
        if paper is not None:
            figures["ms"] = paper
        arms.append(Arm(name, _timed(measure), figures, seeded=False))
    return Plan(
        title="How long does it take?",
        source="ANCE, table 5 (BERT-base on a GPU); DPR, section 5.4",
        columns=(Column("ms", "milliseconds", 1.0, 3), Column("hours", "hours, the paper's corpus", 1.0, 3)),
        arms=arms,
        quoted=_QUOTED,
        caution=(
            "Times of this machine under whatever load it has now; the papers' are of other machines, a larger network "
            "and a larger corpus. Means over some repetitions."
        ),
    )


def _timed(measure: Callable[[Lab], list[float]]) -> Callable[[Lab, int], Mapping[str, Any]]:
    return lambda lab, seed: {"ms": measure(lab)}


def _repeat(work: Callable[[], Any], count: int) -> list[float]:
    """Milliseconds for one of `count` things, measured some times."""
    work()
    values = []
    for _ in range(_REPEATS):
        started = time.perf_counter()
        work()
        values.append(_MS * (time.perf_counter() - started) / count)
    return values


def _some(lab: Lab) -> list[Example]:
    found = []
    for one in read_examples(lab.data.train[lab.data.first]):
        if isinstance(one, Example):
            found.append(one)
        if len(found) == _TEXTS:
            break
    return found


def _encode_passages(lab: Lab) -> list[float]:
    model, contexts = lab.model(lab.data.base_model), [one.positives[0] for one in _some(lab)]
    return _repeat(lambda: model.passages(contexts), len(contexts))


def _encode_questions(lab: Lab) -> list[float]:
    model, texts = lab.model(lab.data.base_model), [one.question.text for one in _some(lab)]
    return _repeat(lambda: model.questions(texts), len(texts))


def _search(lab: Lab) -> list[float]:
    model = lab.model(lab.data.base_model)
    vectors = model.questions([one.question.text for one in _some(lab)])
    size = min(100, len(model.numbers))
    return _repeat(lambda: (vectors @ model.vectors.T).topk(size, dim=1), len(vectors))


def _bm25(lab: Lab) -> list[float]:
    index, texts = Index(lab.data.index), [one.question.text for one in _some(lab)]
    return _repeat(lambda: index.search_batch(texts, 100, "bm25"), len(texts))


def _rerank(lab: Lab) -> list[float]:
    model, ranking = lab.model(lab.data.base_model), lab.ranking()
    ranking.bm25  # noqa: B018 - not part of the time
    model.prepare()
    return _repeat(lambda: ranking.reranked(model), len(ranking.texts))


def _index_bm25(lab: Lab) -> list[float]:
    scratch = lab.data_folder / "speed-index"
    shutil.rmtree(scratch, ignore_errors=True)
    scratch.mkdir(parents=True)
    passages = list(Index(lab.data.index).sample(_INDEXED, "speed"))
    rows = [json_bytes({"_id": str(n), "title": one.title, "text": one.text}) for n, one in enumerate(passages)]
    write_atomic(scratch / "corpus.jsonl", b"\n".join(rows))
    started = time.perf_counter()
    Index.build([scratch / "corpus.jsonl"], scratch / "index", model="none")
    seconds = time.perf_counter() - started
    shutil.rmtree(scratch)
    return [_MS * seconds / len(passages)]


def _index_flat(lab: Lab) -> list[float]:
    return _vector_index(lab, "Flat")


def _index_hnsw(lab: Lab) -> list[float]:
    return _vector_index(lab, "HNSW32,SQ8")  # as `mundap index --dense hnsw` has it


def _vector_index(lab: Lab, kind: str) -> list[float]:
    """To build an index of FAISS out of vectors that are known."""
    import faiss

    vectors = lab.model(lab.data.base_model).vectors.cpu().float().numpy()

    def work() -> None:
        index = faiss.index_factory(vectors.shape[1], kind, faiss.METRIC_INNER_PRODUCT)
        index.train(vectors)
        index.add(vectors)

    return _repeat(work, len(vectors))


def _negatives(lab: Lab) -> list[float]:
    model, examples = lab.model(lab.data.base_model), _some(lab)
    numbers, _ = model.top([one.question.text for one in examples], 200)
    match = lab.data.test[lab.data.first].match

    def work() -> None:
        negatives = NegativeFilter(model.corpus)
        for one, row in zip(examples, numbers.tolist(), strict=True):
            negatives.positions(one, row, match)

    return _repeat(work, len(examples))


def _batches(lab: Lab) -> tuple[RetrieverBatches, Any, Any]:
    recipe = lab.recipe(0)
    model = lab.model(lab.data.base_model)
    scratch = lab.data_folder / "speed"
    scratch.mkdir(parents=True, exist_ok=True)
    files = [ExampleFile(one, Path(scratch)) for one in recipe.train]
    return RetrieverBatches(files, recipe, model.tokens), model, recipe


def _batch(lab: Lab) -> list[float]:
    stream = _batches(lab)[0]._iterate(0)
    return _repeat(lambda: next(stream), 1)


def _step(lab: Lab) -> list[float]:
    batches, model, recipe = _batches(lab)
    batch = next(batches._iterate(0))
    step = RetrieverStep(model.dual, recipe, Processes(), model.tokens.pad)
    model.dual.train()
    try:
        return _repeat(lambda: step.backward(batch), 1)
    finally:
        model.dual.zero_grad()
        model.dual.eval()
