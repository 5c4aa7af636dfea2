"""The errors of requests, and their HTTP status."""

from mundap.errors import EngineError, IndexDamaged, IndexLocked, IndexMissing, ModelError, MundapError, UsageError


class NotFound(MundapError):
    """What was asked for is not there."""


class Forbidden(MundapError):
    """The server does not do this."""


class TooLarge(MundapError):
    """A body is larger than allowed."""


class TooMany(MundapError):
    """A client asks for more than its share."""


class Busy(MundapError):
    """Too much is waiting already."""


class TooSlow(MundapError):
    """It took longer than a request may."""


_STATUS: tuple[tuple[type[MundapError], int], ...] = (
    (NotFound, 404),
    (Forbidden, 403),
    (TooLarge, 413),
    (TooMany, 429),
    (UsageError, 422),
    (IndexMissing, 503),
    (EngineError, 503),
    (IndexDamaged, 503),
    (IndexLocked, 503),
    (ModelError, 503),
    (Busy, 503),
    (TooSlow, 503),
)

RETRY = {"retry-after": "1"}


def status_of(error: MundapError) -> int:
    """The HTTP status of an error."""
    return next((status for kind, status in _STATUS if isinstance(error, kind)), 500)


def failure(message: str, status: int) -> dict[str, dict[str, object]]:
    """An error as every response has it."""
    return {"error": {"message": message, "status": status}}
