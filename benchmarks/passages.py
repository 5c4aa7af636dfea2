"""How the passages of a folder begin and end, and how many have words glued together.

    python benchmarks/passages.py FOLDER [--files 2000] [--show 10]

Files are read and cut as `mundap index` does it. Glued words are looked for in English passages, outside of code: a
rare word that is nothing but common words of the folder, and `seen.The`. Then the files are looked at: most of these
words stand so in them.
"""

import argparse
import random
import re
from bisect import bisect_right
from collections import Counter
from pathlib import Path
from typing import Any

from common import report
from glue import Glue
from mundap.documents import SourceFile, Splitter, find
from mundap.documents.files import decode
from mundap.documents.readers import Readers
from mundap.records import Document, Skipped
from mundap.text.scripts import UNSPACED

_UNSPACED = re.compile(f"[{UNSPACED}]")
_ENGLISH = re.compile(r"\b(?:the|of|and|to|is|in|for|with|that|this)\b")
_GLUED = "English passages with glued words"
_TITLES = {"word": "cut in a word", "row": "cut in a table row", "item": "cut in a list item", "code": "cut in code"}


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--files", type=int, default=2000, help="at most, chosen at random")
    parser.add_argument("--show", type=int, default=10, help="examples of each kind")
    options = parser.parse_args()
    documents, skipped = _read(options.folder, options.files)
    glue = Glue((one.text for one in documents if _is_english(one.text)), least=20)
    counts: Counter[str] = Counter(documents=len(documents))
    examples: dict[str, list[str]] = {}
    for document in documents:
        for kind, words in _faults(document, glue):
            counts[kind] += 1
            if kind == _GLUED:
                counts["of these not so in the file"] += not _stand_so(options.folder / document.source, words)
            if words and len(examples.setdefault(kind, [])) < options.show:
                examples[kind].append(f"{document.source}: {words}")
    reasons = Counter(one.reason for one in skipped)
    report("passages", {**counts, "skipped": dict(reasons.most_common(10)), "examples": examples})


def _read(folder: Path, most: int) -> tuple[list[Document], list[Skipped]]:
    found = find([folder], folder)
    random.Random(1).shuffle(found)
    files = [file for file in found[:most] if isinstance(file, SourceFile)]
    documents: list[Document] = []
    skipped = [file for file in found[:most] if isinstance(file, Skipped)]
    with Readers() as readers:
        for number, file in enumerate(files, 1):
            for one in readers.read(file, files[number:]):
                (documents if isinstance(one, Document) else skipped).append(one)  # type: ignore[arg-type]
    return documents, skipped


def _is_english(text: str) -> bool:
    words = len(text[:20_000].split())
    return words > 0 and len(_ENGLISH.findall(text[:20_000])) > 0.1 * words


def _faults(document: Document, glue: Glue) -> Any:
    """Each passage, and what is wrong with it, with an example."""
    text, blocks = document.text, document.blocks
    starts = [block.start for block in blocks]
    for start, end in Splitter(sentences=True).spans(text, blocks):
        yield "passages", ""
        if _in_word(text, start) or _in_word(text, end):
            yield _TITLES["word"], repr(text[max(0, start - 20) : start + 20] + " … " + text[end - 20 : end + 20])
        for place in (start, end):
            block = blocks[max(0, bisect_right(starts, place) - 1)] if blocks else None
            if block is not None and block.start < place < block.end and block.kind in _TITLES:
                yield _TITLES[block.kind], repr(text[max(0, place - 30) : place + 30])
        if not _is_english(text[start:end]):
            continue
        yield "English passages", ""
        inside = blocks[max(0, bisect_right(starts, start) - 1) : bisect_right(starts, end)]
        prose = " ".join(text[max(start, one.start) : min(end, one.end)] for one in inside if one.kind != "code")
        if glued := glue.find(prose):
            yield _GLUED, ", ".join(glued)


def _stand_so(path: Path, words: str) -> bool:
    """Whether a file itself has the words like that. Of PDFs and archives that cannot be told: then they have not."""
    if path.suffix in (".pdf", ".epub", ".docx", ".odt") or path.name.endswith(".pdf.gz"):
        return False
    text = decode(SourceFile(path, path.name, path.name).read())
    return all(word in text for word in words.split(", "))


def _in_word(text: str, place: int) -> bool:
    around = text[max(0, place - 1) : place + 1]
    return len(around) == 2 and around.isalnum() and not _UNSPACED.search(around)


if __name__ == "__main__":
    main()
