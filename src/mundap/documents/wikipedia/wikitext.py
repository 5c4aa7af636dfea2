"""Wikitext to clean text.

A few passes over the page, each of them linear in its length and none of them recursive, so that no page can make
this slow or deep: what is no prose at all, templates, tables, HTML, links, and at last paragraphs. A pass first
pairs what opens with what closes; what has no partner is dropped, alone or with the rest of its line.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass
from operator import itemgetter

from mundap.documents.files import Unreadable
from mundap.documents.wikipedia.expand import end_of_line, without_templates
from mundap.documents.wikipedia.site import Site, normal

_MOST_MARKS = 500_000
"""Nobody writes a page with more links, templates and tags, and each of them takes memory."""


@dataclass(frozen=True, slots=True)
class _Cleaned:
    """What is left of a page, and the names that say what kind of page it is.

    Attributes:
        text: Paragraphs, with an empty line between them.
        templates: The page's templates, in lower case.
        categories: Its categories, in lower case.
    """

    text: str
    templates: frozenset[str]
    categories: frozenset[str]


def clean(text: str, site: Site, title: str = "", headings: bool = False, quotes: bool = False) -> _Cleaned:
    """The prose of a page.

    Args:
        text: Wikitext.
        site: The edition it is from.
        title: Of the page.
        headings: Keep the headings of sections that have text.
        quotes: Put what is in italics into quotation marks.

    Raises:
        Unreadable: The page is hopelessly broken.
    """
    if len(text) > _MOST_MARKS and sum(map(text.count, ("{{", "}}", "[[", "]]", "<"))) > _MOST_MARKS:
        raise Unreadable(f"broken page: more than {_MOST_MARKS:,} links, templates and tags")
    templates: set[str] = set()
    categories: set[str] = set()
    text = _without_raw(text)
    text = without_templates(text, site, title, templates)
    text = _without_tables(text)
    if site.converted:
        text = _CONVERTED.sub(_first_variant, text)
    text = _without_tags(text)
    text = _without_addresses(text)
    text = _without_links(text, site, categories)
    text = _without_addresses(text)  # those whose words held links
    if "__" in text:
        text = _SWITCH.sub("", text)
    paragraphs = _paragraphs(text, headings, '"' if quotes else "")
    return _Cleaned("\n\n".join(paragraphs), frozenset(templates), frozenset(categories))


# ---------------------------------------------------------------- what is no prose at all

# Elements that are left out with everything in them. What is in them is no wikitext, so they go before all else.
_OPAQUE = (
    "ref|references|math|chem|ce|code|syntaxhighlight|source|pre|gallery|timeline|score|imagemap|hiero|graph|mapframe|"
    "maplink|templatestyles|templatedata|inputbox|categorytree|indicator|includeonly|style|script|rt|rp"
)
_RAW = re.compile(rf"<!--|<(nowiki|{_OPAQUE})\b([^<>]*)>", re.IGNORECASE)
_CLOSING = {name: re.compile(rf"</{name}\s*>", re.IGNORECASE) for name in ("nowiki", *_OPAQUE.split("|"))}
_LITERAL = str.maketrans({sign: f"&#{ord(sign)};" for sign in "[]{}|<>'=*#:;!-_"})


def _without_raw(text: str) -> str:
    """Drop comments, references, formulas and code; keep what `nowiki` protects, as signs that mean nothing."""
    parts: list[str] = []
    at = 0
    unclosed: set[str] = set()
    while found := _RAW.search(text, at):
        parts.append(text[at : found.start()])
        at = found.end()
        if found.group(1) is None:
            end = text.find("-->", at)
            at = end + 3 if end >= 0 else len(text)
            continue
        name = found.group(1).lower()
        if found.group(2).endswith("/"):
            continue
        close = None if name in unclosed else _CLOSING[name].search(text, at)
        if close is None:
            unclosed.add(name)  # looked for once: a thousand more of them must not each search the whole page
            at = at if name == "nowiki" else end_of_line(text, at)
            continue
        if name == "nowiki":
            parts.append(text[at : close.start()].translate(_LITERAL))
        at = close.end()
    parts.append(text[at:])
    return "".join(parts)


# ---------------------------------------------------------------- tables

_TABLE = re.compile(r"^[ \t:;*#]*\{\||^[ \t]*\|\}", re.MULTILINE)
_HEADING = re.compile(r"^==", re.MULTILINE)


def _without_tables(text: str) -> str:
    """Drop tables, also within each other. One that never ends goes up to the next heading."""
    if "{|" not in text:
        return text
    spans: dict[int, int] = {}
    openers: list[int] = []
    for found in _TABLE.finditer(text):
        if found.group(0)[-1] == "|":
            openers.append(found.start())
        elif openers:
            spans[openers.pop()] = found.end()
    spans |= dict.fromkeys(openers, -1)
    parts: list[str] = []
    at = 0
    for start in sorted(spans):
        if start < at:
            continue
        parts.append(text[at:start])
        at = spans[start]
        if at < 0:
            heading = _HEADING.search(text, start)
            at = heading.start() if heading else len(text)
    parts.append(text[at:])
    return "".join(parts)


# ---------------------------------------------------------------- HTML

_TAG = re.compile(r"<(/?)([a-z][a-z0-9]*)\b([^<>]*)>|</?ref\b[^<>\n]*", re.IGNORECASE)
_LEFT_OUT = frozenset(("table", "ul", "ol", "dl"))
_BREAKS = frozenset(("br", "p", "div", "blockquote", "center", "hr", "poem", "li", "td", "tr", "dd", "dt", "h2", "h3"))
_INLINE = frozenset(
    word
    for line in (
        "a abbr b bdi bdo big caption cite code data dfn del em font gallery h1 h4 h5 h6 i includeonly indicator ins",
        "kbd mark math noinclude nowiki onlyinclude pre q rb rbc ref references rp rt rtc ruby s samp score section",
        "small source span strike strong sub sup tbody templatestyles th thead time timeline tt u var wbr",
    )
    for word in line.split()
)
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden", re.IGNORECASE)


def _without_tags(text: str) -> str:
    """Drop tags, and what is hidden or a table or a list with everything in it. Unknown tags are text."""
    if "<" not in text:
        return text
    tokens = list(_TAG.finditer(text))
    ends = _hidden_spans(tokens)
    parts: list[str] = []
    at = 0
    for found in tokens:
        if found.start() < at:
            continue
        name = (found.group(2) or "ref").lower()
        if found.start() in ends:
            parts.append(text[at : found.start()])
            at = ends[found.start()]
        elif name in _BREAKS or name in _LEFT_OUT:
            parts += [text[at : found.start()], "\n"]
            at = found.end()
        elif name in _INLINE:
            parts.append(text[at : found.start()])
            at = found.end()
    parts.append(text[at:])
    return "".join(parts)


def _hidden_spans(tokens: list[re.Match[str]]) -> dict[int, int]:
    """Where elements that are left out begin and end. Those that never end are not in it."""
    open_tags: dict[str, list[re.Match[str] | None]] = {}
    spans: dict[int, int] = {}
    for found in tokens:
        closes, name, attributes = found.groups("")[:3]
        name = name.lower()
        if not name or attributes.endswith("/") or name in ("br", "hr", "wbr"):
            continue
        stack = open_tags.setdefault(name, [])
        if not closes:
            stack.append(found if _is_left_out(name, attributes) else None)
        elif stack and (opener := stack.pop()):
            spans[opener.start()] = found.end()
    return spans


def _is_left_out(name: str, attributes: str) -> bool:
    return name in _LEFT_OUT or (attributes != "" and _HIDDEN.search(attributes) is not None)


# ---------------------------------------------------------------- links

_EXTERNAL = re.compile(r"\[(?:(?:https?|ftps?|news|irc|gopher|mailto):|//)[^\s\[\]]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_SIMPLE_LINK = re.compile(r"\[\[(?:[^\[\]|\n:]*+\|([^\[\]|\n]++)|([^\[\]|\n:#]++))\]\]")
_BRACKETS = re.compile(r"\[\[|\]\]")
_TARGET = re.compile(r"[^\[\]|\n]*+")
_OTHER_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,})*|simple|be-x-old|zh-min-nan")


def _without_addresses(text: str) -> str:
    return _EXTERNAL.sub(lambda link: link.group(1), text) if "[" in text else text


def _without_links(text: str, site: Site, categories: set[str]) -> str:
    """Keep the words that links show; drop pictures, categories and links to other languages."""
    text = _SIMPLE_LINK.sub(lambda link: link.group(1) or link.group(2), text)  # nearly all of them
    tokens = list(_BRACKETS.finditer(text))
    closers = _link_ends(tokens)
    parts: list[str] = []
    at = 0
    for found in tokens:
        start = found.start()
        if start < at:
            continue
        parts.append(text[at:start])
        at = found.end()
        if found.group(0) == "]]":
            continue
        name = _target(text, at)
        piped = text[at + len(name) : at + len(name) + 1] == "|"
        if _shows_nothing(name, piped, site, categories):
            at = closers[start] if start in closers else end_of_line(text, at)
        elif piped and not text.startswith("]]", at + len(name) + 1):
            at += len(name) + 1
        else:
            parts.append(name.lstrip(" :#") if name.lstrip()[:1] in (":", "#") else name)
            at += len(name) + piped
    parts.append(text[at:])
    return "".join(parts)


def _target(text: str, at: int) -> str:
    """What a link leads to."""
    target = _TARGET.match(text, at)
    return target.group(0) if target else ""


def _link_ends(tokens: list[re.Match[str]]) -> dict[int, int]:
    """Where links end, by where they begin."""
    ends: dict[int, int] = {}
    openers: list[int] = []
    for found in tokens:
        if found.group(0) == "[[":
            openers.append(found.start())
        elif openers:
            ends[openers.pop()] = found.end()
    return ends


def _shows_nothing(name: str, piped: bool, site: Site, categories: set[str]) -> bool:
    prefix, colon, rest = name.partition(":")
    if not colon or not prefix:
        return False
    space = normal(prefix)
    if space in site.categories:
        categories.add(normal(rest))
    return space in site.dropped or (not piped and bool(_OTHER_LANGUAGE.fullmatch(prefix)))


# ---------------------------------------------------------------- paragraphs

_SWITCH = re.compile(r"__[^\W\d_a-z]+__")
_CONVERTED = re.compile(r"-\{([^{}]*)\}-")
_APOSTROPHES = re.compile(r"'{2,}")
_INVISIBLE = re.compile("[\u00ad\u200b\u200e\u200f\u2060\ufeff\x00-\x08\x0b\x0c\x0e-\x1f\x7f]+")
_WORD = re.compile(r"[^\W_]")

_UNTIDY = (
    *("( ", "(,", "(;", "()", "(:", "(/", "(·", "(or", "(and", " )", ",)", ";)", "[ ", "[]", "[,", "[;"),
    *(" ,", " .", ",,", ",;", ";,", ";;", "; ;", "（ ", "（，", "（；", "（、", "（）", " ）", "，）", "；）", "、）"),
)

# What is left behind where something was dropped, in this order.
_TIDY = (
    (re.compile(r"([(（\[])(?: ?[,;、；，] ?| ?[:/·](?=[ )）]) ?)++"), r"\1"),
    (re.compile(r"(?<![ ,;、；，])(?: ?[,;、；，] ?| [:/·] ?)++([)）])"), r"\1"),
    (re.compile(r" ?(?:\( ?(?:or|and)? ?\)|\[ ?\]|（ ?）)"), ""),
    (re.compile(r"([(（]) "), r"\1"),
    (re.compile(r" ([)）])"), r"\1"),
    (re.compile(r"([,;])(?: ?[,;])++"), r"\1"),
    (re.compile(r" ([,.](?= |$))"), r"\1"),
)


def _first_variant(found: re.Match[str]) -> str:
    """`-{zh-hans:A; zh-hant:B}-` is A; `-{A}-` is A; rules that only tell how to convert are nothing."""
    content: str = found.group(1)
    flag, bar, rest = content.partition("|")
    if bar:
        if set(flag.strip()) & set("HAT-D"):
            return ""
        content = rest
    first = content.partition(";")[0]
    _, colon, word = first.partition(":")
    return word.strip() if colon else first


def _paragraphs(text: str, headings: bool, quote: str) -> Iterator[str]:
    """What is prose, paragraph by paragraph; headings come only before what they head."""
    waiting: list[tuple[int, str]] = []
    lines: list[str] = []
    for line in (*text.split("\n"), ""):
        line = line.strip()
        heading = _heading(line) if line[:1] == "=" else None
        if line and not heading and not _no_prose(line):
            lines.append(line)
            continue
        if lines:
            paragraph = _plain(" ".join(lines), quote)
            lines.clear()
            if _WORD.search(paragraph):
                if headings:
                    yield from map(_WORDS_OF_HEADING, waiting)
                waiting.clear()
                yield paragraph
        if heading:
            waiting = _above(waiting, heading[0])
            waiting.append((heading[0], _plain(heading[1], "")))


_WORDS_OF_HEADING = itemgetter(1)


def _above(headings: list[tuple[int, str]], level: int) -> list[tuple[int, str]]:
    """The headings whose sections one of this level does not end."""
    return [one for one in headings if one[0] < level]


def _no_prose(line: str) -> bool:
    """Items of lists, indented lines, rules, and rows of tables whose beginning was not found."""
    if line[0] == "!":
        return "!!" in line or "|" in line
    return line[0] in "*#;:|" or line.startswith(("{|", "----"))


def _heading(line: str) -> tuple[int, str] | None:
    if line[-1] != "=":
        return None
    words = line.strip("=")
    level = min(len(line) - len(line.lstrip("=")), len(line) - len(line.rstrip("=")))
    return (level, words) if words else None


def _plain(line: str, quote: str) -> str:
    """A line without marks, with the signs that entities stand for, and tidied up where something is missing."""
    if "''" in line:
        line = _APOSTROPHES.sub(lambda found: _apostrophes(len(found.group(0)), quote), line)
    if "&" in line:
        line = html.unescape(line)
    if not line.isprintable():
        line = _INVISIBLE.sub("", line)
    line = " ".join(line.split())
    if any(map(line.__contains__, _UNTIDY)):  # seldom, and sooner told than by seven patterns
        for pattern, replacement in _TIDY:
            line = pattern.sub(replacement, line)
    return line.strip().lstrip(",;: ")


def _apostrophes(count: int, quote: str) -> str:
    """Two are italics, three bold, five both; further ones are apostrophes."""
    if count == 2:
        return quote
    if count == 4:
        return "'"
    return "'" * max(0, count - 5) + (quote if count >= 5 else "")
