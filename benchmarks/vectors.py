"""Our vector index beside others, on the same vectors: recall, questions per second, bytes a vector, build time.

The vectors are those of `mundap bench scale`, so that anybody can make them again. Every contender gets them as float32
and finds the best 100 for the same questions in one thread, one at a time and all at once; recall is against exact
search. It may build with as many threads as MUNDAP_BUILD_THREADS says; what counts is their CPU time. What is not
installed is left out, and the table says so.

    mundap bench scale --passages 100k -o OUT
    python benchmarks/vectors.py OUT/100000
"""

import argparse
import importlib
import json
import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "TF_NUM_INTRAOP_THREADS", "MUNDAP_THREADS"):
    os.environ.setdefault(name, "1")  # before anything reads it: what matters is questions a second of a core

import numpy as np  # noqa: E402

from mundap.bench.work import corpus_of, entry_of  # noqa: E402
from mundap.charts import line_chart  # noqa: E402
from mundap.index import dense  # noqa: E402
from mundap.index.sizes import Effort  # noqa: E402
from mundap.pages import write_page  # noqa: E402

K = 100
BUILDING = int(os.environ.get("MUNDAP_BUILD_THREADS", "1"))
Find = Callable[[np.ndarray], np.ndarray]


class Setting(NamedTuple):
    """A contender at one point of its curve.

    Attributes:
        name: Of the contender.
        knob: What is turned, and how far.
        find: From questions to the rows of the best.
        bytes: In memory, a vector.
        build: Seconds.
    """

    name: str
    knob: str
    find: Find
    bytes: float
    build: float


def faiss_kinds(vectors: np.ndarray, wanted: set[str]) -> Iterator[Setting]:
    """FAISS's own: flat, IVF-Flat, HNSW."""
    import faiss

    faiss.omp_set_num_threads(1)
    faiss.cvar.distance_compute_blas_threshold = 20
    count, dimension = vectors.shape
    lists = int(4 * count**0.5)

    def find(index: Any) -> Find:
        return lambda questions: index.search(questions, K)[1]

    if "flat" in wanted:
        flat = faiss.IndexFlatIP(dimension)
        seconds = timed(lambda: flat.add(vectors))
        yield Setting("FAISS flat", "", find(flat), 4 * dimension, seconds)
    if "ivf" in wanted:
        ivf = faiss.index_factory(dimension, f"IVF{lists},Flat", faiss.METRIC_INNER_PRODUCT)
        ivf.cp.max_points_per_centroid = 64
        seconds = timed(lambda: (ivf.train(vectors[: 64 * lists]), ivf.add(vectors)))
        for probes in (16, 32, 64, 128, 256):
            ivf.nprobe = probes
            yield Setting("FAISS IVF-Flat", f"{probes} probes", find(ivf), 4 * dimension + 8, seconds)
    if "hnsw" in wanted:
        hnsw = faiss.IndexHNSWFlat(dimension, 32, faiss.METRIC_INNER_PRODUCT)
        hnsw.hnsw.efConstruction = 100
        faiss.omp_set_num_threads(BUILDING)
        seconds = timed(lambda: hnsw.add(vectors))
        faiss.omp_set_num_threads(1)
        for ef in (100, 200, 400):
            hnsw.hnsw.efSearch = ef
            yield Setting("FAISS HNSW32", f"ef {ef}", find(hnsw), 4 * dimension + 272, seconds)


def ours(folder: Path, dimension: int) -> Iterator[Setting]:
    """The index of the folder, searched as the product does; full vectors stay on disk, memory-mapped.

    So does the eight-bit copy of a large one (`mundap bench scale` makes it from 2 million passages on).
    """
    import faiss

    faiss.omp_set_num_threads(1)
    corpus = corpus_of(folder, dimension)
    built = json.loads((folder / "build.json").read_bytes())["build_cpu_seconds"]
    bytes_each = entry_of(folder, len(corpus)).file.bytes / len(corpus)

    def setting(name: str, effort: Effort) -> Setting:
        index = dense.Dense(folder, corpus, entry_of(folder, len(corpus), effort))
        knob = f"{index.effort.probes} probes x{index.effort.candidates}"
        return Setting(
            name, knob, lambda questions: np.array([row for row, _ in index.search(questions, K)]), bytes_each, built
        )

    yield setting("mundap (default)", Effort(0, 0))
    for effort in (Effort(32, 3), Effort(64, 3), Effort(128, 3), Effort(128, 4), Effort(256, 4), Effort(512, 8)):
        yield setting("mundap", effort)


