"""What the messages of `DivergenceGuard` say: where the numbers that are not finite come from, and what to change."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from pytorch_lightning.callbacks import ModelCheckpoint, WeightAveraging
from torch import Tensor

from ebmlab.callbacks.image_log import log_image
from ebmlab.callbacks.requirements import buffer_of, energy_of
from ebmlab.data.interface import Images
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.errors import few
from ebmlab.learners import ContrastiveDivergence
from ebmlab.lightning.run_data import data_of


def show_chains(trainer: pl.Trainer, pl_module: pl.LightningModule) -> str:
    """Draws the replay buffer, if there is one that holds images; returns words that name the file."""
    buffer = buffer_of(pl_module)
    slots = None if buffer is None else buffer.cold(energy_of(pl_module).domain)
    if slots is None:
        return ""
    shown = data_of(trainer).show(slots[:64].float())
    if not isinstance(shown, Images):
        return ""
    path = log_image(trainer, "samples/diverged", panels({"replay buffer": tile(shown.values)}))
    return "" if path is None else f"; {path} shows the replay buffer"


def where(trainer: pl.Trainer) -> str:
    """The step and epoch of the run."""
    return f"step {trainer.global_step}, epoch {trainer.current_epoch}"


def bad_data(batch: Any) -> str | None:
    """What is wrong with a batch; None if all its numbers are finite."""
    if isinstance(batch, list | tuple):
        return next(filter(None, map(bad_data, batch)), None)
    if not isinstance(batch, Tensor) or not batch.is_floating_point() or batch.dim() == 0:
        return None
    count = int((~batch.isfinite()).flatten(1).any(1).sum()) if batch.dim() > 1 else int((~batch.isfinite()).sum())
    return f"{count} of the batch's {len(batch)} examples hold NaN or infinite values: mend the data" if count else None


def not_finite(pl_module: pl.LightningModule) -> str | None:
    """The parameters that are not finite; None if there are none."""
    bad = [name for name, p in pl_module.named_parameters() if not p.isfinite().all()]
    return f"parameter {few(bad)} is not finite: lower the learning rate or clip the gradient" if bad else None


def bad_average(trainer: pl.Trainer) -> str | None:
    """The averaged parameters that are not finite; None if there are none."""
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        average = getattr(callback, "_average_model", None) if isinstance(callback, WeightAveraging) else None
        if average is not None and (bad := not_finite(average.module)):
            return f"in the average of the weights {bad}"
    return None


def mean_energies(pl_module: pl.LightningModule) -> tuple[Tensor, Tensor] | None:
    """The mean energies of the data and of the negatives in the last step, if the learner compares them."""
    return pl_module.energies if isinstance(pl_module, ContrastiveDivergence) else None


def energies_of(pl_module: pl.LightningModule, data: float, negative: float) -> str:
    """The mean energies of a step in words, if the learner compares them."""
    compared = mean_energies(pl_module) is not None
    return f" (energy of data {data:.4g}, of negatives {negative:.4g})" if compared else ""


def advice(pl_module: pl.LightningModule) -> str:
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


def last_good(trainer: pl.Trainer) -> str:
    """The newest checkpoint, in words."""
    paths = [
        c.last_model_path or c.best_model_path for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint)
    ]
    path = next(filter(None, [*paths, trainer.ckpt_path]), None)  # this process may have written none yet
    return f"the last good checkpoint is {path}" if path else "no checkpoint was saved yet"
