"""Every step of docs/operations.md, in its order, in a folder with documents and an index that has what it is for."""

import json
import re
import shlex
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

from mundap import Index
from mundap.index.build import Options, build
from mundap.index.verify import damaged_passages, verify
from tests.systems import not_windows

PAGE = Path(__file__).parent.parent / "docs" / "operations.md"
GOLDEN = Path(__file__).parent / "index" / "golden" / "format-1.tar.gz"


def commands():
    blocks = re.findall(r"```console\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
    return [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ ")]


def cut_passages(folder):
    next((folder / "my-index").glob("segments/*/strings.bin")).write_bytes(b"")
    assert damaged_passages(folder / "my-index")


def cut_lexical(folder):
    next((folder / "my-index").glob("lexical-*/meta.json")).unlink()
    assert verify(folder / "my-index") and not damaged_passages(folder / "my-index")


def remove_documents(folder):
    for path in sorted((folder / "docs").iterdir())[1:]:
        path.unlink()


def die_in_a_build(folder):
    """A process that is killed after it has read a file, and before it commits."""
    (folder / "docs" / "new.txt").write_text("the queen of the hill")
    code = (
        "import os, signal, sys\n"
        "from mundap.index.writer import Writer\n"
        "Writer.commit = lambda *a, **k: os.kill(os.getpid(), signal.SIGKILL)\n"
        "from mundap.cli import run\n"
        "run(['index', 'docs', '-o', 'my-index'])\n"
    )
    assert subprocess.run([sys.executable, "-c", code], cwd=folder).returncode < 0
    assert not Index(folder / "my-index").search("queen")


def put_an_old_one(folder):
    shutil.rmtree(folder / "my-index")
    with tarfile.open(GOLDEN) as archive:
        archive.extractall(folder / "old", filter="data")
    (folder / "old" / "index").rename(folder / "my-index")


def index_format(folder):
    return json.loads((folder / "my-index" / "manifest.json").read_text())["format"]


# What has happened before a step, what is true after it, and an exit code other than 0.
BEFORE = {
    "mv my-index damaged": cut_passages,
    "mundap verify -i my-index --repair": cut_lexical,
    "mundap index docs -o my-index --fresh": cut_passages,
    "mundap index docs -o my-index --fresh --force": remove_documents,
    "mundap index docs -o my-index": die_in_a_build,
    "mundap backup -i my-index -o copies/before-upgrade": put_an_old_one,
}
AFTER = {
    "cp -r copies/monday my-index": lambda folder: Index(folder / "my-index").documents == 3,
    "mundap verify -i my-index --repair": lambda folder: Index(folder / "my-index").documents == 3,
    "mundap index docs -o my-index --fresh": lambda folder: Index(folder / "my-index").documents == 3,
    "mundap index docs -o my-index --fresh --force": lambda folder: Index(folder / "my-index").documents == 1,
    "mundap index docs -o my-index": lambda folder: len(Index(folder / "my-index").search("queen")) == 1,
    "mundap backup -i my-index -o copies/before-upgrade": lambda folder: index_format(folder) == 1,
    "mundap compact -i my-index": lambda folder: index_format(folder) == 2,
}
CODES = {"mundap index docs -o my-index --fresh": 3}  # what was uploaded to a damaged index is lost, which it says


@not_windows
def test_every_step_runs_and_does_what_it_is_for(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(3):
        (docs / f"{n}.txt").write_text(f"the king of the hill, number {n}")
    build([docs], tmp_path / "my-index", Options(model="none"))
    steps = commands()
    assert len(steps) >= 10
    assert {*BEFORE, *AFTER} <= set(steps)
    for step in steps:
        if step in BEFORE:
            BEFORE[step](tmp_path)
        words = shlex.split(step)
        if words[0] == "mundap":
            words = [sys.executable, "-m", *words]
        done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True)
        assert done.returncode == CODES.get(step, 0), f"{step}: {done.stdout}{done.stderr}"
        if step in AFTER:
            assert AFTER[step](tmp_path), step
            assert verify(tmp_path / "my-index") == []