def rabitq_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """FAISS's IVF with one bit a dimension, re-ranked by the vectors, which it holds in memory."""
    import faiss

    faiss.omp_set_num_threads(1)
    count, dimension = vectors.shape
    lists = int(4 * count**0.5)
    index = faiss.index_factory(dimension, f"IVF{lists},RaBitQfs,RFlat", faiss.METRIC_INNER_PRODUCT)
    ivf = faiss.extract_index_ivf(index)
    ivf.cp.max_points_per_centroid = 64
    seconds = timed(lambda: (index.train(vectors[: 64 * lists]), index.add(vectors)))
    for probes, factor in ((32, 8), (64, 8), (128, 16), (256, 16)):

        def find(questions: np.ndarray, probes: int = probes, factor: int = factor) -> np.ndarray:
            ivf.nprobe, index.k_factor = probes, factor
            return index.search(questions, K)[1]

        bytes_each = ivf.code_size + 8 + 4 * dimension
        yield Setting("FAISS IVF-RaBitQ", f"{probes} probes x{factor}", find, bytes_each, seconds)


def milvus_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """milvus-lite 3: FAISS's IVF-Flat behind a server in threads of this process, so that its CPU time counts.

    Version 3.2.2 makes 128 lists, whatever pymilvus 3.0.2 asks for.
    """
    from pymilvus import DataType, MilvusClient

    lists = int(4 * len(vectors) ** 0.5)
    with tempfile.TemporaryDirectory() as folder:
        client = MilvusClient(f"{folder}/vectors.db")
        schema = client.create_schema(auto_id=False, enable_dynamic_field=False)
        schema.add_field("id", DataType.INT64, is_primary=True)
        schema.add_field("vector", DataType.FLOAT_VECTOR, dim=vectors.shape[1])
        wanted = client.prepare_index_params()
        wanted.add_index("vector", index_type="IVF_FLAT", metric_type="IP", params={"nlist": lists})

        def build() -> None:
            client.create_collection("vectors", schema=schema)
            for start in range(0, len(vectors), 1000):
                part = vectors[start : start + 1000]
                client.insert("vectors", [{"id": start + row, "vector": one} for row, one in enumerate(part)])
            client.flush("vectors")
            client.create_index("vectors", wanted)
            client.load_collection("vectors")

        seconds = timed(build)
        for probes in (16, 32, 64, 128):

            def find(questions: np.ndarray, probes: int = probes) -> np.ndarray:
                how = {"metric_type": "IP", "params": {"nprobe": probes}}
                found = client.search("vectors", list(questions), limit=K, search_params=how)
                return np.array([[hit["id"] for hit in one] for one in found])

            yield Setting("milvus-lite IVF-Flat", f"{probes} probes", find, 4 * vectors.shape[1] + 8, seconds)
        client.close()


def hnswlib_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """The original HNSW."""
    import hnswlib

    index = hnswlib.Index("ip", vectors.shape[1])
    index.init_index(len(vectors), M=32, ef_construction=100)
    index.set_num_threads(1)
    seconds = timed(lambda: index.add_items(vectors, num_threads=BUILDING))
    for ef in (100, 200, 400):
        index.set_ef(ef)
        yield Setting(
            "hnswlib",
            f"ef {ef}",
            lambda questions: index.knn_query(questions, K, num_threads=1)[0].astype(np.int64),
            4 * vectors.shape[1] + 280,
            seconds,
        )


def usearch_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """HNSW of Unum, in half precision."""
    from usearch.index import Index

    index = Index(ndim=vectors.shape[1], metric="ip", dtype="f16", connectivity=32, expansion_add=100)
    seconds = timed(lambda: index.add(np.arange(len(vectors)), vectors, threads=BUILDING))
    for ef in (100, 200, 400):
        index.expansion_search = ef

        def find(questions: np.ndarray) -> np.ndarray:
            keys = index.search(questions, K, threads=1).keys
            return np.asarray(keys).reshape(len(questions), -1).astype(np.int64)

        yield Setting("usearch f16", f"ef {ef}", find, index.memory_usage / len(vectors), seconds)


