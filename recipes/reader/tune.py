"""Held-back English questions of several kinds, and their passages, to fit the default reader's confidence on.

    python recipes/reader/tune.py PREPARED -o OUT

PREPARED is what prepare.py wrote. OUT gets `pool.jsonl` (the passages of the SQuAD and Natural Questions articles that
are held back) and `questions.jsonl`: TyDi's dev questions, 200 of each of those two sets, and the dev questions on
documentation of examples/. `mundap index` makes the index of pool.jsonl, the documents of those questions, and files
whose passages stand in the way.
"""

import argparse
import json
import random
from pathlib import Path

DOCUMENTATION = Path(__file__).parent.parent.parent / "examples" / "documentation" / "dev" / "questions.jsonl"
HELD_BACK = {"squad-dev": 200, "nq-dev": 200, "tydi_dev-dev": None}
WITH_PASSAGES = ("squad-dev", "nq-dev")


def main() -> None:
    """Both files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    passages: dict[tuple[str, str], None] = {}
    questions = []
    for name, most in HELD_BACK.items():
        rows = read(arguments.prepared / "en" / f"{name}.jsonl")
        random.Random(1).shuffle(rows)  # noqa: S311
        questions += rows[:most]
        if name in WITH_PASSAGES:
            for row in rows:
                context = row["positive_ctxs"][0]
                passages[context["title"], context["text"]] = None
    questions += read(DOCUMENTATION)
    pool = [{"id": f"p{n}", "title": title, "text": text} for n, (title, text) in enumerate(passages)]
    write(arguments.out / "pool.jsonl", pool)
    write(arguments.out / "questions.jsonl", [{k: row[k] for k in ("id", "question", "answers")} for row in questions])


def read(path: Path) -> list[dict]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: list[dict]) -> None:
    """One row a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
