"""The lines of tests/attack/guards.py are where it says, once, and so are the tests that hold them."""

import ast
from pathlib import Path

import pytest

from tests.attack.guards import GUARDS, ROOT


@pytest.mark.parametrize("guard", GUARDS, ids=lambda guard: guard.name)
def test_the_line_and_its_test_are_there(guard):
    text = (ROOT / "src" / "mundap" / guard.file).read_text("utf-8")
    assert text.count(guard.line) == 1
    ast.parse(text.replace(guard.line, guard.broken))
    path, _, name = guard.test.partition("::")
    tree = ast.parse((ROOT / Path(path)).read_text("utf-8"))
    assert name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
