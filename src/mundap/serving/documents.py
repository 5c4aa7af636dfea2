"""What the indexes hold: `/v1/indexes`, `/v1/passages`, `/v1/documents`, `/v1/facts`, `/v1/skipped`."""

import asyncio
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response

from mundap.disk import json_bytes
from mundap.errors import MundapError, UsageError
from mundap.index.catalog import Sort
from mundap.index.corpus import Filters
from mundap.index.index import Index
from mundap.records import Passage
from mundap.serving import schema
from mundap.serving.ask import JSON, ThisEngine, WhichIndex
from mundap.serving.engine import Engine
from mundap.serving.indexes import Served
from mundap.serving.problems import NotFound

MOST_LISTED = 200_000
"""Documents of an index that are listed: each request looks at all of them."""

Most = Annotated[int, Query(ge=1, le=1000, description="How many at most.")]
First = Annotated[int, Query(ge=0, le=1_000_000_000, description="How many to pass over.")]

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
        "modes": list(index.modes),
        "languages": [code for code in index.analyzer.held if code != "zxx"] or [index.manifest.settings.language],
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


@router.get("/documents", response_model=schema.Listing, responses=schema.failures(404, 422))
async def documents(
    request: Request,
    engine: ThisEngine,
    words: Annotated[str, Query(max_length=1000, description="Only those with this in their id or title.")] = "",
    sort: Annotated[
        Sort,
        Query(description="By what; numbers and dates from the largest down."),
    ] = "id",
    most: Most = 100,
    first: First = 0,
    source: Annotated[
        list[schema.Label], Query(max_length=100, description="Patterns for the source, such as `docs/*.md`.")
    ] = [],  # noqa: B006 - FastAPI copies it
    where: Annotated[
        list[schema.Label], Query(max_length=100, description="Facts that must all be there, such as `language=ko`.")
    ] = [],  # noqa: B006
    index: WhichIndex = None,
) -> Response:
    """The documents of an index: all, or those with certain words or facts."""
    served = engine.indexes.get(index)
    snapshot = served.index()
    if snapshot.documents > MOST_LISTED:
        raise UsageError(
            f"this index has {snapshot.documents:,} documents, and the server lists up to {MOST_LISTED:,}. "
            "Use `mundap list` where the index is."
        )
    filters = Filters(sources=tuple(one.removeprefix("./") for one in source), metadata=_pairs(where))
    given = _storable(words).strip()

    def work() -> bytes:
        found, total = snapshot.listing(given, filters, sort, most, first)
        return json_bytes({"total": total, "documents": [one.as_dict() for one in found]})

    what = ("documents", given, filters, sort, most, first)
    return Response(await engine.look(served, what, work, request.state.client), media_type=JSON)


def _pairs(facts: list[str]) -> dict[str, str]:
    pairs = {}
    for fact in facts:
        name, sign, value = _storable(fact).partition("=")
        if not name or not sign:
            raise UsageError("where: write it as NAME=VALUE, such as language=ko")
        pairs[name] = value
    return pairs


@router.get("/facts", response_model=schema.Facts, responses=schema.failures(404, 422))
async def facts(request: Request, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """What a search of this index can be limited to, as `mundap info` counts it."""
    served = engine.indexes.get(index)
    snapshot = served.index()
    found = await engine.look(served, ("facts",), lambda: json_bytes({"facts": snapshot.facts()}), request.state.client)
    return Response(found, media_type=JSON)


@router.get("/skipped", response_model=schema.SkippedFiles, responses=schema.failures(404, 422))
async def skipped(engine: ThisEngine, most: Most = 100, first: First = 0, index: WhichIndex = None) -> dict[str, Any]:
    """The files that the last builds could not read, and why."""
    snapshot = engine.indexes.get(index).index()
    found = await asyncio.to_thread(snapshot.skipped)
    return {"total": len(found), "skipped": [one.as_dict() for one in found[first : first + most]]}


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
            "passages": [_place(one) for one in index.passages_of(found.id)],
        }
    )


def _place(passage: Passage) -> dict[str, Any]:
    return {
        "id": passage.id,
        "start": passage.start,
        "end": passage.end,
        "place": passage.place(),
        "section": passage.metadata.get("section", ""),
    }


def _storable(name: str) -> str:
    """An id as it could be stored: bytes that are no UTF-8 are in none."""
    return name.encode("utf-8", "replace").decode()
