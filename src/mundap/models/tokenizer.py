"""Tokenizers of the `tokenizers` library, whose failures become a ModelError: an edited one may open and fail later."""

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mundap.errors import ModelError
from mundap.models.folder import check


def open_tokenizer(path: Path, checksums: Mapping[str, str] | None = None) -> Any:
    """A tokenizer without padding or truncation of its own; a ModelError if its SHA-256 is not the one given."""
    check(path, checksums or {})
    # Our threads are the parallelism; tokenizers' own would only add overhead to batches this small.
    os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
    from tokenizers import Tokenizer

    with _failing(path):
        tokenizer = Tokenizer.from_file(str(path))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    return tokenizer


def truncating(tokenizer: Any, length: int) -> Any:
    """Set a tokenizer to truncate a text, or the longer part of a pair, to a number of tokens."""
    with _failing():
        tokenizer.no_padding()
        tokenizer.enable_truncation(length, strategy="longest_first")
    return tokenizer


def encode_batch(tokenizer: Any, texts: Sequence[str | tuple[str, str]], add_special_tokens: bool = True) -> list[Any]:
    """The encoding of each text, or pair of texts."""
    with _failing():
        return list(tokenizer.encode_batch(list(texts), add_special_tokens=add_special_tokens))


@contextmanager
def _failing(path: Path | None = None) -> Iterator[None]:
    try:
        yield
    except MemoryError:
        raise
    except BaseException as error:
        # The library raises plain Exception, and what Rust calls a panic is not even that.
        if not isinstance(error, Exception) and type(error).__name__ != "PanicException":
            raise
        told = str(error).split("\n")[0][:200].rstrip(". ") or type(error).__name__
        raise ModelError(f"{path or 'the tokenizer fails'}: {told}. Export the model again.") from error
