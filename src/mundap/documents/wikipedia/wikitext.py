"""Wikitext to clean text.

A few passes over the page, each of them linear in its length and none of them recursive, so that no page can make
this slow or deep: what is no prose at all, templates, tables, HTML, links, and at last paragraphs. A pass first
pairs what opens with what closes; what has no partner is dropped, alone or with the rest of its line.
"""

import html
import re
from collections.abc import Iterator
from dataclasses import dataclass

from mundap.documents.files import Unreadable
from mundap.documents.wikipedia.site import Site, normal
from mundap.documents.wikipedia.templates import Rule, fill, rule_for

_MOST_UNCLOSED = 100
"""A page with more templates that never end is taken for broken: nobody can say what in it is prose."""

_MOST_MARKS = 500_000
"""Nobody writes a page with more links, templates and tags, and each of them takes memory."""

_DEEPEST = 40
"""Templates with words, one within the other; MediaWiki stops at the same depth."""


@dataclass(frozen=True, slots=True)
class Cleaned:
    """What is left of a page, and the names that say what kind of page it is.

    Attributes:
        text: Paragraphs, with an empty line between them.
        templates: The page's templates, in lower case.
        categories: Its categories, in lower case.
    """

    text: str
    templates: frozenset[str]
    categories: frozenset[str]


def clean(text: str, site: Site, title: str = "", headings: bool = False, quotes: bool = False) -> Cleaned:
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
    if sum(map(text.count, ("{{", "}}", "[[", "]]", "<"))) > _MOST_MARKS:
        raise Unreadable(f"broken page: more than {_MOST_MARKS:,} links, templates and tags")
    templates: set[str] = set()
    categories: set[str] = set()
    text = _without_raw(text)
    text = _without_templates(text, site, title, templates)
    text = _without_tables(text)
    if site.converted:
        text = _CONVERTED.sub(_first_variant, text)
    text = _without_tags(text)
    text = _without_addresses(text)
    text = _without_links(text, site, categories)
    text = _without_addresses(text)  # those whose words held links
    paragraphs = _paragraphs(_SWITCH.sub("", text), headings, '"' if quotes else "")
    return Cleaned("\n\n".join(paragraphs), frozenset(templates), frozenset(categories))


def _end_of_line(text: str, at: int) -> int:
    end = text.find("\n", at)
    return end if end >= 0 else len(text)


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
            at = at if name == "nowiki" else _end_of_line(text, at)
            continue
        if name == "nowiki":
            parts.append(text[at : close.start()].translate(_LITERAL))
        at = close.end()
    parts.append(text[at:])
    return "".join(parts)


# ---------------------------------------------------------------- templates

_BRACES = re.compile(r"\{\{+|\}\}+")
_NAME = re.compile(r"[^|{}<>\[\]]*")
_LINKED = re.compile(r"\[\[[^\[\]]*\]\]")
_ARGUMENT = re.compile(r"\s*([\w \-]+?)\s*=")


@dataclass(slots=True)
class _Frame:
    """A template with words, while they are read."""

    closer: int
    rule: Rule
    parts: list[str]


def _braces(text: str) -> tuple[list[tuple[int, int]], list[int]]:
    """Where double braces are, and the partner of each, or -1. An odd brace goes with the outermost of its run."""
    spans: list[tuple[int, int]] = []
    partners: list[int] = []
    openers: list[int] = []
    for found in _BRACES.finditer(text):
        start, end = found.span()
        odd = (end - start) % 2
        if text[start] == "{":
            for at in range(start + odd, end, 2):
                openers.append(len(spans))
                partners.append(-1)
                spans.append((start if at == start + odd else at, at + 2))
        else:
            for at in range(start, end - odd, 2):
                partner = openers.pop() if openers else -1
                if partner >= 0:
                    partners[partner] = len(spans)
                partners.append(partner)
                spans.append((at, end if at + 2 + odd == end else at + 2))
    if len(openers) > _MOST_UNCLOSED:
        raise Unreadable(f"broken page: {len(openers):,} templates are opened and never closed")
    return spans, partners


def _without_templates(text: str, site: Site, title: str, names: set[str]) -> str:
    spans, partners = _braces(text)
    parts: list[str] = []
    frames: list[_Frame] = []
    out = parts
    at = position = 0
    while position < len(spans):
        start, end = spans[position]
        partner = partners[position]
        position += 1
        if start < at:  # in what was dropped
            continue
        out.append(text[at:start])
        at = end
        if text[start] == "}":
            if frames and frames[-1].closer == position - 1:
                frame = frames.pop()
                out = frames[-1].parts if frames else parts
                out.append(_words(frame, site))
            continue
        if partner < 0:
            at = _end_of_line(text, at)
            continue
        name = _template_name(text, at, site)
        rule: Rule | None = title if name in ("pagename", "fullpagename") else rule_for(name, site.language)
        names.add(name)
        if rule is None or len(frames) >= _DEEPEST:
            at, position = spans[partner][1], partner + 1
        else:
            frames.append(_Frame(partner, rule, []))
            out = frames[-1].parts
    parts.append(text[at:])
    return "".join(parts)


