"""Web pages: the main text in blocks, with white space as a browser shows it, and without what frames it."""

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from mundap.documents.blocks import Builder, Table, first_heading, make_document
from mundap.documents.files import SourceFile, decode
from mundap.records import Document
from mundap.text.sections import SEPARATOR

_NEVER_SHOWN = ("script", "style", "head", "template", "rt", "rp")
_CONTROLS = tuple("noscript button select textarea iframe object svg canvas map audio video math".split())
_BLOCK_FRAMES = frozenset("nav footer aside form menu dialog".split())  # left out, but a line ends there
_ROLES = frozenset(("navigation", "banner", "contentinfo", "search", "complementary", "menu", "dialog", "alert"))
_FRAME = re.compile(
    r"(?:^|[\s_-])(?:\w*nav|nav(?:bar|igation|header|footer)|breadcrumbs?|menu|sidebar|sphinxsidebar|related|footer|"
    r"cookies?|cookie-?(?:banner|notice|consent|bar)|consent|gdpr|newsletter|share|social|advert\w*|ads?|banner|toc|"
    r"skip-?(?:link|to-content)|headerlink|edit-?section|site-?header|masthead|copyright|pagination|pager|popup|"
    r"hidden|visually-hidden|sr-only|comments?|disqus\w*)(?:$|[\s_-])",
    re.IGNORECASE,
)
_HEADINGS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6}
_BLOCKS = frozenset(
    "address article blockquote body caption center dd details div dl dt fieldset figcaption figure h1 h2 h3 h4 h5 h6 "
    "header hr html legend li main ol p pre section summary table tbody td tfoot th thead tr ul".split()
)
_INLINE = tuple(
    "a abbr acronym b bdi bdo big cite code data del dfn em font i ins kbd label mark nobr q ruby s samp small span "
    "strike strong sub sup time tt u var wbr".split()
)
_KINDS = {"li": "item", "dd": "item", "dt": "term", **{tag: tag for tag in _HEADINGS}}
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)
_DROPPED = "mundap-dropped"
_PERMALINK = re.compile(r"[¶§#\u00b6]$")
_TERM_LEVEL = 10  # below all headings
_MOST_SPANNED = 50  # columns a cell may span


def read_html(file: SourceFile) -> Iterator[Document]:
    """The main text of a web page."""
    text = decode(file.read())
    built = Builder()
    title = ""
    facts: dict[str, Any] = {}
    tree = parse_html(text)
    if tree is not None:
        title, facts = _head(tree, text)
        add_html(built, tree)
        if not built.blocks:  # everything looks like a frame: better too much than nothing
            add_html(built, parse_html(text), frames=True)
    yield make_document(file, built, "html", title or first_heading(built), facts)


def parse_html(text: str) -> Any:
    """A tree of the markup; None if there is none."""
    from lxml import etree

    if not text.strip():
        return None
    # Entities of XHTML files and their declared encodings must not matter: the text has been decoded.
    parser = etree.HTMLParser(encoding="utf-8", remove_comments=True, remove_pis=True)
    try:
        return etree.fromstring(text.encode("utf-8", "replace"), parser)
    except (etree.LxmlError, ValueError):
        return None


def _metas(tree: Any) -> dict[str, str]:
    """What the `meta` elements say, by name; the first of a name counts."""
    found: dict[str, str] = {}
    for meta in tree.iterfind("head/meta"):
        name = (meta.get("name") or meta.get("property") or "").lower()
        if content := meta.get("content"):
            found.setdefault(name, content)
    return found


def _head(tree: Any, text: str) -> tuple[str, dict[str, Any]]:
    """The title, with that of the book a page belongs to if it names one, and author and language."""
    metas = _metas(tree)
    title = _title(tree) or metas.get("og:title", "")
    facts: dict[str, Any] = {}
    if language := tree.get("lang"):
        facts["language"] = language
    if author := metas.get("author") or metas.get("article:author"):
        facts["author"] = author
    book = _book(tree, text)
    if book and title and book not in title:
        title = f"{book}{SEPARATOR}{title}"
    return title, facts


def _title(tree: Any) -> str:
    for title in tree.iter("title"):  # the first: pictures may have one too
        return _collapse(title.text or "")
    return ""


