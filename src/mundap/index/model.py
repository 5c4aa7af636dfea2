"""The encoder an index was made with."""

from mundap.encoder.runtime import Encoder
from mundap.errors import ModelError
from mundap.index.manifest import Settings


def open_encoder(settings: Settings) -> Encoder | None:
    """The encoder an index was made with, or None for an index without vectors.

    Raises:
        ModelError: It is missing, or has changed.
    """
    if not settings.model:
        return None
    encoder = Encoder.from_pretrained(settings.model)
    if encoder.config.fingerprint != settings.fingerprint:
        raise ModelError(
            "the model {name} is not the one the index was made with: its vectors would not fit. Put the old model "
            "back, or rebuild with `mundap index --fresh`.",
            name=settings.model,
        )
    return encoder
