"""Turn pages into articles: other pages are counted and left out, the rest is cleaned."""

import re
import xml.etree.ElementTree as ET
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from mundap.documents.files import Unreadable
from mundap.documents.wikipedia.dump import Chunk, pages
from mundap.documents.wikipedia.site import Site, normal
from mundap.documents.wikipedia.wikitext import clean
from mundap.records import Skipped

_SPACE = re.compile(rb"<ns>(-?\d+)</ns>")


@dataclass(frozen=True, slots=True)
class Style:
    """How articles are written.

    Attributes:
        headings: Keep the headings of sections that have text.
        quotes: Put what is in italics into quotation marks.
    """

    headings: bool = False
    quotes: bool = False


@dataclass(frozen=True, slots=True)
class Article:
    """A page of the encyclopaedia."""

    id: str
    title: str
    text: str


@dataclass(slots=True)
class Found:
    """What a chunk contains besides its articles.

    Attributes:
        counts: `pages`, and how many of them were `articles`, `redirects`, in `other namespaces`,
            `disambiguation` pages, or `empty`.
        skipped: What could not be read.
    """

    counts: Counter[str] = field(default_factory=Counter)
    skipped: list[Skipped] = field(default_factory=list)


def articles(path: Path, source: str, chunk: Chunk, site: Site, style: Style, found: Found) -> Iterator[Article]:
    """The articles that begin in a chunk."""
    for page in pages(path, chunk):
        if isinstance(page, Unreadable):
            found.skipped.append(Skipped(source, str(page)))
            continue
        found.counts["pages"] += 1
        if _is_elsewhere(page):  # half of a dump: not worth parsing
            found.counts["other namespaces"] += 1
            continue
        title = ""
        try:
            tree = ET.fromstring(page)  # noqa: S314 (it begins with <page>, so it has no DTD)
            title = (tree.findtext("title") or "").strip()
            result = _article(tree, title, site, style)
        except ET.ParseError as error:
            found.skipped.append(Skipped(source, f"{_named(page)}: invalid XML ({error})"))
        except Unreadable as error:
            found.skipped.append(Skipped(source, f"page {title!r}: {error}"))
        except Exception as error:  # one page must not stop a dump of millions
            reason = f"cannot be read ({type(error).__name__}: {str(error)[:200]})"
            found.skipped.append(Skipped(source, f"page {title!r}: {reason}"))
        else:
            if isinstance(result, Article):
                found.counts["articles"] += 1
                yield result
            else:
                found.counts[result] += 1


def _is_elsewhere(page: bytes) -> bool:
    """Whether a page says that it is in another namespace than the articles'."""
    space = _SPACE.search(page, 0, 2000)
    return space is not None and space.group(1) != b"0"


def _named(page: bytes) -> str:
    start = page.find(b"<title>")
    end = page.find(b"</title>", start)
    return f"page {page[start + 7 : end][:300].decode('utf-8', 'replace')!r}" if 0 <= start < end else "a page"


def _last_revision(tree: ET.Element) -> tuple[str, str]:
    """Its text, and what kind of text that is."""
    revisions = tree.findall("revision")
    if not revisions:
        return "", "wikitext"
    return revisions[-1].findtext("text") or "", revisions[-1].findtext("model") or "wikitext"


def _article(tree: ET.Element, title: str, site: Site, style: Style) -> Article | str:
    """The article, or what the page is instead."""
    if not title:
        raise Unreadable("no title")
    if tree.find("ns") is None and _has_namespace(title, site):  # dumps before 2012
        return "other namespaces"
    text, model = _last_revision(tree)
    if tree.find("redirect") is not None or _redirects(text):
        return "redirects"
    if model != "wikitext":
        return "other namespaces"
    cleaned = clean(text, site, title, style.headings, style.quotes)
    if site.disambiguates(cleaned.templates, cleaned.categories):
        return "disambiguation"
    if not cleaned.text:
        return "empty"
    return Article((tree.findtext("id") or title).strip(), title, cleaned.text)


def _has_namespace(title: str, site: Site) -> bool:
    prefix, colon, _ = title.partition(":")
    return colon != "" and site.namespaces.get(normal(prefix), 0) != 0


def _redirects(text: str) -> bool:
    """`#REDIRECT [[…]]` in any language: no article begins with a numbered list of one word before a link."""
    line = text[:500].lstrip()
    if not line.startswith("#"):
        return False
    word, link, _ = line.partition("[[")
    return bool(link) and len(word.rstrip(" :").split()) == 1
