"""Training files on a tiny real checkpoint, and an index of their passages."""

import pytest

from tests.training.ance.parts import write_pool


@pytest.fixture(scope="module")
def pool(files, tmp_path_factory):
    """An index with all passages of the training files and some others; short ones."""
    return write_pool(files, tmp_path_factory.mktemp("pool") / "made")
