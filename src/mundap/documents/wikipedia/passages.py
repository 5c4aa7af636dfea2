"""Articles into lines of psgs_w100."""

from collections.abc import Iterator
from dataclasses import dataclass

from mundap.documents.split import Splitter
from mundap.documents.wikipedia.articles import Article


@dataclass(frozen=True, slots=True)
class Cut:
    """How articles are cut.

    Attributes:
        words: Maximum words per passage.
        published: As in the published psgs_w100: the title comes first in the text, and the last passage is
            filled up from the article's beginning, so that all have as many words.
    """

    words: int = 100
    published: bool = False


def rows(article: Article, cut: Cut) -> Iterator[bytes]:
    """The passages of an article as `text<TAB>title`; the id comes before it when all before are counted."""
    title = _cell(article.title)
    for passage in _published(article, cut.words) if cut.published else Splitter(cut.words).texts(article.text):
        yield f"{_cell(passage)}\t{title}".encode("utf-8", "replace")


def _published(article: Article, words: int) -> Iterator[str]:
    every = f"{article.title} {article.text}".split()
    for start in range(0, len(every), words):
        block = every[start : start + words]
        while len(block) < words:
            block += every[: words - len(block)]
        yield " ".join(block)


def _cell(text: str) -> str:
    """Quoted as the csv module does it, where there is something to quote."""
    text = text.replace("\t", " ").replace("\r", " ").replace("\n", " ")
    return '"' + text.replace('"', '""') + '"' if '"' in text else text
