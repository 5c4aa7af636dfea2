"""The application: routes, the page, and what stands before them."""

import contextlib
from collections.abc import AsyncIterator

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response
from starlette.exceptions import HTTPException
from starlette.staticfiles import StaticFiles

from mundap.errors import MundapError
from mundap.serving import ask, compare, documents, embeddings, examples, status, uploads
from mundap.serving.engine import Engine
from mundap.serving.guard import Guard
from mundap.serving.metrics import Metrics
from mundap.serving.problems import RETRY, Busy, Forbidden, TooLarge, TooMany, TooSlow, failure, status_of
from mundap.serving.settings import Settings
from mundap.serving.status import PAGE
from mundap.version import __version__

_WHY: dict[type[MundapError], str] = {
    Busy: "busy",
    TooSlow: "time",
    TooMany: "rate",
    TooLarge: "size",
    Forbidden: "read-only",
}
_WHY_BY_STATUS = {408: "slow", 413: "size"}


def create_app(settings: Settings) -> FastAPI:
    """The server's application.

    Raises:
        MundapError: An index or the reader cannot be opened.
    """
    engine = Engine(settings)

    app = FastAPI(
        title="mundap",
        version=__version__,
        description="Answers from your own text, without an LLM.",
        lifespan=lambda _: _lifespan(engine),
        docs_url=None,  # FastAPI's own pages load scripts from elsewhere
        redoc_url=None,
    )
    app.state.engine = engine
    app.add_exception_handler(MundapError, _failed)
    app.add_exception_handler(HTTPException, _refused)
    app.add_exception_handler(RequestValidationError, _invalid)
    for room in (ask, documents, examples, uploads, compare, embeddings, status):
        app.include_router(room.router)
    app.mount("/static", StaticFiles(directory=PAGE), "static")
    app.add_middleware(Guard, settings=settings, metrics=engine.metrics)
    return app


@contextlib.asynccontextmanager
async def _lifespan(engine: Engine) -> AsyncIterator[dict[str, Metrics]]:
    """Gives the figures to the connections: what they refuse reaches no route."""
    async with engine.running():
        yield {"metrics": engine.metrics}


async def _failed(request: Request, error: Exception) -> Response:
    assert isinstance(error, MundapError)
    status = status_of(error)
    if status == 503 or type(error) in _WHY:
        request.state.refused = _WHY.get(type(error), "index")
    message = request.app.state.engine.indexes.public(error)
    return JSONResponse(failure(message, status), status, RETRY if status in (429, 503) else None)


async def _refused(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if error.status_code in _WHY_BY_STATUS:
        request.state.refused = _WHY_BY_STATUS[error.status_code]
    nothing = error.status_code == 404 and error.detail == "Not Found"
    message = "there is nothing at this address. /openapi.json says what there is."
    if not nothing:
        message = str(error.detail)
    return JSONResponse(failure(message, error.status_code), error.status_code, error.headers)


async def _invalid(_: Request, error: Exception) -> Response:
    assert isinstance(error, RequestValidationError)
    first = error.errors()[0]
    if first["type"] == "json_invalid":
        return JSONResponse(failure("the body is not JSON", 422), 422)
    if first["type"] in ("model_attributes_type", "dict_type") and first["loc"] == ("body",):
        message = "the body is no JSON object, or not said to be one: send the header Content-Type: application/json"
        return JSONResponse(failure(message, 422), 422)
    where = ".".join(str(part) for part in first["loc"] if part != "body")
    if where:
        message = f"{where}: {first['msg']}"
    else:
        message = first["msg"]
    return JSONResponse(failure(message, 422), 422)
