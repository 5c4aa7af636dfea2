"""How many questions without an answer are refused: `mundap evaluate` leaves such questions out, this asks them."""

import argparse
import json
import sys
from pathlib import Path

from mundap import Index, Reader, ask


def main() -> None:
    """Ask every question of the file, and tell which ones got an answer all the same."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", help="made of the documents that the questions are about")
    parser.add_argument("questions", type=Path, help="JSON lines: dev/unanswerable.jsonl or test/unanswerable.jsonl")
    parser.add_argument("--reader", default="reader", help="its name or folder")
    arguments = parser.parse_args()

    index = Index(arguments.index)
    reader = Reader.from_pretrained(arguments.reader)
    lines = arguments.questions.read_text("utf-8").splitlines()
    questions = [json.loads(line)["question"] for line in lines]
    refused = 0
    for question in questions:
        found = ask(index, question, reader)
        if found.no_answer:
            refused += 1
        else:
            best = found.answers[0]
            sys.stdout.write(f"{best.confidence:.2f}  {question}  {best.text!r}\n")
    sys.stdout.write(f"{refused} of {len(questions)} refused, {100 * refused / len(questions):.1f} %\n")


if __name__ == "__main__":
    main()
