"""Tools for assistants: a server of the Model Context Protocol, over standard input and output or over HTTP.

The tools are the same questions the API takes, answered by the same engine: its limits, its batches and its way of
following an index hold here too.
"""

import asyncio
import contextlib
import inspect
import json
import logging
import signal
from collections.abc import Callable, Iterator
from typing import Annotated, Any

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.transport_security import TransportSecuritySettings
from mcp.types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel, Field
from starlette.types import ASGIApp

from mundap.disk import json_bytes
from mundap.errors import MundapError
from mundap.index.modes import Mode
from mundap.serving import schema
from mundap.serving.engine import Engine, cost
from mundap.serving.guard import Guard
from mundap.serving.problems import NotFound
from mundap.serving.settings import Limits, Settings
from mundap.version import __version__

PATH = "/mcp"
_LIMITS = Limits()
_SLICE = 20_000  # characters of a document at a time: what an assistant can take in
_READ_ONLY = ToolAnnotations(read_only_hint=True, idempotent_hint=True, open_world_hint=False)
_LOCAL = ("127.0.0.1", "localhost", "[::1]")
_EVERYWHERE = schema.FilterBody(documents=[], sources=[], where={})

Which = Annotated[schema.Name | None, Field(description="The name of the index, if there are several; else the first.")]
Where = Annotated[
    schema.FilterBody | None, Field(description="Look only in some documents or files, or by their metadata.")
]


class Slice(BaseModel):
    """A part of a document: the characters from `start` to `end`, of `length`."""

    id: str
    title: str
    source: str
    metadata: dict[str, str]
    text: str
    start: int
    end: int
    length: int


