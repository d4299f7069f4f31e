"""Stops a run at the first number that is not finite, before it reaches the parameters."""

from __future__ import annotations

import math
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.checkpoint_rollback import Rollback
from ebmlab.callbacks.divergence_causes import (
    advice,
    bad_average,
    bad_data,
    energies_of,
    last_good,
    mean_energies,
    not_finite,
    show_chains,
    where,
)
from ebmlab.callbacks.judged_step import JudgedStep, can_hold_back, hold_back, on_its_way
from ebmlab.domains import Finite
from ebmlab.errors import UserError, few
from ebmlab.learners import ContrastiveDivergence, Learner
from ebmlab.settings import require_choice

LARGEST = 1e6  # a parameter beyond it says that the steps were too large, whatever overflows next
MAX_LOST = 30  # a loss scaler that starts at 2**16 has halved its scale that often


class DivergenceGuard(pl.Callback):
    """Raises `UserError` as soon as the loss or a gradient is NaN or infinite, or data and negatives drift apart.

    It checks between backward and the optimizer's step, while the parameters are still the last good ones, and again
    before a checkpoint is written. The message names the step, the cause (data, parameters or the sampler's negatives)
    and the last checkpoint. A replay buffer of images is shown in `samples/diverged`. The checks wait for the device
    once per optimizer step. With fused Adam or AdamW on a GPU they do not: the GPU leaves a bad step out, and the run
    stops while the next one is under way. No GPU has run this yet.

    With `on_divergence="rollback"` all ranks go on from the last good checkpoint instead. Parameters, optimizer,
    schedules, replay buffers and samplers are those of the checkpoint. Random numbers are new, and the learning rate is
    lower or the sampler takes more steps. A checkpoint is good if its numbers are finite and the energies of data and
    negatives differed by less than a tenth of the limit. A run that diverges again before it has come further goes back
    one checkpoint more. Each rollback is a line of the log, of `rollbacks.csv` and of `metrics.csv`
    (`rollback/number`). Good checkpoints are in `checkpoints/good`. NaN in the data and gradients that float16 cannot
    hold stop the run in any case.

    Args:
        max_gap: largest difference between the mean energies of data and negatives, in nats per coordinate of an event;
            for contrastive learners. It is near 0 in a good fit, and runs beyond this limit do not recover.
        on_divergence: "stop" or "rollback".
        max_rollbacks: rollbacks in one run, resumed or not; then it stops.
        learning_rate_factor: the learning rate is multiplied by it at each rollback.
        num_steps_factor: the sampler's steps are multiplied by it at each rollback; for contrastive learners.

    Example:
        >>> DivergenceGuard(max_gap=0.0)
        Traceback (most recent call last):
        ebmlab.errors.UserError: DivergenceGuard: max_gap is 0.0; it must be above 0, or .inf for no limit
        >>> DivergenceGuard(on_divergence="rollback", learning_rate_factor=0.3, num_steps_factor=2.0).max_gap
        100.0
    """

    def __init__(
        self,
        max_gap: float = 100.0,
        on_divergence: Literal["stop", "rollback"] = "stop",
        *,
        max_rollbacks: int = 3,
        learning_rate_factor: float = 0.5,
        num_steps_factor: float = 1.0,
    ) -> None:
        if not max_gap > 0:
            raise UserError(f"DivergenceGuard: max_gap is {max_gap}; it must be above 0, or .inf for no limit")
        require_choice("DivergenceGuard", ("stop", "rollback"), on_divergence=on_divergence)
        self.max_gap = max_gap
        rollback = Rollback(max_rollbacks, learning_rate_factor, num_steps_factor)
        self._asked = rollback if on_divergence == "rollback" else None
        self._rollback = self._asked  # None outside of `fit`
        self._batch: Any = None
        self._step: JudgedStep | None = None  # which nobody has judged yet
        self._loss: Tensor | None = None
        self._lost = 0  # steps in a row whose gradients float16 could not hold

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._batch = batch

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()  # accumulated batches too

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any) -> None:
        self._judge(trainer, pl_module)  # the step before, where Lightning has not zeroed its gradients
        loss, self._loss = self._loss, None
        grads = [p.grad for p in pl_module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads) if grads else torch.zeros(())  # the one that clipping divides by
        value = torch.zeros_like(norm) if loss is None else loss.to(norm)
        data, negative = mean_energies(pl_module) or (torch.zeros_like(norm), torch.zeros_like(norm))
        numbers, arrived = torch.stack([norm, value, data.to(norm), negative.to(norm)]), None
        half = _scaled(trainer) or any(p.dtype == torch.float16 for p in pl_module.parameters())
        if later := numbers.is_cuda and not half and can_hold_back(optimizer):
            hold_back(optimizer, numbers, self._limit(pl_module))
            numbers, arrived = on_its_way(numbers)
        self._step = JudgedStep(where(trainer), self._batch, loss, half and bool(grads), numbers, arrived)
        if not later:
            self._judge(trainer, pl_module)

    def on_before_zero_grad(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any) -> None:
        self._judge(trainer, pl_module)

    def _judge(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Looks at the numbers of the last step, if nobody has yet."""
        step, self._step = self._step, None
        if step is None:
            return
        at_norm, at_loss, at_data, at_negative = step.values()
        scaled = _scaled(trainer)
        lost = step.half and (at_norm == 0 or (scaled and not math.isfinite(at_norm)))
        self._lost = self._lost + 1 if lost else 0
        if self._lost > MAX_LOST:
            raise UserError(self._underflow(trainer))
        gap, limit, cause = abs(at_negative - at_data), self._limit(pl_module), None
        if not math.isfinite(at_loss) or not (scaled or math.isfinite(at_norm)):  # a scaler skips those steps itself
            cause = self._report(trainer, pl_module, step)
        elif gap > limit:
            cause = self._drifted(step, at_data, at_negative)
        if self._rollback is not None:
            self._rollback.drifting = gap > limit / 10
        self._stop_if(cause, trainer, pl_module)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        fits = stage == "fit" and not trainer.fast_dev_run  # type: ignore[attr-defined]
        self._rollback = self._asked if fits else None
        if self._rollback is not None:
            self._rollback.setup(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._step, self._loss, self._lost = None, None, 0  # of a run that was interrupted
        if self._rollback is not None:
            self._rollback.start(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        return {} if self._rollback is None else self._rollback.state_dict()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        if self._rollback is not None:
            self._rollback.load_state_dict(state_dict)

    def _stop_if(self, cause: str | None, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Stops the run, or rolls it back, on all ranks if one of them has a cause."""
        if self._rollback is not None:
            cause = _first(cause, trainer)
        if not cause:
            return
        told = f"{cause}, {last_good(trainer)}{show_chains(trainer, pl_module)}"
        if self._rollback is None:
            raise UserError(told)
        if not self._rollback.left:
            raise UserError(f"{told}; {len(self._rollback.history)} rollbacks did not help")
        raise self._rollback.back(trainer, pl_module, self.state_key, cause)

    def _limit(self, pl_module: pl.LightningModule) -> float:
        if not isinstance(pl_module, ContrastiveDivergence):
            return math.inf
        return self.max_gap * math.prod(pl_module.energy.domain.event_shape)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self._batch = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._judge(trainer, pl_module)
        if bad := not_finite(pl_module) or bad_average(trainer):
            bad = f"{where(trainer)}: {bad}, so that no checkpoint was written"
        self._stop_if(bad, trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The averaged weights are looked at before anything is evaluated with them."""
        self._judge(trainer, pl_module)
        bad = bad_average(trainer)
        self._stop_if(bad and f"{where(trainer)}: {bad}", trainer, pl_module)

    @staticmethod
    def _underflow(trainer: pl.Trainer) -> str:
        precision = trainer.precision
        return (
            f"{where(trainer)}: {MAX_LOST} steps in a row changed nothing, because float16 cannot hold the gradients "
            f"(precision is {precision}): set trainer.precision to {str(precision).replace('16', 'bf16')}, or 32-true; "
            f"{last_good(trainer)}"
        )

    def _drifted(self, step: JudgedStep, data: float, negative: float) -> str:
        return (
            f"{step.where}: the energies of data ({data:.4g}) and negatives "
            f"({negative:.4g}) have drifted {abs(negative - data):.4g} apart, over {self.max_gap:g} per coordinate: "
            "lower the learning rate, or use more sampling steps; training stopped before this step was taken"
        )

    def _report(self, trainer: pl.Trainer, pl_module: pl.LightningModule, step: JudgedStep) -> str:
        spoiled = bad_data(step.batch)
        culprit = spoiled or not_finite(pl_module) or self._bad_gradients(pl_module, step.loss)
        if trainer.precision == "16-true":
            culprit += ", or float16 is too coarse for it: set trainer.precision to bf16-true, or 32-true"
        energies = energies_of(pl_module, *step.values()[2:])
        cause = f"{step.where}: {culprit}; training stopped before this step was taken{energies}"
        if spoiled:  # the same data would come again
            raise UserError(f"{cause}, {last_good(trainer)}{show_chains(trainer, pl_module)}")
        return cause

    @staticmethod
    def _bad_gradients(pl_module: pl.LightningModule, loss: Tensor | None) -> str:
        bad = [name for name, p in pl_module.named_parameters() if p.grad is not None and not p.grad.isfinite().all()]
        value = 0.0 if loss is None else float(loss)
        if not bad and math.isfinite(value):
            largest = max(float(p.grad.abs().max()) for p in pl_module.parameters() if p.grad is not None)
            return (
                f"the norm of the gradient overflows (its largest entry is {largest:.3g}), so that clipping or Adam "
                "would take no step at all: lower the learning rate, or scale the data or the loss down"
            )
        if (size := max((float(p.detach().abs().max()) for p in pl_module.parameters()), default=0.0)) > LARGEST:
            return f"the parameters have grown to {size:.3g}: lower the learning rate or clip the gradient"
        what = f"the gradient of {few(bad)}" if bad else f"the loss ({value})"
        if isinstance(pl_module, Learner) and isinstance(pl_module.energy.domain, Finite):
            cause = "the energies overflow; lower the learning rate or clip the gradient"
        else:
            cause = f"the sampler's negatives ran away{advice(pl_module)}"
        return f"{what} is not finite though data and parameters are: {cause}"


def _scaled(trainer: pl.Trainer) -> bool:
    return getattr(trainer.precision_plugin, "scaler", None) is not None


def _first(cause: str | None, trainer: pl.Trainer) -> str | None:
    """The cause of the first rank that has one."""
    if trainer.strategy.reduce_boolean_decision(cause is None):
        return None
    causes = [cause]
    if trainer.world_size > 1:
        causes = [None] * trainer.world_size
        torch.distributed.all_gather_object(causes, cause)
    return next(filter(None, causes))
