"""Every parser as a function of bytes, and atheris on all of them: `python -m tests.attack.fuzz --minutes 60`.

What a parser may do with any bytes: give what it found, or raise an error of ours. The seeds are in `seeds/`, and the
files of each format in `tests/documents/files`; what was found is kept in `found/`, and read again by test_fuzz.py.
Both are named by the parser and a dot.
"""

import argparse
import asyncio
import contextlib
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request

from mundap.datasets import beir, examples, predictions, queries, runs
from mundap.documents import FORMATS, SourceFile, read
from mundap.documents.wikipedia.site import Site
from mundap.documents.wikipedia.wikitext import clean
from mundap.encoder.inputs import EncoderInputs, TextFormat
from mundap.engines import vectors
from mundap.errors import MundapError
from mundap.index.manifest import FORMAT, Manifest, _digest
from mundap.models.folder import EncoderConfig, ReaderConfig
from mundap.models.tokenizer import open_tokenizer, truncating
from mundap.reader.inputs import Windows
from mundap.records import Document, Skipped
from mundap.serving import schema, uploads
from mundap.serving.compare import RankingsBody
from mundap.serving.embeddings import EmbeddingsBody
from mundap.training import recipe_files
from mundap.training.recipe import AnceRecipe, ReaderRecipe, RetrieverRecipe

HERE = Path(__file__).parent
_FILES = HERE.parent / "documents" / "files"
_SUFFIXES = {"asciidoc": "adoc", "code": "py", "email": "eml", "latex": "tex", "man": "1", "notebook": "ipynb",
             "opendocument": "odt", "subtitles": "srt"}  # fmt: skip


def _documents(form: str | None) -> Callable[[Path], None]:
    def parse(path: Path) -> None:
        for found in read(SourceFile(path, "file", "file"), form):
            assert isinstance(found, Document | Skipped)
            if isinstance(found, Document):
                found.text.encode()
                json.dumps(dict(found.metadata))

    return parse


def _wikitext(path: Path) -> None:
    clean(path.read_bytes().decode("utf-8", "replace"), Site(), "title", headings=True)


def _questions(path: Path) -> None:
    for form in (None, *queries.FORMATS):
        with contextlib.suppress(MundapError):
            list(queries.read(path, form))


def _runs(path: Path) -> None:
    for parse in (
        lambda: list(runs.read_run(path)),
        lambda: beir.read_qrels(path),
        lambda: predictions.read_predictions(path),
    ):
        with contextlib.suppress(MundapError):
            parse()


def _examples(path: Path) -> None:
    with contextlib.suppress(MundapError):
        list(examples.read_examples(path))


def _recipe(path: Path) -> None:
    for kind in (RetrieverRecipe, AnceRecipe, ReaderRecipe):
        with contextlib.suppress(MundapError):
            recipe_files.load(kind, path)


def _manifest(path: Path) -> None:
    """With a right checksum, where there is something to sum: otherwise nothing behind it is ever reached."""
    with contextlib.suppress(ValueError, RecursionError):
        body = json.loads(path.read_bytes())
        if isinstance(body, dict):
            body = {key: value for key, value in body.items() if key not in ("format", "sha256")}
            path.write_text(json.dumps({"format": FORMAT, "sha256": _digest(body), **body}))
    with contextlib.suppress(MundapError):
        Manifest.load(path.parent, path.name)


def _model(path: Path) -> None:
    """Without the config's checksum of itself: otherwise nothing behind it is ever reached."""
    with contextlib.suppress(ValueError, RecursionError):
        facts = json.loads(path.read_bytes())
        if isinstance(facts, dict) and isinstance(facts.get("sha256"), dict):
            facts["sha256"].pop("config.json", None)
            path.write_text(json.dumps(facts))
    path.rename(path.with_name("config.json"))
    for kind in (EncoderConfig, ReaderConfig):
        with contextlib.suppress(MundapError):
            kind.load(path.parent)


def _tokenizer(path: Path) -> None:
    """Of a model folder whose config has no checksums."""
    with contextlib.suppress(MundapError):
        tokenizer = truncating(open_tokenizer(path), 64)
        EncoderInputs(tokenizer, tokenizer, TextFormat()).passages([("The river", "of 강, and the k1ng.")])
    with contextlib.suppress(MundapError):
        Windows(open_tokenizer(path), ReaderConfig("tiny")).of("Which river?", [("The river", "of 강, and the k1ng.")])


def _vectors(path: Path) -> None:
    for suffix in (".npy", ".safetensors", ".pkl"):
        named = shutil.copy(path, path.with_suffix(suffix))
        with contextlib.suppress(MundapError):
            vectors._opened(Path(named))


