"""What can go wrong, as one small tree. A message says what happened, where, and what to do."""


class MundapError(Exception):
    """Any failure a user can do something about."""


class UsageError(MundapError):
    """A wrong option, or an impossible combination of options."""


class ExtraMissing(MundapError):
    """Something needs a package that the base install does not bring."""

    def __init__(self, what: str, extra: str) -> None:
        super().__init__(f"{what} needs an extra package. Install it with: pip install 'mundap[{extra}]'")


class ModelError(MundapError):
    """A model folder is missing, incomplete or not the one the index was made with."""


class IndexMissing(MundapError):
    """There is no index where one was looked for."""


class IndexDamaged(MundapError):
    """A file of the index is missing, truncated, changed, or of a newer format."""


class IndexLocked(MundapError):
    """Another process is writing to the index."""
