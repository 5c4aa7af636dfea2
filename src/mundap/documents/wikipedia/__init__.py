"""Wikipedia dumps: from `*-pages-articles*.xml*` to clean articles and 100-word passages.

`dump` cuts a file into chunks and pages, `articles` chooses the pages, `wikitext` cleans them, with `expand` and
`templates`,
`languages` and `site` know what differs from one edition to the next, `work` uses all cores, `passages` and `export`
write psgs_w100.
"""

import json
from collections.abc import Iterator

from mundap.documents.files import SourceFile, Unreadable
from mundap.documents.wikipedia.dump import chunks, head, looks_like_dump
from mundap.records import Document, Skipped

__all__ = ["is_index", "looks_like_dump", "read_wikipedia"]


def is_index(name: str) -> bool:
    """Whether a file is the index of a multistream dump, which is not needed: streams are found without it."""
    return "-multistream-index" in name


def read_wikipedia(file: SourceFile) -> Iterator[Document | Skipped]:
    """The articles of a dump, without redirects, disambiguation pages and other namespaces."""
    from mundap.documents.wikipedia.articles import Style
    from mundap.documents.wikipedia.site import Site
    from mundap.documents.wikipedia.work import Task, run

    if is_index(file.path.name):
        return
    start = head(file)
    if not start:
        raise Unreadable("not a Wikipedia dump: expected XML that begins with <mediawiki>")
    site = Site.parse(start, file.path.name)
    tasks = (Task(str(file.path), file.source, start, chunk, Style()) for chunk in chunks(file))
    for result in run(tasks):
        yield from result.found.skipped
        for line in result.lines:
            number, title, text = json.loads(line)
            facts = {"language": site.language, "url": site.address(title)}
            facts = {key: value for key, value in facts.items() if value}
            yield Document(f"{site.name}:{number}", text, title, file.source, facts)
