"""The connection to Milvus, and what it says when something fails."""

import contextlib
import logging
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from mundap.engines.address import Address
from mundap.errors import EngineError, ExtraMissing, IndexLocked


def connected(address: Address) -> Any:
    """The client of pymilvus for an address.

    Raises:
        ExtraMissing: pymilvus or milvus-lite is not installed.
        EngineError: There is no answer, or no place for milvus-lite.
        IndexLocked: Another process has milvus-lite open.
    """
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")  # it writes to stderr what it also raises
    try:
        from pymilvus import MilvusClient

        if address.scheme == "milvus+lite":
            import milvus_lite  # noqa: F401
    except ModuleNotFoundError as error:
        raise ExtraMissing(address.scheme, "milvus") from error
    logging.getLogger("pymilvus").setLevel(logging.CRITICAL)  # it logs what it also raises, with a traceback
    if address.scheme == "milvus+lite":
        return _lite(address)
    protocol = "http"
    if address.encrypted:
        protocol = "https"
    # A connection of its own: pymilvus would share one with the same host and token, whatever its certificates are.
    options: dict[str, Any] = {"db_name": address.database, "token": address.token, "dedicated": True}
    if address.encrypted:
        options |= _tls(address.options)
    with explained(address.text):
        return MilvusClient(f"{protocol}://{address.place}", timeout=address.connecting_seconds, **options)


class _Kept(logging.Handler):
    """Keeps the exception that was logged last."""

    def __init__(self) -> None:
        super().__init__()
        self.error: BaseException | None = None

    def emit(self, record: logging.LogRecord) -> None:
        if record.exc_info:
            self.error = record.exc_info[1]


def _lite(address: Address) -> Any:
    """milvus-lite tells its log why it does not start, and whoever started it only that it did not."""
    from milvus_lite.exceptions import DataDirLockedError
    from pymilvus import MilvusClient

    folder = Path(address.place).parent
    if not folder.is_dir():
        raise EngineError(f"{address.text}: there is no folder {folder}. Make it first.")
    log, kept = logging.getLogger("milvus_lite.server_manager"), _Kept()
    log.addHandler(kept)
    try:
        with explained(address.text):
            return MilvusClient(address.place)
    except EngineError as error:
        if isinstance(kept.error, DataDirLockedError):
            raise IndexLocked(
                f"{address.text}: another process has it open. milvus-lite serves one at a time."
            ) from kept.error
        if kept.error is None:
            raise
        raise EngineError(
            f"{address.text} cannot be opened ({kept.error}). It must be a folder that milvus-lite 3 made, or not be "
            "there yet, and this user must be able to write to it."
        ) from error
    finally:
        log.removeHandler(kept)


def _tls(options: Mapping[str, str]) -> dict[str, Any]:
    """In pymilvus's names: a certificate of the client's own goes with `ca_pem_path`, else it is `server_pem_path`."""
    given: dict[str, Any] = {"secure": True}
    if "server_name" in options:
        given["server_name"] = options["server_name"]
    if "cert" in options and "key" in options:
        given |= {"client_pem_path": options["cert"], "client_key_path": options["key"]}
        given["ca_pem_path"] = options.get("ca", "")
    elif "ca" in options:
        given["server_pem_path"] = options["ca"]
    return given


@contextlib.contextmanager
def explained(address: str) -> Iterator[None]:
    """Turn errors of the client into ours."""
    from grpc import RpcError
    from pymilvus.exceptions import MilvusException

    try:
        yield
    except (MilvusException, RpcError, ConnectionError, TimeoutError) as error:
        reason = " ".join(str(getattr(error, "message", "") or error).split())[:300]
        low = reason.lower()
        if any(word in low for word in ("unavailable", "connect", "deadline", "timeout", "channel")):
            raise EngineError(
                f"{address} does not answer ({reason}). Check host, port and TLS, and that the server runs; what was "
                "written before is kept, and the same command goes on from there."
            ) from error
        if "auth" in low or "permission" in low:
            raise EngineError(
                f"{address} refused the log-in ({reason}). Give the user in the address and the password in "
                "MUNDAP_MILVUS_PASSWORD, or a token in MUNDAP_MILVUS_TOKEN."
            ) from error
        raise EngineError(f"{address}: {reason}") from error