def _book(tree: Any, text: str) -> str:
    """What a page is a part of, as manuals in many pages name it in their links."""
    for link in tree.iterfind("head/link"):
        if link.get("rel") in ("home", "start", "top"):
            return _collapse(link.get("title") or "")
    if 'accesskey="h"' in text:  # to look through the whole page takes longer
        for link in tree.iterfind(".//a[@accesskey='h']"):
            return _collapse(link.get("title") or "")
    return ""


def add_html(built: Builder, tree: Any, frames: bool = False) -> None:
    """Add the blocks of a tree. The tree is changed.

    Args:
        built: Where to.
        tree: An lxml element.
        frames: Take menus and footers along.
    """
    root = tree if frames else _main(tree)
    _strip(root, frames)
    _Walk(built, frames).run(root)


def _main(tree: Any) -> Any:
    """The element that a page marks as its text, if it has most of the words; else the whole page."""
    mains = [one for one in tree.iter("main", "article") if _length(one) > 200]
    if len(mains) != 1:
        return tree
    body = tree.find("body")
    whole = _length(tree if body is None else body)
    return mains[0] if 2 * _length(mains[0]) > whole else tree


def _length(element: Any) -> int:
    return sum(map(len, element.itertext()))


def _strip(root: Any, frames: bool) -> None:
    """Take out what is not shown, and the marks within lines: so most elements are never looked at one by one."""
    from lxml import etree

    if not frames:
        for element in root.iter(*_INLINE):
            if _is_unseen(element):
                element.tag = _DROPPED
    never = _NEVER_SHOWN if frames else (*_NEVER_SHOWN, *_CONTROLS, _DROPPED)
    etree.strip_elements(root, *never, with_tail=False)
    for element in root.xpath(".//span[@class='classifier']"):  # of a parameter: Sphinx shows a colon before it
        element.text = f" : {element.text or ''}"
    for element in root.iter("br"):
        element.tail = f"\n{element.tail or ''}"
    etree.strip_tags(root, "br", *_INLINE)


def _is_unseen(element: Any) -> bool:
    """Whether an element calls itself a frame, or is not shown."""
    for key, value in element.items():  # noqa: SIM110 (a generator takes twice as long)
        if _hides(key, value):
            return True
    return False


@lru_cache(maxsize=10_000)
def _hides(key: str, value: str) -> bool:
    """Whether an attribute is that of a menu, a footer and the like. A page has the same few again and again."""
    if key in ("class", "id"):
        return _FRAME.search(value) is not None
    if key == "role":
        return value in _ROLES
    if key == "style":
        return _HIDDEN.search(value) is not None
    return key == "hidden" or (key == "aria-hidden" and value == "true")


