"""Documents in and out: `POST` and `DELETE /v1/documents`, for a server that is writable."""

import asyncio
import json
import re
import shutil
import struct
import tempfile
import zipfile
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import StreamingResponse
from pydantic import ValidationError
from starlette.datastructures import UploadFile
from starlette.exceptions import HTTPException

from mundap.errors import MundapError, UsageError
from mundap.index.ingest import UPLOAD
from mundap.serving import schema
from mundap.serving.ask import ThisEngine, WhichIndex
from mundap.serving.engine import Engine
from mundap.serving.indexes import Served, ServedEngine
from mundap.serving.problems import Forbidden, NotFound, failure, status_of
from mundap.serving.writing import Job

NDJSON = "application/x-ndjson"
_MOST_FILES = 100
_LARGEST_UNPACKED = 200 << 20
_LARGEST_DIRECTORY = 4 << 20  # bytes of an archive's list of its parts: each entry of 50 takes ten times that in memory
_PACKED = (b"\x1f\x8b", b"BZh", b"\xfd7zXZ\x00", b"\x28\xb5\x2f\xfd")
_IN_ZIP64 = 0xFFFFFFFF
_END = (1 << 16) + 200  # a comment, and the records before it
_RECORDS = ((b"PK\x05\x06", "<L", 12), (b"PK\x06\x06", "<Q", 40))  # of ZIP and of ZIP64: where the size stands
_WRITTEN_AT_ONCE = 1 << 20
_TAKING_APART = ThreadPoolExecutor(1, "uploads")  # JSON takes four times its size in memory: one after the other
_SUFFIX = re.compile(r"\.[A-Za-z0-9]{1,10}$")

router = APIRouter(prefix="/v1", tags=["changes"])

_BODY = {
    "required": True,
    "content": {
        "application/json": {"schema": schema.DocumentsBody.model_json_schema()},
        "multipart/form-data": {
            "schema": {
                "type": "object",
                "required": ["files"],
                "properties": {"files": {"type": "array", "items": {"type": "string", "format": "binary"}}},
            }
        },
    },
}


@router.post(
    "/documents",
    response_class=StreamingResponse,
    openapi_extra={"requestBody": _BODY},
    responses={
        200: {
            "description": "Lines of JSON: the progress, and at last the report, or the error that ended it. "
            "What was reported is on the disk.",
            "content": {NDJSON: {}},
        },
        **schema.failures(404, 415, 422),
    },
)
async def add(request: Request, engine: ThisEngine, index: WhichIndex = None) -> StreamingResponse:
    """Put documents in: files (text, Markdown, HTML, PDF, DOCX, JSON lines …), or titles and texts as JSON."""
    served = _writable(engine, index)
    engine.writing.check()
    folder = Path(await asyncio.to_thread(tempfile.mkdtemp, prefix="mundap-upload-"))
    try:
        files = await _received(request, folder)
        lines = engine.writing.run(Job(str(served.path.resolve()), tuple(files), folder=str(folder)))
        first = await anext(lines)  # what fails at once has a status of its own
    except BaseException:
        await asyncio.to_thread(shutil.rmtree, folder, ignore_errors=True)
        raise
    return StreamingResponse(_told(first, lines, engine, served), media_type=NDJSON)


@router.post("/documents/{id:path}", response_model=schema.Report, responses=schema.failures(404, 422))
async def read_again(id: str, engine: ThisEngine, index: WhichIndex = None) -> dict[str, Any]:
    """Read the file of a document again, where it has changed since. What was uploaded has to be sent again."""
    served = _writable(engine, index)
    found = served.index().document(id.encode("utf-8", "replace").decode())
    if found is None:
        raise NotFound("no document has this id")
    path = served.path.resolve().parent / found.source
    if found.source.startswith(UPLOAD) or not found.source.endswith(found.id):
        raise UsageError("this document has no file on the server. Send it again with POST /v1/documents.")
    if path.is_symlink() or not path.is_file():
        raise UsageError("the file of this document is not there any more, or is a link now")
    job = Job(str(served.path.resolve()), ((str(path), found.id, found.source),))
    lines = [line async for line in engine.writing.run(job)]
    return {**lines[-1], "generation": (await served.newest()).manifest.generation}


@router.delete("/documents/{id:path}", response_model=schema.Report, responses=schema.failures(404, 422))
async def delete(id: str, engine: ThisEngine, index: WhichIndex = None) -> dict[str, Any]:
    """Take a document out."""
    served = _writable(engine, index)
    if served.index().document(id.encode("utf-8", "replace").decode()) is None:
        raise NotFound("no document has this id")
    lines = [line async for line in engine.writing.run(Job(str(served.path.resolve()), delete=id))]
    return {**lines[-1], "generation": (await served.newest()).manifest.generation}


