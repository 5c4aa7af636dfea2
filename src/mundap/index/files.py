"""The files that an index is made of: found in one walk, and read by processes of their own."""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from mundap.documents import SourceFile, find
from mundap.documents.readers import Readers
from mundap.documents.split import Splitter
from mundap.documents.walk import STDIN, stdin_copy
from mundap.errors import MundapError
from mundap.index.manifest import Settings
from mundap.models import folder as models
from mundap.records import Document, Skipped
from mundap.text.language import language
from mundap.text.sections import passage_titles

if TYPE_CHECKING:
    from mundap.index.build import Options

_SAMPLED = 24  # files whose language is looked at, about
_PER_FILE = 10  # documents of each
_FOREIGN = 0.05  # of the documents: from this share on the English encoder is the wrong one


@dataclass(frozen=True, slots=True)
class InputFiles:
    """Files to read into an index.

    Attributes:
        found: Every file, each once; in place of what cannot be looked into, the reason.
        readers: The processes that read them.
        roots: The files and folders that were given.
        base: Sources below it have relative names.
        with_stdin: Whether standard input is among the files.
    """

    found: Sequence[SourceFile | Skipped]
    readers: Readers
    roots: Sequence[Path] = ()
    base: Path = Path()
    with_stdin: bool = False

    def default_model(self) -> str:
        """The encoder that knows their languages: the English one, or the multilingual one if it is installed.

        A sample of the files is read for that, spread over all of them.
        """
        if models.MULTILINGUAL not in models.installed():
            return models.DEFAULT
        files = [file for file in self.found if isinstance(file, SourceFile)]
        sample = self.readers.sample(files[:: max(1, len(files) // _SAMPLED)], _PER_FILE)
        codes = [language(document.text)[0] for document in sample if not isinstance(document, Skipped)]
        foreign = sum(code not in ("", "en") for code in codes)
        if foreign > _FOREIGN * len(codes):
            return models.MULTILINGUAL
        return models.DEFAULT

    def passages(self, settings: Settings) -> Iterator[tuple[str, str]]:
        """Title and text of every passage that an index would have; what cannot be read is left out."""
        cut = splitter(settings)
        for file in self.found:
            if isinstance(file, Skipped):
                continue
            for document in self.readers.read(file):
                if not isinstance(document, Skipped):
                    spans = passage_spans(document, cut)
                    for title, (start, end) in zip(passage_titles(document, spans), spans, strict=True):
                        yield title, document.text[start:end]


@contextmanager
def find_files(
    paths: Sequence[str | Path], base: Path, options: "Options", out: Path | None = None
) -> Iterator[InputFiles]:
    """Find the files below some paths, in one walk. A copy of standard input is kept for as long.

    Args:
        paths: Files, folders, `-` for standard input.
        base: Sources below it get relative names.
        options: What to leave out, and how to read the rest.
        out: The index that is being written, if it is a folder: it is never entered.

    Raises:
        MundapError: There are none. Nothing was changed yet: an empty folder may be a disk that is not there.
    """
    given = [path for path in paths if str(path) != STDIN]
    with_stdin = len(given) < len(paths)
    with Readers(options.form) as readers, ExitStack() as kept:
        found = find(given, base, options.ignore, out, options.follow_links)
        if with_stdin:
            found.append(kept.enter_context(stdin_copy()))
        if not any(isinstance(file, SourceFile) for file in found):
            raise _nothing_in(paths, found)
        roots = [Path(path).resolve() for path in given]
        yield InputFiles(found, readers, roots, base, with_stdin)


def _nothing_in(paths: Sequence[str | Path], found: Sequence[SourceFile | Skipped]) -> MundapError:
    reasons = [f"{one.source}: {one.reason}" for one in found[:3] if isinstance(one, Skipped)]
    return MundapError(
        "nothing to index: no files in {paths}. {reasons}Nothing was changed. To drop what was indexed from there, "
        "use `mundap delete --source`.",
        paths=", ".join(map(str, paths)),
        reasons=f"{'; '.join(reasons)}. " if reasons else "",
    )


@cache
def splitter(settings: Settings) -> Splitter:
    """What cuts the documents of an index."""
    return Splitter(settings.words, settings.overlap, settings.sentences, settings.chunks)


def passage_spans(document: Document, cut: Splitter) -> list[tuple[int, int]]:
    """Where the passages of a document begin and end. One that is a passage already is cut only on request."""
    if document.whole and not cut.chunks:
        return [(0, len(document.text))]
    return cut.spans(document.text, document.blocks) or [(0, len(document.text))]
