"""Scripts of benchmarks/ that can be tried in seconds: that they measure what they say."""

import json
import os
import subprocess
import sys
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from mundap.bench.work import CODES, COPY, EXACT, corpus_of
from mundap.index import dense
from mundap.reader.answering import answer_from
from mundap.reader.runtime import Reader
from tests.bench.parts import DIMENSION, a_bank, real_vectors
from tests.conftest import make_reader
from tests.pipeline.test_early import CURVE, KING_FIRST

BENCHMARKS = Path(__file__).parent.parent.parent / "benchmarks"


@pytest.fixture
def scripts(monkeypatch):
    monkeypatch.syspath_prepend(str(BENCHMARKS))


def run(script, *words, runs):
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path)), "MUNDAP_RUNS": str(runs)}
    command = [sys.executable, BENCHMARKS / script, *map(str, words)]
    return subprocess.run(command, capture_output=True, text=True, env=environment)


def test_ours_is_searched_with_the_eight_bit_copy_where_there_is_one(tmp_path):
    a_bank(400).save(tmp_path / "bank.npz")
    place = tmp_path / "2000"
    part = place / "segments" / "000000" / "vectors.bin"
    part.parent.mkdir(parents=True)
    part.write_bytes(real_vectors(2000).astype(np.float16).tobytes())
    corpus = corpus_of(place, DIMENSION)
    dense.build(corpus, "ivf", place / CODES, place / COPY)
    (place / "build.json").write_text(json.dumps({"build_cpu_seconds": 1.0}))
    found = dense.Dense(place, corpus, None).search(real_vectors(10, seed=5), 100)
    np.save(place / EXACT, np.array([numbers for numbers, _ in found], np.int64))
    done = run("vectors.py", place, "--only", "mundap", "rabitq", runs=tmp_path)
    lines = [json.loads(line) for line in done.stdout.splitlines()]
    assert {"mundap (default)", "mundap", "FAISS IVF-RaBitQ"} == {line["name"] for line in lines}, done.stderr
    os.truncate(place / COPY, 100)
    done = run("vectors.py", place, "--only", "mundap", runs=tmp_path)
    assert "dense.bytes" in done.stderr


@pytest.mark.torch
def test_the_peer_of_reading_stops_where_ours_does(scripts, tmp_path):
    torch = pytest.importorskip("torch")
    import onnxruntime

    from reading import ByHand

    folder = make_reader(tmp_path / "reader", confidence=CURVE, early_stop=0.85)
    network = onnxruntime.InferenceSession(folder / "reader.fp32.onnx", providers=["CPUExecutionProvider"])
    peer = ByHand.__new__(ByHand)
    peer._torch, peer._reader, peer._length, peer.read_windows = torch, Reader(folder), 128, 0
    peer._model = lambda ids, mask: [torch.from_numpy(one) for one in network.run(None, {"input_ids": ids.numpy()})]
    for threshold, read in ((None, 2), (0.9, 6)):  # the king is sure enough to stop at, unless more is wanted
        peer.read_windows = 0
        ours = answer_from(peer._reader, "who?", KING_FIRST, threshold=threshold)
        assert peer.read("who?", KING_FIRST, threshold).text == ours.answers[0].text
        assert (peer.read_windows, len(ours.readings)) == (read, read)


def test_zipfian_text_is_the_same_again_and_as_uneven_as_a_language(scripts, monkeypatch):
    import zipf

    monkeypatch.setattr(zipf, "BLOCK", 500)
    texts = list(zipf.passages(1200, 0))
    assert (len(texts), len(set(texts))) == (1200, 1200)
    assert texts[:700] == list(zipf.passages(700, 0))
    assert texts[:5] != list(islice(zipf.passages(700, 1), 5))
    words, counts = np.unique(" ".join(texts).split(), return_counts=True)
    counts = np.sort(counts)[::-1]
    slope = np.polyfit(np.log(np.arange(10, 1000)), np.log(counts[10:1000]), 1)[0]
    assert -1.2 < slope < -0.8  # Zipf's law
    assert 5000 < len(words) < 15_000
    assert len({zipf.word(number) for number in range(20_000)}) == 20_000


def test_growth_and_changes_of_a_small_index(tmp_path):
    done = run("zipf.py", "-n", 1000, "-o", tmp_path, runs=tmp_path)
    assert done.returncode == 0, done.stderr
    (size,) = json.loads((tmp_path / "bench" / "zipf.json").read_text())["sizes"]
    assert size["passages"] == 1000
    assert min(size["one_questions_a_second"], size["batch_questions_a_second"], size["memory_mb"]) > 0
    done = run("changes.py", tmp_path / "zipf-1000-0", "-n", 5, "--rounds", 2, runs=tmp_path)
    assert done.returncode == 0, done.stderr
    figures = json.loads((tmp_path / "bench" / "changes.json").read_text())
    for one in figures["rounds"]:
        assert one["passages"] - figures["passages"] == one["added_passages"] >= 5
    assert all(one["searchable_after_seconds"] >= one["add_seconds"] > 0 for one in figures["rounds"])
