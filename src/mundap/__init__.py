"""mundap: answers from your own text, without an LLM."""

from typing import TYPE_CHECKING, Any

from mundap.errors import MundapError
from mundap.records import Answer, AskResult, Document, Hit, Passage, Question, Result
from mundap.version import __version__

if TYPE_CHECKING:
    from mundap.encoder.runtime import Encoder
    from mundap.evaluation.api import compare, evaluate
    from mundap.index.corpus import Filters
    from mundap.pipeline.ask import ask
    from mundap.pipeline.index import Index
    from mundap.reader.runtime import Reader
    from mundap.training.api import train_reader, train_retriever

__all__ = [
    "Answer",
    "AskResult",
    "Document",
    "Encoder",
    "Filters",
    "Hit",
    "Index",
    "MundapError",
    "Passage",
    "Question",
    "Reader",
    "Result",
    "__version__",
    "ask",
    "compare",
    "evaluate",
    "train_reader",
    "train_retriever",
]

_LAZY = {
    "Index": "mundap.pipeline.index",
    "Filters": "mundap.index.corpus",
    "Encoder": "mundap.encoder.runtime",
    "Reader": "mundap.reader.runtime",
    "ask": "mundap.pipeline.ask",
    "compare": "mundap.evaluation.api",
    "evaluate": "mundap.evaluation.api",
    "train_reader": "mundap.training.api",
    "train_retriever": "mundap.training.api",
}


def __getattr__(name: str) -> Any:
    """Load what is heavy only when it is asked for: `import mundap` itself takes no time."""
    if name in _LAZY:
        from importlib import import_module

        return getattr(import_module(_LAZY[name]), name)
    raise AttributeError(f"module 'mundap' has no attribute {name!r}")
