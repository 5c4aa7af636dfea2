"""Schemas of requests and responses, for validation and for the OpenAPI description."""

from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field

from mundap.index.corpus import Filters
from mundap.index.modes import Mode

Text = Annotated[str, Field(min_length=1, max_length=100_000, examples=["Who wrote Middlemarch?"])]
K = Annotated[int, Field(ge=1, le=1000, description="How many passages.")]
Name = Annotated[str, Field(max_length=200, description="Which index; the first one if this is left out.")]


Label = Annotated[str, Field(max_length=1000)]


class _Body(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)


class FilterBody(_Body):
    """Where to look. Every kind that is given must match."""

    documents: list[Label] = Field(default=[], max_length=1000, description="Document ids, any of them.")
    sources: list[Label] = Field(
        default=[], max_length=100, description="Patterns for the source, such as `docs/*.md`."
    )
    where: dict[Label, Label] = Field(default={}, max_length=100, description="Metadata that must all be there.")

    def filters(self) -> Filters:
        """As the index knows them. Sources have no ./ before them."""
        patterns = tuple(source.removeprefix("./") for source in self.sources)
        return Filters(tuple(self.documents), patterns, dict(self.where))


class AskBody(_Body):
    """A question to be answered."""

    question: Text
    k: K = 10
    n: int = Field(default=1, ge=1, le=100, description="How many answers at most.")
    mode: Mode | None = Field(default=None, description="How to search; hybrid where the index has vectors.")
    threshold: float | None = Field(
        default=None, ge=0, le=1, description="The least confidence; by default the reader's."
    )
    filters: FilterBody = FilterBody()
    index: Name | None = None


class SearchBody(_Body):
    """A question, or several, to find passages for."""

    question: Text | None = None
    questions: list[Text] | None = Field(default=None, min_length=1, max_length=1000)
    k: K = 10
    mode: Mode | None = Field(default=None, description="How to search; hybrid where the index has vectors.")
    rerank: bool = Field(default=False, description="Let the reader rerank: its score is added to the search's.")
    filters: FilterBody = FilterBody()
    index: Name | None = None


class NewDocument(_Body):
    """A document to put in. One with a known id takes the place of the old one."""

    id: str = Field(min_length=1, max_length=500)
    title: str = Field(default="", max_length=1000)
    text: str = Field(min_length=1)
    metadata: dict[str, str] = Field(
        default={}, max_length=100, description="Facts for filters, of 200 characters at most."
    )


class DocumentsBody(_Body):
    """Documents to put in."""

    documents: list[NewDocument] = Field(
        min_length=1, max_length=1000, examples=[[{"id": "notes", "title": "Notes", "text": "The tide turns at noon."}]]
    )


class Skipped(BaseModel):
    """What could not be used, and why."""

    source: str
    reason: str


class Report(BaseModel):
    """What a change did, as `mundap add --json` prints it."""

    documents: int
    passages: int
    added: int
    removed: int
    unchanged: int
    renamed: int
    left_out: int
    resumed: bool
    skipped: list[Skipped]
    skipped_count: int
    seconds: float
    generation: int


class Passage(BaseModel):
    """A slice of a document."""

    id: str
    document: str
    title: str
    text: str
    source: str
    start: int
    end: int
    place: str = Field(default="", description="Where in its file it stands: `page 212`, `line 40`, or nothing.")
    metadata: dict[str, str]
    rows: list[tuple[int, int]] = Field(
        default=[], description="Where rows of tables stand in `text`: first character, and the one behind the last."
    )


class Hit(BaseModel):
    """A found passage. `bm25` and `dense` are there where the mode computed them."""

    rank: int
    score: float
    bm25: float = 0.0
    dense: float = 0.0
    passage: Passage


class Found(BaseModel):
    """What was found for a question, as `mundap search --json` prints it."""

    query: str
    mode: Mode
    hits: list[Hit]
    note: str = ""


class Answer(BaseModel):
    """A span that answers the question: `start` and `end` count in the document's text."""

    text: str
    confidence: float
    passage: Passage
    start: int
    end: int
    source: str
    place: str = Field(default="", description="Where in its file it stands: `page 212`, `line 40`, or nothing.")
    score: float
    selection: float
    span: float
    support: int
    rank: int
    retrieval: float


class Answered(BaseModel):
    """What came of a question, as `mundap ask --json` prints it."""

    question: str
    answers: list[Answer]
    no_answer: bool
    guess: Answer | None
    note: str = ""


class Place(BaseModel):
    """Where a passage of a document stands in its text."""

    id: str
    start: int
    end: int
    place: str = ""
    section: str = ""


class Document(BaseModel):
    """A document with its whole text and the places of its passages."""

    id: str
    title: str
    source: str
    text: str
    metadata: dict[str, str]
    passages: list[Place]


class Listed(BaseModel):
    """A document as a list shows it, as `mundap list --json` prints it."""

    id: str
    title: str
    source: str
    type: str
    language: str
    passages: int
    size: int = Field(description="Bytes of its text.")
    modified: str
    skipped: int = Field(description="Rows of its file that could not be read.")
    metadata: dict[str, str]


class Listing(BaseModel):
    """A page of the documents; `total` counts those of all pages."""

    total: int
    documents: list[Listed]


class SkippedFiles(BaseModel):
    """A page of the files that the last builds could not read; `total` counts those of all pages."""

    total: int
    skipped: list[Skipped]


class Facts(BaseModel):
    """Facts to limit a search by: for each its values, and how many passages have them."""

    facts: dict[str, dict[str, int]]


class Examples(BaseModel):
    """Questions that this index can be tried with."""

    questions: list[str]


class IndexFacts(BaseModel):
    """An index of this server. If it cannot be used at the moment, `error` says why and the rest is empty."""

    name: str
    documents: int
    passages: int
    modes: list[Mode]
    languages: list[str]
    writable: bool
    generation: int
    reader: bool
    error: str = ""


class Indexes(BaseModel):
    """All indexes of this server; the first is the default."""

    indexes: list[IndexFacts]


class Reason(BaseModel):
    """What went wrong, in words."""

    message: str
    status: int


class Failure(BaseModel):
    """Any error."""

    error: Reason


def failures(*codes: int) -> dict[int | str, dict[str, Any]]:
    """Entries for the OpenAPI description of an endpoint's errors."""
    meanings = {
        400: "The request cannot be read",
        401: "The token is missing or wrong",
        403: "Not allowed",
        404: "There is no such thing",
        408: "The request did not arrive in time",
        413: "The body is too large",
        415: "The body is of another type",
        422: "The request is not as it should be",
        429: "Too many requests; see Retry-After",
        431: "The head is too large: the path, the query or the headers",
        503: "Not now; see Retry-After",
    }
    chosen = {400, 401, 403, 408, 413, 429, 431, 503, *codes}
    return {code: {"model": Failure, "description": meanings[code]} for code in sorted(chosen)}
