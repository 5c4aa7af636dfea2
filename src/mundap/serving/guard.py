"""Access control for every request: authentication, rate limits, and security headers of responses."""

import asyncio
import hmac
import logging
import math
import re
import time
import uuid
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import ClientDisconnect
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mundap.serving import logs
from mundap.serving.clients import Clients, who
from mundap.serving.metrics import Metrics
from mundap.serving.problems import TooMany, failure
from mundap.serving.settings import Settings

SECURITY = [
    (b"content-security-policy",
     b"default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; "
     b"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"),
    (b"x-content-type-options", b"nosniff"),
    (b"x-frame-options", b"DENY"),
    (b"referrer-policy", b"no-referrer"),
    (b"cross-origin-opener-policy", b"same-origin"),
    (b"cross-origin-resource-policy", b"same-origin"),
    (b"permissions-policy", b"camera=(), geolocation=(), microphone=()"),
]  # fmt: skip
_OPEN = ("/", "/docs", "/favicon.ico", "/healthz", "/readyz")  # nothing in them that needs a token or costs anything
_LARGE = ("/v1/documents", "/v1/compare")  # take files
_LOCAL = ("localhost", "127.0.0.1", "[::1]")
_LINGER_SECONDS = 5.0
_LINGER_BYTES = 64 << 20


class Guard:
    """The outermost layer of an application."""

    def __init__(self, app: ASGIApp, settings: Settings, metrics: Metrics | None = None) -> None:
        self._app = app
        self._settings = settings
        self._token = b""
        if settings.token:
            self._token = settings.token.encode()
        # Whoever has to show a token may use any name. Without one, a proxy changes nothing: its names are given.
        self._names: tuple[str, ...] = ()
        if not settings.token:
            self._names = (*_LOCAL, settings.host, *settings.names)
        limits = settings.limits
        self._clients = Clients(limits.rate, limits.burst, limits.at_once)
        self._uploads = 0
        self._metrics = metrics or Metrics()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        exchange = _Exchange(scope, receive, send, self._settings)
        state = scope.setdefault("state", {})
        state["charge"] = lambda more: self._charge(exchange.client, more)
        state["client"] = exchange.client
        entered = False
        try:
            refused = self._refused(scope, exchange)
            if refused is None and not exchange.open:
                refused = self._enter(exchange)
                entered = refused is None
            await (refused or self._app)(scope, exchange.receive, exchange.send)
        except ClientDisconnect:
            pass
        except Exception as error:
            logs.note("failed", logging.ERROR, error, id=exchange.id)
            if not exchange.status:
                await _no(500, "something went wrong in the server. Its log says what, under the id "
                          f"{exchange.id}.")(scope, exchange.receive, exchange.send)  # fmt: skip
        finally:
            if entered:
                self._clients.leave(exchange.client, exchange.weight)
                self._uploads -= exchange.large
            self._count(scope, exchange)

    def _enter(self, exchange: "_Exchange") -> JSONResponse | None:
        """Let one more request begin, or say why not. One that brings files takes the place of several."""
        if exchange.large and self._uploads >= self._settings.limits.uploads:
            return exchange.refuse("uploads", 503, "too many files are being sent. Try again in a moment.", 1)
        if not self._clients.enter(exchange.client, exchange.weight):
            return exchange.refuse("at once", 429, "too many requests of yours at once. Wait for some to end.", 1)
        self._uploads += exchange.large
        return None

    def _refused(self, scope: Scope, exchange: "_Exchange") -> JSONResponse | None:
        refused = self._from_elsewhere(scope, exchange)
        if refused is not None or exchange.open:
            return refused
        if self._token and not self._shown(exchange.headers.get(b"authorization", b"")):
            return exchange.refuse("token", 401, "a token is needed: send the header Authorization: Bearer TOKEN",
                                   headers={"www-authenticate": "Bearer"})  # fmt: skip
        if exchange.length > exchange.most:
            return exchange.refuse("size", 413, exchange.too_large)
        if wait := self._clients.charge(exchange.client):
            return exchange.refuse("rate", 429, "too many requests. Slow down.", wait)
        return None

    def _from_elsewhere(self, scope: Scope, exchange: "_Exchange") -> JSONResponse | None:
        """Refuse what the page of another site has a browser send here."""
        headers = exchange.headers
        if sum(name == b"host" for name, _ in scope["headers"]) > 1:
            return exchange.refuse("host", 400, "the request names more than one host")
        host = headers.get(b"host", b"").decode("latin-1").lower()
        if self._names and _name(host) not in self._names:
            # Another site's name that leads here: DNS rebinding.
            return exchange.refuse(
                "host",
                421,
                "this server answers to its own name only: use http://127.0.0.1 or http://localhost, or start it with "
                "--name for each name it has",
            )
        origin = headers.get(b"origin")
        if origin is not None and origin.decode("latin-1").lower() not in (f"http://{host}", f"https://{host}"):
            return exchange.refuse("origin", 403, "requests from the pages of other sites are not answered")
        return None

    def _charge(self, client: str, more: int) -> None:
        """Several questions in one request count as if they came one by one."""
        if more > 0 and self._clients.charge(client, more):
            raise TooMany("too many questions. Slow down, or send fewer at once.")

    def _shown(self, authorization: bytes) -> bool:
        scheme, _, shown = authorization.partition(b" ")
        return scheme.lower() == b"bearer" and hmac.compare_digest(shown.strip(), self._token)

    def _count(self, scope: Scope, exchange: "_Exchange") -> None:
        route = getattr(scope.get("route"), "path", "static" if scope["path"].startswith("/static/") else "other")
        seconds = time.monotonic() - exchange.started
        self._metrics.requests.labels(route, str(exchange.status or 499)).inc()
        self._metrics.seconds.labels(route).observe(seconds)
        refused = exchange.refused or scope["state"].get("refused", "")
        if refused:
            self._metrics.refused.labels(refused).inc()
        if route not in _OPEN[3:]:
            facts: dict[str, Any] = {}
            if refused:
                facts = {"refused": refused}
            logs.note(
                "request",
                id=exchange.id,
                method=scope["method"],
                route=route,
                status=exchange.status or 499,  # 499: the client left
                ms=round(1000 * seconds, 1),
                bytes=exchange.sent,
                client=exchange.client,
                **facts,
            )


