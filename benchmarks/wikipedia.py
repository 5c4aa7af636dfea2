"""Wikipedia dumps: speed a core against WikiExtractor, markup left behind, and the wording of the published psgs_w100.

python benchmarks/wikipedia.py DUMP [--wikiextractor PYTHON] [--published FILE …] [--copies N]

DUMP is any dump; its pages are written N times into one multistream file, so that there is enough to measure. PYTHON
is one in whose environment WikiExtractor and mwparserfromhell are installed: the former is AGPL, and neither is a
dependency of ours, so put them into a venv that is thrown away. FILE holds genuine rows of psgs_w100 (.tsv.gz, or
.jsonl.gz with `title` and `text`).
"""

import argparse
import bz2
import csv
import gzip
import html
import json
import os
import re
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from common import report

FULL_GB = 22  # of the English multistream file
FULL_XML_GB = 100  # what it unpacks to: 19 GB to 86 GB, as Wikipedia's own page on downloads says
DEBRIS = {
    "[[ or ]]": re.compile(r"\[\[|\]\]"),
    "{{ or }}": re.compile(r"\{\{|\}\}"),
    "|": re.compile(r"\|"),
    "tags": re.compile(r"</?(?:ref|br|div|span|sub|sup|small|table|td|tr|math|nowiki|gallery|code)\b", re.IGNORECASE),
    "attributes": re.compile(r"\b(?:style|class|align|colspan|rowspan|bgcolor)\s*=", re.IGNORECASE),
    "''": re.compile(r"''"),
    "entities": re.compile(r"&(?:[a-z]+|#\d+);"),
    "file names": re.compile(r"\b(?:File|Image|Category):|\|thumb\b|\b\d+px\b"),
}
_SHORTEST_MATCH = 4  # words in a row


def make_dump(dump: Path, copies: int, out: Path) -> int:
    """Write the pages of a dump several times over, 20 to a stream; returns their size as XML."""
    data = bz2.decompress(dump.read_bytes()) if dump.suffix == ".bz2" else dump.read_bytes()
    head, _, rest = data.partition(b"  <page>")
    pages = [b"  <page>" + part for part in rest.rpartition(b"</mediawiki>")[0].split(b"  <page>")]
    streams = [bz2.compress(b"".join(pages[start : start + 20])) for start in range(0, len(pages), 20)]
    with out.open("wb") as file:
        file.write(bz2.compress(head))
        for _ in range(copies):
            file.writelines(streams)
        file.write(bz2.compress(b"</mediawiki>\n"))
    return sum(map(len, pages)) * copies


def timed(command: list[str], cores: str) -> tuple[float, float]:
    """Wall-clock seconds and CPU seconds of a command that may use some cores."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    subprocess.run(["taskset", "-c", cores, *command], check=True, capture_output=True)
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return wall, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def speed(dump: Path, megabytes: float, peer: str | None, folder: Path, rounds: int) -> dict[str, Any]:
    """All on one core and on two, in turn, best of some rounds; CPU time is what a busy machine disturbs least."""
    commands = {"mundap": [sys.executable, "-m", "mundap", "data", "wikipedia", str(dump), "-o", str(folder / "p.tsv")]}
    if peer:
        extract = [peer, "-m", "wikiextractor.WikiExtractor", str(dump), "-o", str(folder / "wx"), "-q", "--processes"]
        commands |= {
            "wikiextractor": extract,
            "wikiextractor --no-templates": [*extract[:3], "--no-templates", *extract[3:]],
        }
    times: dict[tuple[str, int], list[tuple[float, float]]] = {}
    for _ in range(rounds):
        for name, command in commands.items():
            for cores in (1, 2):
                whole = command if name == "mundap" else [*command, str(cores)]
                times.setdefault((name, cores), []).append(timed(whole, "0" if cores == 1 else "0,1"))
                shutil.rmtree(folder / "wx", ignore_errors=True)
    figures: dict[str, Any] = {"rounds": rounds, "xml_mb": round(megabytes, 1), "bz2_mb": dump.stat().st_size / 1e6}
    for (name, cores), taken in times.items():
        wall, cpu = (min(column) for column in zip(*taken, strict=True))
        mine = [min(column) for column in zip(*times["mundap", cores], strict=True)]
        figures[f"{name}, cores {cores}"] = {
            "seconds": round(wall, 2),
            "cpu_seconds": round(cpu, 2),
            "xml_mb_per_cpu_second": round(megabytes / cpu, 2),
            "times mundap": round(wall / mine[0], 2),
            "times mundap, CPU": round(cpu / mine[1], 2),
        }
    return figures


PARSER = """
import json, sys, time
import mwparserfromhell

