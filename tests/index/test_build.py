import json
import os
import subprocess
import sys

import pytest

from mundap import Index
from mundap.errors import IndexLocked, IndexMissing, MundapError, UsageError
from mundap.index.build import Options, add, build, compact, delete
from mundap.index.verify import verify
from mundap.index.writer import Writer

PLAIN = Options(model="none")


def contents(path):
    return sorted((p.id, p.title, p.text, p.start, p.end) for p in Index(path).passages())


def ids(path):
    return sorted({p.document for p in Index(path).passages()})


@pytest.fixture(params=["bm25 alone", "with vectors"])
def options(request, tiny_model):
    return PLAIN if request.param == "bm25 alone" else Options(model=str(tiny_model))


def test_build_reports_what_it_did(corpus, tmp_path, options):
    (corpus / "bad.pdf").write_bytes(b"%PDF- no")
    report = build([corpus], tmp_path / "i", options)
    assert (report.documents, report.passages, report.skipped_count) == (8, 10, 1)
    assert report.skipped[0].source == "docs/bad.pdf"
    assert verify(tmp_path / "i") == []


def test_indexing_again_only_touches_what_changed(corpus, tmp_path, options):
    out = tmp_path / "i"
    build([corpus], out, options)
    before = Index(out).manifest.generation
    report = build([corpus], out)
    assert (report.added, report.removed, report.unchanged) == (0, 0, 4)
    assert Index(out).manifest.generation == before
    (corpus / "two.md").write_text("A new text about kings.")
    (corpus / "sub" / "세.txt").unlink()
    (corpus / "new.txt").write_text("brand new")
    os.utime(corpus / "one.txt", (1, 1))  # touched, not changed
    report = build([corpus], out)
    assert (report.added, report.removed, report.unchanged) == (2, 2, 2)
    assert [h.passage.document for h in Index(out).search("kings", mode="bm25")] == ["two.md"]
    assert not Index(out).search("sea", mode="bm25")
    assert "sub/세.txt" not in ids(out)
    build([corpus], tmp_path / "other", options)
    assert contents(out) == contents(tmp_path / "other")
    assert verify(out) == []


def test_add_never_drops(corpus, tmp_path, options):
    out = tmp_path / "i"
    build([corpus / "one.txt"], out, options)
    (corpus / "one.txt").unlink()
    add([corpus], out)
    assert "one.txt" in ids(out)
    assert len(ids(out)) == 8
    with pytest.raises(IndexMissing):
        add([corpus], tmp_path / "nothing")


def test_delete_and_compact(corpus, tmp_path, options):
    out = tmp_path / "i"
    build([corpus], out, options)
    full = contents(out)
    report = delete(out, ["b2", "nope"], ["*two.md"])
    assert report.removed == 2
    assert [s.source for s in report.skipped] == ["nope"]
    left = [row for row in full if row[0] not in ("b2", "two.md")]
    assert contents(out) == left
    assert all(h.passage.document not in ("b2", "two.md") for h in Index(out).search("row river music", 100, "bm25"))
    assert verify(out) == []
    compact(out)
    assert contents(out) == left
    assert Index(out).info()["deleted"] == 0
    assert verify(out) == []
    report = build([corpus], out)  # a file whose documents are all gone is read again; one that lost a row is not
    assert "two.md" in ids(out)
    assert "b2" not in ids(out)


def test_deleting_everything_leaves_a_working_index(corpus, tmp_path, options):
    out = tmp_path / "i"
    build([corpus], out, options)
    delete(out, sources=["*"])
    assert len(Index(out)) == 0
    assert Index(out).search("river") == []
    compact(out)
    assert Index(out).search("river") == []
    build([corpus], out)
    assert len(Index(out)) == 10


def test_many_small_adds_keep_the_segments_few_and_the_scores_global(tmp_path, options):
    docs = tmp_path / "docs"
    docs.mkdir()
    out = tmp_path / "i"
    for n in range(20):
        (docs / f"{n:02d}.txt").write_text(f"river number {n} " + "water " * n)
        (build if n == 0 else add)([docs / f"{n:02d}.txt"], out, options if n == 0 else None)
    assert len(Index(out).manifest.segments) < 8
    build([docs], tmp_path / "whole", options)
    for mode in ["bm25"] if options is PLAIN else ["bm25", "dense", "hybrid"]:
        one = [(h.passage.text, round(h.score, 4)) for h in Index(out).search("river water 3", 20, mode)]
        other = [
            (h.passage.text, round(h.score, 4)) for h in Index(tmp_path / "whole").search("river water 3", 20, mode)
        ]
        assert sorted(one) == sorted(other)


def test_the_same_name_in_two_folders(tmp_path):
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "readme.txt").write_text(f"text of {name}")
    build([tmp_path / "a", tmp_path / "b"], tmp_path / "i", PLAIN)
    assert ids(tmp_path / "i") == ["b/readme.txt", "readme.txt"]
    build([tmp_path / "a", tmp_path / "b"], tmp_path / "i")
    assert ids(tmp_path / "i") == ["b/readme.txt", "readme.txt"]