def _template_name(text: str, at: int, site: Site) -> str:
    found = _NAME.match(text, at)
    name = normal(found.group(0)) if found else ""
    prefix, colon, rest = name.partition(":")
    if not colon:
        return name
    return rest.strip() if prefix.strip() in site.templates else f"{prefix.strip()}:"


def _words(frame: _Frame, site: Site) -> str:
    """What a template says, from its arguments, which hold no other templates any more."""
    content = "".join(frame.parts)
    if "[[" in content:
        content = _LINKED.sub(lambda link: link.group(0).replace("|", "\x02"), content)
    name, *pieces = content.split("|")
    given = {"0": name}
    if ":" in name:
        pieces.insert(0, name.partition(":")[2])
    count = 0
    for piece in pieces:
        if named := _ARGUMENT.match(piece):
            given[named.group(1).lower()] = piece[named.end() :].strip()
        else:
            count += 1
            given.setdefault(str(count), piece)
    return fill(frame.rule, given, site.language).replace("\x02", "|")


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
    "a abbr b bdi bdo big caption cite code data dfn del em font h1 h4 h5 h6 i includeonly inputbox ins kbd lang langconvert "
    "mark math noinclude nowiki onlyinclude pre q ref references rb rbc rp rt rtc ruby s samp section small source span "
    "strike strong sub sup tbody th thead time tt u var wbr gallery timeline score indicator templatestyles".split()
)  # fmt: skip
_HIDDEN = re.compile(r"display\s*:\s*none|visibility\s*:\s*hidden|\bnoexcerpt\b", re.IGNORECASE)


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
        name = (found.group(2) or "").lower()
        attributes = found.group(3) or ""
        if not name or attributes.endswith("/") or name in ("br", "hr", "wbr"):
            continue
        stack = open_tags.setdefault(name, [])
        if not found.group(1):
            left_out = name in _LEFT_OUT or (attributes and _HIDDEN.search(attributes))
            stack.append(found if left_out else None)
        elif stack and (opener := stack.pop()):
            spans[opener.start()] = found.end()
    return spans


# ---------------------------------------------------------------- links

_EXTERNAL = re.compile(r"\[(?:(?:https?|ftps?|news|irc|gopher|mailto):|//)[^\s\[\]]*+([^\[\]\n]*+)\]", re.IGNORECASE)
_SIMPLE_LINK = re.compile(r"\[\[(?:[^\[\]|\n:]*+\|([^\[\]|\n]++)|([^\[\]|\n:#]++))\]\]")
_BRACKETS = re.compile(r"\[\[|\]\]")
_TARGET = re.compile(r"[^\[\]|\n]*+")
_OTHER_LANGUAGE = re.compile(r"[a-z]{2,3}(?:-[a-z]{2,})*|simple|be-x-old|zh-min-nan")


def _without_addresses(text: str) -> str:
    return _EXTERNAL.sub(lambda link: link.group(1), text)


def _without_links(text: str, site: Site, categories: set[str]) -> str:
    """Keep the words that links show; drop pictures, categories and links to other languages."""
    text = _SIMPLE_LINK.sub(lambda link: link.group(1) or link.group(2), text)  # nearly all of them
    tokens = list(_BRACKETS.finditer(text))
    closers: dict[int, int] = {}
    openers: list[int] = []
    for found in tokens:
        if found.group(0) == "[[":
            openers.append(found.start())
        elif openers:
            closers[openers.pop()] = found.end()
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
        target = _TARGET.match(text, at)
        name = target.group(0) if target else ""
        piped = text[at + len(name) : at + len(name) + 1] == "|"
        if _shows_nothing(name, piped, site, categories):
            at = closers[start] if start in closers else _end_of_line(text, at)
        elif piped and not text.startswith("]]", at + len(name) + 1):
            at += len(name) + 1
        else:
            parts.append(name.lstrip(" :#") if name.lstrip()[:1] in (":", "#") else name)
            at += len(name) + piped
    parts.append(text[at:])
    return "".join(parts)


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

_UNTIDY = re.compile(r"[(（\[][ ,;:/·、；，)）\]]|[ ,;:/·、；，][)）]|[ ,;][,;]| \.")

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
        heading = _heading(line)
        if line and not heading and not _no_prose(line):
            lines.append(line)
            continue
        if lines:
            paragraph = _plain(" ".join(lines), quote)
            lines.clear()
            if _WORD.search(paragraph):
                if headings:
                    yield from (words for _, words in waiting)
                waiting.clear()
                yield paragraph
        if heading:
            waiting = [one for one in waiting if one[0] < heading[0]]
            waiting.append((heading[0], _plain(heading[1], "")))


def _no_prose(line: str) -> bool:
    """Items of lists, indented lines, rules, and rows of tables whose beginning was not found."""
    if line[0] == "!":
        return "!!" in line or "|" in line
    return line[0] in "*#;:|" or line.startswith(("{|", "----"))


def _heading(line: str) -> tuple[int, str] | None:
    if line[:1] != "=" or line[-1] != "=":
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
    line = " ".join(_INVISIBLE.sub("", line).split())
    if _UNTIDY.search(line):
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
