"""mundap: answers from your own text, without an LLM."""

from typing import TYPE_CHECKING, Any

from mundap.errors import MundapError
from mundap.records import Answer, Document, Hit, Passage
from mundap.version import __version__

if TYPE_CHECKING:
    from mundap.index.corpus import Filters
    from mundap.index.index import Index
    from mundap.models.encoder import Encoder
    from mundap.models.reader import Reader
    from mundap.reader.ask import ask

__all__ = [
    "Answer",
    "Document",
    "Encoder",
    "Filters",
    "Hit",
    "Index",
    "MundapError",
    "Passage",
    "Reader",
    "__version__",
    "ask",
]

_LAZY = {
    "Index": "mundap.index.index",
    "Filters": "mundap.index.corpus",
    "Encoder": "mundap.models.encoder",
    "Reader": "mundap.models.reader",
    "ask": "mundap.reader.ask",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy only when it is asked for: `import mundap` itself takes no time."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mundap' has no attribute {name!r}")
