"""What the documents say is what the program does."""

import doctest
import importlib
import os
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


def readme_commands(name="README.md"):
    text = (ROOT / name).read_text("utf-8")
    blocks = re.findall(r"```console\n(.*?)```", text, re.DOTALL)
    lines = [line[2:] for block in blocks for line in block.splitlines() if line.startswith("$ mundap")]
    return [
        line.split("  #")[0].strip()
        for line in lines
        if not re.search(
            "models export|my-model|mundap train|mundap serve|mundap reproduce|mundap --lang ko tour", line
        )
    ]


@pytest.fixture(scope="module")
def folder(readme):
    """The README's folder, with the files that its other commands name."""
    for name in ("docs/a.md", "drafts/b.txt", "more/c.txt"):
        (readme / name).parent.mkdir()
        (readme / name).write_text(
            "---\nlanguage: ko\n---\nThe king of the hill." if name.endswith("md") else "A text."
        )
    (readme / "paper.pdf").write_bytes(b"%PDF-1.4 broken on purpose")
    return readme


def test_the_readme_has_commands():
    assert len(readme_commands()) >= 8


def test_the_korean_readme_shows_commands_that_exist():
    assert len(readme_commands("README.ko.md")) >= 8


def shown(name, command):
    """The lines of output that a README shows for a command, without what differs from machine to machine."""
    text = (ROOT / name).read_text("utf-8")
    begin = re.search(rf"^\$ {re.escape(command)}(  +#.*)?$", text, re.MULTILINE)
    block = text[begin.end() + 1 :]
    lines = []
    for line in block.splitlines():
        if line.startswith(("$", "```")):
            break
        if line != "…" and not re.search(r"in [\d.]+ s$|^\s*…$", line):
            lines.append(line.removesuffix(" …").rstrip())
    return lines


def commands_to_run():
    """Those of both READMEs; what stands in both is run twice only where the Korean one shows its output."""
    english, korean = readme_commands(), readme_commands("README.ko.md")
    rest = [command for command in korean if command not in english or shown("README.ko.md", command)]
    return [("README.md", command) for command in english[1:]] + [("README.ko.md", command) for command in rest]


def test_the_first_command_of_the_readme_says_what_it_shows(readme):
    first = readme_commands()[0]
    assert first == "mundap index examples/encyclopedia"  # as the fixture has run it
    printed = (readme / "indexed.txt").read_text("utf-8")
    assert [line for line in shown("README.md", first) if line not in printed] == []


@pytest.mark.parametrize(("name", "command"), commands_to_run())
def test_readme_commands_run(name, command, folder):
    words = [word if word != "…" else "king" for word in shlex.split(command)]
    done = subprocess.run(
        [sys.executable, "-c", "from mundap.cli import run; run()", *words[1:]],
        cwd=folder,
        capture_output=True,
        text=True,
        env={**os.environ, "LANGUAGE": "ko" if name == "README.ko.md" else "en", "LANG": "C.UTF-8", "COLUMNS": "80"},
        stdin=subprocess.DEVNULL,  # for an assistant's server the end
    )
    # Only these two leave something out: the PDF is broken on purpose, and no document is in drafts/.
    skipping = "paper.pdf" in command or "drafts/" in command
    assert done.returncode == (3 if skipping else 0), done.stderr
    # What one command writes is what the next one is about.
    assert "have no prediction" not in done.stderr
    for line in shown(name, command):
        printed = done.stdout.splitlines()
        assert any(alike(line, one) for one in printed), f"{name} shows {line!r}; the program printed:\n{done.stdout}"


MEASURED = r"\d+\.\d+\*?|\d+(?= %)"  # what a model computes: a score, an accuracy, a confidence


def alike(shown, printed):
    """Whether a line is printed as it is shown, but for what processors round differently in eight bits."""
    if not re.sub(MEASURED, "0", printed).startswith(re.sub(MEASURED, "0", shown)):
        return False
    pairs = zip(re.findall(MEASURED, shown), re.findall(MEASURED, printed), strict=False)
    return all(abs(float(one.strip("*")) - float(other.strip("*"))) <= allowed(one) for one, other in pairs)


