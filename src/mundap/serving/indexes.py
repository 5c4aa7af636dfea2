"""The indexes of a server: always the newest committed state, or a clear error why there is none.

Files of an index never change once they are committed. So whoever asks for an index looks at the files first: a new
manifest means a new state, which is opened while the old one goes on answering. A file that is gone, or is another
than it was, means damage. Nothing is read from it then, since reading a mapped file that was cut short would end the
process, until everything is in order again.
"""

import asyncio
import logging
import time
from collections.abc import Iterator
from pathlib import Path

from mundap.engines import open_index
from mundap.errors import IndexDamaged, IndexMissing, MundapError
from mundap.index.index import Index
from mundap.index.manifest import COMMITTED
from mundap.index.verify import verify
from mundap.serving import logs
from mundap.serving.problems import NotFound
from mundap.serving.settings import Settings

_LOOK_SECONDS = 0.5
_ENGINE_LOOK_SECONDS = 5.0

_State = tuple[int, int, int]


class Served:
    """One index of the server.

    Args:
        name: What requests call it.
        path: Its folder.
        patient: Go on without it, until it can be opened.

    Raises:
        MundapError: It cannot be opened.
    """

    def __init__(self, name: str, path: Path, patient: bool = False) -> None:
        self.name = name
        self.path = path
        self.version = 0  # counts the states that were opened: a new index may have an old one's generation
        self._reopening: asyncio.Task[None] | None = None
        self._failure: MundapError | None = None
        self._index: Index | None = None
        self._manifest: _State | None = None
        self._files: dict[Path, _State | None] = {}
        try:
            if patient and (problems := verify(path)):  # what ended the server may still be there
                raise IndexDamaged(problems[0])
            self._adopt(Index(path), _state(path / COMMITTED))
        except MundapError as error:
            if not patient:
                raise
            self._failure = error

    @property
    def places(self) -> tuple[str, ...]:
        """How messages may call the place it is in."""
        return str(self.path.resolve()), str(self.path.absolute()), str(self.path)

    def index(self) -> Index:
        """The newest state.

        Raises:
            IndexMissing: The index was deleted.
            IndexDamaged: A file of it is gone, or not what it was.
        """
        self.look()
        if self._failure is not None:
            raise self._failure.with_traceback(None)  # it is raised for many: else each would add to it
        assert self._index is not None
        return self._index

    def look(self) -> None:
        """See whether the files are as they were; if not, open the index again, beside all other work."""
        # The manifest after the files: old ones go only when a new manifest is there, and it may come at any moment.
        whole = _intact(self._files, gone_is_fine=False)
        manifest = _state(self.path / COMMITTED)
        committed = manifest != self._manifest
        if committed and not whole:
            whole = _intact(self._files, gone_is_fine=True)
        if manifest is None:
            self._failure = IndexMissing(f"no index in {self.path}. The server continues once it is back.")
        elif not whole:
            # The copy that is put back may be as old as the files: what is there is always looked at in full.
            self._failure = IndexDamaged(f"files of the index in {self.path} were changed. The server continues once "
                                         "they are whole again.")  # fmt: skip
        elif not committed and self._failure is None:
            return
        if manifest is not None and self._reopening is None:
            self._reopening = asyncio.create_task(self._reopen())
            self._reopening.add_done_callback(self._reopened)

    async def newest(self) -> Index:
        """The state on disk now, even if it was committed this moment."""
        self.look()
        while self._reopening is not None and self._failure is None:
            await asyncio.wait([self._reopening])
            self.look()
        return self.index()

    def _reopened(self, _: "asyncio.Task[None]") -> None:
        self._reopening = None

    async def _reopen(self) -> None:
        """Open what is there now; a failure is kept, and tried again at the next look."""
        damaged = self._failure is not None
        seen = _state(self.path / COMMITTED)
        try:
            index = await asyncio.to_thread(_open, self.path, self._index, damaged)
        except Exception as error:  # whatever a damaged file makes of a library
            if not isinstance(error, MundapError):
                error = IndexDamaged(f"{self.path} cannot be opened ({type(error).__name__})")
            self._failure = error
            logs.note("index unusable", logging.WARNING, index=self.name, reason=str(error))
            await asyncio.sleep(_LOOK_SECONDS)  # not again and again while it is being put back
        else:
            self._adopt(index, seen)
            logs.note("index opened", index=self.name, generation=index.manifest.generation)

    def _adopt(self, index: Index, manifest: _State | None) -> None:
        self._index = index
        self._manifest = manifest
        self._files = {path: _state(path) for entry in index.manifest.files() for path in [self.path / entry.path]}
        self._failure = None
        self.version += 1
        index.analyzer.warm()


