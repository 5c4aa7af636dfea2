"""What can go wrong, as one small tree. A message says what happened, where, and what to do."""


class Message(str):
    """A text for people, in English. Its facts are kept apart, so that it can be looked up in other languages.

    Args:
        message: The text; `{name}` stands for a fact.
        facts: What is filled in.
    """

    def __new__(cls, message: str = "", **facts: object) -> "Message":  # noqa: D102 - its arguments are told above
        self = super().__new__(cls, message.format(**facts) if facts else message)
        self.message = message
        self.facts = facts
        return self

    message: str
    facts: dict[str, object]


class MundapError(Exception):
    """Any failure a user can do something about.

    Args:
        message: What happened, where, and what to do, in English; `{name}` stands for a fact.
        facts: What is filled in. Kept apart from the message, so that this can be looked up in other languages.
    """

    def __init__(self, message: str = "", **facts: object) -> None:
        self.message = message
        self.facts = facts
        super().__init__(message.format(**facts) if facts else message)


class UsageError(MundapError):
    """A wrong option, or an impossible combination of options."""


class ExtraMissing(MundapError):
    """Something needs a package that the base install does not bring."""

    def __init__(self, what: str, extra: str) -> None:
        # The package is in no registry yet: what works is a clone, or a wheel made from one.
        message = (
            "{what} needs the extra `{extra}`. Install it with: pip install '.[{extra}]' in a clone of the repository, "
            "or pip install 'WHEEL[{extra}]' with the wheel"
        )
        super().__init__(message, what=what, extra=extra)


class ModelError(MundapError):
    """A model folder is missing, incomplete or not the one the index was made with."""


class IndexMissing(MundapError):
    """There is no index where one was looked for."""


class IndexDamaged(MundapError):
    """A file of the index is missing, truncated, changed, or of a newer format."""


class IndexLocked(MundapError):
    """Another process is writing to the index."""


class EngineError(MundapError):
    """A server that holds an index does not answer, or answers with an error."""
