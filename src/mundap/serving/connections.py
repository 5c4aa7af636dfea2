"""Limits on the number of connections and on slow clients, which uvicorn does not have."""

import asyncio
import json
import logging
from collections import OrderedDict
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from mundap.serving import logs
from mundap.serving.clients import who
from mundap.serving.guard import SECURITY
from mundap.serving.metrics import Metrics
from mundap.serving.problems import failure
from mundap.serving.settings import Limits

_LARGEST_HEAD = 32 << 10
_TOO_LARGE = ("head", 431, f"the head of the request is larger than {_LARGEST_HEAD >> 10} kB")


class _Connection(HttpToolsProtocol):
    """A connection that is closed if its client is too slow, or if it has been idle longest when there are too many."""

    limits: Limits
    idle: "OrderedDict[_Connection, None]"  # those that wait for a request to begin, or to be complete

    def __init__(self, *arguments: Any, **options: Any) -> None:
        super().__init__(*arguments, **options)
        self._head = 0  # bytes of an unfinished head
        self._size = 0  # of the head in its parts: it may come with a body, in one piece
        self._refusal = ("no HTTP", 400, "")
        self._in_head = True
        self._late: asyncio.TimerHandle | None = None  # closes it if the head does not come
        self._stuck: asyncio.TimerHandle | None = None  # closes it if the client does not read

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Make room for it, or refuse it."""
        super().connection_made(transport)
        if len(self.connections) > self.limits.connections:
            if not self.idle:
                self._refuse("connections", 503, "too many connections. Try again in a moment.")
                return
            self.idle.popitem(last=False)[0].transport.abort()
        self._wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Forget it."""
        self._go()
        _cancel(self._stuck)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Take what the client says, but no endless head of a request."""
        if self._in_head:
            self._head += len(data)
        super().data_received(data)
        if self._in_head and self._head > _LARGEST_HEAD and not self.transport.is_closing():
            self._refuse(*_TOO_LARGE)

    def on_message_begin(self) -> None:
        """A request begins: its head must be there in time."""
        self._in_head = True
        self._size = 0
        self._wait()
        super().on_message_begin()

    def on_url(self, url: bytes) -> None:
        """A part of the address."""
        self._size += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """A header. What comes behind the body, as trailers do, must not take the place of one that was looked at."""
        self._size += len(name) + len(value) + 4
        if self._in_head:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The head is there."""
        if self._size > _LARGEST_HEAD:
            self._refusal = _TOO_LARGE
            raise ValueError  # the parser ends with this, and the response is made by `send_400_response`
        self._in_head = False
        self._head = 0
        self._go()
        super().on_headers_complete()

    def on_response_complete(self) -> None:
        """The next request may come; until it does, uvicorn's own timer for idle connections runs."""
        super().on_response_complete()
        if not self.transport.is_closing() and not self.pipeline:
            self.idle[self] = None

    def pause_writing(self) -> None:
        """The client does not read what it asked for."""
        super().pause_writing()
        self._stuck = self.loop.call_later(self.limits.seconds, self.transport.abort)

    def resume_writing(self) -> None:
        """The client reads again."""
        super().resume_writing()
        _cancel(self._stuck)

    def send_400_response(self, msg: str) -> None:
        """What was received is no HTTP."""
        reason, status, message = self._refusal
        self._refuse(reason, status, message or msg)

    def _wait(self) -> None:
        self.idle[self] = None
        _cancel(self._late)
        self._late = self.loop.call_later(self.limits.head_seconds, self._give_up)

    def _go(self) -> None:
        self.idle.pop(self, None)
        _cancel(self._late)

    def _give_up(self) -> None:
        """The head did not come. Who sent none of it, as browsers do, wanted nothing."""
        if self._head or self._size:
            self._note("slow", 408)
        self.transport.abort()

    def _note(self, reason: str, status: int) -> None:
        """Log and count a request that reaches no route."""
        client = "local"
        if self.client:
            client = who(self.client[0])
        logs.note("request", logging.INFO, status=status, client=client, refused=reason)
        metrics = self.app_state.get("metrics")
        if isinstance(metrics, Metrics):
            metrics.refused.labels(reason).inc()

    def _refuse(self, reason: str, status: int, message: str) -> None:
        self._note(reason, status)
        body = json.dumps(failure(message, status)).encode()
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode()),
                   (b"connection", b"close"), *SECURITY]  # fmt: skip
        head = b"".join(name + b": " + value + b"\r\n" for name, value in headers)
        self.transport.write(STATUS_LINE[status] + head + b"\r\n" + body)
        self.transport.close()


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def limited(limits: Limits) -> type[_Connection]:
    """The class of a server's connections."""
    return type("LimitedConnection", (_Connection,), {"limits": limits, "idle": OrderedDict()})
