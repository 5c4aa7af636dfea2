"""The demo behind `make demo`: index the example encyclopaedia, then ask it questions with the real program."""

import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

HERE = Path(__file__).parent.resolve()
QUESTIONS = (
    "Who is the bad guy in Lord of the Rings?",
    "기생충이 칸 영화제에서 받은 상 이름은?",
    "Who composed the music for the Lord of the Rings trilogy?",
    "How tall is the Eiffel Tower?",
    "Who won the football world cup on the moon?",
)
EXPLAINED = "How high is the top of Kilimanjaro?"
PARAPHRASED = "Who is the bad guy in Lord of the Rings?"


def mundap(*arguments: str, folder: str) -> None:
    """Show a command as a user would type it, and run it."""
    shown = " ".join(f'"{word}"' if " " in word else word for word in arguments)
    sys.stdout.write(f"\n$ mundap {shown}\n")
    sys.stdout.flush()
    program = Path(sys.executable).with_name("mundap")
    subprocess.run([str(program), *arguments], cwd=folder, check=True)  # noqa: S603


def main() -> None:
    """Index, answer questions with their sources, and compare the three rankings."""
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(HERE / "encyclopedia", Path(folder) / "encyclopedia")
        mundap("index", "encyclopedia", folder=folder)
        for question in QUESTIONS:
            mundap("ask", question, folder=folder)
        mundap("ask", "--explain", EXPLAINED, folder=folder)
        mundap("search", "--mode", "all", "-k", "3", PARAPHRASED, folder=folder)
        mundap("info", folder=folder)
    sys.stdout.write("\nNow your own: .venv/bin/mundap index YOUR-FOLDER, then .venv/bin/mundap ask “…”\n")


if __name__ == "__main__":
    main()
