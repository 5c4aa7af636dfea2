"""Which reader reads: each question goes to the one that knows its language and that of the passages."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from mundap.models import folder as folders
from mundap.reader.runtime import Reader

_LOOKED_AT = 5  # passages, the best ones, whose languages decide
_ENGLISH = ("", "en")  # a passage too short to tell counts as English


class LanguageReaders:
    """One reader for everything, or the English one with a multilingual one beside it.

    Args:
        reader: The reader that was asked for, or the default one.
        multilingual: Reads what is not in English, where it is installed.
    """

    def __init__(self, reader: Reader, multilingual: Reader | None = None) -> None:
        self.default = reader
        self.multilingual = multilingual

    @classmethod
    def from_pretrained(cls, name: str | Path | None = None, **options: Any) -> Self:
        """Open one reader by name or folder; without a name those that are installed. Options as for `Reader`."""
        if name is not None:
            return cls(Reader.from_pretrained(name, **options))
        reader = Reader.from_pretrained(**options)
        if folders.MULTILINGUAL_READER not in folders.installed():
            return cls(reader)
        return cls(reader, Reader.from_pretrained(folders.MULTILINGUAL_READER, **options))

    def choose(self, question: str, languages: Sequence[str]) -> Reader:
        """The reader for a question and the languages of the passages found for it, best first."""
        if self.multilingual is None:
            return self.default
        looked_at = languages[:_LOOKED_AT]
        foreign = sum(language not in _ENGLISH for language in looked_at)
        if 2 * foreign > len(looked_at) or not self.default.knows_script(question):
            return self.multilingual
        return self.default

    def rank_by(self, ranking: str | None = None, retrieval_weight: float | None = None) -> None:
        """Compare spans of different passages in another way than the readers' own; None changes nothing."""
        for reader in (self.default, self.multilingual):
            if reader is not None:
                reader.rank_by(ranking, retrieval_weight)
