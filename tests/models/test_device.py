"""On what networks run. There is no GPU here: what is one to our code runs on the CPU."""

import numpy as np
import onnxruntime
import pytest

from mundap import Encoder, Reader
from mundap.errors import ModelError, UsageError
from mundap.models import device, session
from tests.program import mundap

TEXTS = [("ring", "the lord of the ring"), ("", "water"), ("moon", "a king"), ("sun", "a city"), ("", "music")] * 30


@pytest.fixture
def gpu(monkeypatch):
    """A graphics card that onnxruntime has a provider for, in that it runs on the CPU."""
    monkeypatch.setenv("MUNDAP_DEVICE", "cuda:1")
    monkeypatch.setattr(device, "_ON_CUDA", "CPUExecutionProvider")


def test_without_a_wish_everything_runs_on_the_cpu(monkeypatch):
    monkeypatch.delenv("MUNDAP_DEVICE", raising=False)
    assert device.providers(device.wanted_device()) == ["CPUExecutionProvider"]


def test_a_gpu_is_chosen_by_its_number_with_the_cpu_for_what_it_cannot_do(monkeypatch):
    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    assert device.providers("cuda") == [("CUDAExecutionProvider", {"device_id": 0}), "CPUExecutionProvider"]
    assert device.providers("cuda:3")[0] == ("CUDAExecutionProvider", {"device_id": 3})


@pytest.mark.parametrize("wrong", ["gpu", "cuda:", "cuda:x", "cuda:-1", "cuda1", "CPU"])
def test_a_device_that_is_none(wrong):
    with pytest.raises(UsageError, match="cuda:N"):
        device.providers(wrong)


def test_texts_on_a_gpu_go_through_the_network_together_and_give_the_same(gpu, tiny_model, monkeypatch):
    batched = Encoder(tiny_model)
    sizes = []

    def run_together(session, names, rows):
        sizes.append(len(rows))
        return together(session, names, rows)

    together = session._run_together
    monkeypatch.setattr(session, "_run_together", run_together)
    vectors = batched.encode_passages(TEXTS)
    questions = batched.encode_questions(["the lord", "a king of water"])
    monkeypatch.setenv("MUNDAP_DEVICE", "cpu")
    alone = Encoder(tiny_model)
    assert np.allclose(vectors, alone.encode_passages(TEXTS), atol=1e-6)
    assert np.allclose(questions, alone.encode_questions(["the lord", "a king of water"]), atol=1e-6)
    assert sizes == [len(TEXTS), 2]


def test_a_batch_is_no_larger_than_a_gpu_is_given(gpu, tiny_model):
    seen = []

    class Session:
        def run(self, _, inputs):
            seen.append(inputs["input_ids"].shape)
            return [inputs["input_ids"]]

    rows = [{"input_ids": np.full((1, 3 + n % 2), n)} for n in range(200)]
    found = session._run_together(Session(), ["input_ids"], rows)
    assert [int(one[0][0, 0]) for one in found] == list(range(200))
    assert seen == [(64, 3), (36, 3), (64, 4), (36, 4)]


def test_a_reader_on_a_gpu_reads_the_same(gpu, tiny_reader, monkeypatch):
    passages = [("ring", "the villain is a lord"), ("", "a king"), ("moon", "the king of water")]
    found = Reader(tiny_reader).read("the villain", passages)
    monkeypatch.setenv("MUNDAP_DEVICE", "cpu")
    for ours, theirs in zip(found, Reader(tiny_reader).read("the villain", passages), strict=True):
        assert np.array_equal(ours[0].starts, theirs[0].starts)
        assert ours[0].selection == theirs[0].selection


def test_what_onnxruntime_cannot_use_is_said_with_what_to_install(corpus, tmp_path, tiny_model):
    for words in (("index", corpus, "-o", tmp_path / "i"), ("encode", corpus, "-o", tmp_path / "v")):
        code, _, err = mundap(*words, "--model", tiny_model, "--device", "cuda")
        assert (code, "pip install onnxruntime-gpu" in err) == (1, True)
        code, _, err = mundap(*words, "--model", tiny_model, "--device", "tpu")
        assert (code, "cuda:N" in err) == (2, True)
    assert list(tmp_path.glob("[iv]")) == []
    code, _, err = mundap("index", corpus, "-o", tmp_path / "i", "--ray", "--device", "cuda")
    assert (code, "MUNDAP_DEVICE" in err) == (2, True)


def test_falling_back_to_the_cpu_is_refused(tiny_model, monkeypatch):
    """onnxruntime has the provider, and its libraries are missing: it warns and takes the next."""
    monkeypatch.setenv("MUNDAP_DEVICE", "cuda")
    there = ["CUDAExecutionProvider", "CPUExecutionProvider"]
    monkeypatch.setattr(onnxruntime, "get_available_providers", lambda: there)
    with pytest.raises(ModelError, match="nvidia-smi"):
        Encoder(tiny_model).encode_questions(["the lord"])


def test_the_option_reaches_the_encoder_and_the_index_is_the_same(corpus, tmp_path, tiny_model, monkeypatch):
    seen = []

    def providers(wanted):
        seen.append(wanted)
        return ["CPUExecutionProvider"]

    monkeypatch.setattr(session, "providers", providers)
    monkeypatch.setattr(device, "providers", providers)
    for name, words in (("cpu", ()), ("cuda:1", ("--device", "cuda:1"))):
        seen.clear()
        code, out, _ = mundap("index", corpus, "-o", tmp_path / name, "--model", tiny_model, *words)
        assert (code, set(seen)) == (0, {name})
    made = [sorted((tmp_path / name).glob("segments/*/vectors.bin")) for name in ("cpu", "cuda:1")]
    left, right = (np.fromfile(files[0], np.float16) for files in made)
    assert np.allclose(left, right, atol=1e-3)
