"""Server status: `/healthz`, `/readyz`, `/metrics`; and the web page."""

from pathlib import Path

from fastapi import APIRouter, Response
from fastapi.responses import FileResponse, PlainTextResponse
from pydantic import BaseModel

from mundap.serving import schema
from mundap.serving.ask import ThisEngine
from mundap.serving.metrics import FORMAT

PAGE = Path(__file__).parent / "page"

router = APIRouter(tags=["status"])


class Health(BaseModel):
    """All is well."""

    status: str = "ok"


@router.get("/healthz", responses=schema.failures())
async def healthz() -> Health:
    """Whether the process is alive."""
    return Health()


@router.get("/readyz", responses=schema.failures())
async def readyz(engine: ThisEngine) -> Health:
    """Whether every index can be asked; 503 if not."""
    for served in engine.indexes:
        served.index()
    return Health()


@router.get("/metrics", response_class=PlainTextResponse, responses=schema.failures())
async def metrics(engine: ThisEngine) -> Response:
    """Figures for Prometheus."""
    return Response(engine.metrics.text(), media_type=FORMAT)


@router.get("/", include_in_schema=False)
@router.get("/docs", include_in_schema=False)
async def page() -> FileResponse:
    """The page for people; at /docs it opens with the API."""
    return FileResponse(PAGE / "index.html")
