import bz2
import gzip
import io
import json
import lzma
from pathlib import Path

import docx
import pytest
import zstandard
from pypdf import PdfWriter
from pypdf.generic import DecodedStreamObject, DictionaryObject, NameObject

from mundap.documents import SourceFile, read
from mundap.documents.blocks import name_as_title
from mundap.records import Block, Document, Skipped


def read_file(path: Path, form=None):
    return list(read(SourceFile(path, path.name, path.name), form))


def one(path):
    (document,) = read_file(path)
    assert isinstance(document, Document), document
    return document


def pdf(text: str, password: str = "") -> bytes:
    writer = PdfWriter()
    page = writer.add_blank_page(300, 300)
    font = DictionaryObject(
        {
            NameObject("/Type"): NameObject("/Font"),
            NameObject("/Subtype"): NameObject("/Type1"),
            NameObject("/BaseFont"): NameObject("/Helvetica"),
        }
    )
    page[NameObject("/Resources")] = DictionaryObject(
        {NameObject("/Font"): DictionaryObject({NameObject("/F1"): writer._add_object(font)})}
    )
    stream = DecodedStreamObject()
    stream.set_data(f"BT /F1 12 Tf 20 200 Td ({text}) Tj ET".encode())
    page[NameObject("/Contents")] = writer._add_object(stream)
    writer.add_metadata({"/Title": "A paper"})
    if password:
        writer.encrypt(password)
    out = io.BytesIO()
    writer.write(out)
    return out.getvalue()


def test_plain_text(tmp_path):
    path = tmp_path / "my_notes.txt"
    path.write_text("Hello there.\n")
    blocks = (Block(0, 12, "text", "", 0, 1),)
    assert one(path) == Document(
        "my_notes.txt", "Hello there.\n", "my notes", "my_notes.txt", {"type": "text"}, blocks=blocks
    )


@pytest.mark.parametrize(
    ("name", "title"),
    [
        ("St. Louis.txt", "St. Louis"),
        ("a/Dr. No", "Dr. No"),
        ("Release 1.2", "Release 1.2"),
        ("debian-faq.txt.gz", "debian faq"),
        ("한국_역사.txt", "한국 역사"),
        ("x/.profile", ".profile"),
    ],
)
def test_the_name_of_a_file_as_its_title(name, title):
    assert name_as_title(name) == title


@pytest.mark.parametrize("encoding", ["utf-8", "utf-8-sig", "utf-16", "euc-kr", "cp949"])
def test_the_encoding_is_detected(tmp_path, encoding):
    text = "서울은 대한민국의 수도이자 최대 도시이다. 한강을 끼고 있으며 인구가 많다."
    path = tmp_path / "k.txt"
    path.write_bytes(text.encode(encoding))
    assert one(path).text == text


def test_a_few_broken_bytes_do_not_lose_a_document(tmp_path):
    path = tmp_path / "k.txt"
    path.write_bytes("서울은 대한민국의 수도이자".encode() + b"\xff" + " 최대 도시이다.".encode())
    assert "수도이자\ufffd 최대" in one(path).text


def test_markdown_without_marks_and_with_front_matter(tmp_path):
    path = tmp_path / "a.md"
    path.write_text(
        "---\ntitle: Real title\ntags: [x, y]\n---\n# Heading\n\nSome *bold* [link](http://e.x) `code`.\n\n- item\n"
    )
    document = one(path)
    assert document.title == "Real title"
    assert document.metadata == {"type": "markdown", "tags": "x, y"}
    assert document.text == "Heading\n\nSome bold link code.\n\nitem"
    path.write_text("# Heading\n\ntext")
    assert one(path).title == "Heading"


def test_html_main_text(tmp_path):
    path = tmp_path / "a.html"
    body = "<p>" + "The river is long and runs through many countries. " * 10 + "</p>"
    path.write_text(
        f"<html><head><title>Rivers</title><script>evil()</script></head><body><nav><a>Home</a></nav><article><h1>Rivers</h1>{body}</article></body></html>"
    )
    document = one(path)
    assert document.title == "Rivers"
    assert "The river is long" in document.text
    assert "evil" not in document.text
    path.write_text("<html><body>tiny</body></html>")
    assert "tiny" in one(path).text


