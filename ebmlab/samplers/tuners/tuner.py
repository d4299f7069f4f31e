"""A tuner runs a sampler's chains for a while and returns a frozen sampler with better settings."""

from __future__ import annotations

import copy
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.io.rebuilding import Recorded
from ebmlab.samplers.sampler import Sampler


class Tuner(Recorded):
    """Finds settings of a sampler. During tuning the chains need not follow the target; use only samples drawn later.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import TargetAcceptance, Tuner
        >>> tuner: Tuner = TargetAcceptance()
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = tuner.tune(DMALA(0.2), ising, ising.domain.random(9), num_steps=10)
        >>> x.shape
        torch.Size([9, 9])
    """

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        """Raises `UserError` if the sampler lacks the settings to tune, or `num_steps` is too small to find them."""
        raise NotImplementedError

    def check_energy(self, energy: Energy) -> None:
        """Raises `UserError` if the tuner does not support the energy."""

    @torch.no_grad()
    def tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        """Tunes while all chains take `num_steps` steps from x `(B, *event)`.

        Returns:
            A copy of the sampler with the settings found (the argument is not changed), and the chains' last x.
        """
        self.check(sampler, num_steps)
        self.check_energy(energy)
        x = sampler.check_chains(energy, x, num_steps)
        return self._tune(copy.deepcopy(sampler), energy, x, num_steps)

    def _tune(self, sampler: Any, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        """`tune` for arguments that have been checked and a sampler that may be changed."""
        raise NotImplementedError
