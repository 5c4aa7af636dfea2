"""The index of the public Python API: it searches, and it answers."""

from functools import cached_property
from typing import Any

from mundap.index import index as searching
from mundap.index.modes import Mode
from mundap.pipeline.ask import NUM_PASSAGES, ask
from mundap.reader.choice import LanguageReaders
from mundap.reader.runtime import Reader
from mundap.records import AskResult


class Index(searching.Index):
    """An index directory, opened to search and to ask. It is a snapshot: open it again to see later changes.

    Example:
        >>> index = Index.build(["examples/encyclopedia"], "my-index")
        >>> index.search("How high is Kilimanjaro?")[0].passage.title
        >>> index.ask("How high is the top of Kilimanjaro?").answers[0].text
    """

    @cached_property
    def reader(self) -> LanguageReaders:
        """The readers that are installed, opened once."""
        return LanguageReaders.from_pretrained()

    def ask(
        self,
        question: str,
        k: int = NUM_PASSAGES,
        answers: int = 1,
        threshold: float | None = None,
        mode: Mode | None = None,
        reader: Reader | LanguageReaders | None = None,
        **options: Any,
    ) -> AskResult:
        """Answer a question, or say that there is no answer in the index.

        Args:
            question: Plain text.
            k: Number of passages to read.
            answers: Maximum number of different answers.
            threshold: Minimum confidence of an answer; by default the reader's own, fitted on dev data.
            mode: How to search.
            reader: By default the installed reader that knows the language.
            options: As for `search`.

        Example:
            >>> result = index.ask("Who wrote Middlemarch?", answers=3)
            >>> [(answer.text, answer.confidence) for answer in result.answers]
        """
        return ask(self, question, reader or self.reader, k, answers, threshold, mode, **options)
