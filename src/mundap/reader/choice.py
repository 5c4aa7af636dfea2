"""Which reader reads: each question goes to the one that knows its language and that of the passages."""

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, Self

from mundap.models import folder as folders
from mundap.reader.runtime import Reader
from mundap.records import Hit

LOOKED_AT = 5
"""So many of the best passages decide by their languages."""

_ENGLISH = ("", "en")  # a passage too short to tell counts as English


class LanguageReaders:
    """One reader for everything, or the English one with a multilingual one beside it.

    Args:
        reader: The reader that was asked for, or the default one.
        multilingual: The name of the one that reads what is not in English, if it is installed; opened when needed.
        options: As for `Reader`.
    """

    def __init__(self, reader: Reader, multilingual: str | None = None, **options: Any) -> None:
        self.default = reader
        self._multilingual = multilingual
        self._options = options

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, **options: Any) -> Self:
        """Open one reader by name or folder; without a name those that are installed. Options as for `Reader`."""
        if name is not None:
            return cls(Reader.from_pretrained(name, **options))
        reader = Reader.from_pretrained(**options)
        if folders.MULTILINGUAL_READER not in folders.installed():
            return cls(reader)
        return cls(reader, folders.MULTILINGUAL_READER, **options)

    @cached_property
    def _for_other_languages(self) -> Reader:
        return Reader.from_pretrained(self._multilingual or folders.MULTILINGUAL_READER, **self._options)

    def choose(self, question: str, languages: Sequence[str]) -> tuple[Reader, bool]:
        """The reader for a question, and whether it knows the question's script.

        Args:
            question: What was asked.
            languages: Those of the best passages found for it.
        """
        known = self.default.knows_script(question)
        if self._multilingual is None:
            return self.default, known
        foreign = sum(language not in _ENGLISH for language in languages)
        if known and 2 * foreign <= len(languages):
            return self.default, True
        other = self._for_other_languages
        return other, other.knows_script(question)


def reader_for(reader: Reader | LanguageReaders, question: str, hits: Sequence[Hit]) -> tuple[Reader, bool]:
    """The reader itself, or of several the one that fits; and whether it knows the script of the question."""
    if isinstance(reader, Reader):
        return reader, reader.knows_script(question)
    return reader.choose(question, [hit.passage.metadata.get("language", "") for hit in hits[:LOOKED_AT]])
