from mundap.text.sentences import sentence_spans


def cut(text):
    return [text[start:end] for start, end in sentence_spans(text)]


def test_sentences_end_at_stops_but_not_at_abbreviations_or_numbers():
    assert cut("Dr. Smith paid 3.50 dollars. He left! Why?") == [
        "Dr. Smith paid 3.50 dollars.",
        "He left!",
        "Why?",
    ]


def test_cjk_stops_need_no_space():
    assert cut("今日は晴れ。明日は雨！") == ["今日は晴れ。", "明日は雨！"]


def test_a_blank_line_ends_a_sentence():
    assert cut("A heading\n\nThe text.") == ["A heading", "The text."]


def test_korean():
    assert cut("서울은 수도이다. 부산은 항구이다.") == ["서울은 수도이다.", "부산은 항구이다."]


def test_a_long_row_of_dots_takes_no_time():
    assert len(cut("日本語日本語日本語。" + "." * 300_000 + "x")) == 2