def _writable(engine: Engine, index: str | None) -> Served:
    served = engine.indexes.get(index)
    if not engine.settings.writable:
        raise Forbidden("this server is read-only. Start it with --writable to add or delete documents.")
    if isinstance(served, ServedEngine):
        raise Forbidden("this index lives in an engine: documents are added with `mundap add`, not through the server.")
    served.index()
    return served


async def _told(
    first: dict[str, Any], rest: AsyncIterator[dict[str, Any]], engine: Engine, served: Served
) -> AsyncIterator[bytes]:
    """Progress and report as lines. The report comes when questions are answered from the new state."""
    line = first
    try:
        while "stage" in line:
            yield json.dumps(line).encode() + b"\n"
            line = await anext(rest)
        index = await served.newest()
        yield json.dumps({**line, "generation": index.manifest.generation}).encode() + b"\n"
    except MundapError as error:
        yield json.dumps(failure(engine.indexes.public(error), status_of(error))).encode() + b"\n"


async def _received(request: Request, folder: Path) -> list[tuple[str, str, str]]:
    """The documents of a request, as files; (path, id, source) of each."""
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind == "application/json":
        path = folder / "body"
        await _store(request, path)
        return await asyncio.get_running_loop().run_in_executor(_TAKING_APART, _from_json, path, folder)
    if kind != "multipart/form-data":
        raise HTTPException(415, "send files as multipart/form-data, or documents as application/json")
    async with request.form(max_files=_MOST_FILES, max_fields=0) as form:
        given = [value for _, value in form.multi_items() if isinstance(value, UploadFile)]
        if not given:
            raise UsageError("no file in the request")
        return await asyncio.to_thread(_from_files, given, folder)


async def _store(request: Request, path: Path) -> None:
    """Write the body of a request to a file as it comes."""
    with path.open("wb") as file:
        waiting = bytearray()
        async for part in request.stream():
            waiting += part
            if len(waiting) >= _WRITTEN_AT_ONCE:
                await asyncio.to_thread(file.write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(file.write, bytes(waiting))


def _from_json(body: Path, folder: Path) -> list[tuple[str, str, str]]:
    try:
        given = schema.DocumentsBody.model_validate_json(body.read_bytes())
    except ValidationError as error:
        raise RequestValidationError(error.errors()) from None
    files = []
    for number, document in enumerate(given.documents):
        path = folder / f"{number}.jsonl"
        path.write_text(document.model_dump_json(), "utf-8")
        files.append((str(path), document.id, UPLOAD + document.id))
    return files


def _from_files(given: list[UploadFile], folder: Path) -> list[tuple[str, str, str]]:
    files = []
    for number, upload in enumerate(given):
        # The name is a label. Of the path only the suffix is the client's, and that only if it looks like one.
        name = "".join(letter if letter.isprintable() else " " for letter in upload.filename or "").strip()[:200]
        if not name:
            raise UsageError("a file has no name")
        suffix = _SUFFIX.search(name)
        path = folder / f"{number}{suffix.group().lower() if suffix else ''}"
        with path.open("wb") as file:
            shutil.copyfileobj(upload.file, file)
        _check_unpacked(path, name)
        files.append((str(path), name, UPLOAD + name))
    return files


def _check_unpacked(path: Path, name: str) -> None:
    """A few bytes may unpack to more than any memory holds."""
    with path.open("rb") as file:
        if file.read(8).startswith(_PACKED):
            raise UsageError(f"{name} is compressed. Unpack it and send what is in it.")
    if _directory_size(path) > _LARGEST_DIRECTORY:
        raise UsageError(f"{name} is an archive of too many parts. Send the documents themselves.")
    if _unpacked(path) > _LARGEST_UNPACKED:
        raise UsageError(f"{name} holds more than {_LARGEST_UNPACKED >> 20} MB. Send it in parts.")


def _directory_size(path: Path) -> int:
    """How large an archive says its list of parts is. Whoever opens it reads all of that into memory.

    The record that says so is at the end. Where there might be several of them, the largest counts.
    """
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _END))
        tail = file.read()
    sizes = [0]
    for mark, form, offset in _RECORDS:
        place = -1
        while (place := tail.find(mark, place + 1)) >= 0:
            if place + offset + struct.calcsize(form) <= len(tail):
                sizes += struct.unpack_from(form, tail, place + offset)
    return max(size for size in sizes if size != _IN_ZIP64)


def _unpacked(path: Path) -> int:
    """The size of what is in an archive, as DOCX is one; 0 for any other file, and for one that is broken."""
    try:
        with zipfile.ZipFile(path) as archive:
            return sum(part.file_size for part in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError, EOFError):
        return 0  # whoever reads it says what is wrong with it
