"""The application: routes, the page, and what stands before them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from importlib.resources import files
from pathlib import Path

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import FileResponse, JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from mundap.errors import MundapError
from mundap.serving import ask, documents, uploads
from mundap.serving.engine import Engine
from mundap.serving.guard import Guard
from mundap.serving.problems import RETRY, failure, status_of
from mundap.serving.settings import Settings
from mundap.version import __version__

PAGE = Path(str(files("mundap.serving"))) / "page"


def create_app(settings: Settings) -> FastAPI:
    """The server's application.

    Raises:
        MundapError: An index or the reader cannot be opened.
    """
    engine = Engine(settings)

    @contextlib.asynccontextmanager
    async def lifespan(_: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(engine.warm)
        watching = asyncio.create_task(engine.watch())
        try:
            yield
        finally:
            watching.cancel()
            await engine.close()

    app = FastAPI(
        title="mundap",
        version=__version__,
        description="Answers from your own text, without an LLM.",
        lifespan=lifespan,
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.engine = engine
    app.add_exception_handler(MundapError, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    app.include_router(ask.router)
    app.include_router(documents.router)
    app.include_router(uploads.router)
    for module in ("compare", "embeddings"):
        with contextlib.suppress(ModuleNotFoundError):
            app.include_router(getattr(__import__(f"mundap.serving.{module}", fromlist=["router"]), "router"))
    app.mount("/static", StaticFiles(directory=PAGE), "static")

    @app.get("/", include_in_schema=False)
    async def page() -> FileResponse:
        return FileResponse(PAGE / "index.html")

    app.add_middleware(Guard, settings=settings)
    return app


async def _failed(_: Request, error: Exception) -> Response:
    assert isinstance(error, MundapError)
    status = status_of(error)
    return JSONResponse(failure(str(error), status), status, RETRY if status == 503 else None)


async def _refused(_: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    return JSONResponse(failure(str(error.detail), error.status_code), error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    message = f"{where}: {first['msg']}" if where else first["msg"]
    return JSONResponse(failure(message, 422), 422)