class ServedEngine(Served):
    """One index of the server that lives in an engine. Its state is asked for now and then, beside all other work."""

    def __init__(self, name: str, address: str) -> None:
        self.name = name
        self.path = Path(address)
        self.version = 1
        self._reopening = None
        self._failure = None
        self._address = address
        self._index = open_index(address)
        len(self._index), self._index.documents  # asked for now, and not while requests wait
        self._looked = time.monotonic()

    @property
    def places(self) -> tuple[str, ...]:
        """How messages may call the place it is in."""
        return (self._address,)

    def look(self) -> None:
        """See whether there is a newer state, if it has not been looked for a moment ago."""
        if self._reopening is None and time.monotonic() - self._looked > _ENGINE_LOOK_SECONDS:
            self._looked = time.monotonic()
            self._reopening = asyncio.create_task(self._reopen())
            self._reopening.add_done_callback(self._reopened)

    async def _reopen(self) -> None:
        old = self._index  # not `index()`, which raises what went wrong the last time
        assert old is not None
        try:
            new = await asyncio.to_thread(old.reopened)
            if new.manifest.generation != old.manifest.generation:
                # Counts are asked for here, and not in the way of others.
                await asyncio.to_thread(lambda: (len(new), new.documents))
                self._index = new
                self.version += 1
            self._failure = None
        except MundapError as error:
            self._failure = error
            logs.note("index unusable", logging.WARNING, index=self.name, reason=str(error))


class Indexes:
    """All indexes of a server, by name."""

    def __init__(self, settings: Settings) -> None:
        self._served: dict[str, Served] = {}
        for name, where in settings.indexes.items():
            if isinstance(where, Path):
                self._served[name] = Served(name, where, settings.restarted)
            else:
                self._served[name] = ServedEngine(name, where)

    def __iter__(self) -> Iterator[Served]:
        return iter(self._served.values())

    def get(self, name: str | None) -> Served:
        """The index with this name, or the first.

        Raises:
            NotFound: There is none.
        """
        if name is None:
            return next(iter(self._served.values()))
        if name not in self._served:
            raise NotFound(f"no index is called {name[:100]!r}. There are: {', '.join(self._served)}.")
        return self._served[name]

    def public(self, error: Exception) -> str:
        """The error message for a client: it has the name of the index but not its folder."""
        message = str(error)
        for served in self._served.values():
            for place in served.places:
                message = message.replace(place, served.name)
        return message

    async def watch(self) -> None:
        """Look now and then, so that a new state is ready before anybody asks for it."""
        while True:
            for served in self._served.values():
                served.look()
            await asyncio.sleep(_LOOK_SECONDS)


def _open(path: Path, old: Index | None, damaged: bool) -> Index:
    """The index as it is now; one that was damaged is checked in full before it is trusted again."""
    if damaged and (problems := verify(path)):
        raise IndexDamaged(problems[0])
    if old:
        new = old.reopened()
    else:
        new = Index(path)
    if new.encoder is not None and (old is None or new.encoder is not old.encoder):
        new.encoder.encode_questions(["?"])
    return new


def _state(path: Path) -> _State | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_ino, status.st_size, status.st_mtime_ns


def _intact(files: dict[Path, _State | None], gone_is_fine: bool) -> bool:
    for path, known in files.items():
        now = _state(path)
        if now != known and not (now is None and gone_is_fine):
            return False
    return True