def allowed(figure):
    """Two points of accuracy or confidence, and .02 of a score."""
    return 2 if float(figure.strip("*")) > 1 else 0.02


def test_lines_are_alike_but_for_rounding():
    assert alike("dense          76.3        93.9", "dense          75.7        93.6  less bm25")
    assert alike("5,895 metres  (67 % sure)", "5,895 metres  (66 % sure)")
    assert not alike("dense          76.3", "dense          73.9")
    assert not alike("5,895 metres  (67 % sure)", "5,896 metres  (67 % sure)")
    assert not alike(" 1. Rings  0.858", " 1. Rings  0.818")
    assert not alike(" 1. Rings  0.858", " 2. Rings  0.858")


def test_readme_python_runs(folder):
    code = re.search(r"```python\n(.*?)```", (ROOT / "README.md").read_text("utf-8"), re.DOTALL).group(1)
    done = subprocess.run([sys.executable, "-c", code], cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "기생충" in done.stdout.splitlines()[0]


def test_the_python_page_runs(readme, tmp_path):
    """All its blocks, one after another; and every public name is on the page.

    The index that it makes is there already, so that the passages are not encoded once more.
    """
    import mundap

    shutil.copytree(readme / "examples", tmp_path / "examples")
    shutil.copytree(readme / ".mundap", tmp_path / "my-index")
    page = (ROOT / "docs" / "python.md").read_text("utf-8")
    code = "\n".join(re.findall(r"```python\n(.*?)```", page, re.DOTALL))
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert "5,895" in done.stdout.splitlines()[0]
    assert "Howard Shore" in done.stdout
    documented = set(re.findall(r"^::: mundap\.(\w+)$", page, re.MULTILINE))
    assert documented == set(mundap.__all__) - {"__version__"}


@pytest.mark.parametrize("module", ["evaluation.api", "encoder.runtime", "reader.runtime"])
def test_the_examples_of_docstrings_run(module):
    """Those of training, which need files, are run by tests/training/test_api.py."""
    found = doctest.testmod(importlib.import_module(f"mundap.{module}"))
    assert found.attempted
    assert not found.failed


def test_no_registry_host_is_named():
    names = re.compile(r"https?://[a-z0-9.-]*(pypi|pythonhosted|npmjs|debian)\.", re.IGNORECASE)
    # Debian's manuals, quoted word for word, name its web site; what serves packages they may not name either.
    in_manuals = re.compile(
        r"https?://([a-z0-9.-]*(pypi|pythonhosted|npmjs)|[a-z0-9.-]*"
        r"(archive|cdn|deb|ftp|http|httpredir|incoming|mirrors?|packages|security|snapshot)[a-z0-9.-]*\.debian)\.",
        re.IGNORECASE,
    )
    manuals = [ROOT / "examples" / "documentation" / part / "documents" for part in ("dev", "test")]
    files = [path for path in ROOT.rglob("*") if path.suffix in (".py", ".md", ".toml", ".txt", "") and path.is_file()]
    tracked = [path for path in files if not {".venv", ".git"} & set(path.relative_to(ROOT).parts)]
    found = []
    for path in tracked:
        quoted = any(path.is_relative_to(folder) for folder in manuals)
        if (in_manuals if quoted else names).search(path.read_text("utf-8", "ignore")):
            found.append(str(path))
    assert found == []


def test_the_architecture_names_every_file_of_the_source_and_no_other():
    text = (ROOT / "docs" / "architecture.md").read_text("utf-8")
    named = set(re.findall(r"`(?:[\w/]+/)?(\w+\.py)`", text))
    source = ROOT / "src" / "mundap"
    there = {path.name for path in source.rglob("*.py") if not path.name.startswith("__") and "cli" not in path.parts}
    cli = {path.name for path in (source / "cli").glob("*.py")}
    assert sorted(there - named) == [], "files that docs/architecture.md does not name"
    assert sorted(named - there - cli) == [], "files that docs/architecture.md names and that are not there"