def test_an_id_that_another_file_has_is_filed_under_the_files_name(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"_id": "1", "text": "x"}\n{"_id": "1", "text": "y"}\n')
    (tmp_path / "b.jsonl").write_text('{"_id": "1", "text": "z"}\n{"_id": "2", "text": "w"}\n')
    report = build([tmp_path / "a.jsonl", tmp_path / "b.jsonl"], tmp_path / "i", PLAIN)
    assert (report.skipped_count, report.renamed) == (1, 1)
    assert "duplicate id '1'" in report.skipped[0].reason
    assert ids(tmp_path / "i") == ["1", "2", "b.jsonl#1"]
    assert Index(tmp_path / "i").passage("b.jsonl#1").text == "z"


def rows(path, **texts):
    path.write_text("".join(json.dumps({"_id": name[1:], "text": text}) + "\n" for name, text in texts.items()))


def test_renaming_a_file_or_moving_a_row_loses_nothing(tmp_path):
    docs, out = tmp_path / "docs", tmp_path / "i"
    docs.mkdir()
    rows(docs / "old.jsonl", _1="alpha", _2="beta")
    build([docs], out, PLAIN)
    (docs / "old.jsonl").rename(docs / "new.jsonl")
    build([docs], out)
    assert ids(out) == ["1", "2"]
    rows(docs / "a.jsonl", _5="delta")
    rows(docs / "b.jsonl", _3="gamma", _4="eta")
    build([docs], out)
    rows(docs / "a.jsonl", _3="gamma", _5="delta")
    rows(docs / "b.jsonl", _4="eta")
    build([docs], out)
    assert ids(out) == ["1", "2", "3", "4", "5"]
    assert Index(out).search("gamma")[0].passage.source == "docs/a.jsonl"


def test_what_was_skipped_is_said_every_time(tmp_path):
    (tmp_path / "x.jsonl").write_text('{"id": "a", "text": "good"}\nbad\n')
    assert build([tmp_path / "x.jsonl"], tmp_path / "i", PLAIN).skipped_count == 1
    again = build([tmp_path / "x.jsonl"], tmp_path / "i")
    assert (again.unchanged, again.skipped_count) == (1, 1)


def test_a_folder_that_cannot_be_read_is_not_a_folder_that_is_gone(corpus, tmp_path, monkeypatch):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    real = os.scandir

    def denied(path):
        if str(path).endswith("sub"):
            raise PermissionError(13, "Permission denied")
        return real(path)

    monkeypatch.setattr(os, "scandir", denied)
    report = build([corpus], out)
    assert (report.removed, report.skipped_count) == (0, 1)
    assert "sub/세.txt" in ids(out)


def test_an_index_inside_its_own_folder_does_not_index_itself(corpus):
    for _ in range(2):
        report = build([corpus], corpus / "idx", PLAIN)
        assert (report.documents, report.skipped_count) == (8, 0)


def test_files_dated_before_1970(corpus, tmp_path):
    os.utime(corpus / "one.txt", (-10_000_000_000, -10_000_000_000))
    assert build([corpus], tmp_path / "i", PLAIN).documents == 8


def test_fresh_means_fresh_and_repairs(corpus, tmp_path):
    out, other = tmp_path / "i", tmp_path / "other.txt"
    other.write_text("an added text")
    build([corpus], out, PLAIN)
    add([other], out)
    job = {
        "verb": "index",
        "paths": [str(corpus.resolve())],
        "ignore": [],
        "links": False,
        "form": None,
        "fresh": False,
    }
    with Writer(out, Index(out).manifest.settings, None, job) as writer:
        writer.delete(writer.corpus.numbers_from("docs/one.txt"))
        writer.checkpoint()  # and then it dies
    next(out.glob("segments/*/strings.bin")).write_bytes(b"short")
    build([corpus], out, PLAIN, fresh=True)
    assert "other.txt" not in ids(out)
    assert len(ids(out)) == 8
    assert verify(out) == []


def test_settings_are_kept_for_life(corpus, tmp_path, tiny_model):
    out = tmp_path / "i"
    build([corpus], out, Options(model="none", words=50))
    assert build([corpus], out).unchanged == 4
    for other in (Options(words=80), Options(language="de"), Options(model=str(tiny_model))):
        with pytest.raises(UsageError, match="--fresh"):
            build([corpus], out, other)
    with pytest.raises(UsageError, match="made with words 50, not 0"):
        build([corpus], out, Options(words=0))
    with pytest.raises(UsageError, match="made with split sentences, not words"):
        build([corpus], out, Options(sentences=False))
    with pytest.raises(UsageError, match="made with chunks all, not 3"):
        build([corpus], out, Options(chunks=3))
    build([corpus], out, Options(model=str(tiny_model), words=80, language="de"), fresh=True)
    index = Index(out)
    assert (index.manifest.settings.words, index.manifest.settings.language) == (80, "de")
    assert index.search("river")
    assert verify(out) == []


