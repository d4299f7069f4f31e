"""A closed-form estimate as the starting parameters of a fit."""

from __future__ import annotations

from typing import Literal

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.requirements import energy_of
from ebmlab.data.weighted import weighted_states
from ebmlab.energies import Ising, Potts
from ebmlab.errors import UserError
from ebmlab.learners.closed_form import independent_, mean_field_, tap_
from ebmlab.lightning.run_data import data_of
from ebmlab.settings import require_choice, require_inside

METHODS = {"independent": independent_, "mean_field": mean_field_, "tap": tap_}


class ClosedForm(pl.Callback):
    """Starts a `Potts` or `Ising` energy from an estimate in closed form, before the first step of a new run.

    Data count by their weights. A resumed run keeps its parameters.

    Args:
        method: `independent` takes the fields that reproduce the data's means, and no couplings. `mean_field` is the
            naive mean-field estimate, `tap` that of Thouless, Anderson and Palmer. `tap` is for `Ising` alone, as its
            second-order equations have no closed form for more than two values. All are functions in
            `ebmlab.learners.closed_form`.
        pseudo_count: the share of the uniform law that is mixed into the data's; above 0 and below 1.

    Raises:
        UserError: the method does not suit the energy.

    Example:
        >>> from ebmlab.datamodules import IsingSamples
        >>> from ebmlab.learners import RatioMatching
        >>> trainer = pl.Trainer(max_steps=0, barebones=True, callbacks=[ClosedForm("tap", pseudo_count=0.1)])
        >>> learner = RatioMatching(Ising.learnable(9))
        >>> trainer.fit(learner, IsingSamples(side=3, num_samples=100, num_sweeps=5, root="."))
        >>> bool(learner.energy.coupling.any())
        True
    """

    def __init__(
        self,
        method: Literal["independent", "mean_field", "tap"] = "mean_field",
        *,
        pseudo_count: float = 0.5,
    ) -> None:
        require_choice("ClosedForm", METHODS, method=method)
        require_inside("ClosedForm", "(0, 1)", pseudo_count=pseudo_count)
        self.method = method
        self.pseudo_count = pseudo_count

    @torch.no_grad()
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        energy = energy_of(pl_module)
        learns = isinstance(energy, Potts) or (isinstance(energy, Ising) and energy.learn)
        if not learns or (self.method == "tap" and not isinstance(energy, Ising)):
            needed = "an Ising" if self.method == "tap" else "a Potts or Ising"
            hint = ': take method "mean_field"' if learns else ""
            raise UserError(
                f'ClosedForm: method "{self.method}" needs {needed} energy that learns, got '
                f"{type(energy).__name__}{hint}"
            )
        if trainer.ckpt_path is not None:
            return
        x, weights = weighted_states(data_of(trainer), "train")
        x = x.reshape(len(x), *energy.domain.event_shape)
        METHODS[self.method](energy, x.to(energy.device), weights, self.pseudo_count)
