import os

import pytest

from mundap import Index

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # read when Haystack is imported


@pytest.fixture
def folder(corpus, tmp_path, tiny_model, monkeypatch):
    """The folder of a small index: one.txt, two.md (language=en), 세.txt and five rows."""
    monkeypatch.setattr("mundap.index.build.best_hangul", lambda: "bigrams")  # morphology takes seconds to load
    Index.build([corpus], tmp_path / "i", model=str(tiny_model))
    return tmp_path / "i"
