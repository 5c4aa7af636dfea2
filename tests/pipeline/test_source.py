"""The line of an answer: of the right file, behind the front matter, of the right row, in any encoding; or none."""

import json

import pytest

from mundap import Index
from mundap.pipeline.source import place_of
from mundap.records import Answer
from tests.documents.test_formats import pdf


def lines(index, word):
    """The line of each of this word in the passages that have it, in the order of documents."""
    found = []
    for passage in sorted(index.passages(), key=lambda one: one.id):
        hit = next((hit for hit in index.search(word, 1000, "bm25") if hit.passage.id == passage.id), None)
        if hit is None:
            continue
        at = -1
        while (at := passage.text.find(word, at + 1)) >= 0:
            start = passage.start + at
            place = place_of(index, Answer(word, 1.0, hit, start, start + len(word), 0.0, 1.0, 1.0))
            line = place.removeprefix(passage.source).removeprefix(":")
            found.append(int(line) if line.isdigit() else None)
    return found


def build(folder, **files):
    """An index in a folder with these files, made as the command makes it, from another folder."""
    for name, data in files.items():
        (folder / name.replace("_", ".")).write_bytes(data if isinstance(data, bytes) else data.encode())
    return Index.build([folder / name.replace("_", ".") for name in files], folder / ".mundap", model="none")


def test_words_of_the_title_are_not_looked_for_in_the_front_matter(tmp_path):
    page = "---\ntitle: Kilimanjaro volcano in Africa\nlanguage: en\n---\n\n"
    index = build(tmp_path, k_md=page + "Kilimanjaro is a volcano.\n\nMany climb Kilimanjaro.\n")
    assert lines(index, "Kilimanjaro") == [6, 8]


def test_words_of_the_title_are_not_looked_for_in_the_head_of_a_page(tmp_path):
    head = "<html><head><title>Kilimanjaro is a volcano of Africa</title>\n<meta name='x' content='y'></head>\n"
    page = head + "<body>\n<p>Kilimanjaro is a volcano\nof Africa and <b>very</b> high.</p></body></html>\n"
    assert lines(build(tmp_path, k_html=page), "Kilimanjaro") == [4]


@pytest.mark.parametrize("named", [True, False])
def test_a_row_has_its_own_line(tmp_path, named):
    rows = [{"text": f"The river number {n} is in Essen."} for n in range(30)]
    rows[7] = rows[3]  # the same text twice
    if named:
        rows = [{"id": f"r{n}", **row} for n, row in enumerate(rows)]
    index = build(tmp_path, r_jsonl="\n".join(map(json.dumps, rows)) + "\n")
    assert sorted(lines(index, "Essen")) == list(range(1, 31))


def test_a_row_of_a_table_has_its_own_line(tmp_path):
    index = build(tmp_path, t_tsv="id\ttext\ttitle\n" + "".join(f"{n}\tThe king of Essen\tx\n" for n in range(1, 6)))
    assert sorted(lines(index, "Essen")) == [2, 3, 4, 5, 6]


def test_a_text_in_a_json_array_has_no_line(tmp_path):
    index = build(tmp_path, j_json=json.dumps([{"text": "Essen is a town."}], indent=1))
    assert lines(index, "Essen") == [None]


def test_the_file_is_looked_for_beside_the_index_and_not_where_one_is(tmp_path, monkeypatch):
    index = build(tmp_path, a_txt="one\ntwo\nthe king of it\n")
    below = tmp_path / "below"
    below.mkdir()
    (below / "a.txt").write_text("the king of something else\n")
    monkeypatch.chdir(below)
    assert lines(index, "king") == lines(Index(), "king") == lines(Index("../.mundap"), "king") == [3]


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8-sig"])
def test_files_are_decoded_as_they_were(tmp_path, encoding):
    text = "Die Straße führt über die Brücke.\r\n\r\nDort wohnt der König von Essen.\r\n"
    assert lines(build(tmp_path, a_txt=text.encode(encoding)), "Essen") == [3]
    assert lines(build(tmp_path, b_md=("# Titel\n" + text).encode(encoding)), "Essen")[-1] == 4


def test_a_pdf_has_no_lines(tmp_path):
    index = build(tmp_path, a_pdf=pdf("The king of Essen is here."))
    assert b"king of Essen" in (tmp_path / "a.pdf").read_bytes()  # not compressed: the words can be found
    assert lines(index, "Essen") == [None]


def test_the_line_is_that_of_the_file_as_it_was_read(tmp_path):
    index = build(tmp_path, a_txt="one\nthe king of Essen was here\n")
    (tmp_path / "a.txt").unlink()
    assert lines(index, "Essen") == [2]


def test_a_paragraph_over_several_passages_has_the_line_of_each_answer(tmp_path):
    text = "".join(f"This is sentence number {n} about Essen\nand it goes on there.\n" for n in range(40))
    index = build(tmp_path, a_txt=text)
    assert len(list(index.passages())) > 3
    assert sorted(lines(index, "Essen")) == list(range(1, 80, 2))
