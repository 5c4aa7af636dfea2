"""The loop that every training is: steps, validation, checkpoints, resume. What is learnt is a `Learner`'s matter."""

import ctypes
import json
import math
import os
import platform
import subprocess
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import torch
from torch.optim.swa_utils import AveragedModel

from mundap.disk import disk_errors, write_atomic
from mundap.errors import MundapError, UsageError
from mundap.training import checkpoints
from mundap.training import recipe as recipes
from mundap.training.examples import ExampleFile, size_of
from mundap.training.log import Log
from mundap.training.processes import Processes
from mundap.training.recipe import Run
from mundap.training.report import write_report
from mundap.version import __version__

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt, as malloc.h has them

Figures = dict[str, dict[str, float]]
"""For each dev set, and for `all`, figures by name."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What a step saw: the mean loss, and the mean rank of the positive among the passages it competes with.

    Attributes:
        stale: With ANCE, how many batches ago the model was that the negatives were found with.
    """

    loss: float
    rank: float
    stale: int | None = None


class Learner(Protocol):
    """What is trained, and how."""

    model: Any
    files: list[ExampleFile]
    """What it learns from."""

    @property
    def an_epoch(self) -> int:
        """Batches in an epoch."""

    def since(self, step: int) -> Generator[Any]:
        """Batches from a step on, for ever."""

    def backward(self, batch: Any, scale: float) -> Seen:
        """Add this process's part of the gradient of the mean loss over the whole batch, times `scale`."""

    def validate(self) -> Figures:
        """The same figures for any number of processes; nothing if there is no dev set."""

    def score(self, figures: Figures) -> float:
        """The figure that decides which checkpoint is best, as a number of which more is better."""

    def at_start(self) -> Any:
        """The model as it was before training."""

    def save(self, folder: Path) -> None:
        """Write the model for others."""


@dataclass(frozen=True, slots=True)
class Progress:
    """Where a run is, for whoever watches it."""

    step: int
    steps: int
    seen: Seen
    rate: float
    examples_per_second: float


Watcher = Callable[[Progress], None]


@dataclass(slots=True)
class Trained:
    """What a run came to.

    Attributes:
        model: The folder of the trained model.
        steps: Done in all.
        best_step: Whose weights were kept.
        averaged: Of how many steps they are the mean instead, where that was better.
        before: Dev figures of the start weights.
        figures: Dev figures of the kept weights.
        stopped: Why it ended.
        left_out: For each training file how many of its rows were not used, and why.
        resumed: The step it went on from, if it did.
        seconds: Of this process.
    """

    model: str
    steps: int = 0
    best_step: int = 0
    averaged: int = 0
    before: dict[str, dict[str, float]] = field(default_factory=dict)
    figures: dict[str, dict[str, float]] = field(default_factory=dict)
    stopped: str = ""
    left_out: dict[str, dict[str, int]] = field(default_factory=dict)
    resumed: int = 0
    seconds: float = 0.0


def run(
    recipe: Run,
    make: Callable[[Processes, Path], Learner],
    watch: Watcher = lambda progress: None,
) -> Trained:
    """Train, or go on with a run that was stopped, in the recipe's folder.

    Args:
        recipe: How.
        make: Makes the learner, for this process, with a folder for what it must rewrite.
        watch: Is told of every step.

    Raises:
        MundapError: The loss is no number any more; the last good checkpoint is kept.
    """
    refuse_incomplete(recipe)
    _keep_memory()
    processes = Processes()
    if recipe.precision != "fp32" and processes.device.type == "cpu":
        raise UsageError(f"precision {recipe.precision} is for GPUs: on a CPU it is many times slower. Use fp32.")
    try:
        return _Loop(recipe, processes, make, watch).go()
    finally:
        processes.close()


def refuse_incomplete(recipe: Run) -> None:
    """Stop before anything is done.

    Raises:
        UsageError: The recipe lacks what no run can do without.
    """
    for name in ("train", "start", "out"):
        if not getattr(recipe, name):
            raise UsageError(f"the recipe has no {name}")


