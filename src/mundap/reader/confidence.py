"""How sure an answer is."""

import math
from collections.abc import Mapping, Sequence

FEATURES = ("selection", "margin", "share", "words", "retrieval")
"""What confidence is computed from."""


def confidence(features: Sequence[float], curve: Mapping[str, float]) -> float:
    """From 0 to 1: the logistic curve that was fitted on held-back data, or a plain one where none was.

    A feature that is not known counts as it typically is.
    """
    fitted = curve or {"bias": 0.0, "selection": 0.5, "margin": 0.2}
    known = (fitted.get("typical", 0.0) if math.isnan(feature) else feature for feature in features)
    value = fitted.get("bias", 0.0) + sum(
        fitted.get(name, 0.0) * feature for name, feature in zip(FEATURES, known, strict=True)
    )
    return 1 / (1 + math.exp(-max(-60.0, min(60.0, value))))