def test_pdf(tmp_path):
    path = tmp_path / "a.pdf"
    path.write_bytes(pdf("The river runs to the sea"))
    assert one(path).text == "The river runs to the sea"
    assert one(path).title == "A paper"


def test_docx(tmp_path):
    made = docx.Document()
    made.add_paragraph("First paragraph.")
    table = made.add_table(1, 2)
    table.rows[0].cells[0].text, table.rows[0].cells[1].text = "left", "right"
    made.add_paragraph("Last.")
    made.core_properties.title = "Word"
    made.save(tmp_path / "a.docx")
    document = one(tmp_path / "a.docx")
    assert document.text == "First paragraph.\n\nleft: right\n\nLast."
    assert document.title == "Word"


@pytest.mark.parametrize(
    ("suffix", "compress"),
    [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress), (".zst", zstandard.compress)],
)
def test_compressed_files_are_read_transparently(tmp_path, suffix, compress):
    path = tmp_path / f"a.txt{suffix}"
    path.write_bytes(compress(b"The river."))
    assert one(path).text == "The river."
    whole = compress(b"words " * 50_000)
    path.write_bytes(whole[: len(whole) // 2])
    (skipped,) = read_file(path)
    assert isinstance(skipped, Skipped)


def test_psgs_rows_are_passages_and_quoting_is_undone(tmp_path):
    path = tmp_path / "p.tsv"
    path.write_text(
        'id\ttext\ttitle\n1\t"He said ""no"" twice"\tA\n2\tplain "quotes" inside\tB\n3\tone " stray\tC\n4\tonly\n\n5\tlast\tE\n'
    )
    found = read_file(path)
    assert [d.text for d in found if isinstance(d, Document)] == [
        'He said "no" twice',
        'plain "quotes" inside',
        'one " stray',
        "last",
    ]
    assert all(d.whole for d in found if isinstance(d, Document))
    assert [(s.source, s.reason) for s in found if isinstance(s, Skipped)] == [("p.tsv:5", "only 2 columns")]


def test_ms_marco_collection(tmp_path):
    path = tmp_path / "collection.tsv"
    path.write_text("0\tThe presence of communication.\n1\tThe Manhattan Project.\n")
    assert [(d.id, d.whole) for d in read_file(path)] == [("0", True), ("1", True)]


def test_beir_pyserini_and_other_json_lines(tmp_path):
    path = tmp_path / "corpus.jsonl"
    rows = [
        {"_id": "a", "title": "T", "text": "x", "metadata": {"year": 1999}},
        {"id": "b", "contents": "y"},
        {"id": 7, "text": "z", "lang": "ko"},
        {"text": "no id"},
        {"id": "empty", "text": " "},
        {"id": "none"},
        [1],
    ]
    path.write_text("\n".join(map(json.dumps, rows)) + "\n{broken\n")
    found = read_file(path)
    documents = [d for d in found if isinstance(d, Document)]
    assert [(d.id, d.whole) for d in documents] == [
        ("a", True),
        ("b", True),
        ("7", False),
        ("corpus.jsonl#4", False),
    ]
    assert documents[0].metadata == {"year": "1999"}
    assert documents[2].metadata == {"lang": "ko"}
    assert [s.source for s in found if isinstance(s, Skipped)] == [f"corpus.jsonl:{n}" for n in (5, 6, 7, 8)]


def test_squad(tmp_path):
    path = tmp_path / "dev.json"
    data = {
        "version": "1.1",
        "data": [{"title": "Super_Bowl", "paragraphs": [{"context": "one", "qas": []}, {"context": "two"}]}],
    }
    path.write_text(json.dumps(data))
    assert [(d.id, d.title, d.text) for d in read_file(path)] == [
        ("dev.json#1", "Super Bowl", "one"),
        ("dev.json#2", "Super Bowl", "two"),
    ]
    path.write_text(json.dumps(data)[:-8])
    found = read_file(path)
    assert isinstance(found[-1], Skipped)
    assert "broken JSON after" in found[-1].reason


@pytest.mark.parametrize(
    ("name", "content", "reason"),
    [
        ("empty.txt", b"", "no text in it"),
        ("blank.md", b"  \n\n ", "no text in it"),
        ("binary.dat", bytes(range(256)) * 10, "binary file"),
        ("broken.pdf", b"%PDF-1.4 nonsense", "not a readable PDF"),
        ("locked.pdf", pdf("secret", "pw"), "password-protected"),
        ("broken.docx", b"PK\x03\x04 nonsense", "not a readable DOCX"),
        ("bad.json", b"hello", "broken JSON"),
        ("strange.tsv", b"a\tb\tc\td\n", "not a table"),
        ("corrupt.txt.gz", b"\x1f\x8b\x08\x00garbage", "corrupt or truncated"),
    ],
)
def test_what_cannot_be_read_is_skipped_with_its_reason(tmp_path, name, content, reason):
    path = tmp_path / name
    path.write_bytes(content)
    (skipped,) = read_file(path)
    assert isinstance(skipped, Skipped)
    assert reason in skipped.reason


def test_a_hundred_megabyte_line(tmp_path):
    path = tmp_path / "long.jsonl"
    with path.open("wb") as file:
        file.write(b'{"text": "')
        for _ in range(100):
            file.write(b"a" * (1 << 20))
        file.write(b'"}\n{"id": "after", "text": "fine"}\n')
    skipped, document = read_file(path)
    assert "line longer than" in skipped.reason
    assert document.id == "after"


def test_lone_surrogates_are_replaced(tmp_path):
    path = tmp_path / "s.jsonl"
    path.write_text('{"id": "1", "text": "a \\ud83d b"}\n')
    assert read_file(path)[0].text == "a ? b"


def test_encodings_that_statistics_get_wrong(tmp_path):
    path = tmp_path / "f.txt"
    text = "Le café français près de la forêt où naît le garçon élève"
    for encoding in ("latin-1", "cp1252"):
        path.write_bytes(text.encode(encoding))
        assert one(path).text == text
    for encoding in ("utf-32", "utf-16-le", "utf-16-be"):
        path.write_bytes("plain utf text".encode(encoding))
        assert one(path).text == "plain utf text"
    polish = "Zażółć gęślą jaźń, pchnąć w tę łódź jeża lub ośm skrzyń fig. Wszystkie prawa są zastrzeżone." * 3
    path.write_bytes(polish.encode("cp1250"))
    assert one(path).text == polish


def test_ms_marco_has_no_quoting(tmp_path):
    path = tmp_path / "collection.tsv"
    path.write_text('7\t"Hello" said "he"\n')
    assert one(path).text == '"Hello" said "he"'


def test_rules_and_html_in_markdown_keep_their_text(tmp_path):
    path = tmp_path / "a.md"
    path.write_text("---\nJust zebras between two rules\n---\n\n<details>\nhidden lions\n</details>\n\nend")
    assert "zebras" in one(path).text
    assert "lions" in one(path).text


def test_small_files_cannot_cost_much(tmp_path):
    path = tmp_path / "deep.json"
    path.write_text("[" * 100_000)
    (skipped,) = read_file(path)
    assert "nested" in skipped.reason
    path = tmp_path / "bomb.md"
    levels = ["a0: &a0 [x,x,x,x,x,x,x,x,x]"] + [f"a{n}: &a{n} [{','.join([f'*a{n - 1}'] * 9)}]" for n in range(1, 10)]
    path.write_text("---\n" + "\n".join(levels) + "\n---\ntext")
    assert one(path).text == "text"
    path.write_text("---\n" + "[" * 20_000 + "\n---\ntext")
    assert "text" in read_file(path)[0].text


def test_json_with_a_byte_order_mark_and_odd_values(tmp_path):
    path = tmp_path / "a.json"
    path.write_bytes(b"\xef\xbb\xbf" + json.dumps([{"id": "1", "text": "x", "ok": True, "k": "\ud800"}, 5]).encode())
    document, skipped = read_file(path)
    assert document.metadata == {"ok": "true", "k": "?"}
    assert skipped.reason == "not a JSON object"
    path.write_text('{"version": [1, {"data": 2}], "data": [{"id": "1", "text": "x"}, {"text": "y"}], "more": [3]}')
    assert [d.text for d in read_file(path)] == ["x", "y"]


def test_an_unexpected_error_of_a_parser_is_a_reason_too(tmp_path, monkeypatch):
    from mundap import documents

    def broken(file):
        raise RuntimeError("parser exploded")
        yield

    monkeypatch.setitem(documents.FORMATS, "text", broken)
    path = tmp_path / "a.txt"
    path.write_text("x")
    assert "parser exploded" in read_file(path)[0].reason
