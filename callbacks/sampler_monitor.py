"""The numbers on which a sampler's health hangs."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from torch import Tensor


class SamplerMonitor(pl.Callback):
    """Logs the step size in absolute units and, of a GRBM, the spread of the variances it has to fit.

    Metrics, where there is something to log: `sampler/step_size` (the setting times `energy.step_unit()`),
    `sampler/alpha_max` (of `PersistentACS`),
    `sampler/log_var_mean`, `sampler/log_var_min`, `sampler/log_var_max`. The learner itself logs
    `sampler/acceptance` and `sampler/hops`.
    """

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        energy: Any = pl_module.energy
        metrics: dict[str, Tensor] = {}
        step_size = getattr(getattr(pl_module, "sampler", None), "step_size", None)
        if step_size is not None:
            metrics["sampler/step_size"] = (step_size * energy.step_unit()).detach().mean()
        alpha_max = getattr(getattr(pl_module, "sampler", None), "alpha_max", None)
        if isinstance(alpha_max, Tensor):
            metrics["sampler/alpha_max"] = alpha_max
        log_var = getattr(energy, "log_var", None)
        if isinstance(log_var, Tensor):
            log_var = log_var.detach()
            metrics |= {f"sampler/log_var_{name}": getattr(log_var, name)() for name in ("mean", "min", "max")}
        pl_module.log_dict(metrics)
