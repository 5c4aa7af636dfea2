"""Questions and passages as token ids, for training. How a text becomes tokens is decided in `encoder/inputs.py`."""

from mundap.documents.split import Splitter
from mundap.encoder.inputs import EncoderInputs
from mundap.training.recipe import RetrieverRecipe


class Tokens:
    """Texts to token ids, as at run time, and the chunks of a passage.

    Args:
        inputs: How texts become token ids.
        recipe: How passages are cut into chunks.

    Attributes:
        pad: The id of the padding token.
        fingerprint: Changes with anything that changes the ids of a text.
    """

    def __init__(self, inputs: EncoderInputs, recipe: RetrieverRecipe) -> None:
        self.questions = inputs.questions
        self.passages = inputs.passages
        self.pad = inputs.pad
        self.fingerprint = inputs.fingerprint
        self._splitter: Splitter | None = None
        if recipe.chunks > 1:
            self._splitter = Splitter(recipe.chunk_words, chunks=recipe.chunks)

    def chunks(self, text: str) -> list[str]:
        """The texts that a passage's vectors are made of; unless the recipe has chunks, the passage itself."""
        if self._splitter is None:
            return [text]
        return [text[start:end] for start, end in self._splitter.spans(text)] or [text]
