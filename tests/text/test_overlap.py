from mundap.text.overlap import containment, shingles


def test_a_part_is_contained_in_the_whole():
    whole = "The river runs through the old city and down to the sea."
    assert containment(shingles(whole), shingles("through the old city")) == 1
    assert containment(shingles(whole), shingles("a wholly different text about music")) == 0


def test_short_and_empty_texts():
    assert shingles("") == frozenset()
    assert containment(shingles(""), shingles("a b c")) == 0
    assert containment(shingles("One two"), shingles("one TWO")) == 1
    assert shingles("a b c d") == {("a", "b", "c"), ("b", "c", "d")}
