"""What an index of some files would hold, found by reading and cutting them: nothing is encoded, nothing written."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from mundap.documents import SourceFile, find
from mundap.documents.readers import Readers
from mundap.index.build import Options, something_to_read
from mundap.index.ingest import splitter
from mundap.index.manifest import Settings
from mundap.records import Skipped
from mundap.text.sections import passage_titles


def passages_of(
    paths: Sequence[str | Path], options: Options, settings: Settings, out: Path | None = None
) -> Iterator[tuple[str, str]]:
    """Title and text of every passage that a build would make of these files; what cannot be read is left out."""
    base = Path.cwd()
    something_to_read(paths, base, options, out)
    cut = splitter(settings)
    with Readers(options.form) as readers:
        for file in find(paths, base, options.ignore, out, options.follow_links):
            if not isinstance(file, SourceFile):
                continue
            for document in readers.read(file):
                if isinstance(document, Skipped):
                    continue
                spans = [(0, len(document.text))]
                if not document.whole or cut.chunks:
                    spans = list(cut.spans(document.text, document.blocks)) or spans
                for title, (start, end) in zip(passage_titles(document, spans), spans, strict=True):
                    yield title, document.text[start:end]
