"""The bytes behind `mundap plan`, measured again on passages of psgs_w100 (or any other file).

    python benchmarks/plan.py psgs_w100.tsv.gz
    python tests/engines/milvus_server.py python benchmarks/plan.py psgs_w100.tsv.gz

In a folder: what passages and postings take once it is compacted. Beside a Milvus server, at whose data it looks: what
a row takes there once it is flushed, with made vectors of 384 dimensions. These are sizes: the machine may be busy.
"""

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import numpy as np

from mundap.engines import build, connect
from mundap.index.build import Options, compact
from mundap.index.index import Index
from mundap.models.folder import DEFAULT

DIMENSION = 384


def main() -> None:
    """Measure and print as JSON."""
    source = Path(sys.argv[1])
    with tempfile.TemporaryDirectory() as folder:
        found = in_folder(source, Path(folder) / "index")
        if server := os.environ.get("MUNDAP_TEST_MILVUS"):
            data = Path(os.environ["MUNDAP_TEST_MILVUS_DATA"])
            found |= in_milvus(source, found["passages"], f"{server}/plan?timeout=600", data, Path(folder) / "v.npy")
    print(json.dumps(found, indent=1))  # noqa: T201


def in_folder(source: Path, out: Path) -> dict[str, Any]:
    """Bytes a passage of an index without vectors."""
    report = build.build([source], str(out), Options(model="none"))
    compact(out)
    own = sum(len(one.title.encode()) + len(one.text.encode()) for one in Index(out).passages())
    text = size_of(out / "segments")
    postings = sum(size_of(folder) for folder in out.glob("lexical-*"))
    return {
        "passages": report.passages,
        "text": round(text / report.passages, 1),
        "beside": round((text - own) / report.passages, 1),
        "postings": round(postings / report.passages, 1),
    }


def in_milvus(source: Path, passages: int, place: str, data: Path, ready: Path) -> dict[str, Any]:
    """Bytes a row, beside its vector, of what Milvus has written for good."""
    vectors = np.random.default_rng(0).standard_normal((passages, DIMENSION), np.float32)
    np.save(ready, vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    before = size_of(data / "insert_log")
    build.build([source], place, Options(model=DEFAULT), vectors=ready)
    engine: Any = connect(place)
    engine._client.flush(engine._name, timeout=600)
    row = (size_of(data / "insert_log") - before) / passages
    engine.drop()
    return {"milvus_version": engine.version, "milvus_row_on_disk": round(row - 4 * DIMENSION, 1)}


def size_of(folder: Path) -> int:
    """Bytes of all files below."""
    return sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())


if __name__ == "__main__":
    main()
