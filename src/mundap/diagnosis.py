"""What is wrong with an installation, a machine or an index, and what to do about it."""

import platform
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from importlib import metadata
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from mundap.errors import IndexMissing, MundapError
from mundap.machine import cores, memory
from mundap.version import __version__

_NEEDED = ("numpy", "scipy", "onnxruntime", "tokenizers", "faiss-cpu", "tantivy")
_EXTRAS = {"train": "torch", "serve": "fastapi", "ko": "kiwipiepy", "mcp": "mcp"}
_LITTLE_MEMORY = 1 << 30
_LITTLE_ROOM = 1 << 30


@dataclass(frozen=True, slots=True)
class _Finding:
    """The result of one check.

    Attributes:
        what: What was checked.
        found: The result.
        good: True if it is in order, False if not, None if that is for the user to judge.
        advice: What to do.
    """

    what: str
    found: str
    good: bool | None = True
    advice: str = ""

    def as_dict(self) -> dict[str, Any]:
        """The finding as `--json` prints it."""
        return asdict(self)


def examine(index: str | Path | None = None) -> list[_Finding]:
    """Check the installation, the models, the machine and the index.

    Args:
        index: The index to look at; by default the one here, if there is one.
    """
    return [*_installation(), *_models(), *_machine(), *_index(index)]


def _installation() -> Iterator[_Finding]:
    yield _Finding("mundap", f"{__version__}, Python {platform.python_version()}, {platform.platform()}")
    for name in _NEEDED:
        if found := _version(name):
            yield _Finding(name, found)
        else:
            yield _Finding(name, "missing", False, f"pip install {name}")
    there = [extra for extra, module in _EXTRAS.items() if find_spec(module)]
    absent = [extra for extra in _EXTRAS if extra not in there]
    advice = ""
    if absent:
        advice = f"If you need them: pip install '.[{','.join(absent)}]', in a clone"
    yield _Finding("extras", ", ".join(there) or "none", None, advice)


def _version(package: str) -> str | None:
    """Of an installed package, or of the one that has the same for GPUs."""
    for name in (package, f"{package}-gpu"):
        try:
            return metadata.version(name)
        except metadata.PackageNotFoundError:
            continue
    return None


def _models() -> Iterator[_Finding]:
    from mundap.disk import checksum
    from mundap.models import folder

    for name in folder.installed():
        where = folder.find(name)
        try:
            config = folder.open_config(where)
            changed = [
                file
                for file, expected in config.sha256.items()
                if not (where / file).is_file() or checksum(where / file) != expected
            ]
        except MundapError as error:
            yield _Finding(f"model {name}", str(error), False, "Install mundap again.")
            continue
        if changed:
            yield _Finding(f"model {name}", f"{changed[0]} is missing or damaged", False, "Install mundap again.")
        else:
            yield _Finding(f"model {name}", "intact")
    yield _try("encoder", _encode)


def _try(what: str, work: Callable[[], str]) -> _Finding:
    try:
        return _Finding(what, work())
    except MundapError as error:
        return _Finding(what, str(error), False)


def _encode() -> str:
    import time

    from mundap.encoder.runtime import Encoder

    encoder = Encoder.from_pretrained()
    encoder.encode_questions(["warm up"])
    began = time.perf_counter()
    encoder.encode_questions(["Who wrote the book?"])
    return f"works, {1000 * (time.perf_counter() - began):.1f} ms a question"


def _machine() -> Iterator[_Finding]:
    yield _Finding("threads", f"{cores()} (MUNDAP_THREADS changes it)", None)
    if there := memory():
        advice = ""
        if there.free < _LITTLE_MEMORY:
            advice = "Close other programs: indexing wants about a gigabyte. In a container, raise its limit."
        yield _Finding("memory", f"{there.free / 1e9:.1f} GB free of {there.total / 1e9:.1f}", not advice, advice)
    room = shutil.disk_usage(Path.cwd()).free
    advice = ""
    if room < _LITTLE_ROOM:
        advice = "Make room: a change needs as much as it adds, and compaction a copy of all."
    yield _Finding("disk", f"{room / 1e9:.1f} GB free here", not advice, advice)


def _index(path: str | Path | None) -> Iterator[_Finding]:
    from mundap.index import locate
    from mundap.index.index import Index
    from mundap.index.manifest import IN_PROGRESS
    from mundap.index.verify import damaged_passages, verify, verify_model

    try:
        where = locate.to_read(path)
        problems = verify(where, with_model=False)
    except IndexMissing as error:
        if path is None:  # nobody asked for one
            yield _Finding("index", str(error), None)
        else:
            yield _Finding("index", str(error), False)
        return
    except MundapError as error:
        yield _Finding("index", str(error), False)
        return
    if problems:
        cure = "Restore it from a copy, or run `mundap index --fresh`."
        if not damaged_passages(where):
            cure = "The passages are intact. Run `mundap verify --repair`."
        yield _Finding("index", problems[0], False, cure)
        return
    if problems := verify_model(where):
        cure = "Install the model again, or put its folder back. To use another: `mundap index --fresh --model NAME`."
        yield _Finding("model of the index", problems[0], False, cure)
        return
    index = Index(where)
    facts = index.info()
    yield _Finding("index", f"{where}: {facts['documents']:,} documents, {facts['passages']:,} passages, intact")
    if facts["deleted"] > facts["passages"]:
        advice = "Run `mundap compact`."
        yield _Finding("deleted", f"{facts['deleted']:,} passages are deleted and still stored", None, advice)
    if (where / IN_PROGRESS).exists():
        yield _Finding(
            "unfinished work", "a build was stopped or is running", None, "Run the same command again to resume."
        )
    if room_needed := max(0, facts["bytes"] - shutil.disk_usage(where).free):
        yield _Finding("room", f"{room_needed / 1e9:.1f} GB are missing to compact it", None, "Make room before that.")
