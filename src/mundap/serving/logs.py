"""Logs as JSON lines, about requests but never about questions or answers."""

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from typing import Any

_LOG = logging.getLogger("mundap.serving")


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            **getattr(record, "facts", {}),
        }
        if record.exc_info and record.exc_info[0]:
            # The message of an exception may quote a document: its kind and its place say enough.
            line["error"] = record.exc_info[0].__name__
            line["at"] = [f"{frame.filename}:{frame.lineno}" for frame in traceback.extract_tb(record.exc_info[2])][-5:]
        return json.dumps(line, ensure_ascii=False)


def start(level: int = logging.INFO) -> None:
    """Log to standard error from here on."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_Lines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    _LOG.setLevel(level)


def note(event: str, level: int = logging.INFO, error: BaseException | None = None, **facts: Any) -> None:
    """Log that something happened."""
    _LOG.log(level, event, extra={"facts": facts}, exc_info=error)
