"""Every step of docs/operations.md, in its order, in a folder with documents and an index."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from mundap.index.build import Options, build

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"


def commands():
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def test_every_step_runs(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(3):
        (docs / f"{n}.txt").write_text(f"the king of the hill, number {n}")
    build([docs], tmp_path / "my-index", Options(model="none"))
    steps = commands()
    assert len(steps) >= 10
    for step in steps:
        words = shlex.split(step)
        if words[0] == "mundap":
            words = [sys.executable, "-m", *words]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == 0, f"{step}: {done.stdout}{done.stderr}"
