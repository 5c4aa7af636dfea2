"""Kill a build at random moments, fill the disk: nothing is lost and the end is the same."""

import json
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import pytest

from mundap import Index
from mundap.index.build import Options, add, build
from mundap.index.verify import verify

resource = pytest.importorskip("resource")  # nor has Windows kill -9

RUN = """
import sys
from mundap.index import writer
writer.CHECKPOINT_PASSAGES = 60
from mundap.cli import run
run(sys.argv[1:])
"""


def command(*arguments, **options):
    return subprocess.Popen(
        [sys.executable, "-c", RUN, *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        **options,
    )


def contents(path):
    return sorted((p.id, p.title, p.text, p.start, p.end) for p in Index(path).passages())


@pytest.fixture
def documents(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    for n in range(30):
        (docs / f"{n:02d}.txt").write_text(f"river {n} " + "the music of the moon " * (40 + 10 * n))
    rows = ({"_id": f"r{n}", "text": f"the king of the ring {n}"} for n in range(1500))
    (docs / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return docs


@pytest.mark.parametrize("vectors", [pytest.param(False, marks=pytest.mark.slow), True])
def test_a_build_killed_at_random_moments_ends_as_an_unbroken_one(documents, tmp_path, tiny_model, vectors):
    model = str(tiny_model) if vectors else "none"
    build([documents], tmp_path / "unbroken", Options(model=model))
    arguments = ("index", documents, "-o", tmp_path / "broken", "--model", model)
    started = time.monotonic()
    command(*arguments[:3], tmp_path / "timed", *arguments[4:]).wait()
    duration = time.monotonic() - started
    generator = random.Random(int(vectors))
    kills = 0
    for _ in range(20):
        process = command(*arguments)
        time.sleep(duration * generator.uniform(0.1, 0.9))
        if process.poll() is None:
            process.send_signal(signal.SIGKILL)
            kills += 1
        process.wait()
        if process.returncode == 0:  # it was faster than we: begin anew
            shutil.rmtree(tmp_path / "broken")
        if kills == 8:
            break
    process = command(*arguments)
    _, errors = process.communicate()
    assert process.returncode == 0, errors
    assert kills >= 4
    assert verify(tmp_path / "broken") == []
    assert contents(tmp_path / "broken") == contents(tmp_path / "unbroken")
    found = [
        [(h.passage.id, round(h.score, 4)) for h in Index(tmp_path / name).search("river 7 moon", 50, "bm25")]
        for name in ("broken", "unbroken")
    ]
    assert [score for _, score in found[0]] == [score for _, score in found[1]]


def test_a_killed_build_goes_on_where_it_was(documents, tmp_path):
    arguments = ("index", documents, "-o", tmp_path / "i", "--model", "none")
    process = command(*arguments)
    while not (tmp_path / "i" / "manifest.next.json").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = command(*arguments, "--json")
    report = json.loads(process.communicate()[0])
    assert report["resumed"]
    assert report["added"] < report["passages"]


def test_an_add_that_dies_leaves_the_old_index_as_it_was(documents, tmp_path):
    out = tmp_path / "i"
    first = tmp_path / "first.txt"
    first.write_text("only the sun")
    build([first], out, Options(model="none"))
    before = contents(out)
    process = command("add", documents, "-o", out)
    while not (out / "manifest.next.json").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert contents(out) == before
    assert verify(out) == []
    assert len(Index(out).search("sun king", 10)) == 1
    other = tmp_path / "other.txt"
    other.write_text("the moon")
    add([other], out)  # another job: the dead one's half is not taken over
    assert sorted({row[0] for row in contents(out)}) == ["first.txt", "other.txt"]
    assert verify(out) == []


def test_a_full_disk_is_said_and_the_build_goes_on_later(documents, tmp_path):
    out = tmp_path / "i"

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (20_000, 20_000))

    process = command(
        "index",
        documents,
        "-o",
        out,
        "--model",
        "none",
        preexec_fn=limit,
        env={**os.environ, "PYTHONDONTWRITEBYTECODE": "1"},
    )
    _, errors = process.communicate()
    assert process.returncode == 1
    assert b"cannot write to" in errors
    assert b"Traceback" not in errors
    process = command("index", documents, "-o", out, "--model", "none")
    process.wait()
    assert verify(out) == []
    build([documents], tmp_path / "unbroken", Options(model="none"))
    assert contents(out) == contents(tmp_path / "unbroken")


def test_what_was_skipped_before_a_kill_is_said_after_it(documents, tmp_path):
    good = (documents / "rows.jsonl").read_text()
    (documents / "rows.jsonl").write_text("not json\n" + good)
    arguments = ("index", documents / "rows.jsonl", "-o", tmp_path / "i", "--model", "none", "--json")
    process = command(*arguments)
    while not (tmp_path / "i" / "manifest.next.json").exists():
        time.sleep(0.005)
    process.send_signal(signal.SIGKILL)
    process.wait()
    process = command(*arguments)
    report = json.loads(process.communicate()[0])
    assert (report["resumed"], report["skipped_count"], process.returncode) == (True, 1, 3)
    process = command(*arguments)
    assert json.loads(process.communicate()[0])["unchanged"] == 1
