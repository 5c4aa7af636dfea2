"""What stands before every request: who may ask, how much, and what every response says to browsers."""

import hmac
from typing import Any

from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from mundap.serving.problems import failure
from mundap.serving.settings import Settings

_HEADERS = [
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
_OPEN = ("/", "/healthz", "/readyz")  # nothing in them that needs a token
_LOCAL = ("localhost", "127.0.0.1", "[::1]")


class Guard:
    """The outermost layer of the application."""

    def __init__(self, app: ASGIApp, settings: Settings) -> None:
        self._app = app
        self._settings = settings
        self._token = settings.token.encode() if settings.token else b""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or say why not."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def answer(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", []), *_HEADERS]
            await send(message)

        headers: dict[bytes, bytes] = dict(scope["headers"])
        if refused := self._refused(scope, headers):
            await refused(scope, receive, answer)
            return
        await self._app(scope, receive, answer)

    def _refused(self, scope: Scope, headers: dict[bytes, bytes]) -> Any:
        if self._settings.local and _name(headers.get(b"host", b"")) not in (*_LOCAL, self._settings.host):
            return _no(421, "this server answers to its own name only: use http://127.0.0.1 or http://localhost")
        path = scope["path"]
        if self._token and path not in _OPEN and not path.startswith("/static/"):
            scheme, _, shown = headers.get(b"authorization", b"").partition(b" ")
            if scheme.lower() != b"bearer" or not hmac.compare_digest(shown.strip(), self._token):
                return _no(401, "a token is needed: send the header Authorization: Bearer TOKEN",
                           {"www-authenticate": "Bearer"})  # fmt: skip
        return None


def _no(status: int, message: str, headers: dict[str, str] | None = None) -> JSONResponse:
    return JSONResponse(failure(message, status), status, headers)


def _name(host: bytes) -> str:
    """The host without its port."""
    text = host.decode("latin-1").lower()
    return text[: text.find("]") + 1] if text.startswith("[") else text.partition(":")[0]
