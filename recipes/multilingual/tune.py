"""A pool of passages, and held-back questions on it, to fit the multilingual models' weights and confidence on.

    python recipes/multilingual/tune.py PREPARED -o OUT

PREPARED is what recipes/reader/prepare.py wrote. OUT gets `pool.jsonl` (all Korean passages, up to 700 Japanese and
700 Chinese ones, up to 260 of each other language, and TyDi's English dev), `confidence.jsonl` (held back, to fit the
confidence on: some 170 questions of each group of languages), `check-GROUP.jsonl` (some 80 more of each group, of
other articles, to check it), `korean.jsonl` (all Korean questions that are held back) and `NAME.jsonl` of each
language (up to 150, for the table by language).
"""

import argparse
import json
import random
import sys
import zlib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))
from prepare import MULTI

KOREAN = ("ko", "ko_tydi")
ENGLISH = "tydi_dev-dev"
GROUPS = {
    "ko": KOREAN,
    "ja-zh": ("ja", "zh"),
    "rest": tuple(name for name in MULTI if name[:2] not in ("ko", "ja", "zh")),
}
"""Languages whose confidence is fitted together, by the reader's name of the group."""

FITTED, CHECKED = 170, 80  # questions of a group


def main() -> None:
    """All files."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("prepared", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)
    multi, english = arguments.prepared / "multi", arguments.prepared / "en"
    pool: dict[tuple[str, str], str] = {}
    for name in MULTI:
        most = None if name in KOREAN else 350 if name in GROUPS["ja-zh"] else 130
        for part in ("", "-dev"):
            for passage in passages(multi / f"{name}{part}.jsonl", most):
                pool[passage] = "ko" if name in KOREAN else name
    for passage in passages(english / f"{ENGLISH}.jsonl", None):
        pool[passage] = "en"
    rows = [
        {"id": f"p{number}", "title": title, "text": text, "language": language}
        for number, ((title, text), language) in enumerate(pool.items())
    ]
    write(arguments.out / "pool.jsonl", rows)
    asked = {}
    for name in MULTI:
        asked[name] = [row for row in read(multi / f"{name}-dev.jsonl") if passage_of(row) in pool]
        random.Random(1).shuffle(asked[name])  # noqa: S311
        write(arguments.out / f"{name}.jsonl", questions(asked[name][:150]))
    write(arguments.out / "korean.jsonl", [row for name in KOREAN for row in questions(asked[name])])
    fitted = []
    for group, names in GROUPS.items():
        to_fit, to_check = [], []
        for name in names:
            to_fit += [row for row in asked[name] if not to_be_checked(row)][: round(FITTED / len(names))]
            to_check += [row for row in asked[name] if to_be_checked(row)][: round(CHECKED / len(names))]
        fitted += questions(to_fit)
        write(arguments.out / f"check-{group}.jsonl", questions(to_check))
    write(arguments.out / "confidence.jsonl", fitted)


def to_be_checked(row: dict) -> bool:
    """One article in three checks what was fitted on the others."""
    return zlib.crc32(f"check {passage_of(row)[0]}".encode()) % 3 == 0


def questions(rows: list[dict]) -> list[dict]:
    """Questions and answers, without their passages."""
    return [{key: row[key] for key in ("id", "question", "answers")} for row in rows]


def passages(path: Path, most: int | None) -> list[tuple[str, str]]:
    """Some of the positives of a file, each once."""
    found = list(dict.fromkeys(passage_of(row) for row in read(path)))
    random.Random(0).shuffle(found)  # noqa: S311
    return found[:most]


def passage_of(row: dict) -> tuple[str, str]:
    """Title and text of an example's positive."""
    context = row["positive_ctxs"][0]
    return context["title"], context["text"]


def read(path: Path) -> list[dict]:
    """The rows of a file."""
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def write(path: Path, rows: list[dict]) -> None:
    """One row a line."""
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), "utf-8")


if __name__ == "__main__":
    main()
