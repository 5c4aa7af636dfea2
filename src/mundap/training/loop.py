"""The training loop: steps, validation, checkpoints, resuming. The `Learner` defines model, data and loss."""

import ctypes
import math
import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch.optim.swa_utils import AveragedModel

from mundap.disk import disk_errors
from mundap.errors import MundapError, UsageError
from mundap.training import checkpoints, run_folder
from mundap.training.gradients import Gradients
from mundap.training.learner import Learner, StepCallback, StepResult, TrainingProgress, TrainingResult
from mundap.training.log import Log
from mundap.training.processes import Processes
from mundap.training.recipe import TrainingRecipe
from mundap.training.report import write_report

_TRIM_THRESHOLD, _TOP_PAD, _MMAP_THRESHOLD = -1, -2, -3  # of mallopt, as malloc.h has them


def run(
    recipe: TrainingRecipe,
    make: Callable[[Processes, Path], Learner],
    callback: StepCallback = lambda progress: None,
) -> TrainingResult:
    """Train into the recipe's folder, or resume the run that was stopped there.

    Args:
        recipe: The settings.
        make: Makes the learner of this process; its second argument is a folder for rewritten data.
        callback: Called after every step.

    Raises:
        MundapError: The loss is not finite; the last good checkpoint is kept.
    """
    refuse_incomplete(recipe)
    _keep_memory()
    processes = Processes()
    if processes.device.type == "cpu":
        _refuse_slow(recipe.precision)
    try:
        return _Loop(recipe, processes, make, callback).go()
    finally:
        processes.close()


def refuse_incomplete(recipe: TrainingRecipe) -> None:
    """Stop before any work is done.

    Raises:
        UsageError: The recipe lacks a key that every run needs.
    """
    for name in ("train", "base_model", "output_dir"):
        if not getattr(recipe, name):
            raise UsageError(f"{name} is missing: give it in a recipe, or as an option")


def _refuse_slow(precision: str) -> None:
    """Stop a run in a precision that this CPU can only emulate.

    Raises:
        UsageError: It would be many times slower than fp32.
    """
    if precision == "fp32" or (precision == "bf16" and cpu_has_bf16()):
        return
    raise UsageError(f"precision {precision} is many times slower than fp32 on this CPU. Use fp32.")


def cpu_has_bf16() -> bool:
    """Whether the CPU has instructions for bf16."""
    return bool(torch.cpu._is_avx512_bf16_supported())


def _keep_memory() -> None:
    """Have the allocator keep freed memory: otherwise each step asks the system for a million pages again."""
    try:
        libc = ctypes.CDLL(None)
        for option, size in ((_MMAP_THRESHOLD, 1 << 30), (_TRIM_THRESHOLD, 1 << 30), (_TOP_PAD, 1 << 29)):
            libc.mallopt(option, size)
    except (OSError, AttributeError, TypeError):  # not glibc
        return


def is_first() -> bool:
    """Whether this is the process that reports."""
    return os.environ.get("RANK", "0") == "0"


