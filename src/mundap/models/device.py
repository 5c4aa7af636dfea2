"""On what networks run: the one place that knows onnxruntime's providers."""

import os
import re
from typing import Any

from mundap.errors import ModelError, UsageError

CPU = "cpu"
_ON_CPU = "CPUExecutionProvider"
_ON_CUDA = "CUDAExecutionProvider"


def wanted_device() -> str:
    """`cpu`, or what MUNDAP_DEVICE says."""
    return os.environ.get("MUNDAP_DEVICE") or CPU


def providers(device: str) -> list[Any]:
    """What onnxruntime is to run a network with, first choice first.

    Args:
        device: `cpu`, `cuda` or, for one of several, `cuda:1`.

    Raises:
        UsageError: It is nothing of these.
        ModelError: The installed onnxruntime cannot use it.
    """
    if device == CPU:
        return [_ON_CPU]
    cuda = re.fullmatch(r"cuda(?::([0-9]{1,3}))?", device)
    if cuda is None:
        raise UsageError("device {device}: write cpu, cuda or cuda:N", device=device)
    import onnxruntime

    if _ON_CUDA not in onnxruntime.get_available_providers():
        raise ModelError(
            "device {device}: the installed onnxruntime runs on CPUs only. Replace it: "
            "pip uninstall onnxruntime && pip install onnxruntime-gpu",
            device=device,
        )
    return [(_ON_CUDA, {"device_id": int(cuda[1] or 0)}), _ON_CPU]


def check_used(session: Any, device: str) -> None:
    """Refuse a session that took a later choice: where CUDA's libraries are missing, onnxruntime falls back silently.

    Raises:
        ModelError: The first choice is not in use.
    """
    first = providers(device)[0]
    if isinstance(first, tuple):
        first = first[0]
    if first not in session.get_providers():
        raise ModelError(
            "device {device} cannot be used: its driver or CUDA's libraries are missing. Install them: "
            "pip install 'onnxruntime-gpu[cuda,cudnn]'; nvidia-smi shows the driver",
            device=device,
        )
