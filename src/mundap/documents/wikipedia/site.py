"""The edition a dump is from: its language, and what its namespaces are called."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from html import unescape
from urllib.parse import quote

from mundap.documents.wikipedia.languages import (
    CONVERTED,
    DISAMBIGUATION_CATEGORIES,
    DISAMBIGUATION_TEMPLATES,
    DROPPED_PREFIXES,
)

_FILE, _MEDIA, _CATEGORY, _TEMPLATE = 6, -2, 14, 10
_NAMESPACE = re.compile(r'<namespace key="(-?\d+)"[^>]*>([^<]*)</namespace>')


@dataclass(frozen=True)
class Site:
    """What the head of a dump says.

    Attributes:
        name: Such as `enwiki`.
        language: Such as `en`.
        base: The address of its pages, without their titles.
        namespaces: From names in lower case to numbers.
    """

    name: str = "enwiki"
    language: str = "en"
    base: str = ""
    namespaces: Mapping[str, int] = field(default_factory=dict)

    @classmethod
    def parse(cls, head: str, file_name: str = "") -> "Site":
        """Read the start of a dump. What it does not tell is guessed from the file's name."""
        guess = re.match(r"([a-z_]+)wiki-", file_name)
        name = _first(r"<dbname>([^<]+)</dbname>", head) or (guess.group(0)[:-1] if guess else "wiki")
        code = name.removesuffix("wiki").replace("_", "-")
        language = _first(r'<mediawiki\b[^>]*xml:lang="([^"]+)"', head) or code or "en"
        base = unescape(_first(r"<base>([^<]+)</base>", head)).rpartition("/")[0]
        namespaces = {normal(unescape(title)): int(key) for key, title in _NAMESPACE.findall(head)}
        return cls(name, language.lower(), base, namespaces)

    @cached_property
    def dropped(self) -> frozenset[str]:
        """Prefixes of links that show a picture or name a category instead of saying something."""
        named = {name for name, key in self.namespaces.items() if key in (_FILE, _MEDIA, _CATEGORY)}
        return frozenset(named.union(*_for(DROPPED_PREFIXES, self.language)))

    @cached_property
    def categories(self) -> frozenset[str]:
        """Prefixes of links to categories."""
        return frozenset({"category", *(name for name, key in self.namespaces.items() if key == _CATEGORY)})

    @cached_property
    def templates(self) -> frozenset[str]:
        """Prefixes that may stand before the name of a template."""
        return frozenset({"template", *(name for name, key in self.namespaces.items() if key == _TEMPLATE)})

    @cached_property
    def converted(self) -> bool:
        """Whether the language is written in several scripts."""
        return self.language.partition("-")[0] in CONVERTED

    @cached_property
    def _disambiguation(self) -> tuple[frozenset[str], frozenset[str]]:
        names = _for(DISAMBIGUATION_TEMPLATES, self.language)
        categories = _for(DISAMBIGUATION_CATEGORIES, self.language)
        return frozenset().union(*names), frozenset().union(*categories)

    def disambiguates(self, templates: frozenset[str], categories: frozenset[str]) -> bool:
        """Whether a page with these templates and categories only lists what a word can mean."""
        known, filed = self._disambiguation
        return not (known.isdisjoint(templates) and filed.isdisjoint(categories))

    def address(self, title: str) -> str:
        """Where a page is on the web."""
        return f"{self.base}/{quote(title.replace(' ', '_'), safe=':/(),')}" if self.base else ""


def normal(name: str) -> str:
    """The name of a template, namespace or category, however it is spelled."""
    return " ".join(name.replace("_", " ").split()).lower()


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    return found.group(1) if found else ""


def _for(table: Mapping[str, tuple[str, ...]], language: str) -> list[tuple[str, ...]]:
    """What holds for all languages, and what for this one; `de-at` is `de`, `nb` is `no`."""
    code = {"nb": "no", "nn": "no", "simple": "en"}.get(language, language.partition("-")[0])
    return [table.get("", ()), table.get(code, ())]
