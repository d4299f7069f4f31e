"""The mean energy over many states as a differentiable number, in memory that does not grow with their number."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.energies.accumulated import Accumulated


class AverageEnergy:
    """Mean of E(x) over every state that was added; its gradient is the mean of dE/dparameters.

    A contrastive gradient is the gradient of the difference of two of these (GRBM paper, Eq. 13 and 18).
    States are differentiated as they come and then forgotten.
    """

    def __init__(self, energy: nn.Module) -> None:
        self._energy = energy
        self._sum = Accumulated(energy.parameters())
        self._count = 0

    def add(self, x: Tensor, hidden: Tensor | None = None) -> None:
        """Adds states `(B, *event)`.

        With `hidden`, of bipartite energies, the mean is that of E(v, h): given E[h | v], its gradient is the same.
        """
        joint = getattr(self._energy, "joint_energy", None)
        if hidden is not None and joint is None:
            raise TypeError(f"{type(self._energy).__name__} has no hidden units")
        with torch.inference_mode(False), torch.enable_grad():
            x = x.detach().clone()
            value = self._energy(x) if hidden is None or joint is None else joint(x, hidden.detach().clone())
            self._sum.add(value.sum())
        self._count += len(x)

    def value(self) -> Tensor:
        """The mean, a scalar whose gradient with respect to the parameters is the mean gradient."""
        return self._sum.value() / self._count
