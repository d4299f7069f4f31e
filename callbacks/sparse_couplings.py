"""What activation and decimation share: which couplings of a Potts model learn."""

from __future__ import annotations

from typing import Any, cast

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.requirements import of_all_ranks
from ebmlab.callbacks.stop_at_correlation import StopAtCorrelation
from ebmlab.energies import Potts
from ebmlab.errors import UserError
from ebmlab.learners import BoltzmannLearning


class SparseCouplings(StopAtCorrelation):
    """Changes which couplings learn after an evaluation that does not end training; the others are 0.

    Logs the share of those that learn as `correlation/density`. They are part of a checkpoint.

    Attributes:
        learns: as `BoltzmannLearning.learns`; None before training.
    """

    learns: Tensor | None = None

    def change(self, learns: Tensor, coupling: Tensor, f: Tensor, p: Tensor) -> None:
        """Changes `learns` in place.

        Args:
            learns: see `BoltzmannLearning`, `(P, q, q)`, bool.
            coupling: J, alike in shape.
            f: pair statistics of the data.
            p: those of the chains.
        """
        raise NotImplementedError

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if not (isinstance(pl_module, BoltzmannLearning) and isinstance(pl_module.energy, Potts)):
            name = type(self).__name__
            raise UserError(f"{name} needs BoltzmannLearning of a Potts energy: use these, or remove {name}")
        super().check(trainer, pl_module)

    def active(self) -> float:
        """The share of couplings that learn."""
        return 1.0 if self.learns is None else float(self.learns.float().mean())

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().evaluate(trainer, pl_module)
        self.log_metrics(trainer, pl_module, {"correlation/density": self.active()})

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._apply(pl_module)
        super().on_train_start(trainer, pl_module)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self._apply(pl_module)  # an optimizer's momentum moves couplings that no longer learn

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().on_train_epoch_end(trainer, pl_module)
        if self._last_step != trainer.global_step or trainer.should_stop:
            return
        learner = cast(BoltzmannLearning, pl_module)
        f, p = learner.pair_moments()
        assert self.learns is not None
        self.change(self.learns, self._coupling(learner), f, of_all_ranks(learner, p.unsqueeze(0)).mean(0))
        self._apply(learner)

    def state_dict(self) -> dict[str, Any]:
        return {**super().state_dict(), "learns": self.learns}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self.learns = state_dict["learns"]

    def first(self, coupling: Tensor) -> Tensor:
        """Which couplings learn at first."""
        return torch.ones_like(coupling, dtype=torch.bool)

    def _apply(self, module: pl.LightningModule) -> None:
        """Tells the learner which couplings learn, and sets the others to 0."""
        learner = cast(BoltzmannLearning, module)
        coupling = self._coupling(learner)
        learns = self.first(coupling) if self.learns is None else self.learns
        learner.learns = self.learns = learns.to(coupling.device)
        coupling.mul_(self.learns)

    def _coupling(self, learner: BoltzmannLearning) -> Tensor:
        return cast(Potts, learner.energy).coupling.detach()
