"""docs/findings.md: a place for every table, filled from what `mundap reproduce` wrote."""

import importlib.util
import json
from pathlib import Path

import pytest

from mundap import experiments

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture
def findings():
    spec = importlib.util.spec_from_file_location("findings", DOCS / "findings.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_every_experiment_has_a_place(findings):
    names = [found["name"] for found in findings._PART.finditer(findings.PAGE.read_text("utf-8"))]
    assert sorted(names) == sorted(experiments.EXPERIMENTS)


def test_figures_are_put_in_their_place(findings, tmp_path):
    folder = tmp_path / "speed"
    folder.mkdir()
    text = "## Title\n\nA paper. 10 passages.\n\n| | ms |\n|---|---|\n| row | 1.0 |\n\nCaution.\n\n- claim: holds\n\n### More\n\n- no\n"
    (folder / "results.md").write_text(text)
    facts = {"experiment": "speed", "seconds": 61.2, "cpu_seconds": 1234.5}
    (folder / "results.json").write_text(json.dumps(facts))
    page = "before\n<!-- speed -->\nold\n<!-- / -->\nbetween\n<!-- joint -->\nNot run yet.\n<!-- / -->\nafter\n"
    filled = findings.filled(page, [tmp_path / "none", tmp_path])
    assert filled == findings.filled(filled, [tmp_path])  # again is no change
    made = "A paper. 10 passages.\n\n`mundap reproduce speed`, 61 seconds, 1,234 of processor time.\n\n| | ms |\n|---|---|\n| row | 1.0 |\n\n- claim: holds"
    assert filled == page.replace("old", made)
