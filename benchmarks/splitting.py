"""How documents should be cut: answers right, passages, bytes and seconds, for several sizes and overlaps.

    python benchmarks/splitting.py DATA

DATA has tydiqa-goldp and squadshifts. Three sets of questions are asked through the product with the shipped models:
TyDi's English dev questions; those on articles of new_wiki that recipes/reader keeps out of training; and the 60 on
real documentation in examples/documentation/dev. TyDi's paragraphs and new_wiki's articles (its paragraphs joined
again) are one index of whole documents. Seconds are CPU seconds of all processes. What is measured is kept, and a
second run goes on: `--anew` forgets it.
"""

import argparse
import gzip
import json
import random
import resource
import subprocess
import sys
import tempfile
import zlib
from pathlib import Path
from typing import Any

from common import RUNS, report

WAYS: dict[str, list[str]] = {
    "words 100": ["--split", "words", "--words", "100"],
    "60": ["--words", "60"],
    "100": ["--words", "100"],
    "100, overlap 20": ["--words", "100", "--overlap", "20"],
    "150": ["--words", "150"],
    "200": ["--words", "200"],
}
DOCUMENTATION = Path(__file__).resolve().parents[1] / "examples" / "documentation" / "dev"
KEPT = RUNS / "splitting-kept.json"


def main() -> None:
    """Measure every way of cutting on every set."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--questions", type=int, default=150, help="of TyDi and of new_wiki each")
    parser.add_argument("--articles", type=int, default=48, help="of new_wiki")
    parser.add_argument("--ways", nargs="*", default=list(WAYS), choices=list(WAYS))
    parser.add_argument("--anew", action="store_true", help="measure again what was measured before")
    options = parser.parse_args()
    kept: dict[str, Any] = {}
    if KEPT.exists() and not options.anew:
        kept = json.loads(KEPT.read_text())
    with tempfile.TemporaryDirectory() as folder:
        sets = {
            "documentation": (DOCUMENTATION / "documents", {"documentation": DOCUMENTATION / "questions.jsonl"}),
            f"wikipedia {options.questions} {options.articles}": _wikipedia(options, Path(folder)),
        }
        for name, (documents, questions) in sets.items():
            for way in options.ways:
                key = f"{name}: {way}"
                if key not in kept:
                    kept[key] = _measure(documents, questions, WAYS[way])
                    RUNS.mkdir(parents=True, exist_ok=True)
                    KEPT.write_text(json.dumps(kept, indent=2))
                sys.stderr.write(f"{key}: {json.dumps(kept[key])}\n")
        results = {way: {name.split()[0]: kept[f"{name}: {way}"] for name in sets} for way in options.ways}
    report("splitting", results)
    sys.stdout.write(_table(results))


def _wikipedia(options: argparse.Namespace, folder: Path) -> tuple[Path, dict[str, Path]]:
    """The articles of TyDi and new_wiki as one file of documents, and a file of questions for each."""
    tydi = _articles(options.data / "tydiqa-goldp" / "english_tydiqa_dev.json.gz")
    wiki = _articles(options.data / "squadshifts" / "new_wiki_v1.0.json.gz")
    held_back = [one for one in wiki if zlib.crc32(one["title"].encode()) % 15 == 0]  # as recipes/reader/prepare.py
    others = [one for one in wiki if one not in held_back]
    shown = held_back + others[: max(0, options.articles - len(held_back))]
    documents = folder / "articles.jsonl"
    with documents.open("w", encoding="utf-8") as out:
        for number, article in enumerate(tydi + shown):
            text = "\n\n".join(paragraph["context"] for paragraph in article["paragraphs"])
            row = {"id": str(number), "title": article["title"].replace("_", " "), "text": text}
            out.write(json.dumps(row, ensure_ascii=False) + "\n")
    questions = {}
    for name, articles in (("tydi", tydi), ("new_wiki", held_back)):
        rows = [row for article in articles for paragraph in article["paragraphs"] for row in paragraph["qas"]]
        random.Random(1).shuffle(rows)
        questions[name] = folder / f"{name}.jsonl"
        with questions[name].open("w", encoding="utf-8") as out:
            for row in rows[: options.questions]:
                answers = sorted({one["text"] for one in row["answers"]})
                out.write(json.dumps({"id": row["id"], "question": row["question"], "answers": answers}) + "\n")
    return documents, questions


def _articles(path: Path) -> list[dict[str, Any]]:
    with gzip.open(path, "rt", encoding="utf-8") as file:
        found: list[dict[str, Any]] = json.load(file)["data"]
    return found


def _measure(documents: Path, questions: dict[str, Path], way: list[str]) -> dict[str, Any]:
    """Index the documents one way and ask the questions."""
    with tempfile.TemporaryDirectory() as folder:
        index = Path(folder) / "index"
        built, seconds = _mundap("index", str(documents), "-o", str(index), "--json", *way)
        size = sum(path.stat().st_size for path in index.rglob("*") if path.is_file())
        found: dict[str, Any] = {
            "passages": built["passages"],
            "megabytes": round(size / 1e6, 2),
            "cpu_seconds_to_index": round(seconds, 1),
        }
        for name, path in questions.items():
            told, seconds = _mundap("evaluate", "answers", "-i", str(index), "-q", str(path), "-k", "10", "--json")
            found[name] = {
                "questions": told["questions"],
                "exact_match": told["exact_match"],
                "f1": told["f1"],
                "in_the_passages_found": told["oracle"]["10"],
                "answered": told["confidence"]["answered"],
                "right_of_answered": told["confidence"]["exact_match_of_answered"],
                "cpu_seconds_a_question": round(seconds / told["questions"], 3),
            }
        return found


def _mundap(*words: str) -> tuple[dict[str, Any], float]:
    """What a command says, and the CPU seconds it took, with its own processes."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run([sys.executable, "-m", "mundap", *words], capture_output=True, text=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode not in (0, 3):
        sys.exit(f"mundap {' '.join(words)}\n{done.stderr}")
    found: dict[str, Any] = json.loads(done.stdout)
    return found, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def _table(results: dict[str, Any]) -> str:
    """The figures as Markdown: EM / F1, and in brackets how many have the answer in the ten passages found."""
    names = ("tydi", "new_wiki", "documentation")
    lines = [
        "| split | TyDi | new_wiki | documentation | EM, mean | passages | MB | CPU s to index | CPU s a question |",
        "|---|---|---|---|---:|---:|---:|---:|---:|",
    ]
    for way, sets in results.items():
        figures = {**sets["wikipedia"], **sets["documentation"]}
        cells = []
        for name in names:
            one = figures[name]
            cells.append(f"{one['exact_match']:.1f} / {one['f1']:.1f} ({one['in_the_passages_found']:.0f})")
        mean = sum(figures[name]["exact_match"] for name in names) / len(names)
        asked = sum(figures[name]["cpu_seconds_a_question"] for name in names) / len(names)
        sums = [sum(one[key] for one in sets.values()) for key in ("passages", "megabytes", "cpu_seconds_to_index")]
        cells += [f"{mean:.1f}", f"{sums[0]:,}", f"{sums[1]:.1f}", f"{sums[2]:.0f}", f"{asked:.2f}"]
        lines.append(f"| {way} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    main()