def voyager_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """HNSW of Spotify, in eight bits."""
    import voyager

    index = voyager.Index(voyager.Space.InnerProduct, vectors.shape[1], M=32, ef_construction=100)
    seconds = timed(lambda: index.add_items(vectors, num_threads=BUILDING))
    for ef in (100, 200, 400):
        yield Setting(
            "voyager",
            f"ef {ef}",
            lambda questions, ef=ef: index.query(questions, K, num_threads=1, query_ef=ef)[0].astype(np.int64),
            4 * vectors.shape[1] + 280,
            seconds,
        )


def scann_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """ScaNN with SOAR: a tree, four-bit codes, re-ranked by the vectors, which it holds in memory."""
    import scann

    leaves = int(2 * len(vectors) ** 0.5)
    found: list[Any] = []
    seconds = timed(
        lambda: found.append(
            scann.scann_ops_pybind.builder(vectors, K, "dot_product")
            .set_n_training_threads(BUILDING)
            .tree(leaves, leaves // 20, training_sample_size=100_000, soar_lambda=1.5)
            .score_ah(2, anisotropic_quantization_threshold=0.2)
            .reorder(300)
            .build()
        )
    )
    for share in (0.01, 0.025, 0.05, 0.1, 0.2):
        probes = max(1, round(leaves * share))

        def find(questions: np.ndarray, probes: int = probes) -> np.ndarray:
            if len(questions) == 1:
                return found[0].search(questions[0], leaves_to_search=probes)[0][None].astype(np.int64)
            return found[0].search_batched(questions, leaves_to_search=probes)[0].astype(np.int64)

        yield Setting("ScaNN SOAR", f"{share:.1%}, reorder 300", find, 224 + 4 * vectors.shape[1], seconds)


def svs_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """Intel's Scalable Vector Search: a Vamana graph, vectors in half precision."""
    import svs

    found: list[Any] = []

    def build() -> None:
        parameters = svs.VamanaBuildParameters(graph_max_degree=32, window_size=100, alpha=0.95)
        halves = np.ascontiguousarray(vectors, np.float16)
        found.append(svs.Vamana.build(parameters, halves, svs.DistanceType.MIP, num_threads=BUILDING))

    seconds = timed(build)
    index = found[0]
    index.num_threads = 1
    for window in (100, 200, 400):
        index.search_window_size = window
        yield Setting(
            "SVS Vamana f16",
            f"window {window}",
            lambda questions: np.asarray(index.search(questions, K)[0]).astype(np.int64),
            2 * vectors.shape[1] + 4 * 33,
            seconds,
        )


def diskann_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """DiskANN's index in memory: a Vamana graph."""
    import diskannpy

    with tempfile.TemporaryDirectory() as folder:
        seconds = timed(
            lambda: diskannpy.build_memory_index(
                vectors, "mips", folder, complexity=100, graph_degree=32, num_threads=BUILDING, index_prefix="ann"
            )
        )
        index = diskannpy.StaticMemoryIndex(folder, num_threads=1, initial_search_complexity=400, index_prefix="ann")
        for complexity in (100, 200, 400):

            def find(questions: np.ndarray, complexity: int = complexity) -> np.ndarray:
                return np.asarray(index.batch_search(questions, K, complexity, 1).identifiers).astype(np.int64)

            yield Setting("DiskANN (memory)", f"L {complexity}", find, 4 * vectors.shape[1] + 4 * 33, seconds)


def lancedb_kind(vectors: np.ndarray) -> Iterator[Setting]:
    """LanceDB: IVF-PQ on disk, re-ranked by the vectors there."""
    import lancedb
    import pyarrow

    with tempfile.TemporaryDirectory() as folder:
        flat = pyarrow.FixedSizeListArray.from_arrays(pyarrow.array(vectors.ravel()), vectors.shape[1])
        rows = pyarrow.table({"id": np.arange(len(vectors)), "vector": flat})
        table = lancedb.connect(folder).create_table("vectors", rows)
        lists = int(2 * len(vectors) ** 0.5)
        seconds = timed(
            lambda: table.create_index(
                metric="dot", num_partitions=lists, num_sub_vectors=vectors.shape[1] // 4, index_type="IVF_PQ"
            )
        )
        for probes, factor in ((32, 4), (64, 8), (128, 8)):

            def find(questions: np.ndarray, probes: int = probes, factor: int = factor) -> np.ndarray:
                found = [
                    table.search(question).metric("dot").nprobes(probes).refine_factor(factor).limit(K).select(["id"])
                    for question in questions
                ]
                return np.array([one.to_arrow()["id"].to_numpy() for one in found])

            yield Setting("LanceDB IVF-PQ", f"{probes} probes x{factor}", find, vectors.shape[1] // 4 + 8, seconds)


OTHERS = {
    "rabitq": ("faiss", rabitq_kind),
    "scann": ("scann", scann_kind),
    "hnswlib": ("hnswlib", hnswlib_kind),
    "usearch": ("usearch", usearch_kind),
    "voyager": ("voyager", voyager_kind),
    "svs": ("svs", svs_kind),
    "diskann": ("diskannpy", diskann_kind),
    "lancedb": ("lancedb", lancedb_kind),
    "milvus-lite": ("milvus_lite", milvus_kind),
}


def timed(work: Callable[[], Any]) -> float:
    """CPU seconds it takes."""
    started = time.process_time()
    work()
    return time.process_time() - started


def measure(setting: Setting, questions: np.ndarray, truth: np.ndarray) -> dict[str, Any]:
    """Recall, and questions a second of CPU time, so that another job on the machine does not count."""
    rows = setting.find(questions[: len(truth)])
    recall = float(np.mean([np.isin(want, have).mean() for have, want in zip(rows, truth, strict=True)]))
    questions = questions[:500]
    setting.find(questions)  # what they need is in memory then
    together = timed(lambda: setting.find(questions))
    few = questions[:150]
    alone = timed(lambda: [setting.find(question[None]) for question in few])
    return {
        "name": setting.name,
        "knob": setting.knob,
        "recall": round(recall, 4),
        "batch_per_cpu_second": round(len(questions) / together, 1),
        "one_per_cpu_second": round(len(few) / alone, 1),
        "bytes_a_vector": round(setting.bytes, 1),
        "build_cpu_seconds": round(setting.build, 1),
    }


def contenders(folder: Path, dimension: int, wanted: set[str]) -> Iterator[Setting | str]:
    """Every setting of all that is installed; a line of text for what is not."""
    if "mundap" in wanted:
        yield from ours(folder, dimension)
    if wanted == {"mundap"}:
        return  # ours leaves the vectors where they are, which may be more than fit into memory
    stored = corpus_of(folder, dimension)
    vectors = stored.vectors(np.arange(len(stored), dtype=np.uint64))
    yield from faiss_kinds(vectors, wanted)
    for name, (module, kind) in OTHERS.items():
        if name not in wanted:
            continue
        try:
            importlib.import_module(module)
            yield from kind(vectors)
        except Exception as error:  # other people's programs: one that fails must not end the run
            yield f"{name}: {type(error).__name__}: {str(error)[:200]}"


def main() -> None:
    """Measure all, one after another; every line is written as soon as it is known."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path, help="one size of `mundap bench scale`")
    names = ["mundap", "flat", "ivf", "hnsw", *OTHERS]
    parser.add_argument("--only", nargs="*", default=names, choices=names)
    parser.add_argument("--out", type=Path, help="where the table and the plot go [default: the folder]")
    arguments = parser.parse_args()
    with np.load(arguments.folder.parent / "bank.npz", allow_pickle=False) as bank:
        questions, dimension = bank["questions"], bank["vectors"].shape[1]
    truth = np.load(arguments.folder / "exact.npy", allow_pickle=False)
    out = arguments.out or arguments.folder
    out.mkdir(parents=True, exist_ok=True)
    results: list[dict[str, Any]] = []
    kept = out / "vectors.jsonl"
    for setting in contenders(arguments.folder, dimension, set(arguments.only)):
        line = {"left_out": setting} if isinstance(setting, str) else measure(setting, questions, truth)
        with kept.open("a") as file:
            file.write(json.dumps(line) + "\n")
        sys.stdout.write(json.dumps(line) + "\n")
        sys.stdout.flush()
    results = [json.loads(line) for line in kept.read_text().splitlines()]
    plot(out / "vectors.html", [one for one in results if "name" in one])


def plot(path: Path, results: list[dict[str, Any]]) -> None:
    """Questions a second against recall: up and to the right is better."""
    curves: dict[str, list[tuple[float, float]]] = {}
    for one in results:
        curves.setdefault(one["name"], []).append((one["recall"], one["one_per_cpu_second"]))
    chart = line_chart({name: sorted(points) for name, points in curves.items()}, "recall@100", "questions/s a core")
    write_page(path, "Vector indexes", [f"<h1>Vector indexes, one core, one question at a time</h1>{chart}"])


if __name__ == "__main__":
    main()
