import faiss
import numpy as np
import pytest

from mundap.index import dense
from mundap.index.corpus import Corpus
from mundap.index.manifest import DenseEntry, FileEntry, Manifest, Settings
from mundap.index.segment import SourceState
from mundap.index.segment_writer import SegmentWriter
from mundap.records import Document

DIMENSION = 32


def make_corpus(root, sizes, seed=0):
    """Segments of random vectors around a few centres, not of length one."""
    generator = np.random.default_rng(seed)
    centres = generator.standard_normal((20, DIMENSION))
    entries, first, vectors = [], 0, []
    for n, size in enumerate(sizes):
        writer = SegmentWriter(root, f"{n:06d}", first, DIMENSION)
        writer.begin_source(SourceState(f"s{n}", 0, 0, b"", done=True))
        made = (centres[generator.integers(20, size=size)] + generator.standard_normal((size, DIMENSION))).astype(
            np.float16
        )
        for row in range(size):
            writer.add(Document(f"d{first + row}", "x", whole=True), [(0, 1)], ["en"], first + row)
        writer.add_vectors(made)
        entries.append(writer.close())
        vectors.append(made.astype(np.float32))
        first += size
    manifest = Manifest(Settings(dimension=DIMENSION), "lexical", next_number=first, segments=tuple(entries))
    questions = (centres[:8] + generator.standard_normal((8, DIMENSION))).astype(np.float32)
    return Corpus(root, manifest), np.concatenate(vectors), questions


def reference(vectors, questions, k):
    index = faiss.IndexFlatIP(DIMENSION)
    index.add(vectors)
    return index.search(questions, k)


def test_exact_search_equals_faiss_flat_across_segments(tmp_path):
    corpus, vectors, questions = make_corpus(tmp_path, [3000, 9000, 1])
    scores, numbers = reference(vectors, questions, 20)
    for row, (found, score) in enumerate(dense.Dense(tmp_path, corpus, None).search(questions, 20)):
        assert list(found) == list(numbers[row])
        assert score == pytest.approx(scores[row], rel=1e-4)


def test_a_scan_in_blocks_finds_what_a_scan_at_once_finds(tmp_path, monkeypatch):
    corpus, _, questions = make_corpus(tmp_path, [3000, 2500])
    at_once = dense.Dense(tmp_path, corpus, None).search(questions, 40)
    monkeypatch.setattr(dense, "EXACT_UP_TO", 0)
    monkeypatch.setattr(dense, "_BLOCK", 700)
    in_blocks = dense.Dense(tmp_path, corpus, None)
    assert not isinstance(in_blocks._blocks(), list)
    for (one, _), (two, _) in zip(at_once, in_blocks.search(questions, 40), strict=True):
        assert list(one) == list(two)


def approximate(root, corpus, kind, until):
    path = root / "dense.faiss"
    dense.build(corpus, kind, path)
    return dense.Dense(
        root, corpus, DenseEntry(FileEntry("dense.faiss", path.stat().st_size, ""), kind, until, len(corpus))
    )


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_search_finds_nearly_everything_with_exact_scores(tmp_path, kind):
    corpus, vectors, questions = make_corpus(tmp_path, [12000])
    scores, numbers = reference(vectors, questions, 50)
    found = approximate(tmp_path, corpus, kind, 12000).search(questions, 50)
    recall = np.mean([len(set(a) & set(b)) / 50 for (a, _), b in zip(found, numbers.tolist(), strict=True)])
    assert recall > 0.9
    for ours, ranking in found:
        row = next(i for i, (a, _) in enumerate(found) if a is ours)
        assert ranking == pytest.approx(vectors[ours.astype(int)] @ questions[row], rel=1e-4)
        assert list(ranking) == sorted(ranking, reverse=True)


def test_an_index_of_an_earlier_version_is_searched_with_more_candidates(tmp_path, monkeypatch):
    corpus, _, questions = make_corpus(tmp_path, [9000])
    new = approximate(tmp_path, corpus, "ivf", 9000).effort
    monkeypatch.setattr(dense, "codes_for", lambda dimension: "RaBitQfs")
    old = approximate(tmp_path, corpus, "ivf", 9000)
    assert old.effort.candidates > new.candidates
    assert len(old.search(questions, 20)[0][0]) == 20


