"""Dumps as Wikipedia makes them, in small."""

import bz2
from xml.sax.saxutils import escape

from mundap.documents import SourceFile

ENGLISH = {-2: "Media", -1: "Special", 0: "", 1: "Talk", 4: "Wikipedia", 6: "File", 10: "Template", 14: "Category"}


def head(language="en", namespaces=ENGLISH):
    names = "".join(
        f'      <namespace key="{key}" case="first-letter">{name}</namespace>\n'
        if name
        else f'      <namespace key="{key}" case="first-letter" />\n'
        for key, name in namespaces.items()
    )
    return (
        f'<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10" xml:lang="{language}">\n'
        f"  <siteinfo>\n    <sitename>Wikipedia</sitename>\n    <dbname>{language}wiki</dbname>\n"
        f"    <base>https://{language}.wikipedia.org/wiki/Main_Page</base>\n"
        f"    <namespaces>\n{names}    </namespaces>\n  </siteinfo>\n"
    ).encode()


def page(number, title, text, space=0, redirect=""):
    target = f'    <redirect title="{escape(redirect)}" />\n' if redirect else ""
    return (
        f"  <page>\n    <title>{escape(title)}</title>\n    <ns>{space}</ns>\n    <id>{number}</id>\n{target}"
        f"    <revision>\n      <id>{number}99</id>\n      <model>wikitext</model>\n      <format>text/x-wiki</format>\n"
        f'      <text bytes="1" xml:space="preserve">{escape(text)}</text>\n      <sha1>x</sha1>\n'
        "    </revision>\n  </page>\n"
    ).encode()


FOOT = b"</mediawiki>\n"


def article(number):
    """An article of a few hundred words that are in no other."""
    prose = " ".join(f"word{number}x{position}" for position in range(250))
    return f"'''Article {number}''' is [[about]] {prose}.<ref>no</ref>\n\n* a list\n\n[[Category:Things]]"


def pages(count=30):
    return [page(number, f"Article {number}", article(number)) for number in range(1, count + 1)]


def plain(parts, **options):
    return head(**options) + b"".join(parts) + FOOT


def multistream(parts, each=4, **options):
    """The file and its index: a stream for the head, one for every few pages, one for the end."""
    groups = [parts[start : start + each] for start in range(0, len(parts), each)]
    data = bz2.compress(head(**options))
    index = ""
    for number, group in enumerate(groups):
        index += "".join(f"{len(data)}:{number * each + n}:Title {n}\n" for n in range(len(group)))
        data += bz2.compress(b"".join(group))
    return data + bz2.compress(FOOT), bz2.compress(index.encode())


def file(path, data):
    path.write_bytes(data)
    return SourceFile(path, path.name, path.name)
