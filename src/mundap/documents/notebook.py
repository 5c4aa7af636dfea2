"""Jupyter notebooks."""

import json
from collections.abc import Iterator
from typing import Any

from mundap.documents.blocks import Builder, make_document
from mundap.documents.files import SourceFile, Unreadable, decode
from mundap.documents.plain import add_markdown
from mundap.records import Document

_LONGEST_OUTPUT = 2000  # characters: what is printed beyond that is data


def read_notebook(file: SourceFile) -> Iterator[Document]:
    """Cells in order: text as Markdown, code with what it printed. A cell's number is its page."""
    notebook, cells = _opened(file)
    built = Builder()
    title = ""
    for number, cell in enumerate(cells, 1):
        if not isinstance(cell, dict):
            continue
        built.page = number
        source = _joined(cell.get("source", cell.get("input", "")))
        if cell.get("cell_type") == "markdown":
            heading = add_markdown(built, source)
            title = title or heading
        else:
            built.add("code", source)
            for output in cell.get("outputs") or ():
                built.add("code", _printed(output)[:_LONGEST_OUTPUT])
    yield make_document(file, built, "notebook", title, _facts(notebook))


def _opened(file: SourceFile) -> tuple[Any, list[Any]]:
    """A notebook and its cells, which older ones have in a worksheet."""
    try:
        notebook = json.loads(decode(file.read()))
        cells = notebook["cells"] if "cells" in notebook else notebook["worksheets"][0]["cells"]
        if not isinstance(cells, list):
            raise TypeError("its cells are no list")
    except (ValueError, KeyError, IndexError, TypeError, RecursionError) as error:
        raise Unreadable(f"not a Jupyter notebook ({str(error)[:100] or type(error).__name__})") from error
    return notebook, cells


def _joined(source: Any) -> str:
    if isinstance(source, list):
        return "".join(part for part in source if isinstance(part, str))
    return source if isinstance(source, str) else ""


def _printed(output: Any) -> str:
    if not isinstance(output, dict):
        return ""
    data = output.get("data")
    if isinstance(data, dict):
        return _joined(data.get("text/plain", ""))
    return _joined(output.get("text", ""))


def _facts(notebook: Any) -> dict[str, Any]:
    facts = notebook.get("metadata")
    authors = facts.get("authors") if isinstance(facts, dict) else None
    names = [one.get("name", "") for one in authors if isinstance(one, dict)] if isinstance(authors, list) else []
    return {"author": ", ".join(name for name in names if isinstance(name, str))}
