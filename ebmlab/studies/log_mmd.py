"""The distance between the chains' states and those of a reference sampler."""

from __future__ import annotations

import torch

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import log_mmd
from ebmlab.samplers import Sampler
from ebmlab.studies.measures import Measure


class LogMMD(Measure):
    """log MMD between the chains' current states and states of a reference sampler (Zhang et al. 2022, Fig. 4).

    Args:
        sampler: the reference sampler, such as BlockGibbs for an RBM.
        num_chains: number of reference chains; each gives one state.
        num_steps: steps of each reference chain, which starts from the domain's reference law.
        seed: of the reference chains.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> energy = RBM(4, 3)
        >>> measure = LogMMD(BlockGibbs(), num_chains=10, num_steps=5)
        >>> measure.prepare(energy)
        >>> measure.update(torch.zeros(10, 4))
        >>> measure.value() > -2
        True
    """

    label = "log MMD"

    def __init__(self, sampler: Sampler, num_chains: int = 500, *, num_steps: int = 5000, seed: int = 1) -> None:
        if num_chains < 2 or num_steps < 1:
            raise UserError(f"LogMMD: num_chains is {num_chains} and num_steps {num_steps}; need 2 and 1 or more")
        self.sampler = sampler
        self.num_chains = num_chains
        self.num_steps = num_steps
        self.seed = seed

    def prepare(self, energy: Energy) -> None:
        torch.manual_seed(self.seed)
        self._reference, _ = self.sampler.sample(
            energy, energy.domain.random(self.num_chains, device=energy.device), self.num_steps
        )
        self._domain = energy.domain if isinstance(energy.domain, Finite) else None

    def value(self) -> float:
        return float(log_mmd(self._x, self._reference.to(self._x), domain=self._domain))

    def summary(self) -> dict[str, float]:
        return {"log_mmd": self.value()}
