"""An index that is reopened after each commit."""

import threading
from pathlib import Path

from mundap.index import locate
from mundap.index.index import Index
from mundap.index.manifest import COMMITTED


class Latest:
    """The newest committed state of an index, for programs that run longer than one question.

    Safe to use from several threads. The encoder is kept from one state to the next if it is the same.

    Args:
        path: The folder of the index, or None for `.mundap/` here or in the nearest parent.
    """

    def __init__(self, path: str | Path | None = None) -> None:
        self.path = locate.to_read(path).absolute()  # the working directory may change
        self._lock = threading.Lock()
        self._index: Index | None = None
        self._seen: tuple[int, ...] = ()

    def __call__(self) -> Index:
        """The index as it is now. A commit replaces its manifest by a rename: looking at that one file is enough."""
        with self._lock:
            seen = self._look()
            if self._index is None:
                self._index = Index(self.path)
            elif not seen or seen != self._seen:
                self._index = self._index.reopened()
            self._seen = seen
            return self._index

    def _look(self) -> tuple[int, ...]:
        try:
            found = (self.path / COMMITTED).stat()
        except OSError:
            return ()  # opening it says what is wrong
        return found.st_ino, found.st_mtime_ns, found.st_size
