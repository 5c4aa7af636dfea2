"""What all tests of training share."""

import sys

import pytest

from tests.training.parts import write_files


@pytest.fixture(autouse=True)
def one_thread(monkeypatch):
    """Models this small are only slowed down by threads, and sums come out the same in every process."""
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    if torch := sys.modules.get("torch"):  # some tests here do without
        torch.set_num_threads(1)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Training files and a tiny real checkpoint."""
    return write_files(tmp_path_factory.mktemp("train"))
