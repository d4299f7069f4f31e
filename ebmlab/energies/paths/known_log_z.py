"""An energy whose log Z is known, as the beginning of an annealed path to another one."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.paths.reference import Base
from ebmlab.errors import UserError


class Solved(Base):
    """A model with its log Z and draws from it, such as an earlier checkpoint, from which annealing goes on.

    From one bipartite energy to another with as many hidden units, the path mixes the joint energies, h included.

    Args:
        energy: the model; held, not copied.
        log_z: of the energy, exact or estimated. An error of it is an error of all that is annealed from here.
        samples: draws `(n, *event)` from the model, at least one for each chain, such as those of `exact_samples`. An
            estimate of log Z brings its own: `LogZ.as_base`. The pilot run of an adaptive schedule draws from
            them too.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import ais, exact_log_z, exact_samples
        >>> from ebmlab.samplers import Gibbs
        >>> warm, cold = Ising.lattice(3, 0.3), Ising.lattice(3, 0.4)
        >>> base = Solved(warm, float(exact_log_z(warm)), samples=exact_samples(warm, 200))
        >>> found = ais(cold, Gibbs(), num_chains=200, num_temperatures=10, base=base)
        >>> abs(found.log_z - float(exact_log_z(cold))) < 0.3
        True
    """

    samples: Tensor

    def __init__(self, energy: Energy, log_z: float, *, samples: Tensor) -> None:
        super().__init__()
        samples = energy.as_states(samples)
        energy.domain.validate(samples)
        self.domain = energy.domain
        self.energy = energy
        self._log_z = float(log_z)
        self.register_buffer("samples", samples, persistent=False)

    @property
    def log_z(self) -> float:
        return self._log_z

    def sample(self, n: int) -> Tensor:
        """Different ones of the samples, at random."""
        if n > len(self.samples):
            raise UserError(f"Solved: {n} chains need as many samples to start from, but there are {len(self.samples)}")
        return self.samples[torch.randperm(len(self.samples), device=self.samples.device)[:n]]

    def forward(self, x: Tensor) -> Tensor:
        energies: Tensor = self.energy(x)
        return energies

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.energy.value_and_grad(x)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self.energy.flip_differences(x, index)

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self.energy.value_differences(x, index)
