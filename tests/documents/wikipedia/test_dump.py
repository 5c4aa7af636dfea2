import bz2
import gzip
import lzma
import random
import time

import pytest
import zstandard

from mundap.documents import FORMATS, read
from mundap.documents.wikipedia import articles, dump, work
from mundap.documents.wikipedia.dump import chunks, looks_like_dump
from mundap.records import Document, Skipped
from tests.documents.wikipedia.making import file, head, multistream, page, pages, plain


@pytest.fixture(autouse=True)
def one_process(monkeypatch):
    monkeypatch.setenv("MUNDAP_THREADS", "1")


def split(found):
    found = list(found)
    return [one for one in found if isinstance(one, Document)], [one for one in found if isinstance(one, Skipped)]


def titles(path, data):
    documents, skipped = split(read(file(path, data)))
    assert skipped == []
    return [document.title for document in documents]


ALL = [f"Article {number}" for number in range(1, 31)]


def packed_by_size(data, size):
    """As pbzip2 does it: pages go over from one stream into the next."""
    return b"".join(bz2.compress(data[start : start + size]) for start in range(0, len(data), size))


WAYS = {
    "x.xml": lambda data: data,
    "x.xml.bz2": bz2.compress,
    "x.xml.gz": gzip.compress,
    "x.xml.xz": lzma.compress,
    "x.xml.zst": zstandard.compress,
    "enwiki-20240101-pages-articles1.xml-p1p41242.bz2": bz2.compress,
    "pbzip2.xml.bz2": lambda data: packed_by_size(data, 5000),
    "tiny streams.bz2": lambda data: packed_by_size(data, 700),
    "xml prolog": lambda data: b'\xef\xbb\xbf<?xml version="1.0" encoding="utf-8"?>\n' + data,
    "utf-16": lambda data: data.decode().encode("utf-16"),
    "utf-16.bz2": lambda data: bz2.compress(b"\xfe\xff" + data.decode().encode("utf-16-be")),
}


@pytest.mark.parametrize("name", WAYS)
@pytest.mark.parametrize("size", [None, 3000])
def test_every_compression_and_size_of_chunk(tmp_path, monkeypatch, name, size):
    if size:
        for limit in ("_CHUNK", "_PACKED_CHUNK", "_BLOCK"):
            monkeypatch.setattr(dump, limit, size)
    assert titles(tmp_path / name, WAYS[name](plain(pages()))) == ALL


