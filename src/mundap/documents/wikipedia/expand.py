"""Templates out of wikitext: those with words leave their words, all others nothing."""

import re
from dataclasses import dataclass

from mundap.documents.files import Unreadable
from mundap.documents.wikipedia.site import Site, normal
from mundap.documents.wikipedia.templates import Rule, fill, rule_for

_MOST_UNCLOSED = 100
"""A page with more templates that never end is taken for broken: nobody can say what in it is prose."""

_DEEPEST = 40
"""Templates with words, one within the other; MediaWiki stops at the same depth."""

_BRACES = re.compile(r"\{\{+|\}\}+")
_NAME = re.compile(r"[^|{}<>\[\]]*")
_LINKED = re.compile(r"\[\[[^\[\]]*\]\]")
_ARGUMENT = re.compile(r"[\w \-]{1,40}")


@dataclass(slots=True)
class _Frame:
    """A template with words, while they are read."""

    closer: int
    rule: Rule
    parts: list[str]
    function: bool  # `{{formatnum:5}}`: the first argument comes behind a colon


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


def without_templates(text: str, site: Site, title: str, names: set[str]) -> str:
    """The text without templates, whose names are collected.

    Raises:
        Unreadable: Too many of them are never closed.
    """
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
            at = end_of_line(text, at)
            continue
        name = _template_name(text, at, site)
        rule = _rule(name, title, site)
        names.add(name)
        if rule is None or len(frames) >= _DEEPEST:
            at, position = spans[partner][1], partner + 1
        else:
            frames.append(_Frame(partner, rule, [], name.endswith(":")))
            out = frames[-1].parts
    parts.append(text[at:])
    return "".join(parts)


def _rule(name: str, title: str, site: Site) -> Rule | None:
    """What a template says; None if it says nothing."""
    return title if name in ("pagename", "fullpagename") else rule_for(name, site.language)


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
    if frame.function:
        pieces.insert(0, name.partition(":")[2])
    count = 0
    for piece in pieces:
        key, sign, value = piece.partition("=")
        if sign and _ARGUMENT.fullmatch(key := key.strip()):
            given[key.lower()] = value.strip()
        else:
            count += 1
            given.setdefault(str(count), piece)
    return fill(frame.rule, given, site.language).replace("\x02", "|")


def end_of_line(text: str, at: int) -> int:
    """Where the line that goes on here ends."""
    end = text.find("\n", at)
    return end if end >= 0 else len(text)
