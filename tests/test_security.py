"""SECURITY.md names, for each line of the threat model, the tests that hold it: they are there."""

import ast
import re
from pathlib import Path

import pytest

HERE = Path(__file__).parent
PAGE = (HERE.parent / "SECURITY.md").read_text("utf-8")
ATTACKS = ("kills", "training", "damage", "limits", "beside", "hostile", "requests", "crowd", "soak")


def rows():
    """The rows of the table of what is guarded against: (what, what is done, tests)."""
    table = PAGE.partition("## What is guarded against")[2].partition("\n## ")[0]
    found = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line[:2] == "| "]
    return found[1:]


def names_in(path):
    tree = ast.parse((HERE.parent / path).read_text("utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0])
def test_each_line_has_tests_that_exist(row):
    names = re.findall(r"`(tests/[^`]+)`", row[2])
    assert names, f"no test holds: {row[0]}"
    assert any("::" in name for name in names), f"no single test is named: {row[0]}"
    for name in names:
        path, _, test = name.partition("::")
        assert (HERE.parent / path).is_file(), name
        if test:
            assert test.startswith("test_"), name
            assert test in names_in(path), name
        else:
            assert Path(path).parent.name == "attack", f"{name}: name the test, not the file"


def test_every_attack_is_part_of_the_suite_and_of_the_page():
    suite = (HERE / "attack" / "run.py").read_text("utf-8")
    for name in ATTACKS:
        assert f'"{name}":' in suite
        assert f"tests/attack/{name}.py" in PAGE
    parts = {path.stem for path in (HERE / "attack").glob("*.py") if "def attack(" in path.read_text("utf-8")}
    assert parts == set(ATTACKS)


def test_the_table_is_read():
    assert len(rows()) >= 15
