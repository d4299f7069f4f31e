"""Decimation: a Potts model without the couplings that matter least (Barrat-Charlaix et al., 2021)."""

from __future__ import annotations

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.sparse_couplings import SparseCouplings
from ebmlab.settings import require_inside


class Decimation(SparseCouplings):
    """Removes the least informative couplings each time that the target is reached, down to a density.

    A coupling J_ij(a, b) tells as much as the Kullback-Leibler divergence from the model to the model without it. A
    removal takes those that tell least. Training ends at the target with the wanted density.

    Args:
        target: correlation at which couplings are removed, and training ends.
        density: wanted share of couplings.
        share: of the couplings that are left, which one removal takes; one at least.
        pseudo_count: see `StopAtCorrelation`.
        every_n_epochs: see `PeriodicEvaluation`.

    Example:
        >>> removal_loss(torch.tensor([0.0, 1.0]), torch.tensor([0.5, 0.5]))
        tensor([0.0000, 0.1201])
    """

    def __init__(
        self,
        target: float = 0.95,
        *,
        density: float = 0.02,
        share: float = 0.01,
        pseudo_count: float = 0.0,
        every_n_epochs: int = 1,
    ) -> None:
        super().__init__(target, pseudo_count=pseudo_count, every_n_epochs=every_n_epochs)
        require_inside("Decimation", "[0, 1]", density=density, share=share)
        self.density, self.share = density, share

    def arrived(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._surplus() <= 0:
            super().arrived(trainer, pl_module)

    def change(self, learns: Tensor, coupling: Tensor, f: Tensor, p: Tensor) -> None:
        if self.pearson >= self.target:
            loss = removal_loss(coupling, p).masked_fill(~learns, torch.inf).flatten()
            count = min(self._surplus(), max(1, int(self.share * learns.sum())))
            learns.view(-1)[loss.topk(count, largest=False).indices] = False

    def _surplus(self) -> int:
        """Couplings above the wanted density."""
        assert self.learns is not None
        return int(self.learns.sum()) - int(self.density * self.learns.numel())


def removal_loss(coupling: Tensor, p: Tensor) -> Tensor:
    """The divergence KL(P || P') of a model P from P', which lacks one coupling: J p + log(1 - p + p exp(-J)).

    Args:
        coupling: J of each coupling.
        p: the probability under P that both of its values are present.
    """
    return coupling * p + torch.log1p(p * torch.expm1(-coupling))
