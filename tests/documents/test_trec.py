"""Collections of TREC and MS MARCO's documents."""

from mundap.documents import detect, read
from mundap.documents.files import open_file

DOCUMENTS = """<DOC>
<DOCNO> X-1 </DOCNO>
<HEADLINE>A &amp; B</HEADLINE>
<TEXT>
<P>One two.</P>
</TEXT>
</DOC>
<DOC>
<TEXT>without a number</TEXT>
</DOC>
<DOC><DOCNO>X-2</DOCNO>
plain words
</DOC>
<DOC>
<DOCNO>X-3</DOCNO>
"""


def test_documents_between_tags(tmp_path):
    path = tmp_path / "ft911_1"
    path.write_text(DOCUMENTS)
    file = open_file(path)
    assert detect(file) == "trec"
    first, nameless, second, open_ended = read(file)
    assert (first.id, first.title, first.text, first.whole) == ("X-1", "A & B", "One two.", False)
    assert "without a <DOCNO>" in nameless.reason and nameless.source.endswith(":8")
    assert (second.id, second.text) == ("X-2", "plain words")
    assert "does not end" in open_ended.reason


def test_the_documents_of_ms_marco(tmp_path):
    path = tmp_path / "msmarco-docs.tsv"
    path.write_text("D1\thttps://x.org/\tTitle\tThe body.\nD2\thttps://x.org/\n")
    document, short = read(open_file(path))
    assert (document.id, document.title, document.text, document.whole) == ("D1", "Title", "The body.", False)
    assert document.metadata["url"] == "https://x.org/"
    assert "2 columns" in short.reason
