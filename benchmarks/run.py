"""All benchmarks that `make bench` can run, one after another; each writes a JSON file beside the corpus."""

import os
import subprocess
import sys
from pathlib import Path

from common import PASSAGES, QUESTIONS, RUNS

HERE = Path(__file__).parent


def run(script: str, *arguments: str) -> None:
    """One benchmark, in a process of its own."""
    sys.stderr.write(f"== {script} {' '.join(arguments)}\n")
    subprocess.run([sys.executable, str(HERE / script), *arguments], check=True)


def main() -> None:
    """Make the corpus if it is missing, then measure."""
    if not PASSAGES.exists() or not QUESTIONS.exists():
        run("corpus.py", "-o", str(PASSAGES), "--questions", str(QUESTIONS))
    lucene = RUNS.parent / "pyserini" / "bin" / "python"
    run("encoding.py")
    run("lexical.py", *(["--lucene", str(lucene)] if lucene.exists() else []))
    size = os.environ.get("MUNDAP_BENCH_SCALE", "100000")
    run("scale.py", "-n", size)
    run("start.py", str(RUNS / f"index-scale-{size}"))
    run("evaluation.py", *(["--pyserini", str(lucene)] if lucene.exists() else []))


if __name__ == "__main__":
    main()
