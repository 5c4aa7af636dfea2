"""Questions: `/v1/ask` and `/v1/search`."""

from typing import Annotated

from fastapi import APIRouter, Depends, Query, Request, Response

from mundap.serving import schema
from mundap.serving.engine import Engine, cost, engine

JSON = "application/json"
router = APIRouter(prefix="/v1", tags=["questions"])

WhichIndex = Annotated[schema.Name | None, Query()]
ThisEngine = Annotated[Engine, Depends(engine)]


@router.post("/ask", response_model=schema.Answered, responses=schema.failures(404, 422))
async def ask(body: schema.AskBody, request: Request, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """Answer a question from an index, with the source, or say that there is no answer in it."""
    request.state.charge(cost(body.k) - 1)
    return Response(await engine.ask(body, index, request.state.client), media_type=JSON)


@router.post("/search", response_model=schema.Found | list[schema.Found], responses=schema.failures(404, 422))
async def search(body: schema.SearchBody, request: Request, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """Find the passages that answer a question. For several `questions` the result is a list."""
    questions = 1
    if body.questions:
        questions = len(body.questions)
    request.state.charge(questions * (cost(body.k, rerank=True) if body.rerank else 1) - 1)
    return Response(await engine.search(body, index, request.state.client), media_type=JSON)
