"""What the documents say is what the program does."""

import re
import runpy
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


def test_the_page_of_commands_is_the_programs_own_help():
    made = runpy.run_path(str(ROOT / "docs" / "commands.py"))["text"]()
    assert (ROOT / "docs" / "commands.md").read_text("utf-8") == made, "run: python docs/commands.py"


def readme_commands():
    text = (ROOT / "README.md").read_text("utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ mundap")]
    return [
        line.split("  #")[0].strip()
        for line in lines
        if not re.search("models export|my-model|mundap train|mundap serve|mundap reproduce", line)
    ]


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("readme")
    shutil.copytree(ROOT / "examples", folder / "examples")
    for name in ("docs/a.md", "drafts/b.txt", "more/c.txt"):
        (folder / name).parent.mkdir()
        (folder / name).write_text(
            "---\nlanguage: ko\n---\nThe king of the hill." if name.endswith("md") else "A text."
        )
    (folder / "paper.pdf").write_bytes(b"%PDF-1.4 broken on purpose")
    return folder


def test_the_readme_has_commands():
    assert len(readme_commands()) >= 8


@pytest.mark.parametrize("command", readme_commands())
def test_readme_commands_run(command, folder):
    words = [word if word != "…" else "king" for word in shlex.split(command)]
    done = subprocess.run(
        [sys.executable, "-c", "from mundap.cli import run; run()", *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        stdin=subprocess.DEVNULL,  # for an assistant's server the end
    )
    # The PDF is broken and the pattern may match nothing: then the exit code says that something was skipped.
    assert done.returncode in (0, 3), done.stderr
    # What one command writes is what the next one is about.
    assert "have no prediction" not in done.stderr


def test_readme_python_runs(folder):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "기생충" in done.stdout.splitlines()[0]


def test_no_registry_host_is_named():
    names = re.compile(r"https?://[a-z0-9.-]*(pypi|pythonhosted|npmjs|debian)\.", re.IGNORECASE)
    files = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".md", ".toml", ".txt", "") and path.is_file()]
    tracked = [path for path in files if not {".venv", ".git"} & set(path.relative_to(ROOT).parts)]
    assert [str(path) for path in tracked if names.search(path.read_text("utf-8", "ignore"))] == []
