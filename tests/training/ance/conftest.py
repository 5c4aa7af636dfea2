"""Training files on a tiny real checkpoint, and an index of their passages."""

import json

import pytest


@pytest.fixture(scope="module")
def pool(files, tmp_path_factory):
    """An index with all passages of the training files and some others; short ones."""
    from mundap.index.index import Index

    folder = tmp_path_factory.mktemp("pool")
    rows, seen = ["id\ttext\ttitle"], set()
    for name in ("a", "b"):
        for line in (files / f"{name}.jsonl").read_text().splitlines():
            found = json.loads(line)
            for context in found["positive_ctxs"] + found["hard_negative_ctxs"]:
                if context["text"] not in seen:
                    seen.add(context["text"])
                    rows.append(f"{name}{len(seen)}\t{context['text']}\t{context['title']}")
    (folder / "passages.tsv").write_text("\n".join(rows) + "\n")
    Index.build([folder / "passages.tsv"], folder / "index", model="none")
    return folder / "index"