@pytest.mark.parametrize("kind", ["ivf", "hnsw"])
def test_approximate_indexes_live_with_adds_and_deletes(tmp_path, tiny_model, kind):
    rows = [
        {"_id": str(n), "text": f"the {w} of {v} {n}"}
        for n, (w, v) in enumerate(
            (a, b)
            for a in ["river", "city", "king", "film", "music"]
            for b in ["water", "earth", "sun", "moon", "ring"] * 20
        )
    ]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[:450]))
    (tmp_path / "b.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows[450:]))
    out = tmp_path / "i"
    build([tmp_path / "a.jsonl"], out, Options(model=str(tiny_model), dense=kind))
    assert Index(out).info()["dense"] == kind
    add([tmp_path / "b.jsonl"], out)
    delete(out, [str(n) for n in range(0, 400, 2)])
    build([tmp_path / "a.jsonl"], tmp_path / "exact", Options(model=str(tiny_model)))
    add([tmp_path / "b.jsonl"], tmp_path / "exact")
    delete(tmp_path / "exact", [str(n) for n in range(0, 400, 2)])
    for question in ("river sun", "king of the ring"):
        one = {h.passage.id for h in Index(out).search(question, 20, "dense")}
        other = {h.passage.id for h in Index(tmp_path / "exact").search(question, 20, "dense")}
        assert len(one) == 20
        # equal scores abound in so small a vocabulary, so compare what is surely in
        assert len(one & other) >= 5
    assert verify(out) == []


def test_a_second_writer_gets_a_clear_error_and_readers_go_on(corpus, tmp_path):
    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    with Writer(out), pytest.raises(IndexLocked, match="another process is writing"):
        script = f"from mundap.cli import run; run(['add', {str(corpus)!r}, '-o', {str(out)!r}])"
        done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
        assert done.returncode == 1
        assert "another process is writing" in done.stderr
        assert Index(out).search("river")
        Writer(out)


def test_a_reader_keeps_its_snapshot(corpus, tmp_path, options):
    out = tmp_path / "i"
    build([corpus], out, options)
    reader = Index(out)
    before = reader.search("river music", 10)
    untouched = Index(out)
    delete(out, sources=["*"])
    compact(out)
    assert reader.search("river music", 10) == before
    assert untouched.search("river music", 10) == before
    assert untouched.info()["passages"] == 10


def test_a_folder_with_other_things_is_never_taken_over(corpus, tmp_path):
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "cat.jpg").write_bytes(b"cat")
    with pytest.raises(UsageError, match="not empty"):
        build([corpus], tmp_path / "photos", PLAIN)
    with pytest.raises(UsageError, match="is a file"):
        build([corpus], corpus / "one.txt", PLAIN)
    assert os.listdir(tmp_path / "photos") == ["cat.jpg"]
    (tmp_path / "proj" / "segments" / "2024").mkdir(parents=True)
    (tmp_path / "proj" / "lock").write_text("mine")
    with pytest.raises(UsageError, match="not empty"):
        build([corpus], tmp_path / "proj", PLAIN)
    assert (tmp_path / "proj" / "segments" / "2024").is_dir()


def test_nothing_to_index(tmp_path, corpus):
    (tmp_path / "empty").mkdir()
    with pytest.raises(MundapError, match="nothing to index"):
        build([tmp_path / "empty"], tmp_path / "i", PLAIN)
    assert not (tmp_path / "i").exists()
    build([corpus], tmp_path / "i", PLAIN)
    for path in sorted(corpus.rglob("*"), reverse=True):
        path.unlink() if path.is_file() else path.rmdir()
    with pytest.raises(MundapError, match="Nothing was changed"):
        build([corpus], tmp_path / "i")
    assert len(Index(tmp_path / "i")) == 10


def test_odd_files(tmp_path):
    docs = tmp_path / "docs"
    docs.mkdir()
    (docs / "with space 😀.txt").write_text("emoji file river")
    (docs / "line.txt").write_text("verylongline " * 200_000)
    (docs / "noword.txt").write_text("x" * 3_000_000)
    (docs / "null.txt").write_bytes(b"a\0b")
    report = build([docs], tmp_path / "i", PLAIN)
    assert (report.skipped, report.left_out) == ([], {"binary file, not text": 1})
    assert Index(tmp_path / "i").search("emoji")[0].passage.source == "docs/with space 😀.txt"
    assert max(len(p.text.split()) for p in Index(tmp_path / "i").passages()) == 100


def test_a_read_only_index_can_be_searched(corpus, tmp_path, monkeypatch):
    import tantivy

    out = tmp_path / "i"
    build([corpus], out, PLAIN)
    real = tantivy.Index.open

    class Denied:
        """Root may write anywhere, so the refusal of a read-only folder is played."""

        exists = staticmethod(tantivy.Index.exists)

        @staticmethod
        def open(path):
            if path.startswith(str(out)):
                raise ValueError("Failed to acquire Lockfile: IoError(Os { code: 13 })")
            return real(path)

    monkeypatch.setattr("mundap.index.lexical.tantivy.Index", Denied)
    assert Index(out).search("river")


def test_few_passages_need_no_approximate_index(corpus, tmp_path, tiny_model):
    index = Index.build([corpus], tmp_path / "i", model=str(tiny_model), dense="ivf")
    assert index.info()["dense"] == "exact"
    assert index.search("river")
