"""What the indexes hold: `/v1/indexes`, `/v1/passages`, `/v1/documents`."""

import asyncio
from typing import Any

from fastapi import APIRouter, Response

from mundap.disk import json_bytes
from mundap.errors import MundapError
from mundap.index.index import Index
from mundap.serving import schema
from mundap.serving.ask import JSON, ThisEngine, WhichIndex
from mundap.serving.engine import Engine
from mundap.serving.indexes import Served
from mundap.serving.problems import NotFound

router = APIRouter(prefix="/v1", tags=["documents"])


@router.get(
    "/indexes", response_model=schema.Indexes, response_model_exclude_defaults=True, responses=schema.failures()
)
async def indexes(engine: ThisEngine) -> dict[str, Any]:
    """The indexes of this server; the first is the default."""
    return {"indexes": [_facts(engine, served) for served in engine.indexes]}


def _facts(engine: Engine, served: Served) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "name": served.name,
        "documents": 0,
        "passages": 0,
        "modes": [],
        "languages": [],
        "writable": engine.settings.writable,
        "generation": 0,
        "reader": engine.reader is not None,
    }
    try:
        index = served.index()
    except MundapError as error:
        return {**facts, "error": engine.indexes.public(error)}
    return {
        **facts,
        "documents": index.documents,
        "passages": len(index),
        "modes": ["bm25", "dense", "hybrid"] if index.manifest.settings.model else ["bm25"],
        "languages": [index.manifest.settings.language],
        "generation": index.manifest.generation,
    }


@router.get("/passages/{id:path}", response_model=schema.Passage, responses=schema.failures(404, 422))
async def passage(id: str, engine: ThisEngine, index: WhichIndex = None) -> dict[str, Any]:
    """A passage by its id."""
    snapshot = engine.indexes.get(index).index()
    found = await asyncio.to_thread(snapshot.passage, _storable(id))
    if found is None:
        raise NotFound("no passage has this id")
    return found.as_dict()


@router.get("/documents/{id:path}", response_model=schema.Document, responses=schema.failures(404, 422))
async def document(id: str, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """A document by its id: the text the index has of it, and where its passages stand in it."""
    snapshot = engine.indexes.get(index).index()
    # Documents may be large, and on a slow disk: others are not to wait for that.
    return Response(await asyncio.to_thread(_document, snapshot, _storable(id)), media_type=JSON)


def _document(index: Index, name: str) -> bytes:
    found = index.document(name)
    if found is None:
        raise NotFound("no document has this id")
    return json_bytes(
        {
            "id": found.id,
            "title": found.title,
            "source": found.source,
            "text": found.text,
            "metadata": dict(found.metadata),
            "passages": [{"id": one.id, "start": one.start, "end": one.end} for one in index.passages_of(found.id)],
        }
    )


def _storable(name: str) -> str:
    """An id as it could be stored: bytes that are no UTF-8 are in none."""
    return name.encode("utf-8", "replace").decode()
