"""Reading: how long an answer takes, and how many questions a second against a hand-made torch script.

python benchmarks/reading.py INDEX QUESTIONS --checkpoint FOLDER

INDEX is any index (49,120 passages for the figures in README.md) that has the answers to QUESTIONS, CHECKPOINT the
torch checkpoint that the shipped reader was exported from. The peer is what one gets from transformers by hand: the
same network in fp32, the passages of a question as one batch padded to the maximum. It does the same work as ours:
where the first two passages are sure enough, by the same rule, it does not read the others.
"""

import argparse
import statistics
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np

from common import report, side_by_side

READ = 10


def cold(index: str, question: str, rounds: int) -> float:
    """Median seconds of a whole `mundap ask`."""
    command = [str(Path(sys.executable).with_name("mundap")), "ask", "-i", index, "--json", question]
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        subprocess.run(command, check=True, capture_output=True)
        seconds.append(time.perf_counter() - started)
    return statistics.median(seconds)


class ByHand:
    """The peer: torch, fp32, padded to the maximum."""

    def __init__(self, folder: Path, reader) -> None:  # noqa: ANN001
        import torch

        from mundap.reader.checkpoints import open_reader

        self._torch = torch
        loaded = open_reader(folder, "sdpa")
        self._model = loaded.model.eval()
        self._reader = reader
        self._length = reader.config.max_length
        self.read_windows = 0

    def read(self, question: str, hits: list, threshold: float | None = None):  # noqa: ANN201
        """The best answer, if there is any.

        How many passages are read, and which span of which passage it is, is decided as we do: networks are compared.
        """
        from mundap.reader.answering import read_until_sure

        if threshold is None:
            threshold = self._reader.config.fitted_for(question).threshold
        found = read_until_sure(
            self._reader, question, hits, lambda part: self._read_part(question, hits[part]), threshold=threshold
        )
        return found[0] if found else None

    def _read_part(self, question: str, hits: list) -> list:
        """What the network says of some passages, all of them in one batch."""
        from mundap.reader.runtime import Scored

        torch = self._torch
        rows = self._reader._windows.of(question, [(hit.passage.title, hit.passage.text) for hit in hits])
        windows = [window for row in rows for window in row]
        ids = torch.zeros((len(windows), self._length), dtype=torch.long)
        mask = torch.zeros_like(ids)
        for row, window in enumerate(windows):
            ids[row, : len(window.ids)] = torch.tensor(window.ids)
            mask[row, : len(window.ids)] = 1
        self.read_windows += len(windows)
        with torch.no_grad():
            starts, ends, chosen = (part.numpy() for part in self._model(ids, mask))
        sizes = [len(window.ids) for window in windows]
        scored = iter(
            Scored(window, starts[n, : sizes[n]], ends[n, : sizes[n]], float(chosen[n]))
            for n, window in enumerate(windows)
        )
        return [list(islice(scored, len(row))) for row in rows]


def main() -> None:
    """Measure and report."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("index")
    parser.add_argument("questions", type=Path, help="Any file that `mundap evaluate` reads.")
    parser.add_argument("--checkpoint", type=Path, required=True)
    parser.add_argument("-n", type=int, default=100, help="How many of them are timed, drawn at random.")
    parser.add_argument("--same", type=int, default=300, help="How many answers are compared with torch's.")
    arguments = parser.parse_args()

    from mundap import Index
    from mundap.datasets.queries import read_all, sample
    from mundap.pipeline.ask import ask
    from mundap.reader.answering import answer_from
    from mundap.reader.runtime import Reader
    from mundap.text.scores import normalize

    index, reader = Index(arguments.index), Reader.from_pretrained()
    asked = read_all(arguments.questions)[0]
    questions = [one.text for one in sample(asked, arguments.n)]
    ask(index, questions[0], reader)
    seconds = []
    for question in questions:
        started = time.perf_counter()
        ask(index, question, reader, READ)
        seconds.append(time.perf_counter() - started)
    found = [index.search(question, READ) for question in questions]
    peer = ByHand(arguments.checkpoint, reader)
    same: dict[str, list[bool]] = {"as shown": [], "forced": []}
    answered = []
    for one in sample(asked, arguments.same):
        hits = index.search(one.text, READ)
        for name, least in (("as shown", reader.config.threshold), ("forced", 0.0)):
            theirs = peer.read(one.text, hits, least)
            ours = answer_from(reader, one.text, hits, threshold=least).answers
            other = theirs.text if theirs and theirs.confidence >= least else ""
            same[name].append(normalize(ours[0].text if ours else "") == normalize(other))
            if name == "as shown":
                answered.append(bool(ours))
    peer.read_windows, ours_read = 0, 0
    for question, hits in zip(questions, found, strict=True):
        peer.read(question, hits)
        ours_read += sum(len(windows) for windows in answer_from(reader, question, hits).readings)
    theirs_read = peer.read_windows
    times = side_by_side(
        {
            "mundap": lambda: [answer_from(reader, *one) for one in zip(questions, found, strict=True)],
            "torch": lambda: [peer.read(*one) for one in zip(questions, found, strict=True)],
        }
    )
    report(
        "reading",
        {
            "passages": len(index),
            "questions": len(questions),
            "answered_percent": round(100 * float(np.mean(answered)), 1),
            "warm_ask_median_seconds": round(statistics.median(seconds), 3),
            "warm_ask_p95_seconds": round(float(np.percentile(seconds, 95)), 3),
            "cold_command_seconds": round(cold(arguments.index, questions[0], 5), 3),
            "reading_questions_per_second": {name: round(len(questions) / value, 2) for name, value in times.items()},
            "windows_read": {"mundap": ours_read, "torch": theirs_read},
            "ratio": round(times["torch"] / times["mundap"], 2),
            "compared": len(answered),
            "same_answers_percent": {name: round(100 * float(np.mean(values)), 1) for name, values in same.items()},
        },
    )


if __name__ == "__main__":
    main()
