"""The base on a machine that is not Linux: without its modules, functions and files, here and in the child processes."""

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mundap.engines import state
from mundap.index import lexical

# What Windows lacks, taken away before anything else runs; every Python process that finds this file does so.
NOT_LINUX = """
import ctypes, io, os, pathlib, signal, sys
for name in ("fcntl", "resource", "pwd", "grp", "termios"):
    sys.modules[name] = None
for name in ("fork", "forkpty", "getuid", "geteuid", "getgid", "getegid", "fchmod", "chown", "sched_getaffinity", "statvfs",
             "killpg", "setsid", "setpgid", "mkfifo", "getloadavg", "sysconf", "O_NOFOLLOW", "O_DIRECTORY"):
    delattr(os, name)
for name in ("SIGBUS", "SIGHUP", "SIGPIPE", "SIGALRM", "SIGUSR1"):
    delattr(signal, name)

def refused(*names, **settings):
    raise OSError(1, "no links here")

os.symlink = os.link = refused
opened, statted, loaded = io.open, os.stat, ctypes.CDLL.__init__

def missing(path):
    if str(path).startswith(("/proc", "/dev/fd")):
        raise FileNotFoundError(2, "no such file", str(path))

def open_elsewhere(file, *rest, **settings):
    missing(file)
    return opened(file, *rest, **settings)

def stat_elsewhere(path, **settings):
    missing(path)
    return statted(path, **settings)

def load_elsewhere(self, name=None, *rest, **settings):
    if name is None:
        raise TypeError("a library without a name")
    loaded(self, name, *rest, **settings)

io.open, os.stat, ctypes.CDLL.__init__ = open_elsewhere, stat_elsewhere, load_elsewhere
"""
INDEX_AND_ASK = """
import json, sys
from pathlib import Path
import faiss
from mundap import Index, Reader

read = faiss.read_index

def read_elsewhere(name):
    if name.startswith("/dev/fd"):
        raise RuntimeError("no such file")
    return read(name)

faiss.read_index = read_elsewhere
docs, where, model, reader, dense = sys.argv[1:]
index = Index.build([docs], where, model=model, dense=dense)
again = Index.build([docs], where, model=model, dense=dense)
found = again.ask("Who was the king of the river?", reader=Reader(Path(reader)))
print(json.dumps({"answer": found.answers[0].text, "source": found.answers[0].hit.passage.source}))
"""


@pytest.fixture
def not_linux(tmp_path):
    """The environment of a process that has nothing of Linux."""
    folder = tmp_path / "elsewhere"
    folder.mkdir()
    (folder / "sitecustomize.py").write_text(NOT_LINUX)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([str(folder), *filter(None, sys.path)])}


def run(environment, script, *words):
    done = subprocess.run(
        [sys.executable, "-c", script, *map(str, words)], env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("dense", ["exact", "ivf"])
def test_index_and_ask_without_anything_of_linux(tmp_path, not_linux, tiny_model, tiny_reader, dense):
    docs = tmp_path / "docs"
    (docs / "sub").mkdir(parents=True)
    (docs / "sub" / "one.txt").write_text("The villain was king of the river.\n")
    for number in range(80):  # an approximate index is trained on some vectors
        (docs / f"{number}.txt").write_text(f"The moon number {number} is a mountain of water.\n")
    told = json.loads(run(not_linux, INDEX_AND_ASK, docs, tmp_path / "index", tiny_model, tiny_reader, dense))
    assert told["answer"] == "villain"
    assert told["source"].endswith("docs/sub/one.txt")


def test_every_command_can_be_imported_without_anything_of_linux(not_linux):
    script = "import mundap.cli as c, click; x = click.Context(c.main); print(*(c.main.get_command(x, n).name for n in c.main.list_commands(x)))"
    assert "index" in run(not_linux, script).split()
    run(
        not_linux,
        "import mundap.serving.supervisor, mundap.serving.server, mundap.bench.work as w; assert w._anonymous_mb() == 0",
    )


def test_nobody_is_ended_by_asking_whether_he_lives(monkeypatch):
    asked = []
    monkeypatch.setattr(os, "kill", lambda *words: asked.append(words))
    with monkeypatch.context() as windows:
        windows.setattr(os, "name", "nt")
        assert state._alive(1)
    assert not asked
    assert state._alive(1) and asked == [(1, 0)]


def test_a_file_that_cannot_be_linked_is_copied(tmp_path, monkeypatch):
    (tmp_path / "one").write_bytes(b"text")

    def refused(*names, **settings):
        raise OSError(1, "no links here")

    monkeypatch.setattr(os, "symlink", refused)
    lexical._borrow(tmp_path / "one", tmp_path / "two")
    assert (tmp_path / "two").read_bytes() == b"text"


TESTS = Path(__file__).parent
# What a test may not do on every system without saying so, as tests/systems.py has it.
SPECIAL = re.compile(r"SIGKILL|preexec_fn|os\.(fork|mkfifo|killpg|geteuid)\b|[\"']mkfifo[\"']|/proc/|/dev/(full|stdin)")
SAID = re.compile(r"not_windows|linux_only|importorskip\(\"resource\"\)|hasattr\(os, ")
# Only started on Linux: the attacks, the servers of the engines, and these lines.
ELSEWHERE = ("attack/", "engines/milvus_server.py", "engines/test_ray.py", "test_portable.py")


def sources():
    for path in sorted(TESTS.rglob("*.py")):
        name = path.relative_to(TESTS).as_posix()
        if not name.startswith(ELSEWHERE):
            yield name, path.read_text("utf-8")


def test_a_test_that_needs_more_than_windows_has_says_so():
    assert [name for name, text in sources() if SPECIAL.search(text) and not SAID.search(text)] == []


def test_every_test_file_can_be_imported_on_windows():
    missing = {"resource", "fcntl", "pwd", "grp", "termios"}
    for name, text in sources():
        imports = [node for node in ast.parse(text).body if isinstance(node, ast.Import)]
        found = {alias.name for node in imports for alias in node.names}
        assert not missing & found, name