class _Loop:
    def __init__(
        self,
        recipe: TrainingRecipe,
        processes: Processes,
        make: Callable[[Processes, Path], Learner],
        callback: StepCallback,
    ) -> None:
        self.recipe = recipe
        self.processes = processes
        self.callback = callback
        self.out = Path(recipe.output_dir)
        self.learner = self._made(make)
        self.model = self.learner.model
        self.model.to(processes.device).train()
        self.steps = self._planned()
        self.trainable = [parameter for parameter in self.model.parameters() if parameter.requires_grad]
        self.gradients = Gradients(self.model)
        groups = _parameter_groups(self.model, recipe.weight_decay)
        self.optimizer = torch.optim.AdamW(groups, lr=recipe.learning_rate, eps=1e-8, fused=True)
        self.scaler = torch.amp.GradScaler("cuda", enabled=recipe.precision == "fp16")
        left_out = {one.label: dict(one.left_out.most_common()) for one in self.learner.files if one.left_out}
        self.result = TrainingResult(str(self.out / "model"), left_out=left_out)
        self.best = -math.inf
        self.without_improvement = 0
        self.number = 0
        self.log: Log | None = None
        if processes.first:
            self.log = Log(self.out)
        self.average: AveragedModel | None = None
        if recipe.average_last:
            self.average = AveragedModel(self.model)

    def _made(self, make: Callable[[Processes, Path], Learner]) -> Learner:
        """The learner. The first process makes its own before the others do: it rewrites compressed files for all."""
        scratch = self.out / "data"
        learner = None
        if self.processes.first:
            with disk_errors(self.out):
                scratch.mkdir(parents=True, exist_ok=True)
            run_folder.claim(self.out, self.recipe, self.processes)
            learner = make(self.processes, scratch)
        self.processes.wait()
        return learner or make(self.processes, scratch)

    @property
    def _steps_per_epoch(self) -> int:
        return max(1, self.learner.batches_per_epoch // self.recipe.gradient_accumulation_steps)

    def _planned(self) -> int:
        steps = self.recipe.epochs * self.learner.batches_per_epoch // self.recipe.gradient_accumulation_steps
        if self.recipe.max_steps:
            steps = min(steps, self.recipe.max_steps)
        return max(1, steps)

    def go(self) -> TrainingResult:
        started = time.monotonic()
        self._begin()
        stream = self.learner.batches_from(self.number * self.recipe.gradient_accumulation_steps)
        saved = begun = time.monotonic()
        examples = 0
        while self.number < self.steps and not self.result.stopped:
            result, count = self._optimize(stream)
            self.number += 1
            examples += count
            self._average()
            self._tell(result, examples / max(time.monotonic() - begun, 1e-9))
            if self.recipe.dev and self._validation_is_due():
                self._validate()
            overdue = time.monotonic() - saved > 60 * self.recipe.checkpoint_minutes
            if self.processes.agree(float(overdue)) or self.number == self.steps or self.result.stopped:
                self._save()
                saved = time.monotonic()
        stream.close()
        return self._finish(started)

    def _begin(self) -> None:
        """Resume from the last checkpoint, or measure the base model."""
        states = self._resume()
        if states is not None:
            torch.set_rng_state(states[self.processes.rank % len(states)])
            return
        torch.manual_seed(self.recipe.seed * 1000 + self.processes.rank)
        if self.recipe.dev:
            self.result.before = self.learner.validate()
            self._note({"step": 0, "dev": self.result.before})
            self.best = self.learner.score(self.result.before)
            self._keep(0)

    def _validation_is_due(self) -> bool:
        every = self.recipe.eval_steps or self._steps_per_epoch
        return self.number % every == 0 or self.number == self.steps

    def _average(self) -> None:
        if self.average is not None and self.number > (1 - self.recipe.average_last) * self.steps:
            self.average.update_parameters(self.model)

    def _tell(self, result: StepResult, speed: float) -> None:
        rate = self.recipe.learning_rate_at(self.number - 1, self.steps)
        row = {
            "step": self.number,
            "loss": result.loss,
            "rank": result.rank,
            "learning_rate": rate,
            "grad_norm": result.grad_norm,
            **{f"grad_norm_{group}": norm for group, norm in result.layer_norms.items()},
            "examples_per_second": round(speed, 2),
        }
        if result.negatives_age is not None:
            row["negatives_age"] = result.negatives_age
        self._note(row)
        if self.processes.first:
            self.callback(TrainingProgress(self.number, self.steps, result, rate, speed))

    def _optimize(self, stream: Any) -> tuple[StepResult, int]:
        """One step of the optimizer over one or more batches, and how many examples they had."""
        for group in self.optimizer.param_groups:
            group["lr"] = self.recipe.learning_rate_at(self.number, self.steps)
        results: list[StepResult] = []
        count = 0
        for _ in range(self.recipe.gradient_accumulation_steps):
            batch = next(stream)
            scale = self.scaler.get_scale() / self.recipe.gradient_accumulation_steps
            results.append(self.learner.backward(batch, scale))
            count += batch.examples
        loss = sum(one.loss for one in results) / len(results)
        rank = sum(one.rank for one in results) / len(results)
        if not math.isfinite(loss):
            raise MundapError(
                f"the loss is {loss} at step {self.number + 1}: training has diverged. Lower the learning rate "
                f"({self.recipe.learning_rate}) and start a new run. The last good checkpoint is in "
                f"{self.out / 'checkpoints'}."
            )
        self.processes.add_gradients(self.trainable)
        norms = self._update()
        whole = norms.pop("all")
        return StepResult(loss, rank, results[-1].negatives_age, whole, norms), count

    def _update(self) -> dict[str, float]:
        """Clip the gradient and step; gives the norms before clipping, see `Gradients.clip`."""
        self.scaler.unscale_(self.optimizer)
        norms = self.gradients.clip(self.recipe.max_grad_norm)
        self.scaler.step(self.optimizer)
        self.scaler.update()
        self.optimizer.zero_grad(set_to_none=True)
        return norms

    def _validate(self) -> None:
        figures = self.learner.validate()
        self._note({"step": self.number, "dev": figures})
        value = self.processes.agree(self.learner.score(figures))
        better = value > self.best
        if value >= self.best:  # of weights that do as well, those that have seen more are kept
            self.best = value
            self._keep(self.number)
        if better:
            self.without_improvement = 0
            return
        self.without_improvement += 1
        patience = self.recipe.early_stopping_patience
        if patience and self.without_improvement >= patience:
            self.result.stopped = f"no improvement in {self.without_improvement} validations"

    def _keep(self, step: int) -> None:
        self.result.best_step = step
        if self.processes.first:
            checkpoints.save_weights(self.out / "best.safetensors", self.model)

    def _save(self) -> None:
        states = self.processes.gather(torch.get_rng_state().unsqueeze(0).to(self.processes.device)).cpu()
        if self.processes.first:
            facts: dict[str, Any] = {
                "best": None,  # JSON has no infinity
                "best_step": self.result.best_step,
                "without_improvement": self.without_improvement,
                "stopped": self.result.stopped,
                "before": self.result.before,
                "scale": None,
                "averaged": self._averaged_steps,
            }
            if math.isfinite(self.best):
                facts["best"] = self.best
            if self.scaler.is_enabled():
                facts["scale"] = self.scaler.get_scale()
            state = checkpoints.RunState(self.model, self.optimizer, states, self._averaged_model)
            checkpoints.save(self.out / "checkpoints", self.number, state, facts)
        self.processes.wait()

    @property
    def _averaged_steps(self) -> int:
        if self.average is None:
            return 0
        return int(self.average.n_averaged)

    @property
    def _averaged_model(self) -> Any:
        """The averaged model, if any step has been averaged yet."""
        if self.average is None or not self._averaged_steps:
            return None
        return self.average.module

    def _resume(self) -> Any:
        """Load the last checkpoint, if there is one, and drop what was logged after it; gives the random states."""
        if self.processes.first:
            checkpoints.sweep(self.out / "checkpoints")  # a run that had only to end writes no other
        path = checkpoints.newest(self.out / "checkpoints")
        self.processes.wait()
        if path is None:
            if self.log is not None:
                self.log.forget()
            return None
        facts, states = checkpoints.load(path, self.model, self.optimizer)
        self.number = self.result.resumed = facts["step"]
        if facts["best"] is not None:
            self.best = facts["best"]
        self.without_improvement, self.result.stopped = facts["without_improvement"], facts["stopped"]
        self.result.best_step, self.result.before = facts["best_step"], facts["before"]
        if facts["scale"]:
            self.scaler.update(facts["scale"])
        if self.average is not None and facts["averaged"]:
            checkpoints.load_weights(path / checkpoints.AVERAGE, self.average.module)
            self.average.n_averaged.fill_(facts["averaged"])
        if self.log is not None:
            self.log.forget(after=self.number)
        return states

    def _note(self, row: dict[str, Any]) -> None:
        if self.log is not None:
            self.log.write(row)

    def _finish(self, started: float) -> TrainingResult:
        self.result.steps = self.number
        self.result.stopped = self.result.stopped or "all steps done"
        if self.recipe.dev:
            checkpoints.load_weights(self.out / "best.safetensors", self.model)
        else:
            self.result.best_step = self.number
        if self._averaged_model is not None:
            self._try_average()
        if self.recipe.interpolate_with_base:
            self._interpolate()
        if self.recipe.dev:
            self.result.figures = self.learner.validate()
        if self.processes.first:
            self.learner.save(self.out / "model")
            with disk_errors(self.out):
                write_report(self.out)
        self.processes.wait()
        self.result.seconds = time.monotonic() - started
        return self.result

    def _try_average(self) -> None:
        """Replace the best step's weights by the average, unless that does worse on the dev sets."""
        best = {name: parameter.detach().clone() for name, parameter in self.model.named_parameters()}
        self._put(dict(self._averaged_model.named_parameters()))
        if self.recipe.dev:
            figures = self.learner.validate()
            self._note({"step": self.number, "average": figures})
            if self.processes.agree(self.learner.score(figures)) < self.best:
                self._put(best)
                return
        self.result.averaged = self._averaged_steps

    def _put(self, weights: dict[str, Any]) -> None:
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.copy_(weights[name])

    def _interpolate(self) -> None:
        """Mix in the base model's weights: keeps what it knew and the training sets do not teach."""
        share = self.recipe.interpolate_with_base
        before = dict(self.learner.initial_model().named_parameters())
        with torch.no_grad():
            for name, parameter in self.model.named_parameters():
                parameter.mul_(1 - share).add_(before[name].to(parameter.device), alpha=share)


def _parameter_groups(model: Any, weight_decay: float) -> list[dict[str, Any]]:
    """Biases and layer norms are not decayed."""
    decayed, plain = [], []
    for parameter in model.parameters():
        if parameter.requires_grad and parameter.ndim >= 2:
            decayed.append(parameter)
        elif parameter.requires_grad:
            plain.append(parameter)
    return [{"params": decayed, "weight_decay": weight_decay}, {"params": plain, "weight_decay": 0.0}]