def test_a_batch_finds_what_its_questions_find_one_by_one(tmp_path):
    corpus, _, questions = make_corpus(tmp_path, [3000, 9000])
    index = approximate(tmp_path, corpus, "ivf", 12000)
    corpus.deleted = np.sort(index.search(questions[:1], 9)[0][0][::2])
    questions = np.concatenate([questions] * 5)
    alone = [index.search(question[None], 30)[0] for question in questions]
    for (one, score), (two, other) in zip(alone, index.search(questions, 30), strict=True):
        assert list(one) == list(two)
        assert score == pytest.approx(other, rel=1e-5)
        assert not set(two) & set(corpus.deleted)


def test_what_was_tuned_is_what_is_searched(tmp_path):
    corpus, vectors, questions = make_corpus(tmp_path, [9000])
    index = approximate(tmp_path, corpus, "ivf", 9000)
    loose, strict = (index.tune(questions, 50, wanted) for wanted in (0.6, 0.95))
    assert strict.recall >= 0.95
    assert strict.effort.probes > loose.effort.probes
    numbers = reference(vectors, questions, 50)[1]
    entry = DenseEntry(index._entry.file, "ivf", 9000, 9000, *strict.effort)
    found = dense.Dense(tmp_path, corpus, entry).search(questions, 50)
    recall = np.mean([len(set(a) & set(b)) / 50 for (a, _), b in zip(found, numbers.tolist(), strict=True)])
    assert recall == pytest.approx(strict.recall, abs=0.01)


def test_as_many_are_found_as_are_asked_for_even_if_the_lists_probed_hold_fewer(tmp_path):
    corpus, _, questions = make_corpus(tmp_path, [9000])
    index = approximate(tmp_path, corpus, "ivf", 9000)
    narrow = dense.Dense(tmp_path, corpus, DenseEntry(index._entry.file, "ivf", 9000, 9000, 2, 4))
    assert [len(numbers) for numbers, _ in narrow.search(questions, 3000)] == [3000] * 8
    assert len(narrow.search(questions[:1], 10)[0][0]) == 10
    assert narrow._ann.nprobe == 2


def test_passages_newer_than_the_approximate_index_are_found(tmp_path):
    old, _, _ = make_corpus(tmp_path / "old", [5000])
    corpus, vectors, questions = make_corpus(tmp_path / "all", [5000, 500])
    assert len(old) == 5000
    index = approximate(tmp_path / "all", corpus, "ivf", 5000)
    best = vectors[5000:] @ questions[0]
    target = 5000 + int(best.argmax())
    wanted = (vectors[target] / np.linalg.norm(vectors[target])) * 100
    assert int(index.search(wanted[None], 1)[0][0][0]) == int((vectors @ wanted).argmax())


def test_filters_and_tombstones(tmp_path):
    corpus, vectors, questions = make_corpus(tmp_path, [4000, 4000])
    index = dense.Dense(tmp_path, corpus, None)
    even = np.arange(0, 8000, 2, dtype=np.uint64)
    corpus.deleted = even + np.uint64(1)
    numbers, _ = index.search(questions[:1], 10)[0]
    assert list(numbers) == list(even[np.argsort(-(vectors[even.astype(int)] @ questions[0]), kind="stable")[:10]])
    some = np.array([5, 4500, 77, 7999], np.uint64)
    found, _ = index.search_among(questions[0], 2, some)
    assert list(found) == list(some[np.argsort(-(vectors[some.astype(int)] @ questions[0]))[:2]])


def test_the_kind_follows_the_size():
    assert dense.kind_for("auto", 1000) == "exact"
    assert dense.kind_for("auto", 10**6) == "ivf"
    assert dense.kind_for("hnsw", 1000) == "hnsw"
    assert dense.kind_for("ivf", 5) == "exact"
    with pytest.raises(Exception, match="choose one of"):
        dense.kind_for("nonsense", 1)
