"""reStructuredText as Sphinx projects have it: tables of all four kinds, literal blocks, directives."""

from mundap.documents import SourceFile, read

SIMPLE = """Limits
======

=========  ============  ==============
Item       Limit         Comment
=========  ============  ==============
columns    1,600         in one table,
                         and no more
``rows``   2 :sup:`32`
=========  ============  ==============

After the table.
"""
GRID = """+-----------+--------+
| Name      | Height |
+===========+========+
| 한라산    | 1,947  |
+-----------+--------+
| Ring,     | 12     |
| the small |        |
+-----------+--------+

After.
"""
LIST = """.. list-table:: Peaks
   :header-rows: 1
   :widths: 20 80

   * - Name
     - Height
   * - Ring
     - 12 metres
       or more
   * -
     - 13

.. csv-table::
   :header: "Name", "Place"

   "Ring, the small", North
   King, South

After.
"""


def blocks(tmp_path, text):
    path = tmp_path / "a.rst"
    path.write_text(text, "utf-8")
    (found,) = read(SourceFile(path, "a.rst", "a.rst"))
    return [(one.kind, found.text[one.start : one.end], one.line) for one in found.blocks]


def test_a_simple_table(tmp_path):
    assert blocks(tmp_path, SIMPLE) == [
        ("heading", "Limits", 1),
        ("row", "Item: columns; Limit: 1,600; Comment: in one table, and no more", 7),
        ("row", "Item: rows; Limit: 2 32", 9),
        ("text", "After the table.", 12),
    ]


def test_a_grid_table_with_wide_letters_and_a_cell_of_two_lines(tmp_path):
    assert blocks(tmp_path, GRID) == [
        ("row", "Name: 한라산; Height: 1,947", 4),
        ("row", "Name: Ring, the small; Height: 12", 6),
        ("text", "After.", 10),
    ]


def test_tables_of_lists_and_of_csv(tmp_path):
    assert blocks(tmp_path, LIST) == [
        ("heading", "Peaks", 1),
        ("row", "Name: Ring; Height: 12 metres or more", 7),
        ("row", "Height: 13", 10),
        ("row", "Name: Ring, the small; Place: North", 16),
        ("row", "Name: King; Place: South", 17),
        ("text", "After.", 19),
    ]


def test_borders_without_an_end_are_looked_for_once(tmp_path):
    text = "===  ===\na    b\n" * 20_000
    assert "a b" in blocks(tmp_path, text)[0][1]


def test_marks_that_end_too_early(tmp_path):
    assert blocks(tmp_path, "+---+---+\n| a | b\n")[0][1] == "a: b"
    assert blocks(tmp_path, "Text.\n\n.. list-table::\n") == [("text", "Text.", 1)]
    assert blocks(tmp_path, 'Text.\n\n.. csv-table::\n\n   "a, b\n   c, d\n')[1][0] == "row"
