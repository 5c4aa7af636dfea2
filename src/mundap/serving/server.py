"""The server process: socket, event loop, graceful shutdown."""

import contextlib
import signal
import socket
from collections.abc import Callable
from dataclasses import replace
from types import FrameType

import uvicorn
from starlette.types import ASGIApp

from mundap.errors import MundapError, UsageError
from mundap.serving import logs
from mundap.serving.app import create_app
from mundap.serving.connections import limited
from mundap.serving.settings import Settings
from mundap.serving.supervisor import supervise

_BACKLOG = 2048


def serve(settings: Settings, ready: Callable[[str], None], create: Callable[[Settings], ASGIApp] = create_app) -> None:
    """Serve until SIGTERM or SIGINT; requests in flight are finished.

    Args:
        settings: What to serve, and where.
        ready: Called with the address once questions are taken.
        create: Makes the application; by default that of the API and the page.

    Raises:
        UsageError: Others could reach the server, and there is no token.
        MundapError: The address cannot be had, or an index cannot be opened.
    """
    if not settings.local and not settings.token:
        raise UsageError(
            f"--host {settings.host} lets others reach this server: it needs a token. "
            "Write one into a file and name it with --token-file, or set MUNDAP_TOKEN."
        )
    logs.start()
    with _listen(settings.host, settings.port) as listener:
        supervise(lambda restarted: _run(replace(settings, restarted=restarted), listener, ready, create), listener)


def _run(
    settings: Settings, listener: socket.socket, ready: Callable[[str], None], create: Callable[[Settings], ASGIApp]
) -> None:
    host, port = listener.getsockname()[:2]
    address = f"http://{f'[{host}]' if ':' in host else host}:{port}"
    _more_files(settings.limits.connections)
    config = uvicorn.Config(
        create(settings),
        http=limited(settings.limits),
        ws="none",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=bool(settings.proxy),
        forwarded_allow_ips=settings.proxy or None,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=int(settings.limits.seconds) + 1,
    )
    _Server(config, lambda: ready(address)).run(sockets=[listener])


class _Server(uvicorn.Server):
    """uvicorn's server, which says when it is ready, and for which being told to stop is no failure."""

    def __init__(self, config: uvicorn.Config, ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._ready = ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to answer."""
        await super().startup(sockets)
        self._ready()

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Stop when all is done; a second Ctrl-C does not wait for that."""
        self.force_exit = self.should_exit and sig == signal.SIGINT
        self.should_exit = True


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=_BACKLOG)
    except OSError as error:
        reason = error.strerror or error
        raise MundapError(f"cannot listen at {host}:{port}: {reason}. Choose another --host or --port.") from error


def _more_files(connections: int) -> None:
    """Let the process have as many open files as there may be connections, and those of its indexes."""
    with contextlib.suppress(ImportError, ValueError, OSError):  # Windows has no such limit
        import resource

        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        wanted = max(soft, connections + 4096)
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted if hard < 0 else min(wanted, hard), hard))
