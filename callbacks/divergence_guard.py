"""Stops a run at the first number that is not finite, before it reaches the parameters."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint, WeightAveraging
from torch import Tensor

from callbacks.image_log import log_image
from callbacks.requirements import buffer_of
from ebmlab.data import Images
from ebmlab.domains import Finite
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, Learner
from ebmlab.plain_data import data_of

MAX_LOST = 30  # a loss scaler that starts at 2**16 has halved its scale that often


class DivergenceGuard(pl.Callback):
    """Raises `UserError` as soon as the loss or a gradient is NaN or infinite, or data and negatives drift apart.

    It checks between backward and the optimizer's step, while the parameters are still the last good ones, and again
    before a checkpoint is written. The message names the step, the cause (data, parameters or the sampler's negatives)
    and the last checkpoint. A replay buffer of images is shown in `samples/diverged`. The checks take one device
    synchronisation per optimizer step.

    Args:
        max_gap: largest difference between the mean energies of data and negatives, in nats per coordinate of an event;
            for contrastive learners. It is near 0 in a good fit, and runs beyond this limit do not recover.

    Example:
        >>> DivergenceGuard(max_gap=0.0)
        Traceback (most recent call last):
        ebmlab.errors.UserError: DivergenceGuard: max_gap is 0.0; it must be above 0, or .inf for no limit
    """

    def __init__(self, max_gap: float = 100.0) -> None:
        if not max_gap > 0:
            raise UserError(f"DivergenceGuard: max_gap is {max_gap}; it must be above 0, or .inf for no limit")
        self.max_gap = max_gap
        self._batch: Any = None
        self._loss: Tensor | None = None
        self._lost = 0  # steps in a row whose gradients float16 could not hold

    def on_train_batch_start(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, batch: Any, batch_idx: int
    ) -> None:
        self._batch = batch

    def on_before_backward(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor) -> None:
        self._loss = loss.detach() if self._loss is None else self._loss + loss.detach()  # accumulated batches too

    def on_before_optimizer_step(self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: Any) -> None:
        loss, self._loss = self._loss, None
        grads = [p.grad for p in pl_module.parameters() if p.grad is not None]
        norm = torch.nn.utils.get_total_norm(grads) if grads else torch.zeros(())  # the one that clipping divides by
        value = torch.zeros_like(norm) if loss is None else loss.to(norm)
        data, negative = _mean_energies(pl_module) or (torch.zeros_like(norm), torch.zeros_like(norm))
        numbers = torch.stack([norm, value, data.to(norm), negative.to(norm)])
        at_norm, at_loss, at_data, at_negative = numbers.tolist()
        scaled = getattr(trainer.precision_plugin, "scaler", None) is not None
        half = scaled or any(p.dtype == torch.float16 for p in pl_module.parameters())
        lost = half and grads and (at_norm == 0 or (scaled and not math.isfinite(at_norm)))
        self._lost = self._lost + 1 if lost else 0
        if self._lost > MAX_LOST:
            raise UserError(self._underflow(trainer))
        if not math.isfinite(at_loss) or not (scaled or math.isfinite(at_norm)):  # a scaler skips those steps itself
            raise UserError(self._report(trainer, pl_module, loss))
        if abs(at_negative - at_data) > self._limit(pl_module):
            raise UserError(self._drifted(trainer, pl_module, at_data, at_negative))

    def _limit(self, pl_module: pl.LightningModule) -> float:
        if not isinstance(pl_module, ContrastiveDivergence):
            return math.inf
        return self.max_gap * math.prod(pl_module.energy.domain.event_shape)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self._batch = None

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        if bad := _not_finite(pl_module) or _bad_average(trainer):
            raise UserError(f"{_where(trainer)}: {bad}, so that no checkpoint was written; {_last_good(trainer)}")

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """The averaged weights are looked at before anything is evaluated with them."""
        if bad := _bad_average(trainer):
            raise UserError(f"{_where(trainer)}: {bad}; {_last_good(trainer)}")

    @staticmethod
    def _underflow(trainer: pl.Trainer) -> str:
        precision = trainer.precision
        return (
            f"{_where(trainer)}: {MAX_LOST} steps in a row changed nothing, because float16 cannot hold the gradients "
            f"(precision is {precision}): set --trainer.precision {str(precision).replace('16', 'bf16')}, or 32-true; "
            f"{_last_good(trainer)}"
        )

    def _drifted(self, trainer: pl.Trainer, pl_module: pl.LightningModule, data: float, negative: float) -> str:
        picture = _show_chains(trainer, pl_module)
        return (
            f"{_where(trainer)}: the energies of data ({data:.4g}) and negatives "
            f"({negative:.4g}) have drifted {abs(negative - data):.4g} apart, over {self.max_gap:g} per coordinate: "
            f"lower the learning rate, or use more sampling steps; training stopped before this step was taken, "
            f"{_last_good(trainer)}{picture}"
        )

    def _report(self, trainer: pl.Trainer, pl_module: pl.LightningModule, loss: Tensor | None) -> str:
        culprit = _bad_data(self._batch) or _not_finite(pl_module) or self._bad_gradients(pl_module, loss)
        picture = _show_chains(trainer, pl_module)
        return (
            f"{_where(trainer)}: {culprit}; training stopped before this step was taken{_energies(pl_module)}, "
            f"{_last_good(trainer)}{picture}"
        )

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
        what = f"the gradient of {_few(bad)}" if bad else f"the loss ({value})"
        if isinstance(pl_module, Learner) and isinstance(pl_module.energy.domain, Finite):
            cause = "the energies overflow; lower the learning rate or clip the gradient"
        else:
            cause = f"the sampler's negatives ran away{_hint(pl_module)}"
        return f"{what} is not finite though data and parameters are: {cause}"


def _show_chains(trainer: pl.Trainer, pl_module: pl.LightningModule) -> str:
    """Draws the replay buffer, if there is one that holds images; returns words that name the file."""
    buffer = buffer_of(pl_module)
    if buffer is None or buffer.slots is None:
        return ""
    shown = data_of(trainer).show(buffer.slots[:64].float())
    if not isinstance(shown, Images):
        return ""
    path = log_image(trainer, "samples/diverged", panels({"replay buffer": tile(shown.values)}))
    return "" if path is None else f"; {path} shows the replay buffer"


def _where(trainer: pl.Trainer) -> str:
    return f"step {trainer.global_step}, epoch {trainer.current_epoch}"


def _bad_data(batch: Any) -> str | None:
    if isinstance(batch, list | tuple):
        return next(filter(None, map(_bad_data, batch)), None)
    if not isinstance(batch, Tensor) or not batch.is_floating_point() or batch.dim() == 0:
        return None
    count = int((~batch.isfinite()).flatten(1).any(1).sum()) if batch.dim() > 1 else int((~batch.isfinite()).sum())
    return f"{count} of the batch's {len(batch)} examples hold NaN or infinite values: mend the data" if count else None


def _not_finite(pl_module: pl.LightningModule) -> str | None:
    bad = [name for name, p in pl_module.named_parameters() if not p.isfinite().all()]
    return f"parameter {_few(bad)} is not finite: lower the learning rate or clip the gradient" if bad else None


def _bad_average(trainer: pl.Trainer) -> str | None:
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        average = getattr(callback, "_average_model", None) if isinstance(callback, WeightAveraging) else None
        if average is not None and (bad := _not_finite(average.module)):
            return f"in the average of the weights {bad}"
    return None


def _few(names: list[str]) -> str:
    return ", ".join(names[:3]) + (f" and {len(names) - 3} more" if len(names) > 3 else "")


def _mean_energies(pl_module: pl.LightningModule) -> tuple[Tensor, Tensor] | None:
    """The mean energies of the data and of the negatives in the last step, if the learner compares them."""
    return pl_module.energies if isinstance(pl_module, ContrastiveDivergence) else None


def _energies(pl_module: pl.LightningModule) -> str:
    energies = _mean_energies(pl_module)
    return "" if energies is None else " (energy of data {:.4g}, of negatives {:.4g})".format(*map(float, energies))


def _hint(pl_module: pl.LightningModule) -> str:
    """Advice on the step size, which must be below the bound under which Langevin steps on a Gaussian contract."""
    step_size, log_var = (
        getattr(getattr(pl_module, part, None), name, None)
        for part, name in (("sampler", "step_size"), ("energy", "log_var"))
    )
    if step_size is None:
        return ""
    if not isinstance(log_var, Tensor):
        return ", try a smaller step_size"
    variance = log_var.detach().exp()
    bound, size = float(2 * variance.min() / variance.mean()), float(step_size)
    if size < bound:
        return ", try a smaller step_size or learning rate"
    return f", for step_size is {size:.4g} and must stay below 2 * smallest / mean variance = {bound:.4g}"


def _last_good(trainer: pl.Trainer) -> str:
    paths = [
        c.last_model_path or c.best_model_path for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)
    ]
    path = next(filter(None, paths), None)
    return f"the last good checkpoint is {path}" if path else "no checkpoint was saved yet"