@pytest.mark.parametrize("size", range(11, 4000, 431))
def test_every_page_belongs_to_one_chunk_wherever_the_file_is_cut(tmp_path, monkeypatch, size):
    monkeypatch.setattr(dump, "_CHUNK", size)
    monkeypatch.setattr(dump, "_BLOCK", 17 + size // 2)
    data = plain([page(number, f"Article {number}", "Text.") for number in range(1, 31)])
    assert titles(tmp_path / "x.xml", data) == ALL


def test_a_multistream_dump_is_read_in_parts_and_its_index_not_at_all(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 100)
    data, index = multistream(pages())
    name = "enwiki-latest-pages-articles-multistream"
    assert titles(tmp_path / f"{name}.xml.bz2", data) == ALL
    cut = list(chunks(file(tmp_path / "again.bz2", data)))
    assert len(cut) == 10 and {chunk.kind for chunk in cut} == {"bz2"}
    assert titles(tmp_path / f"{name}-index.txt.bz2", index) == []


def test_parts_of_a_dump_have_ids_of_their_own(tmp_path):
    (first,) = read(file(tmp_path / "p1.xml", plain([page(7, "Seven", "Text of seven.")])))
    (second,) = read(file(tmp_path / "p2.xml", plain([page(8, "Eight & more", "Text of eight.")])))
    assert (first.id, second.id) == ("enwiki:7", "enwiki:8")
    assert second == Document(
        "enwiki:8", "Text of eight.", "Eight & more", "p2.xml",
        {"language": "en", "url": "https://en.wikipedia.org/wiki/Eight_%26_more"},
    )  # fmt: skip


def test_a_document_can_be_read_on_from_where_it_was(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_CHUNK", 5000)
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 500)
    for name, data in (
        ("a.xml", plain(pages())),
        ("b.gz", gzip.compress(plain(pages()))),
        ("c", multistream(pages())[0]),
    ):
        dumped = file(tmp_path / name, data)
        every = list(chunks(dumped))
        assert len(every) > 3
        assert list(chunks(dumped, every[2].end)) == every[3:]


def test_progress_is_how_much_of_the_file_has_been_read(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 500)
    data = multistream(pages())[0]
    dumped = file(tmp_path / "x.bz2", data)
    positions = [dumped.position() for _ in read(dumped)]
    assert positions == sorted(positions) and len(set(positions)) > 3 and positions[-1] > 0.8 * len(data)


def test_only_articles_are_kept(tmp_path):
    found = articles.Found()
    parts = [
        page(1, "Kept", "A text."),
        page(2, "Old name", "#REDIRECT [[Kept]]", redirect="Kept"),
        page(3, "Older name", "#redirect: [[Kept]]"),
        page(4, "Talk:Kept", "A talk.", space=1),
        page(5, "Kept (disambiguation)", "Kept may be:\n* this\n{{disambig}}"),
        page(6, "List of things", "* one\n* two"),
        page(7, "Data", "{}").replace(b"<model>wikitext", b"<model>json"),
    ]
    dumped = file(tmp_path / "x.xml", plain(parts))
    (chunk,) = chunks(dumped)
    site = articles.Site.parse(head().decode())
    kept = list(articles.articles(dumped.path, "x", chunk, site, articles.Style(), found))
    assert kept == [articles.Article("1", "Kept", "A text.")]
    assert found.counts == {
        "pages": 7, "articles": 1, "redirects": 2, "other namespaces": 2, "disambiguation": 1, "empty": 1,
    }  # fmt: skip
    assert found.skipped == []


def test_dumps_from_before_there_was_a_number_for_namespaces(tmp_path):
    parts = [page(1, "Talk:Kept", "A talk."), page(2, "Star Trek: Picard", "A series.")]
    assert titles(tmp_path / "x.xml", plain([one.replace(b"    <ns>0</ns>\n", b"") for one in parts])) == [
        "Star Trek: Picard"
    ]


# ---------------------------------------------------------------- broken input


def broken(tmp_path, data, name="x.xml"):
    documents, skipped = split(read(file(tmp_path / name, data)))
    return [document.title for document in documents], [one.reason for one in skipped]


def test_invalid_xml_in_the_middle(tmp_path):
    parts = pages(9)
    parts[1] = parts[1].replace(b"</text>", b" <b> & </text>")
    parts[3] = parts[3].replace(b"word4x9 ", b"\xff\xfe\x00 ")
    parts[5] = parts[5].replace(b"  </page>\n", b"")
    parts[7] = parts[7].replace(b"<title>Article 8</title>", b"")
    kept, reasons = broken(tmp_path, plain(parts))
    assert kept == ["Article 1", "Article 3", "Article 5", "Article 7", "Article 9"]
    assert reasons[0].startswith("page 'Article 2': invalid XML (")
    assert reasons[1].startswith("page 'Article 4': invalid XML (")
    assert reasons[2] == "page 'Article 6': invalid XML: it has no end"
    assert reasons[3] == "page '': no title"


def test_garbage_between_pages_is_passed_over(tmp_path):
    parts = pages(3)
    assert broken(tmp_path, plain([parts[0], b"<<<\x00\xff</page><pa", parts[1], b"<page", parts[2]]))[0] == ALL[:3]


def test_a_file_that_ends_too_early(tmp_path):
    kept, reasons = broken(tmp_path, plain(pages(5))[:-500])
    assert kept == ALL[:4] and reasons == ["page 'Article 5': invalid XML: the file ends in the middle of it"]


PACKERS = {
    "bz2": lambda data: bz2.compress(data, 1),  # in small blocks
    "gz": gzip.compress,
    "xz": lambda data: lzma.compress(data, preset=0),
    "zst": zstandard.compress,
}


@pytest.mark.parametrize("kind", PACKERS)
def test_truncated_compressed_data(tmp_path, kind, monkeypatch):
    monkeypatch.setattr(dump, "_CHUNK", 10_000)
    noise = random.Random(0)
    big = [page(n, f"Article {n}", " ".join(str(noise.random()) for _ in range(1000))) for n in range(1, 31)]
    data = PACKERS[kind](plain(big))
    kept, reasons = broken(tmp_path, data[: len(data) * 3 // 4], "x.xml.packed")
    assert 5 < len(kept) < 30 and kept == ALL[: len(kept)]
    # The zstd library takes a truncated file for one that ends; the page that is cut off tells.
    expected = "the file ends in the middle" if kind == "zst" else "corrupt or truncated compressed data"
    assert any(expected in reason for reason in reasons)


def test_a_truncated_multistream_dump(tmp_path):
    data = multistream(pages())[0]
    kept, reasons = broken(tmp_path, data[: len(data) * 2 // 3], "x.bz2")
    assert 10 < len(kept) < 25 and kept == ALL[: len(kept)]
    assert reasons == ["truncated compressed data; what came before was kept"]


def test_a_damaged_stream_loses_its_own_pages_only(tmp_path):
    data = bytearray(multistream(pages())[0])
    third = [n for n in range(len(data)) if data[n : n + 10] == b"BZh91AY&SY"][3]
    data[third + 100 : third + 140] = bytes(40)
    kept, reasons = broken(tmp_path, bytes(data), "x.bz2")
    assert kept == ALL[:8] + ALL[12:]
    assert len(reasons) == 1 and "corrupt compressed data" in reasons[0] and "the rest was kept" in reasons[0]


def test_templates_that_are_opened_ten_thousand_times(tmp_path):
    parts = [page(1, "Deep", "Text.\n" + "{{a|" * 10_000), page(2, "Article 2", "Text.")]
    assert broken(tmp_path, plain(parts)) == (
        ["Article 2"],
        ["page 'Deep': broken page: 10,000 templates are opened and never closed"],
    )


def test_a_page_of_five_megabytes_is_read_and_one_of_ten_is_not(tmp_path):
    words = "word [[link|words]] ''more'' {{convert|5|km}}, said in so many words that nobody can count them. " * 54_000
    parts = [page(1, "Five", words), page(2, "Ten", "x" * (10 << 20)), page(3, "Last", "Text.")]
    started = time.process_time()
    documents, skipped = split(read(file(tmp_path / "x.xml", plain(parts))))
    assert time.process_time() - started < 30
    assert [document.title for document in documents] == ["Five", "Last"]
    assert documents[0].text.startswith("word words more 5 km, said")
    assert [one.reason for one in skipped] == ["page 'Ten': larger than 8 MB, or without an end"]


def test_a_reader_that_fails_loses_one_page(tmp_path, monkeypatch):
    def fail(text, *rest):
        if "word2x" in text:
            raise RuntimeError("a mistake of ours")
        return clean(text, *rest)

    clean = articles.clean
    monkeypatch.setattr(articles, "clean", fail)
    kept, reasons = broken(tmp_path, plain(pages(3)))
    assert kept == ["Article 1", "Article 3"] and "RuntimeError: a mistake of ours" in reasons[0]


@pytest.mark.parametrize("data", [b"", b"<html></html>", b"\x00\x01", bz2.compress(b"hello")])
def test_what_is_no_dump(tmp_path, data):
    (skipped,) = list(read(file(tmp_path / "x", data), "wikipedia"))
    assert isinstance(skipped, Skipped)


def test_a_piece_out_of_the_middle_is_read_if_one_says_what_it_is(tmp_path):
    piece = b"".join(pages(3))
    (document, *_) = read(file(tmp_path / "kowiki-piece.xml", piece), "wikipedia")
    assert document.id == "kowiki:1"
    assert not looks_like_dump(piece)


def test_a_file_that_goes_away(tmp_path):
    dumped = file(tmp_path / "x.xml", plain(pages(3)))
    (chunk,) = chunks(dumped)
    dumped.path.unlink()
    (lost,) = dump.pages(dumped.path, chunk)
    assert str(lost) == "the part at byte 0: no such file"


def test_a_page_that_goes_on_in_a_damaged_stream(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 1)
    data = bytearray(packed_by_size(plain(pages(8)), 4000))
    second = data.index(b"BZh91AY&SY", 10)
    data[second + 50 : second + 90] = bytes(40)
    kept, reasons = broken(tmp_path, bytes(data), "x.bz2")
    assert "Article 2" not in kept and kept[0] == "Article 1" and kept[-4:] == ALL[4:8]
    assert any("corrupt compressed data" in reason for reason in reasons)


def test_dumps_are_known_by_their_beginning():
    assert "wikipedia" in FORMATS
    assert looks_like_dump(head()) and looks_like_dump(b'<?xml version="1.0"?>\n' + head())
    assert looks_like_dump(head().decode().encode("utf-16"))
    assert not looks_like_dump(b"<html>") and not looks_like_dump(b"text <mediawiki>")


# ---------------------------------------------------------------- several processes


def test_several_processes_give_what_one_does_in_order(tmp_path, monkeypatch):
    data = multistream(pages(60))[0]
    monkeypatch.setattr(dump, "_PACKED_CHUNK", 1000)
    dumped = file(tmp_path / "x.bz2", data)
    alone = list(read(dumped))
    monkeypatch.setenv("MUNDAP_THREADS", "3")
    assert list(read(dumped)) == alone and len(alone) == 60
    monkeypatch.setattr(dump, "_CHUNK", 5000)
    assert [one.text for one in read(file(tmp_path / "x.gz", gzip.compress(bz2.decompress(data))))] == [
        one.text for one in alone
    ]


def test_a_worker_that_is_killed_is_replaced(tmp_path):
    dumped = file(tmp_path / "x.xml", plain(pages(3)))
    (chunk,) = chunks(dumped)
    task = work.Task(str(dumped.path), "x.xml", head().decode(), chunk, articles.Style())
    with work._Workers(2) as workers:
        workers._take().kill()
        workers._idle.put(workers._all[0])
        assert len(workers.submit(task).result().lines) == 3
    assert len(workers._all) == 2 and all(process.poll() is not None for process in workers._all)


def test_a_chunk_that_kills_every_worker_is_skipped(tmp_path, monkeypatch):
    def ask(process, task):
        raise EOFError

    monkeypatch.setattr(work, "_ask", ask)
    dumped = file(tmp_path / "x.xml", plain(pages(3)))
    (chunk,) = chunks(dumped)
    task = work.Task(str(dumped.path), "x.xml", head().decode(), chunk, articles.Style())
    (skipped,) = next(work.run([task, task], 2)).found.skipped
    assert "killed twice" in skipped.reason


def test_stopping_early_leaves_no_process_behind(tmp_path, monkeypatch):
    monkeypatch.setattr(dump, "_CHUNK", 3000)
    started = []
    take = work._Workers._take
    monkeypatch.setattr(work._Workers, "_take", lambda self: started.append(process := take(self)) or process)
    monkeypatch.setenv("MUNDAP_THREADS", "2")
    found = read(file(tmp_path / "x.xml", plain(pages(60))))
    next(found)
    found.close()
    assert started and all(process.poll() is not None for process in started)
