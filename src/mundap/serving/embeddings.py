"""Vectors of texts: `/v1/embeddings`, as OpenAI's clients know it."""

import base64
from typing import Any, Literal

import numpy as np
from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict, Field, field_validator

from mundap.encoder.runtime import Encoder
from mundap.errors import MundapError, UsageError
from mundap.serving.ask import JSON, ThisEngine, WhichIndex
from mundap.serving.engine import Engine
from mundap.serving.problems import NotFound
from mundap.serving.schema import failures

_LONGEST = 100_000  # characters; far more than any encoder looks at
_PER_REQUEST = 16  # texts that count as one request more for the limit of a client
Side = Literal["query", "passage"]
_SIDES: tuple[Side, ...] = ("query", "passage")

router = APIRouter(prefix="/v1", tags=["vectors"])


class EmbeddingsBody(BaseModel):
    """Texts to make vectors of."""

    model_config = ConfigDict(extra="forbid", strict=True)

    input: str | list[str] = Field(description="A text, or several.", examples=["Who wrote Middlemarch?"])
    model: str = Field(max_length=500, description="The encoder of an index, such as `retriever`. An ending, as in "
                       "`retriever-query`, says which side the texts are on.")  # fmt: skip
    input_type: Side | None = Field(None, description="`query` for questions, `passage` (the default) for what they "
                                    "are to find: some encoders have a tower for each.")  # fmt: skip
    encoding_format: Literal["float", "base64"] = Field("float", description="base64: float32, little-endian.")
    dimensions: int | None = Field(None, description="The encoder's own; others cannot be had.")
    user: str | None = Field(None, max_length=500, description="Not used.")

    @field_validator("input", mode="before")
    @classmethod
    def _text(cls, value: Any) -> Any:
        if isinstance(value, list) and any(isinstance(one, int | list) for one in value):
            raise ValueError("tokens are not understood, as every model has its own: send text")
        return value


class Embedding(BaseModel):
    """The vector of a text, as numbers or as base64."""

    object: Literal["embedding"] = "embedding"
    index: int
    embedding: list[float] | str


class Usage(BaseModel):
    """How many tokens were read."""

    prompt_tokens: int
    total_tokens: int


class Embeddings(BaseModel):
    """The vectors, in the order of the texts."""

    object: Literal["list"] = "list"
    data: list[Embedding]
    model: str
    usage: Usage


@router.post("/embeddings", response_model=Embeddings, responses=failures(404, 422))
async def embeddings(body: EmbeddingsBody, request: Request, engine: ThisEngine, index: WhichIndex = None) -> Response:
    """Vectors of texts, by the encoder an index was made with."""
    encoder, name, side = _chosen(engine, body, index)
    if isinstance(body.input, str):
        given = [body.input]
    else:
        given = body.input
    texts = [text.encode("utf-8", "replace").decode() for text in given]  # halves of characters are possible in JSON
    most = engine.settings.limits.texts
    if not 1 <= len(texts) <= most:
        raise UsageError(f"{len(texts)} texts: send between 1 and {most}")
    if any(not text.strip() or len(text) > _LONGEST for text in texts):
        raise UsageError(f"every text must have between 1 and {_LONGEST} characters, and not only spaces")
    if body.dimensions not in (None, encoder.config.dimension):
        raise UsageError(
            f"dimensions = {body.dimensions}: {name} gives vectors of {encoder.config.dimension} dimensions only"
        )
    request.state.charge(len(texts) // _PER_REQUEST)
    done = await engine.embedding.do((encoder, side), texts, engine.settings.limits.seconds)
    tokens = sum(count for _, count in done)
    answer = Embeddings(
        data=[Embedding(index=n, embedding=_coded(row, body.encoding_format)) for n, (row, _) in enumerate(done)],
        model=name,
        usage=Usage(prompt_tokens=tokens, total_tokens=tokens),
    )
    return Response(answer.model_dump_json(), media_type=JSON)


def _chosen(engine: Engine, body: EmbeddingsBody, index: str | None) -> tuple[Encoder, str, Side]:
    """The encoder, its name, and the side the texts are on."""
    encoders = _encoders(engine, index)
    if not encoders:
        raise UsageError("no index of this server has vectors, so there is no model to make them with")
    name, side = body.model, body.input_type
    for ending in _SIDES:
        if name not in encoders and name.endswith(f"-{ending}"):
            if side not in (None, ending):
                raise UsageError(f"model {name[:100]!r} and input_type {side!r} contradict each other: give one")
            name, side = name.removesuffix(f"-{ending}"), ending
    if name not in encoders:
        known = ", ".join(f"{one}, {one}-query" for one in encoders)
        raise NotFound(f"no model is called {body.model[:100]!r}. There are: {known}.")
    return encoders[name], name, side or "passage"


def _encoders(engine: Engine, index: str | None) -> dict[str, Encoder]:
    """Those of all indexes, or of one, by name. If no index can be used just now, the error of the last says why."""
    found: dict[str, Encoder] = {}
    failure: MundapError | None = None
    for served in engine.indexes if index is None else (engine.indexes.get(index),):
        try:
            encoder = served.index().encoder
        except MundapError as error:
            failure = error
            continue
        if encoder is not None:
            found.setdefault(encoder.config.name, encoder)
    if failure is not None and not found:
        raise failure
    return found


def _coded(row: np.ndarray, form: str) -> list[float] | str:
    if form == "base64":
        return base64.b64encode(row.astype("<f4").tobytes()).decode()
    return list(map(float, row))
