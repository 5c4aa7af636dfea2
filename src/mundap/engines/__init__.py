"""Search engines and clusters, for an index too large for one machine: docs/engines.md."""

from pathlib import Path
from typing import TYPE_CHECKING

from mundap.engines.address import Address, is_address
from mundap.errors import IndexMissing

if TYPE_CHECKING:
    from mundap.engines.engine import Engine
    from mundap.index.index import Index

__all__ = ["Address", "connect", "is_address", "open_index"]


def connect(where: str, existing: bool = False) -> "Engine":
    """The engine at an address.

    Args:
        where: The address.
        existing: Whether there must be something: milvus-lite makes a folder for whoever connects to it.

    Raises:
        IndexMissing: There is nothing.
        UsageError: It is not an address of an engine.
        ExtraMissing: The engine's client is not installed.
        EngineError: There is no answer.
    """
    from mundap.engines.milvus import Milvus

    address = Address.parse(where)
    if existing and address.scheme == "milvus+lite" and not Path(address.place).exists():
        raise IndexMissing(f"no index at {where}. Make one with `mundap index PATHS… -o {where}`.")
    return Milvus(address)  # the only one so far: another is chosen here by `address.scheme`


def open_index(where: str | Path | None) -> "Index":
    """The index in a folder, or behind an address such as milvus://host:19530/collection."""
    if where is not None and is_address(where):
        from mundap.engines.remote import RemoteIndex

        return RemoteIndex(connect(str(where), existing=True))
    from mundap.index.index import Index

    return Index(where)