def _keep_memory() -> None:
    """Have the allocator keep what is freed: each step would otherwise ask the system for a million pages again."""
    try:
        libc = ctypes.CDLL(None)
        for option, size in ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 1 << 29)):
            libc.mallopt(option, size)
    except (OSError, AttributeError):  # not glibc: then it stays as it is
        return


def is_first() -> bool:
    """Whether this is the process that reports."""
    return os.environ.get("RANK", "0") == "0"


class _Loop:
    def __init__(
        self, recipe: Run, processes: Processes, make: Callable[[Processes, Path], Learner], watch: Watcher
    ) -> None:
        self.recipe = recipe
        self.processes = processes
        self.watch = watch if processes.first else lambda progress: None
        self.out = Path(recipe.out)
        scratch = self.out / "data"
        if processes.first:
            with disk_errors(self.out):
                scratch.mkdir(parents=True, exist_ok=True)
            self._same_recipe()
            # Rewriting of compressed files is done once, by the first process.
            self.learner = make(processes, scratch)
        processes.wait()
        if not processes.first:
            self.learner = make(processes, scratch)
        self.model = self.learner.model
        self.model.to(processes.device).train()
        self.steps = self._planned()
        self.learning = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        groups = _groups(self.model, recipe.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.rate, eps=1e-8, fused=True)
        self.scaler = torch.amp.GradScaler("cuda") if recipe.precision == "fp16" else None
        left_out = {one.label: dict(one.left_out.most_common()) for one in self.learner.files if one.left_out}
        self.done = Trained(str(self.out / "model"), left_out=left_out)
        self.best = -math.inf
        self.stale = 0
        self.number = 0
        self.log = Log(self.out) if processes.first else None
        self.mean = AveragedModel(self.model) if recipe.mean else None

    def _planned(self) -> int:
        whole = self.recipe.epochs * self.learner.an_epoch // self.recipe.accumulate
        return max(1, min(whole, self.recipe.steps) if self.recipe.steps else whole)

    def _same_recipe(self) -> None:
        """A run goes on only with the recipe and the data it began with; what does not change the result may differ."""
        path, environment = self.out / "recipe.toml", self.out / "environment.json"
        text = recipes.dump(self.recipe)
        sizes = [size_of(one.path) for one in self.recipe.train]
        if path.exists() and checkpoints.newest(self.out / "checkpoints"):
            changed = recipes.difference(path.read_text("utf-8"), self.recipe, free=("checkpoint", "out"))
            if changed:
                raise MundapError(
                    f"{self.out} holds a run with another recipe ({changed} is new). "
                    "Go on with the old recipe, or train into another folder."
                )
            self._same_data(sizes, environment)
        write_atomic(path, text.encode())
        facts = {
            "mundap": __version__,
            "torch": torch.__version__,
            "python": platform.python_version(),
            "processes": self.processes.world,
            "device": str(self.processes.device),
            "git": _revision(),
            "train_bytes": sizes,
        }
        write_atomic(environment, json.dumps(facts, indent=2).encode())

    def _same_data(self, sizes: list[int], environment: Path) -> None:
        """What was told of the files when the run began must still be true."""
        known = json.loads(environment.read_text("utf-8")) if environment.exists() else {}
        for one, before, now in zip(self.recipe.train, known.get("train_bytes", sizes), sizes, strict=True):
            if before != now:
                raise MundapError(
                    f"{one.path} has changed since the run in {self.out} began ({before:,} bytes, now {now:,}). "
                    "Put the old file back, or train into another folder."
                )

    def go(self) -> Trained:
        started = time.monotonic()
        chance = self._resume()
        if chance is None:
            torch.manual_seed(self.recipe.seed * 1000 + self.processes.rank)
            if self.recipe.dev:
                self.done.before = self.learner.validate()
                self._note({"step": 0, "dev": self.done.before})
                self.best = self.learner.score(self.done.before)
                self._keep(0)
        else:
            torch.set_rng_state(chance[self.processes.rank % len(chance)])
        saved = seen_at = time.monotonic()
        every = self.recipe.validate or max(1, self.learner.an_epoch // self.recipe.accumulate)
        stream = self.learner.since(self.number * self.recipe.accumulate)
        examples = 0
        while self.number < self.steps and not self.done.stopped:
            seen, count = self._optimize(stream)
            self.number += 1
            if self.mean is not None and self.number > (1 - self.recipe.mean) * self.steps:
                self.mean.update_parameters(self.model)
            examples += count
            now = time.monotonic()
            speed = examples / max(now - seen_at, 1e-9)
            age = {} if seen.stale is None else {"stale": seen.stale}
            self._note({"step": self.number, "loss": seen.loss, "rank": seen.rank, "rate": self._rate(self.number - 1),
                        "examples_per_second": round(speed, 2), **age})  # fmt: skip
            self.watch(Progress(self.number, self.steps, seen, self._rate(self.number - 1), speed))
            if self.recipe.dev and (self.number % every == 0 or self.number == self.steps):
                self._validate()
            due = self.processes.agree(float(now - saved > 60 * self.recipe.checkpoint))
            if due or self.number == self.steps or self.done.stopped:
                self._save()
                saved = time.monotonic()
        stream.close()
        return self._finish(started)

    def _optimize(self, stream: Any) -> tuple[Seen, int]:
        """One step of the optimizer over one or more batches, and how many examples they had."""
        for group in self.optimizer.param_groups:
            group["lr"] = self._rate(self.number)
        every: list[Seen] = []
        count = 0
        for _ in range(self.recipe.accumulate):
            batch = next(stream)
            scale = 1 / self.recipe.accumulate
            if self.scaler:
                scale *= self.scaler.get_scale()
            every.append(self.learner.backward(batch, scale))
            count += batch.examples
        loss, rank = (sum(values) / len(every) for values in zip(*((one.loss, one.rank) for one in every), strict=True))
        if not math.isfinite(loss):
            raise MundapError(
                f"the loss is {loss} at step {self.number + 1}: training has gone wrong. The last good checkpoint is "
                f"in {self.out / 'checkpoints'}. Lower the learning rate ({self.recipe.rate}) and start a new run."
            )
        self.processes.add_gradients(self.learning)
        if self.scaler:
            self.scaler.unscale_(self.optimizer)
        torch.nn.utils.clip_grad_norm_(self.learning, self.recipe.clip)
        if self.scaler:
            self.scaler.step(self.optimizer)
            self.scaler.update()
        else:
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return Seen(loss, rank, every[-1].stale), count

    def _rate(self, step: int) -> float:
        """Up in a line, then down in a line."""
        rise = self.recipe.warmup * self.steps
        if step < rise:
            return self.recipe.rate * (step + 1) / max(1.0, rise)
        if self.recipe.decay == "constant":
            return self.recipe.rate
        return self.recipe.rate * max(0.0, (self.steps - step) / max(1.0, self.steps - rise))

    def _validate(self) -> None:
        figures = self.learner.validate()
        self._note({"step": self.number, "dev": figures})
        value = self.processes.agree(self.learner.score(figures))
        better = value > self.best
        if value >= self.best:  # of weights that do as well, those that have seen more are kept
            self.best = value
            self._keep(self.number)
        if better:
            self.stale = 0
        else:
            self.stale += 1
            if self.recipe.patience and self.stale >= self.recipe.patience:
                self.done.stopped = f"no improvement in {self.stale} validations"

    def _keep(self, step: int) -> None:
        self.done.best_step = step
        if self.processes.first:
            checkpoints.save_weights(self.out / "best.safetensors", self.model)

    def _save(self) -> None:
        state = self.processes.gather(torch.get_rng_state().unsqueeze(0).to(self.processes.device)).cpu()
        if self.processes.first:
            facts = {
                "best": self.best if math.isfinite(self.best) else None,
                "best_step": self.done.best_step,
                "stale": self.stale,
                "stopped": self.done.stopped,
                "before": self.done.before,
                "scale": self.scaler.get_scale() if self.scaler else None,
                "averaged": int(self.mean.n_averaged) if self.mean is not None else 0,
            }
            checkpoints.save(
                self.out / "checkpoints", self.number, self.model, self.optimizer, state, facts, self._averaged
            )
        self.processes.wait()

    @property
    def _averaged(self) -> Any:
        """The mean of the weights so far, if there is one."""
        return self.mean.module if self.mean is not None and self.mean.n_averaged else None

    def _resume(self) -> Any:
        """Go back to the last checkpoint, if there is one; what was logged after it is forgotten."""
        path = checkpoints.newest(self.out / "checkpoints")
        self.processes.wait()
        if path is None:
            if self.log is not None:
                self.log.forget()
            return None
        facts, chance = checkpoints.load(path, self.model, self.optimizer)
        self.number = self.done.resumed = facts["step"]
        self.best = facts["best"] if facts["best"] is not None else -math.inf
        self.stale, self.done.stopped = facts["stale"], facts["stopped"]
        self.done.best_step, self.done.before = facts["best_step"], facts["before"]
        if self.scaler and facts["scale"]:
            self.scaler.update(facts["scale"])
        if self.mean is not None and facts.get("averaged"):
            checkpoints.load_weights(path / checkpoints.MEAN, self.mean.module)
            self.mean.n_averaged.fill_(facts["averaged"])
        if self.log is not None:
            self.log.forget(after=self.number)
        return chance

    def _note(self, facts: dict[str, Any]) -> None:
        if self.log is not None:
            self.log.write(facts)

    def _finish(self, started: float) -> Trained:
        self.done.steps = self.number
        self.done.stopped = self.done.stopped or "all steps done"
        if self.recipe.dev:
            checkpoints.load_weights(self.out / "best.safetensors", self.model)
        else:
            self.done.best_step = self.number
        if self._averaged is not None:
            self._take_mean()
        if self.recipe.average:
            self._blend()
        if self.recipe.dev:
            self.done.figures = self.learner.validate()
        if self.processes.first:
            self.learner.save(self.out / "model")
            with disk_errors(self.out):
                write_report(self.out)
        self.processes.wait()
        self.done.seconds = time.monotonic() - started
        return self.done

    def _take_mean(self) -> None:
        """The mean of the last steps' weights in place of the best step's, unless it does worse on the dev sets."""
        best = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        self._put(dict(self._averaged.named_parameters()))
        if self.recipe.dev:
            figures = self.learner.validate()
            self._note({"step": self.number, "mean": figures})
            if self.processes.agree(self.learner.score(figures)) < self.best:
                self._put(best)
                return
        self.done.averaged = int(self.mean.n_averaged) if self.mean is not None else 0

    def _put(self, weights: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])

    def _blend(self) -> None:
        """A share of the start weights keeps what the start knew and the training sets do not teach."""
        share = self.recipe.average
        before = dict(self.learner.at_start().named_parameters())
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.mul_(1 - share).add_(before[name].to(parameter.device), alpha=share)


def _groups(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and layer norms are not decayed."""
    named = [(name, parameter) for name, parameter in model.named_parameters() if parameter.requires_grad]
    plain = [parameter for name, parameter in named if parameter.ndim < 2]
    decayed = [parameter for name, parameter in named if parameter.ndim >= 2]
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]


def _revision() -> str:
    try:
        done = subprocess.run(["git", "rev-parse", "HEAD"], capture_output=True, text=True, timeout=5, check=False)  # noqa: S607
        return done.stdout.strip()
    except (OSError, subprocess.SubprocessError):
        return ""