class _Exchange:
    """A request and its response: what is known of both, and the limits on the way in."""

    def __init__(self, scope: Scope, receive: Receive, send: Send, settings: Settings) -> None:
        self.id = uuid.uuid4().hex[:12]
        self.started = time.monotonic()
        self.headers: dict[bytes, bytes] = dict(scope["headers"])
        self.client = "local"
        if scope.get("client"):
            self.client = who(scope["client"][0])
        self.open = scope["path"] in _OPEN or scope["path"].startswith("/static/")
        self.status = 0
        self.sent = 0
        self.refused = ""  # why, in a word, for log and figures
        limits = settings.limits
        self.large = scope["path"] in _LARGE and scope["method"] == "POST"
        self.weight, self.most = 1, limits.body
        self._seconds, self._slowest = limits.seconds, math.inf
        if self.large:
            self.weight, self.most = limits.upload_weight, limits.upload
            self._seconds, self._slowest = limits.upload_seconds, limits.upload_rate
        self.too_large = f"the body is larger than {self.most >> 10} kB, which is the limit here"
        length = self.headers.get(b"content-length", b"0")
        self.length = 0
        if length.isdigit():
            self.length = int(length)
        self._complete = not self.length and b"transfer-encoding" not in self.headers
        self._received = 0
        self._receive = receive
        self._send = send

    async def receive(self) -> Message:
        """The next part of the body, if it is not too much and comes in time."""
        if self._complete:
            return await self._receive()  # ends when the client leaves
        try:
            # What arrives earns time for more: a large body may take long, but not by coming in drops.
            until = self.started + self._seconds + self._received / self._slowest
            async with asyncio.timeout(until - time.monotonic()):
                message = await self._next()
        except TimeoutError:
            raise HTTPException(408, "the body of the request did not arrive in time") from None
        if self._received > self.most:
            raise HTTPException(413, self.too_large)
        return message

    def refuse(
        self, reason: str, status: int, message: str, wait: float = 0, headers: dict[str, str] | None = None
    ) -> JSONResponse:
        """The response to a request that is not let through, and a note of why."""
        self.refused = reason
        return _no(status, message, wait, headers)

    async def _next(self) -> Message:
        message = await self._receive()
        self._received += len(message.get("body", b""))
        self._complete = not message.get("more_body", False)
        return message

    async def send(self, message: Message) -> None:
        """A part of the response."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            extra = [*SECURITY, (b"x-request-id", self.id.encode())]
            if not any(name == b"cache-control" for name, _ in message.get("headers", [])):
                extra.append((b"cache-control", b"no-cache" if self.open else b"no-store"))
            if not self._complete:
                extra.append((b"connection", b"close"))
            message["headers"] = [*message.get("headers", []), *extra]
        elif message["type"] == "http.response.body":
            self.sent += len(message.get("body", b""))
            if not message.get("more_body", False) and not self._complete:
                await self._send({**message, "more_body": True})
                await self._linger()
                message = {"type": "http.response.body", "body": b"", "more_body": False}
        await self._send(message)

    async def _linger(self) -> None:
        """Let the client finish: closing on one that still talks would cost it the answer."""
        try:
            async with asyncio.timeout(_LINGER_SECONDS):
                while not self._complete and self._received < _LINGER_BYTES:
                    await self._next()
        except TimeoutError:
            pass


def _no(status: int, message: str, wait: float = 0, headers: dict[str, str] | None = None) -> JSONResponse:
    again = {}
    if wait:
        again = {"retry-after": str(max(1, round(wait)))}
    return JSONResponse(failure(message, status), status, {**again, **(headers or {})})


def _name(host: str) -> str:
    """The host without its port; empty if it is malformed."""
    found = re.fullmatch(r"(\[[0-9a-f:.]+\]|[^:\[\]]*)(:\d{1,5})?", host)
    if found:
        return found.group(1)
    return ""