pages = json.load(open(sys.argv[1]))
started = time.process_time()
for page in pages:
    mwparserfromhell.parse(page).strip_code()
print(time.process_time() - started)
"""


def cleaning(dump: Path, peer: str, folder: Path) -> dict[str, float]:
    """Wikitext to text alone: our passes against mwparserfromhell, MB a second of CPU, on 40 articles."""
    from mundap.documents.wikipedia.site import Site
    from mundap.documents.wikipedia.wikitext import clean

    data = bz2.decompress(dump.read_bytes()).decode() if dump.suffix == ".bz2" else dump.read_text("utf-8")
    found = (html.unescape(text) for text in re.findall(r"<text[^>]*>(.*?)</text>", data, re.DOTALL))
    pages = [text for text in found if not text.startswith("#")][:40]
    megabytes = sum(len(text.encode()) for text in pages) / 1e6
    site = Site.parse(data[:20_000])
    started = time.process_time()
    for text in pages:
        clean(text, site)
    ours = megabytes / (time.process_time() - started)
    (folder / "pages.json").write_text(json.dumps(pages))
    command = [peer, "-c", PARSER, str(folder / "pages.json")]
    theirs = megabytes / float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return {"mundap": round(ours, 2), "mwparserfromhell": round(theirs, 2), "ratio": round(ours / theirs, 1)}


def serial_share(dump: Path, megabytes: float, folder: Path) -> float:
    """CPU seconds a megabyte of XML of the process that hands out work and writes: what more cores do not help."""
    code = (
        "import resource, sys; from pathlib import Path; from mundap.documents.wikipedia.export import export\n"
        "def used(): now = resource.getrusage(resource.RUSAGE_SELF); return now.ru_utime + now.ru_stime\n"
        "before = used(); export([sys.argv[1]], Path(sys.argv[2]), processes=2); print(used() - before)"
    )
    command = [sys.executable, "-c", code, str(dump), str(folder / "serial.tsv")]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout) / megabytes


def whole(figures: dict[str, Any], serial: float) -> dict[str, str]:
    """How long the English dump would take, from the CPU time a megabyte of XML takes here."""
    each = 1 / figures["mundap, cores 1"]["xml_mb_per_cpu_second"]
    hours = {cores: max(each / cores, serial) * FULL_XML_GB * 1000 / 3600 for cores in (1, 2, 64)}
    return {
        f"{cores} cores": f"{value:.1f} h" if value > 1 else f"{value * 60:.0f} min" for cores, value in hours.items()
    }


def rows(path: Path) -> Iterator[tuple[str, str]]:
    """(title, text) of passages."""
    opened: Any = gzip.open if path.suffix == ".gz" else open
    with opened(path, "rt", encoding="utf-8", newline="") as file:
        if ".jsonl" in path.name:
            for line in file:
                row = json.loads(line)
                yield row["title"], row["text"]
        else:
            quoting = csv.QUOTE_NONE if "slice" in path.name else csv.QUOTE_MINIMAL  # the slice has it undone
            for row in csv.DictReader(file, delimiter="\t", quoting=quoting):
                yield row["title"], row["text"]


def debris(passages: Iterable[tuple[str, str]]) -> dict[str, Any]:
    """How many passages hold something that looks like markup, by kind, with examples to judge it by."""
    counts = dict.fromkeys(DEBRIS, 0)
    examples: list[str] = []
    total = dirty = 0
    for title, text in passages:
        total += 1
        found = [(kind, match) for kind, pattern in DEBRIS.items() if (match := pattern.search(text))]
        dirty += bool(found)
        for kind, match in found:
            counts[kind] += 1
            if len(examples) < 20:
                examples.append(f"{title}: {text[max(0, match.start() - 40) : match.end() + 40]}")
    return {
        "passages": total,
        "with debris": dirty,
        "in 1,000": round(1000 * dirty / total, 2),
        **counts,
        "examples": examples,
    }


def wording(ours: Path, published: list[Path], dump: Path) -> dict[str, Any]:
    """How much of the genuine rows of the same articles stands in ours, in the same words and order.

    Articles are edited from year to year. What tells is how many of four words in a row that stand in a genuine row and
    in the wikitext, with only references and the targets of links taken out, are missing in our text.
    """
    wikitext = _wikitext(dump)
    grams = missing = 0
    texts: dict[str, list[str]] = {}
    for title, text in rows(ours):
        texts.setdefault(title, []).append(text)
    shares = []
    for path in published:
        for title, text in rows(path):
            if title in texts:
                mine, genuine = _words(" ".join(texts[title])), _words(text)
                blocks = SequenceMatcher(None, genuine, mine, autojunk=False).get_matching_blocks()
                source, text_of = f" {' '.join(wikitext[title])} ", f" {' '.join(mine)} "
                four = [f" {' '.join(genuine[start : start + 4])} " for start in range(len(genuine) - 3)]
                grams += sum(gram in source for gram in four)
                missing += sum(gram in source and gram not in text_of for gram in four)
                shares.append(sum(block.size for block in blocks if block.size >= _SHORTEST_MATCH) / len(genuine))
    return {
        "rows of the same articles": len(shares),
        "word for word": sum(share == 1 for share in shares),
        "at least 95 %": sum(share >= 0.95 for share in shares),
        "at least 50 %": sum(share >= 0.5 for share in shares),
        "of all words": round(sum(shares) / max(1, len(shares)), 3),
        "four words in a row that the wikitext has, too": grams,
        "of which we lack": missing,
    }


def _wikitext(dump: Path) -> dict[str, list[str]]:
    data = bz2.decompress(dump.read_bytes()).decode() if dump.suffix == ".bz2" else dump.read_text("utf-8")
    found = {}
    for title, text in re.findall(r"<title>(.*?)</title>.*?<text[^>]*>(.*?)</text>", data, re.DOTALL):
        text = re.sub(r"<ref[^>/]*>.*?</ref>|<ref[^>]*/>", "", html.unescape(text), flags=re.DOTALL)
        found[html.unescape(title)] = _words(re.sub(r"\[\[[^\]|]*\|", "", text))
    return found


def _words(text: str) -> list[str]:
    return re.findall(r"\w+", text.lower())


def main() -> None:
    """Measure, print, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("dump", type=Path)
    parser.add_argument("--wikiextractor", metavar="PYTHON")
    parser.add_argument("--published", type=Path, nargs="*", default=[])
    parser.add_argument("--copies", type=int, default=8)
    parser.add_argument("--rounds", type=int, default=2)
    options = parser.parse_args()
    csv.field_size_limit(1 << 30)
    os.environ.setdefault("PYTHONPATH", os.pathsep.join(filter(None, sys.path)))
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        once, big = folder / "once.tsv", folder / "pages-articles-multistream.xml.bz2"
        command = [sys.executable, "-m", "mundap", "data", "wikipedia", str(options.dump), "-o", str(once)]
        subprocess.run(command, check=True, capture_output=True)
        figures: dict[str, Any] = {
            "debris": debris(rows(once)),
            "published": wording(once, options.published, options.dump),
        }
        megabytes = make_dump(options.dump, options.copies, big) / 1e6
        figures["speed"] = speed(big, megabytes, options.wikiextractor, folder, options.rounds)
        if options.wikiextractor:
            figures["cleaning alone, MB/s"] = cleaning(options.dump, options.wikiextractor, folder)
        serial = serial_share(big, megabytes, folder)
        figures["serial_ms_per_mb"] = round(serial * 1000, 2)
        figures[f"the English dump ({FULL_GB} GB, {FULL_XML_GB} GB of XML)"] = whole(figures["speed"], serial)
        report("wikipedia", figures)


if __name__ == "__main__":
    main()
