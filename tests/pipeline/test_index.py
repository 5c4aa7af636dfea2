"""The index of the public API."""

import mundap
from mundap.reader.runtime import Reader


def test_an_index_answers(tmp_path, tiny_model, tiny_reader):
    (tmp_path / "one.txt").write_text("the king of music")
    index = mundap.Index.build([tmp_path / "one.txt"], tmp_path / "index", model=str(tiny_model))
    reader = Reader.from_pretrained(tiny_reader)
    result = index.ask("who?", reader=reader, threshold=0, k=3)
    assert isinstance(result, mundap.AskResult)
    assert result.answers[0].text == "king"
    assert result == mundap.ask(index, "who?", reader, threshold=0, k=3)
    assert isinstance(index.reopened(), mundap.Index)


def test_the_built_in_reader_is_the_default(example_index):
    answer = example_index.ask("How high is the top of Kilimanjaro?").answers[0]
    assert "5,895" in answer.text
    assert example_index.reader is example_index.reader


def test_a_wrap_within_a_paragraph_is_no_end_of_a_line(tmp_path):
    text = (
        "# Bridge\n\nThe bridge was built by Sir Christopher\nWren in 1676.\n\n- first item\n  goes on\n- second item\n"
    )
    (tmp_path / "bridge.md").write_text(text)
    index = mundap.Index.build([tmp_path / "bridge.md"], tmp_path / "i", model="none")
    (passage,) = [hit.passage for hit in index.search("bridge", 1, mode="bm25")]
    lines = passage.unwrapped().splitlines()
    assert len(passage.unwrapped()) == len(passage.text)
    assert any("Sir Christopher Wren" in line for line in lines)
    assert not any("first item" in line and "second item" in line for line in lines)
