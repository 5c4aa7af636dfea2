"""NPL and CISI, two old test collections, as BEIR folders; then nDCG and the others through the product.

    python benchmarks/classic.py FOLDER -o OUT

FOLDER holds vaswani-npl/ (doc-text.trec.gz, query-text.trec.gz, qrels.gz) and cisi/ (CISI.ALL.gz, CISI.QRY.gz,
CISI.REL.gz).
"""

import argparse
import gzip
import json
import re
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from common import report

Rows = list[dict[str, str]]


def content(path: Path) -> str:
    """A compressed text."""
    return gzip.decompress(path.read_bytes()).decode("utf-8", "replace")


def npl(folder: Path) -> tuple[Rows, Rows, list[tuple[str, str]]]:
    """Documents, questions and judgements of the Vaswani (NPL) collection."""
    documents = re.findall(r"<DOCNO>(\d+)</DOCNO>(.*?)</DOC>", content(folder / "doc-text.trec.gz"), re.DOTALL)
    topics = re.findall(r"<num>(\d+)</num><title>(.*?)</title>", content(folder / "query-text.trec.gz"), re.DOTALL)
    judged = [line.split() for line in content(folder / "qrels.gz").splitlines()]
    return (
        [{"_id": name, "title": "", "text": " ".join(text.split())} for name, text in documents],
        [{"_id": name, "text": " ".join(text.lower().split())} for name, text in topics],
        [(row[0], row[2]) for row in judged if int(row[3]) > 0],
    )


def cisi(folder: Path) -> tuple[Rows, Rows, list[tuple[str, str]]]:
    """The same of CISI, whose records have fields .T title, .W text."""
    documents = [
        {"_id": name, "title": parts.get("T", ""), "text": parts.get("W", "")}
        for name, parts in _records(content(folder / "CISI.ALL.gz"))
    ]
    topics = [{"_id": name, "text": parts.get("W", "")} for name, parts in _records(content(folder / "CISI.QRY.gz"))]
    judged = [line.split()[:2] for line in content(folder / "CISI.REL.gz").splitlines() if line.strip()]
    return documents, topics, [(row[0], row[1]) for row in judged]


def _records(text: str) -> Iterable[tuple[str, dict[str, str]]]:
    for record in re.split(r"^\.I ", text, flags=re.MULTILINE)[1:]:
        name, _, rest = record.partition("\n")
        fields = re.split(r"^\.([A-Z])\s*\n", rest, flags=re.MULTILINE)
        yield (
            name.strip(),
            {key: " ".join(value.split()) for key, value in zip(fields[1::2], fields[2::2], strict=True)},
        )


def write(folder: Path, documents: Rows, topics: Rows, judged: list[tuple[str, str]]) -> None:
    """A BEIR folder."""
    (folder / "qrels").mkdir(parents=True, exist_ok=True)
    for name, rows in (("corpus.jsonl", documents), ("queries.jsonl", topics)):
        (folder / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    lines = ["query-id\tcorpus-id\tscore", *(f"{question}\t{document}\t1" for question, document in judged)]
    (folder / "qrels" / "test.tsv").write_text("\n".join(lines) + "\n")


def run(*arguments: Any) -> Any:
    """A command of the product, and what it prints as JSON."""
    command = [sys.executable, "-c", "from mundap.cli import run; run()", *map(str, arguments), "--json"]
    return json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Convert, index, evaluate."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    figures = {}
    for name, read, place in (("npl", npl, "vaswani-npl"), ("cisi", cisi, "cisi")):
        folder = arguments.out / name
        write(folder, *read(arguments.folder / place))
        run("index", folder / "corpus.jsonl", "-o", arguments.out / f"{name}-index")
        figures[name] = run(
            "evaluate", "retrieval", "-i", arguments.out / f"{name}-index", "--beir", folder,
            "--mode", "bm25", "dense", "hybrid", "--report", arguments.out / f"{name}-report",
        )  # fmt: skip
    report("classic", figures)


if __name__ == "__main__":
    main()