class _Walk:
    """Goes through a tree once, from start tag to end tag, and turns it into blocks."""

    def __init__(self, built: Builder, frames: bool) -> None:
        self.built = built
        self.frames = frames
        self.words: list[str] = []
        self.line = 0
        self.kind = ["text"]  # of the text that is being collected; the innermost is the last
        self.term = ""
        self.depth = 0  # of definition lists

    def run(self, root: Any) -> None:
        """Add all blocks below an element."""
        from lxml import etree

        walker = etree.iterwalk(root, events=("start", "end"))
        left_out: Any = None
        for event, element in walker:
            tag = element.tag
            if event == "start":
                if self._take_whole(element, tag):
                    left_out = element
                    walker.skip_subtree()
                else:
                    self._start(element, tag)
            else:
                if element is not left_out:
                    self._end(tag)
                if element is not root:
                    self._text(element.tail, element)
        self._flush()

    def _take_whole(self, element: Any, tag: Any) -> bool:
        """Whether an element is dealt with at once: left out, or a table, or code."""
        if self._is_frame(element, tag):
            if tag in _BLOCK_FRAMES:
                self._flush()
            return True
        if tag == "table":
            self._flush()
            self._table(element)
            return True
        if tag == "pre":
            self._flush()
            self.built.add("code", "".join(element.itertext()), element.sourceline or 0)
            return True
        return False

    def _is_frame(self, element: Any, tag: str) -> bool:
        """Whether an element is not the page's text but what stands around it."""
        if self.frames or tag in ("body", "html", "main", "article"):
            return False
        if tag in _BLOCK_FRAMES:
            return True
        if tag in _HEADINGS or not _is_unseen(element):
            return False
        # A section called "comments" may still be most of the page; a frame is small beside it.
        return tag == "li" or element.find(".//h1") is None

    def _text(self, text: str | None, element: Any) -> None:
        if not text:
            return
        if not self.words:
            if text.isspace():
                return
            # libxml2 knows the line of a tag; the text may begin on a later one.
            self.line = element.sourceline or 0
        self.words.append(text)

    def _start(self, element: Any, tag: Any) -> None:
        if tag in _BLOCKS:
            self._flush()
            if tag in _KINDS:
                self.kind.append(_KINDS[tag])
            if tag == "dl":
                self.depth += 1
            elif tag == "dd" and self.term and sum(1 for one in element if one.tag in _BLOCKS) > 1:
                # What is said of a term in several paragraphs is a section about it.
                self.built.section(self.term, _TERM_LEVEL + self.depth)
        self._text(element.text, element)

    def _end(self, tag: Any) -> None:
        if tag not in _BLOCKS:
            return
        self._flush()
        if tag in _KINDS:
            self.kind.pop()
        if tag == "dd":
            self.built.section("", _TERM_LEVEL + self.depth)
        elif tag == "dl":
            self._flush_term()
            self.depth -= 1

    def _flush(self) -> None:
        """The text so far is a block."""
        if not self.words:
            return
        text = _collapse("".join(self.words))
        self.words = []
        if not text:
            return
        kind = self.kind[-1]
        if kind in _HEADINGS:
            self.built.heading(_PERMALINK.sub("", text).strip(), _HEADINGS[kind], self.line)
        elif kind == "term":
            self.term = f"{self.term}, {text}" if self.term else text
        elif kind == "item" and self.term:
            # A term and what it means are one thing: cut apart, neither answers a question.
            self.built.add("item", f"{self.term}: {text}", self.line)
            self.term = ""
        else:
            self.built.add(kind, text, self.line)

    def _flush_term(self) -> None:
        if self.term:
            self.built.add("item", self.term, self.line)
            self.term = ""

    def _table(self, table: Any) -> None:
        caption = table.find("caption")
        if caption is not None:
            self.built.add("heading", words_of(caption), caption.sourceline or 0)
        if _is_layout(table):
            for cell in table.iter("td", "th"):
                if cell.find(".//table") is None:
                    _Walk(self.built, self.frames).run(cell)
        else:
            _add_rows(self.built, table)


def _is_layout(table: Any) -> bool:
    """A table in a table, with one column, or with lists and code in its cells, is a way to place things."""
    if table.get("role") == "presentation" or table.find(".//table") is not None:
        return True
    first = next(table.iter("tr"), None)
    if first is None or len(first) < 2:
        return True
    inside = sum(1 for _ in table.iter("ul", "ol", "dl", "pre", "h1", "h2", "h3", "h4"))
    return inside > sum(1 for _ in table.iter("tr"))


def _add_rows(built: Builder, table: Any) -> None:
    """Add the rows of a table, each with the words of its header."""
    rows = Table(built)
    add = rows.row
    if table.find(".//th") is not None or table.find(".//thead") is not None:
        add = rows.plain
    for row in table.iter("tr"):
        cells = [one for one in row if one.tag in ("td", "th")]
        if _has_only_names(row, cells):
            rows.header(_cells(cells), row.sourceline or 0)
        else:
            add(_cells(cells), row.sourceline or 0)
    rows.end()


def _cells(cells: list[Any]) -> list[str]:
    values: list[str] = []
    for cell in cells:
        values.append(words_of(cell))
        spanned = cell.get("colspan") or "1"
        if spanned.isdecimal() and len(spanned) < 4:
            values += [""] * (min(int(spanned), _MOST_SPANNED) - 1)
    return values


def _has_only_names(row: Any, cells: list[Any]) -> bool:
    """Whether a row of a table names its columns."""
    return row.getparent().tag == "thead" or (len(cells) > 1 and all(one.tag == "th" for one in cells))


def words_of(element: Any) -> str:
    """All words of an element on one line; those of different paragraphs are not glued together."""
    if not len(element):
        return _collapse(element.text or "")
    from lxml import etree

    parts = []
    walker = etree.iterwalk(element, events=("start", "end"))
    for event, one in walker:
        if one.tag in _BLOCKS or one.tag == "br":
            parts.append(" ")
        if event == "end":
            parts.append(one.tail)
        elif one.tag in ("script", "style"):
            walker.skip_subtree()
        else:
            parts.append(one.text)
    parts.pop()  # what stands behind the element
    return _collapse("".join(filter(None, parts)))


def _collapse(text: str) -> str:
    """White space as a browser shows it."""
    return " ".join(text.split())
