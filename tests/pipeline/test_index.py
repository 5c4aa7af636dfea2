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
