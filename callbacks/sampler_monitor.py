"""Logs the settings on which the sampler's stability depends."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor


class SamplerMonitor(pl.Callback):
    """Logs the step size in absolute units and, for a GRBM, the range of its variances.

    The metrics are `sampler/step_size`, `sampler/alpha_max` (of `PersistentACS`), `sampler/log_var_mean`,
    `sampler/log_var_min` and `sampler/log_var_max`, each if the run has it. The step size is that of the training step,
    if it is a number, times `energy.step_unit()`. The learner itself logs `sampler/acceptance` and `sampler/hops`.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import GibbsLangevin
        >>> quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        >>> trainer = pl.Trainer(max_steps=1, callbacks=[SamplerMonitor()], **quiet)
        >>> trainer.fit(ContrastiveDivergence(GRBM(64, 16), GibbsLangevin(0.1)), Digits())
        >>> round(float(trainer.callback_metrics["sampler/step_size"]), 3)
        0.1
    """

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        energy: Any = pl_module.energy
        metrics: dict[str, Tensor] = {}
        step_size = _numbers(getattr(getattr(pl_module, "sampler", None), "step_size", None), pl_module.device)
        if step_size is not None:
            factor = getattr(pl_module, "step_factor", 1.0)  # of `AnnealedSteps`
            metrics["sampler/step_size"] = (factor * step_size * energy.step_unit()).mean()
        alpha_max = getattr(getattr(pl_module, "sampler", None), "alpha_max", None)
        if isinstance(alpha_max, Tensor):
            metrics["sampler/alpha_max"] = alpha_max
        log_var = getattr(energy, "log_var", None)
        if isinstance(log_var, Tensor):
            metrics |= {f"sampler/log_var_{name}": getattr(log_var, name)() for name in ("mean", "min", "max")}
        pl_module.log_dict(metrics)


def _numbers(value: Any, device: torch.device) -> Tensor | None:
    """A number, a list of numbers or a tensor as a tensor; None for anything else, such as "auto"."""
    try:
        found = torch.as_tensor(value, device=device)
    except (TypeError, ValueError, RuntimeError):
        return None
    return found if found.is_floating_point() else found.float()