def _api(path: Path) -> None:
    for kind in (schema.AskBody, schema.SearchBody, schema.DocumentsBody, EmbeddingsBody, RankingsBody):
        with contextlib.suppress(ValueError):  # pydantic's own error is one, and becomes 422
            kind.model_validate_json(path.read_bytes())


def _upload(path: Path) -> None:
    """The bytes as a body, of files and of JSON."""
    for kind in (b"multipart/form-data; boundary=edge", b"application/json"):
        body = [{"type": "http.request", "body": path.read_bytes(), "more_body": False}]

        async def receive(body: list[dict[str, object]] = body) -> dict[str, object]:
            return body.pop()

        request = Request({"type": "http", "headers": [(b"content-type", kind)], "app": None}, receive)
        with (
            tempfile.TemporaryDirectory() as folder,
            contextlib.suppress(MundapError, HTTPException, RequestValidationError),
        ):
            asyncio.run(uploads._received(request, Path(folder)))


PARSERS: dict[str, Callable[[Path], None]] = {
    **{form: _documents(form) for form in sorted(FORMATS)},
    "unknown": _documents(None),
    "wikitext": _wikitext,
    "questions": _questions,
    "runs": _runs,
    "examples": _examples,
    "recipe": _recipe,
    "manifest": _manifest,
    "model": _model,
    "tokenizer": _tokenizer,
    "vectors": _vectors,
    "api": _api,
    "upload": _upload,
}


def parse(name: str, data: bytes, folder: Path) -> None:
    """Give bytes to a parser; whatever it raises is a finding."""
    path = folder / "file"
    path.write_bytes(data)
    PARSERS[name](path)


def cases(name: str) -> list[Path]:
    """The seeds of a parser, and what was found with it."""
    files = _FILES.glob(f"*.{_SUFFIXES.get(name, name)}")
    return sorted([*files, *HERE.glob(f"seeds/{name}.*"), *HERE.glob(f"found/{name}.*")])


def main() -> int:
    """Fuzz each parser in a process of its own for its share of the time."""
    words = argparse.ArgumentParser(description=__doc__)
    words.add_argument("--minutes", type=float, default=60.0)
    words.add_argument("--only", default="", help="names of parsers, with commas")
    words.add_argument("--found", type=Path, default=Path("build/fuzz/found"), help="where inputs that break are put")
    given = words.parse_args()
    names = given.only.split(",") if given.only else list(PARSERS)
    seconds = max(1, round(given.minutes * 60 / len(names)))
    given.found.mkdir(parents=True, exist_ok=True)
    broken = []
    for name in names:
        with tempfile.TemporaryDirectory() as folder:  # atheris ends its process without cleaning up
            code, told = _forked(name, seconds, given.found, Path(folder))
        last = [line for line in told.splitlines() if line.startswith(("#", "Done"))][-1:]
        sys.stdout.write(f"{name}: {'broken' if code else 'held'}; {' '.join(last)}\n{told[-3000:] if code else ''}")
        sys.stdout.flush()
        if code:
            broken.append(name)
    sys.stdout.write(f"{len(names)} parsers, {seconds} s each; broken: {', '.join(broken) or 'none'}\n")
    return 1 if broken else 0


def _forked(name: str, seconds: int, found: Path, folder: Path) -> tuple[int, str]:
    """Fuzz one parser in a forked process; its exit code and what atheris said."""
    told = folder / "told"
    process = os.fork()
    if not process:
        os.dup2(os.open(told, os.O_WRONLY | os.O_CREAT), 2)
        with contextlib.suppress(BaseException):
            _fuzz(name, seconds, found, folder)
        os._exit(1)  # it never comes back
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), told.read_text("utf-8", "replace")


def _fuzz(name: str, seconds: int, found: Path, folder: Path) -> None:
    import atheris

    corpus, work = folder / "corpus", folder / "work"
    corpus.mkdir()
    work.mkdir()
    for path in cases(name):
        shutil.copy(path, corpus)
    limits = [f"-max_total_time={seconds}", "-timeout=120", "-rss_limit_mb=4096", "-max_len=20000"]
    words = [sys.argv[0], *limits, f"-artifact_prefix={found}/{name}.", str(corpus)]
    atheris.Setup(words, lambda data: parse(name, data, work))
    atheris.Fuzz()


_WATCHED = """
import sys
import atheris
with atheris.instrument_imports(include=["mundap"]):
    from tests.attack import fuzz
sys.exit(fuzz.main())
"""

if __name__ == "__main__":  # once more, with our modules read by atheris, so that it sees which lines an input reaches
    os.execv(sys.executable, [sys.executable, "-c", _WATCHED, *sys.argv[1:]])
