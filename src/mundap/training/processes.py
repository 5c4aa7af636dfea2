"""The processes that torchrun starts: gather, sum, agree, wait."""

import os
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist

_PATIENCE = timedelta(minutes=30)


class Processes:
    """This process among all. With a single process nothing here costs anything."""

    def __init__(self) -> None:
        self.rank = int(os.environ.get("RANK", "0"))
        self.world = int(os.environ.get("WORLD_SIZE", "1"))
        self.device, backend = torch.device("cpu"), "gloo"
        if torch.cuda.is_available():
            self.device, backend = torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0"))), "nccl"
            torch.cuda.set_device(self.device)
        if self.world > 1 and not dist.is_initialized():
            dist.init_process_group(backend, timeout=_PATIENCE)

    @property
    def first(self) -> bool:
        """Whether this is the process that writes files and reports."""
        return self.rank == 0

    def gather(self, rows: Any) -> Any:
        """The rows of all processes, one after another. They may have different numbers of rows."""
        if self.world == 1:
            return rows
        count = torch.tensor([len(rows)], device=self.device)
        counts = [torch.zeros_like(count) for _ in range(self.world)]
        dist.all_gather(counts, count)
        most = max(int(one) for one in counts)
        space = rows.new_zeros((most, *rows.shape[1:]))
        space[: len(rows)] = rows
        parts = [torch.empty_like(space) for _ in range(self.world)]
        dist.all_gather(parts, space)
        return torch.cat([part[: int(one)] for part, one in zip(parts, counts, strict=True)])

    def add_gradients(self, parameters: list[Any]) -> None:
        """Sum the gradients of all processes: that is the gradient of the whole batch."""
        if self.world == 1:
            return
        for parameter in parameters:
            if parameter.grad is None:
                parameter.grad = torch.zeros_like(parameter)
        flat = torch.cat([parameter.grad.reshape(-1) for parameter in parameters])
        dist.all_reduce(flat)
        start = 0
        for parameter in parameters:
            size = parameter.numel()
            parameter.grad.copy_(flat[start : start + size].view_as(parameter))
            start += size

    def agree(self, value: float) -> float:
        """The first process's number, in all processes."""
        if self.world == 1:
            return value
        shared = torch.tensor([value], dtype=torch.float64, device=self.device)
        dist.broadcast(shared, 0)
        return float(shared[0])

    def wait(self) -> None:
        """Wait until all processes are here."""
        if self.world > 1:
            dist.barrier()

    def close(self) -> None:
        """Leave the process group."""
        if self.world > 1 and dist.is_initialized():
            dist.destroy_process_group()
