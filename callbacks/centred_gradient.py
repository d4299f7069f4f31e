"""Training of RBMs and GRBMs along the centred gradient."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.requirements import energy_of, learner_of
from ebmlab.energies import GRBM, RBM
from ebmlab.errors import UserError
from ebmlab.learners.centring import Offsets, centre_gradient, mean_units
from ebmlab.settings import require_inside


class CentredGradient(pl.Callback):
    """Replaces the gradient by that of an RBM or GRBM whose units are centred (Melchior et al. 2016).

    The offsets are sliding means of the training data and of E[h | v], taken after each step from its batch. A step
    therefore uses offsets that do not depend on its own batch, and the mean centred gradient vanishes where the
    likelihood's does. The first step takes the ordinary gradient. With SGD, training is that of the centred model; Adam
    rescales the centred gradient instead. The offsets are those of all ranks together, and are saved in the checkpoint.

    A normalised gradient needs no callback: SGD with a `trainer.gradient_clip_val` below the gradient's norm is one.

    Args:
        rate: the weight of the latest batch in the sliding means.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> centred = CentredGradient()
        >>> settings = {"max_steps": 2, "log_every_n_steps": 1, "callbacks": [centred]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> trainer.fit(ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData()), Digits(binarize=True))
        >>> centred.offsets[0].shape, centred.offsets[1].shape
        (torch.Size([64]), torch.Size([8]))
    """

    def __init__(self, rate: float = 0.01) -> None:
        require_inside("CentredGradient", "(0, 1]", rate=rate)
        self.rate = rate
        self.offsets: Offsets | None = None
        self._step = 0
        self._batches: list[Offsets] = []

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        self._energy(pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._step, self._batches = trainer.global_step, []

    def on_before_optimizer_step(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, optimizer: torch.optim.Optimizer
    ) -> None:
        energy = self._energy(pl_module)
        if self.offsets is not None:
            u, h = self.offsets
            centre_gradient(energy, (u.to(energy.W), h.to(energy.W)))

    def on_train_batch_end(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        learner = learner_of(pl_module, self)
        self._batches.append(mean_units(self._energy(pl_module), learner.states(batch), learner.weights(batch)))
        if self._step == trainer.global_step:
            return  # the gradient goes on accumulating
        means = [torch.stack(parts).mean(0) for parts in zip(*self._batches, strict=True)]
        new = means[0], means[1]
        self._step, self._batches = trainer.global_step, []
        if trainer.world_size > 1:
            new = tuple(trainer.strategy.reduce(t, reduce_op="mean") for t in new)  # type: ignore[assignment]
        if self.offsets is None:
            self.offsets = new
        else:
            u, h = (old.to(t).lerp(t, self.rate) for old, t in zip(self.offsets, new, strict=True))
            self.offsets = u, h

    def state_dict(self) -> dict[str, Any]:
        return {"offsets": self.offsets}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.offsets = state_dict["offsets"]

    def _energy(self, pl_module: pl.LightningModule) -> RBM | GRBM:
        energy = energy_of(pl_module)
        if not isinstance(energy, RBM | GRBM):
            raise UserError(f"CentredGradient centres RBM and GRBM, not {type(energy).__name__}: remove it")
        return energy
