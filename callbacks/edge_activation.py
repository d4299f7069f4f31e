"""Edge activation: a Potts model on as few pairs as suffice (Calvanese et al., 2024)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.callbacks.sparse_couplings import SparseCouplings
from ebmlab.settings import require_inside


class EdgeActivation(SparseCouplings):
    """Starts without couplings, and lets those of the most misrepresented pairs learn, until the target is reached.

    A pair (i, j) is misrepresented by the Kullback-Leibler divergence of p_ij, of the chains, from f_ij, of the data.
    This is what the log-likelihood gains by the best couplings of that pair, all others being kept. The paper takes
    these couplings, log(f_ij / p_ij), of one pair at a time. Here `BoltzmannLearning` finds those of all active pairs.
    `Potts.of(energy.couplings(), energy.field)` is the result on its graph alone.

    Args:
        target: training ends at this correlation or above.
        share: of the inactive pairs, which one activation adds; one pair at least.
        pseudo_count: see `StopAtCorrelation`.
        every_n_epochs: epochs between two activations, in which the active couplings learn.

    Example:
        >>> f = torch.tensor([[[0.5, 0.0], [0.0, 0.5]], [[0.25, 0.25], [0.25, 0.25]]])
        >>> activation_gain(f, torch.full((2, 2, 2), 0.25))
        tensor([0.6931, 0.0000])
    """

    def __init__(
        self, target: float = 0.95, *, share: float = 0.01, pseudo_count: float = 0.0, every_n_epochs: int = 1
    ) -> None:
        super().__init__(target, pseudo_count=pseudo_count, every_n_epochs=every_n_epochs)
        require_inside("EdgeActivation", "[0, 1]", share=share)
        self.share = share

    def first(self, coupling: Tensor) -> Tensor:
        return torch.zeros_like(coupling, dtype=torch.bool)

    def change(self, learns: Tensor, coupling: Tensor, f: Tensor, p: Tensor) -> None:
        active = learns.flatten(1).any(1)
        inactive = int((~active).sum())
        gains = activation_gain(f, p).masked_fill(active, -torch.inf)
        learns[gains.topk(min(inactive, max(1, round(self.share * inactive)))).indices] = True


def activation_gain(f: Tensor, p: Tensor) -> Tensor:
    """What the log-likelihood gains by the best couplings of one pair: sum of f log(f / p) over values, `(P,)`.

    Args:
        f: the pair's law in the data, `(P, q, q)`.
        p: in the model.
    """
    return (torch.xlogy(f, f) - torch.xlogy(f, p)).flatten(1).sum(1)
