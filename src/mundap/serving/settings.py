"""What a server is started with."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from ipaddress import ip_address
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Limits:
    """How much one request, one client or all of them together may ask for.

    Attributes:
        body: Bytes of a request's body.
        upload: Bytes of the body of a request that adds documents.
        upload_weight: As how many requests one that brings files counts, of those a client may have at once.
        upload_rate: Bytes a second at which files must arrive, after the first seconds.
        upload_seconds: Those first seconds.
        uploads: Requests that bring files at the same time, of all clients.
        question: Characters of a question.
        questions: Questions of one request.
        texts: Texts that are made vectors of, of one request or waiting.
        k: Passages of one question.
        waiting: The most questions in the queue; further ones are refused with "try again later".
        writes: Changes that wait for their turn.
        seconds: How long a request may take, from its first byte to its last.
        write_seconds: How long a change of an index may take.
        rate: Requests a second of one client, in the long run; 0 for no limit.
        burst: Requests of one client at once.
        at_once: Requests of one client at the same time; 0 for no limit.
        connections: Open connections; beyond that, the one that has been idle longest is closed.
        head_seconds: How long a client may take to say what it wants.
        cache: Bytes of answers that are kept.
    """

    body: int = 1 << 20
    upload: int = 32 << 20
    upload_weight: int = 8
    upload_rate: float = 64 << 10
    upload_seconds: float = 10.0
    uploads: int = 8
    question: int = 2000
    questions: int = 100
    texts: int = 1000
    k: int = 100
    waiting: int = 256
    writes: int = 8
    seconds: float = 30.0
    write_seconds: float = 600.0
    rate: float = 50.0
    burst: int = 100
    at_once: int = 32
    connections: int = 1000
    head_seconds: float = 10.0
    cache: int = 64 << 20


@dataclass(frozen=True, slots=True)
class Settings:
    """What a server is started with.

    Attributes:
        indexes: The folder of each index, or its address in an engine, by its name; the first is the default.
        host: The address to listen at.
        port: 0 for any free one.
        writable: Whether documents may be added and deleted.
        token: What a client must show; None where none is needed.
        reader: The name or folder of the reader; None for those installed, empty for none.
        proxy: The address of a proxy whose word on who the client is counts.
        names: What the server is called by clients, beside its address; needed behind a proxy if there is no token.
        restarted: After a crash: an index that cannot be opened is waited for.
        limits: How much may be asked for.
    """

    indexes: Mapping[str, Path | str]
    host: str = "127.0.0.1"
    port: int = 8000
    writable: bool = False
    token: str | None = None
    reader: str | None = None
    proxy: str = ""
    names: tuple[str, ...] = ()
    restarted: bool = False
    limits: Limits = field(default_factory=Limits)

    @property
    def local(self) -> bool:
        """Whether only this machine can reach the server."""
        if self.host == "localhost":
            return True
        try:
            return ip_address(self.host).is_loopback
        except ValueError:
            return False
