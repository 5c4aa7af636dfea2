"""The norm of the gradient, of all parameters and of three parts of the layers, and clipping by it."""

import re
from typing import Any

import torch
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

LAYER_GROUPS = ("bottom", "middle", "top")
_LAYER = re.compile(r"\blayers?\.(\d+)\.")


class Gradients:
    """The gradient of a model, in groups: thirds of its layers, and what is in no layer.

    Args:
        model: Its parameters are named as in BERT; of other models only the whole norm is known.
    """

    def __init__(self, model: Any) -> None:
        trainable = {name: one for name, one in model.named_parameters() if one.requires_grad}
        self._parameters = list(trainable.values())
        numbers = {name: int(found[1]) for name in trainable if (found := _LAYER.search(name))}
        count = max(numbers.values(), default=0) + 1
        self._groups: dict[str, list[Any]] = {}
        for name, parameter in trainable.items():
            group = ""
            if name in numbers:  # of two layers one is the bottom, the other the top
                group = LAYER_GROUPS[(6 * numbers[name] + 3) // (2 * count)]
            self._groups.setdefault(group, []).append(parameter)

    def clip(self, most: float) -> dict[str, float]:
        """Scale the gradient to a norm of no more than `most`.

        Returns:
            The norms before, each computed once: of the groups, and as `all` of them together.
        """
        norms = {}
        for group, parameters in self._groups.items():
            slopes = [one.grad for one in parameters if one.grad is not None]
            if slopes:
                norms[group] = get_total_norm(slopes)
        parts = torch.stack(list(norms.values()))
        whole = torch.linalg.vector_norm(parts)
        clip_grads_with_norm_(self._parameters, most, whole)
        found = dict(zip(norms, parts.tolist(), strict=True))
        found.pop("", None)
        return {**found, "all": float(whole)}
