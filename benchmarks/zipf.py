"""How BM25 grows: made-up text whose words are as uneven as those of a language, indexed and asked.

The n-th most frequent word has a share of 1 / (n + 2.7) (Zipf and Mandelbrot), out of a vocabulary that grows with the
square root of the text (Heaps); a passage has 100 words. Questions are 2 to 8 words of some passage. Text is drawn from
a seed, block by block, and written as it is drawn, so that no size is too large for memory. What such text lacks are
words that belong together.

    python benchmarks/zipf.py -n 10000 100000 1000000 -o OUT
"""

import argparse
import json
import resource
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from common import report

WORDS, BLOCK, QUESTIONS, K = 100, 10_000, 500, 100
LETTERS = "bdfgklmnprstvz"
VOWELS = "aeiou"
GROWTH = 30  # words of the vocabulary for the square root of all words: half a million at 3 million passages


def word(number: int) -> str:
    """A pronounceable word for each number; frequent ones are short."""
    syllables = ""
    while True:
        number, place = divmod(number, len(LETTERS) * len(VOWELS))
        syllables += LETTERS[place // len(VOWELS)] + VOWELS[place % len(VOWELS)]
        if not number:
            return syllables
        number -= 1


def passages(count: int, seed: int) -> Iterator[str]:
    """Texts, the same ones whatever the block they are drawn in; a smaller corpus is the beginning of a larger one."""
    names: list[str] = []
    for start in range(0, count, BLOCK):
        generator = np.random.default_rng((seed, start))
        known = int(GROWTH * ((start + BLOCK) * WORDS) ** 0.5)
        names += [word(number) for number in range(len(names), known)]
        shares = np.cumsum(1 / (np.arange(known) + 2.7))
        drawn = np.searchsorted(shares, generator.random((BLOCK, WORDS)) * shares[-1])
        for row in drawn[: count - start]:
            yield " ".join(names[number] for number in row)


def write_corpus(path: Path, count: int, seed: int) -> None:
    """The passages as a table, which appears whole or not at all."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("w") as file:
        file.write("id\ttext\ttitle\n")
        for number, text in enumerate(passages(count, seed)):
            file.write(f"{number}\t{text}\t\n")
    temporary.replace(path)


def questions(count: int, seed: int) -> list[str]:
    """Some words of passages of the first block."""
    generator = np.random.default_rng((seed, 1, QUESTIONS))
    texts = list(passages(min(count, BLOCK), seed))
    chosen = generator.integers(len(texts), size=QUESTIONS)
    lengths = generator.integers(2, 9, size=QUESTIONS)
    return [
        " ".join(generator.choice(texts[number].split(), length, replace=False))
        for number, length in zip(chosen, lengths, strict=True)
    ]


def search(index_path: str, count: int, seed: int) -> dict[str, float]:
    """Questions a second and memory, in this process, which should have done nothing else before."""
    from mundap import Index
    from mundap.bench.work import _anonymous_mb

    index = Index(index_path)
    asked = questions(count, seed)
    index.search_batch(asked[:20], K, "bm25")  # warms up
    wall, cpu = time.perf_counter(), time.process_time()
    for question in asked:
        index.search(question, K, "bm25")
    alone = time.perf_counter() - wall, time.process_time() - cpu
    wall = time.perf_counter()
    index.search_batch(asked, K, "bm25")
    together = time.perf_counter() - wall
    return {
        "one_questions_a_second": round(len(asked) / alone[0], 1),
        "one_cpu_ms": round(1000 * alone[1] / len(asked), 3),
        "batch_questions_a_second": round(len(asked) / together, 1),
        "memory_mb": _anonymous_mb(),
    }


def measure(out: Path, count: int, seed: int) -> dict[str, object]:
    """Build and search, each in a process of its own."""
    rows, index = out / f"zipf-{count}-{seed}.tsv", out / f"zipf-{count}-{seed}"
    if not rows.exists():
        write_corpus(rows, count, seed)
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    plain = ["--model", "none", "--language", "en"]  # no language is to be seen in such text
    build = [sys.executable, "-m", "mundap", "index", str(rows), "-o", str(index), *plain, "--fresh", "--json"]
    subprocess.run(build, check=True, capture_output=True)
    seconds, after = time.perf_counter() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
    again = [sys.executable, __file__, "--search", str(index), "-n", str(count), "--seed", str(seed)]
    found = json.loads(subprocess.run(again, check=True, capture_output=True).stdout)
    return {
        "passages": count,
        "text_mb": rows.stat().st_size >> 20,
        "index_mb": sum(path.stat().st_size for path in index.rglob("*") if path.is_file()) >> 20,
        "build_seconds": round(seconds, 1),
        "build_cpu_seconds": round(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime, 1),
        "build_peak_resident_mb": after.ru_maxrss >> 10,  # of the largest so far: give sizes in ascending order
        **found,
    }


def main() -> None:
    """Measure the sizes, smallest first."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("-n", type=int, nargs="+", default=[10_000, 100_000, 1_000_000], help="passages")
    parser.add_argument("-o", "--out", type=Path, default=Path(), help="where text and indexes go")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--search", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.search:
        sys.stdout.write(json.dumps(search(arguments.search, arguments.n[0], arguments.seed)) + "\n")
        return
    arguments.out.mkdir(parents=True, exist_ok=True)
    report("zipf", {"sizes": [measure(arguments.out, count, arguments.seed) for count in sorted(arguments.n)]})


if __name__ == "__main__":
    main()
