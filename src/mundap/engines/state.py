"""What an engine remembers of an index beside its passages, as notes."""

import os
import socket
import time
from dataclasses import asdict, fields
from typing import Any

from mundap.errors import EngineError, IndexLocked
from mundap.index.manifest import Settings

SETTINGS = "settings"
"""The name of the note with the settings; all others have names of sources, which are no single word."""

_FORMAT = 1
_FIELDS = tuple(field.name for field in fields(Settings))
_LEASE_SECONDS = 90.0  # checkpoints come every 15: whoever has been silent for so long is gone


def settings_note(
    settings: Settings, generation: int, batch: int, job: dict[str, Any] | None, languages: dict[str, int]
) -> dict[str, Any]:
    """The note that makes a collection an index.

    Args:
        settings: What the index was made with.
        generation: Counts the changes.
        batch: The last checkpoint that is complete.
        job: What is being done, while it is; None when all is done.
        languages: How many passages of each language were added.
    """
    return {
        "format": _FORMAT,
        **asdict(settings),
        "generation": generation,
        "batch": batch,
        "job": job,
        "languages": languages,
        **_writer(job),
    }


def settings_from(note: dict[str, Any]) -> Settings:
    """The settings in that note.

    Raises:
        EngineError: It is of another version.
    """
    if note.get("format") != _FORMAT:
        raise EngineError(
            f"the index was made by another version of mundap (format {note.get('format')}, not {_FORMAT}). "
            "Upgrade mundap, or build it again with `mundap index --fresh`."
        )
    return Settings(**{name: note[name] for name in _FIELDS if name in note})  # k1 and b came later


def _writer(job: dict[str, Any] | None) -> dict[str, Any]:
    if job is None:
        return {"host": "", "process": 0, "seen": 0.0}
    return {"host": socket.gethostname(), "process": os.getpid(), "seen": time.time()}


def refuse_second_writer(note: dict[str, Any], address: str) -> None:
    """Make sure that nobody else is writing. Engines have no locks, so writers leave a heartbeat in the note.

    Raises:
        IndexLocked: Somebody is.
    """
    if not note.get("process") or time.time() - float(note["seen"]) > _LEASE_SECONDS:
        return
    if note["host"] == socket.gethostname() and (note["process"] == os.getpid() or not _alive(int(note["process"]))):
        return
    raise IndexLocked(
        f"process {note['process']} on {note['host']} is writing to {address}. Wait until it is done. If it died, its "
        f"claim ends {_LEASE_SECONDS:.0f} seconds after its last sign of life."
    )


def _alive(process: int) -> bool:
    if os.name == "nt":  # where asking this way would end it
        return True
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True
