"""A server as a process: the socket, the loop, and a good end."""

import socket
from collections.abc import Callable

import uvicorn
from starlette.types import ASGIApp

from mundap.errors import MundapError
from mundap.serving.app import create_app
from mundap.serving.settings import Settings


def serve(
    settings: Settings, ready: Callable[[str], None], create: Callable[[Settings], ASGIApp] = create_app
) -> None:
    """Serve until told to stop by SIGTERM or SIGINT; what is in flight is finished.

    Args:
        settings: What to serve, and where.
        ready: Called with the address once questions are taken.
        create: Makes the application; by default that of the API and the page.

    Raises:
        MundapError: The address cannot be had, or an index cannot be opened.
    """
    app = create(settings)
    with _listen(settings.host, settings.port) as listener:
        host, port = listener.getsockname()[:2]
        config = uvicorn.Config(app, log_config=None, access_log=False, proxy_headers=False, server_header=False)
        ready(f"http://{f'[{host}]' if ':' in host else host}:{port}")
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=2048)
    except OSError as error:
        raise MundapError(f"cannot listen at {host}:{port}: {error.strerror}. Choose another with --port.") from error