class _Tools:
    """What an assistant can do. The descriptions are written for it."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    async def search(
        self,
        context: Context,
        question: Annotated[schema.Text, Field(description="A question or a few words, in plain language.")],
        k: Annotated[schema.K, Field(description=f"How many passages, at most {_LIMITS.k}.")] = 5,
        mode: Annotated[
            Mode | None,
            Field(description="bm25 goes by words, dense by meaning, hybrid by both. Leave it out for the best."),
        ] = None,
        rerank: Annotated[bool, Field(description="Let a reader rerank what was found: slower, often better.")] = False,
        filters: Where = None,
        index: Which = None,
    ) -> Annotated[CallToolResult, schema.Found]:
        """Find passages of the user's own documents that answer a question, best first.

        Each has its text, the file it comes from (`source`), the document, and where in that document's text it stands
        (`start`, `end`). Quote the text and name the source. An empty list means that nothing was found.
        """
        body = schema.SearchBody(
            question=question,
            questions=None,
            k=k,
            mode=mode,
            rerank=rerank,
            filters=filters or _EVERYWHERE,
            index=index,
        )
        with _told():
            if rerank:
                _charge(context, cost(k, rerank=True))
            return _result(await self._engine.search(body, None))

    async def ask(
        self,
        context: Context,
        question: Annotated[schema.Text, Field(description="One question, such as: Who wrote Middlemarch?")],
        n: Annotated[int, Field(ge=1, le=100, description="Maximum number of different answers.")] = 1,
        k: Annotated[schema.K, Field(description=f"How many passages are read for it, at most {_LIMITS.k}.")] = 10,
        filters: Where = None,
        index: Which = None,
    ) -> Annotated[CallToolResult, schema.Answered]:
        """Answer a short factual question with exact words from the user's own documents.

        Each answer has a confidence from 0 to 1 and the passage it stands in, with its source. With `no_answer` the
        documents do not seem to say it: `guess` is then not to be relied on, and `search` may show what they do say.
        For anything that needs more than a few words as its answer, use `search` and read the passages.
        """
        body = schema.AskBody(
            question=question, k=k, n=n, mode=None, threshold=None, filters=filters or _EVERYWHERE, index=index
        )
        with _told():
            _charge(context, cost(k))
            return _result(await self._engine.ask(body, None))

    async def fetch_passage(
        self,
        id: Annotated[str, Field(max_length=10_000, description="As in the results of search and ask.")],
        index: Which = None,
    ) -> Annotated[CallToolResult, schema.Passage]:
        """A passage by its id."""
        with _told():
            found = await asyncio.to_thread(self._engine.indexes.get(index).index().passage, id)
            if found is None:
                raise NotFound("no passage has this id. Use the id of a passage from the results of search or ask.")
            return _result(json_bytes(found.as_dict()))

    async def fetch_document(
        self,
        id: Annotated[str, Field(max_length=10_000, description="`document` of a passage.")],
        start: Annotated[int, Field(ge=0, description="The first character.")] = 0,
        length: Annotated[int, Field(ge=1, le=_SLICE, description="How many characters at most.")] = _SLICE,
        index: Which = None,
    ) -> Annotated[CallToolResult, Slice]:
        """The text around a passage: a document by its id, or a part of it if it is long.

        `start` and `end` of a passage or an answer count in this text. If `end` is less than `length`, there is more:
        call again with `start` set to it.
        """
        with _told():
            found = await asyncio.to_thread(self._engine.indexes.get(index).index().document, id)
            if found is None:
                raise NotFound(
                    "no document has this id. Use `document` of a passage from the results of search or ask."
                )
            text = found.text[start : start + length]
            part = Slice(
                id=found.id,
                title=found.title,
                source=found.source,
                metadata=dict(found.metadata),
                text=text,
                start=start,
                end=start + len(text),
                length=len(found.text),
            )
            return _result(part.model_dump_json().encode())


@contextlib.contextmanager
def _told() -> Iterator[None]:
    """Report an error to the assistant, in the words of the command line."""
    try:
        yield
    except MundapError as error:
        raise ToolError(str(error)) from error


def _charge(context: Context, whole: int) -> None:
    """Count what a request costs, one of which is counted already. Over standard input nobody is kept out."""
    request = context.request_context.request
    if request is not None:
        request.state.charge(whole - 1)


def _result(found: bytes) -> CallToolResult:
    """JSON twice: as text for models, as a value for programs."""
    return CallToolResult(content=[TextContent(type="text", text=found.decode())], structured_content=json.loads(found))


def _create_server(engine: Engine) -> "MCPServer[None]":
    """The server of the protocol, without a transport."""
    names = ", ".join(served.name for served in engine.indexes)
    server = MCPServer(
        "mundap",
        version=__version__,
        instructions="Search and question answering over the user's own documents. Answers are exact quotations with "
        f"their sources; prefer them to what you remember. Indexes: {names}.",
        lifespan=lambda _: engine.running(),
        log_level="WARNING",
    )
    tools = _Tools(engine)
    chosen: list[Callable[..., Any]] = [tools.search, tools.fetch_passage, tools.fetch_document]
    for tool in [*chosen, tools.ask] if engine.reader else chosen:
        server.add_tool(tool, description=inspect.getdoc(tool), annotations=_READ_ONLY)
    return server


def serve_stdio(settings: Settings) -> None:
    """Serve the process that started this one, until it closes standard input.

    Standard output carries the protocol alone: whatever else is written to it meanwhile goes to standard error.

    Raises:
        MundapError: An index or the reader cannot be opened.
    """
    logging.basicConfig(level=logging.WARNING)
    server = _create_server(Engine(settings))
    signal.signal(signal.SIGINT, signal.SIG_DFL)  # the thread that waits for input would not hear of Ctrl-C
    try:
        anyio.run(server.run_stdio_async)
    except BaseExceptionGroup as group:  # in which the reason is wrapped, more than once
        error: BaseException = group
        while isinstance(error, BaseExceptionGroup):
            error = error.exceptions[0]
        if not isinstance(error, BrokenPipeError):  # that one is an assistant that has gone
            raise error from None


def create_app(settings: Settings) -> ASGIApp:
    """The application that serves the protocol over HTTP, at /mcp, behind the same guard as the API.

    Each request stands for itself: there are no sessions to be kept, or to be stolen.

    Raises:
        MundapError: An index or the reader cannot be opened.
    """
    names = [f"{name}{port}" for name in (*_LOCAL, settings.host, *settings.names) for port in ("", ":*")]
    security = TransportSecuritySettings(
        # A token keeps out web pages whose host name points here (DNS rebinding); without one, the name is checked.
        enable_dns_rebinding_protection=settings.local,
        allowed_hosts=names,
        allowed_origins=[f"http://{name}" for name in names],
    )
    engine = Engine(settings)
    app = _create_server(engine).streamable_http_app(
        streamable_http_path=PATH,
        json_response=True,
        stateless_http=True,
        max_request_body_size=settings.limits.body,
        transport_security=security,
    )
    app.add_middleware(Guard, settings=settings, metrics=engine.metrics)
    return app
