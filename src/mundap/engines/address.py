"""Addresses of engines, as they stand after -i and -o."""

import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

from mundap.errors import UsageError

SCHEMES = ("milvus", "milvus+lite")
"""The engines there are."""

OPTIONS = {
    "collection": "name of the collection (milvus+lite)",
    "tls": "1 to encrypt the connection",
    "ca": "file with the certificate authority",
    "cert": "file with the client's certificate",
    "key": "file with the client's key",
    "server_name": "name in the server's certificate",
    "consistency": "Strong, Session, Bounded or Eventually",
    "timeout": "seconds one call may take",
    "patience": "seconds to wait for a server that went away",
}
"""What may follow `?` in an address."""

_PORT = 19530
_COLLECTION = re.compile(r"[A-Za-z_][A-Za-z0-9_]{0,200}")
_FORM = "write it as milvus://HOST:PORT/COLLECTION or milvus://HOST:PORT/DATABASE/COLLECTION"
_LEVELS = ("Strong", "Session", "Bounded", "Eventually")


def is_address(where: str | Path) -> bool:
    """Whether this names an engine rather than a folder."""
    return "://" in str(where)


@dataclass(frozen=True, slots=True)
class Address:
    """Where an engine is. Secrets are never part of it: they come from the environment.

    Attributes:
        text: As it was given.
        scheme: One of `SCHEMES`.
        place: Host and port, or the file of milvus-lite.
        collection: The name of the index there.
        database: Of the server; empty for its default.
        user: Who logs in; empty for nobody.
        options: As listed in `OPTIONS`.
    """

    text: str
    scheme: str
    place: str
    collection: str
    database: str = ""
    user: str = ""
    options: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read an address.

        Raises:
            UsageError: It is none, or not one that can be used.
        """
        try:
            parts = urlsplit(text)
        except ValueError as error:  # a bracket without its partner
            raise UsageError(f"{text}: no address ({error})") from None
        if parts.scheme not in SCHEMES:
            raise UsageError(f"{text}: addresses begin with {' or '.join(f'{name}://' for name in SCHEMES)}")
        if parts.password is not None:
            raise UsageError(
                "a password in an address is seen by everybody on this machine. "
                "Put it into the environment variable MUNDAP_MILVUS_PASSWORD."
            )
        options = _options(parts.query)
        if parts.scheme == "milvus+lite":
            place = _file(text, parts.netloc + unquote(parts.path))
            name = _collection(text, options.get("collection", "mundap"))
            return cls(text, parts.scheme, place, name, options=options)
        database, name = _server_path(text, parts.path)
        return cls(text, parts.scheme, _server(text, parts), name, database, parts.username or "", options)

    @property
    def seconds(self) -> float:
        """How long one call may take."""
        return _number(self, "timeout", 30.0)

    @property
    def connecting_seconds(self) -> float:
        """How long the server may take to answer at all: whoever gave a wrong address is told sooner."""
        return _number(self, "timeout", 10.0)

    @property
    def patience(self) -> float:
        """How long to wait for a server that went away."""
        return _number(self, "patience", 60.0)

    @property
    def consistency(self) -> str:
        """What a search must have seen: by default all but the last seconds, as Milvus itself has it."""
        return self.options.get("consistency", "Bounded")

    @property
    def encrypted(self) -> bool:
        """Whether the connection is TLS: asked for by itself, or by any of the files it needs."""
        wanted = self.options.get("tls", "")
        return wanted not in ("", "0", "no", "false") or any(name in self.options for name in ("ca", "cert", "key"))

    @property
    def token(self) -> str:
        """What the server is shown, `user:password` or a token of its own; empty for nothing."""
        if self.user:
            return f"{self.user}:{os.environ.get('MUNDAP_MILVUS_PASSWORD', '')}"
        return os.environ.get("MUNDAP_MILVUS_TOKEN", "")


def _server(text: str, parts: SplitResult) -> str:
    """Host and port."""
    try:
        port = parts.port or _PORT
    except ValueError:
        raise UsageError(f"{text}: the port is no number from 1 to 65535") from None
    if not parts.hostname:
        raise UsageError(f"{text}: {_FORM}")
    host = parts.hostname
    if ":" in host:  # IPv6
        host = f"[{host}]"
    return f"{host}:{port}"


def _server_path(text: str, path: str) -> tuple[str, str]:
    """The database, empty for the server's default, and the collection."""
    *before, name = path.strip("/").split("/")
    if not name or len(before) > 1:
        raise UsageError(f"{text}: {_FORM}")
    return "".join(before), _collection(text, name)


def _options(query: str) -> dict[str, str]:
    options = dict(parse_qsl(query, keep_blank_values=True))
    for name in options:
        if name not in OPTIONS:
            raise UsageError(f"{name}: no such option in an address. There are: {', '.join(OPTIONS)}.")
    level = options.get("consistency", "Bounded")
    if level not in _LEVELS:
        raise UsageError(f"consistency={level}: choose one of {', '.join(_LEVELS)}")
    _check_certificates({name: options[name] for name in ("ca", "cert", "key") if name in options})
    return options


def _check_certificates(files: Mapping[str, str]) -> None:
    """Wrong files are found here: of a connection that failed for them the client says only that there is none."""
    for name, path in files.items():
        if not Path(path).is_file():
            raise UsageError(f"{name}={path}: no such file")
    if ("cert" in files or "key" in files) and len(files) < 3:
        raise UsageError("cert, key and ca go together: our own certificate, its key, and who signed the server's")
    for name in ("ca", "cert"):
        if name in files:
            _check_certificate(name, files)


def _check_certificate(name: str, files: Mapping[str, str]) -> None:
    import ssl

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        if name == "ca":
            context.load_verify_locations(files["ca"])
        else:
            context.load_cert_chain(files["cert"], files["key"], password=lambda: "")  # no prompt: it is to fail
    except OSError as error:  # those of ssl are such, too
        reason = getattr(error, "reason", None) or error.strerror or error
        raise UsageError(
            f"{name}={files[name]} cannot be used ({reason}): PEM is needed, and a key of its own"
        ) from error


def _file(text: str, path: str) -> str:
    if not path.endswith(".db"):
        raise UsageError(
            f"{text}: milvus-lite keeps an index in a place whose name ends in .db, as in milvus+lite:///path/my.db"
        )
    return str(Path(path).absolute())


def _collection(text: str, name: str) -> str:
    if not _COLLECTION.fullmatch(name):
        raise UsageError(f"{text}: the name of a collection has letters, digits and _ only, and begins with no digit")
    return name


def _number(address: Address, name: str, default: float) -> float:
    try:
        value = float(address.options.get(name, default))
    except ValueError:
        value = -1.0
    if not 0 < value <= 86_400:
        raise UsageError(f"{address.text}: {name} must be a number of seconds")
    return value
