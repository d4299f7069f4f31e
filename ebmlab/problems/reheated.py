"""Annealing that reheats chains which wander or freeze (ReSCO: Li & Zhang, TMLR 2025, arXiv 2503.04047)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.problems.annealing import Schedule
from ebmlab.settings import require_count

LOOKS = 10  # at the chains in a row, whose energies give a specific heat: 100 steps, as in the paper
CALM = 0.01  # share of the variance at the highest specific heat, below which energies are nearly constant


@dataclass(frozen=True)
class Reheated:
    """A schedule from which `minimise` goes back to the beta of the highest specific heat when chains get nowhere.

    Cold chains wander among states of nearly the same energy, or freeze. The specific heat beta^2 Var(E) is highest
    where the structure of the low states is decided. Chains that stand still go back there and come down again. They do
    so along the steps that are left, or with `seconds` along twice as many as before.

    The variance is that of each chain's energies at the last ten looks about a falling line, in the mean over chains.
    So neither the fall adds to it, nor chains that have frozen in different valleys. Chains stand still if it is below
    a hundredth of that at the peak, and the lowest energy has not improved for some steps. All go back together. In the
    paper each chain goes back by itself, once its energy has stayed the same for 100 steps.

    Args:
        schedule: of the first descent.
        patience: steps without an improvement.

    Raises:
        UserError: the patience is no positive whole number.

    Example:
        >>> from ebmlab.problems import Geometric, minimise, plus_minus_j
        >>> from ebmlab.samplers import ChromaticMetropolis
        >>> schedule = Reheated(Geometric(0.1, 10.0), patience=50)
        >>> found = minimise(plus_minus_j(6), ChromaticMetropolis(), schedule, num_chains=20, num_steps=1000)
        >>> found.heat.returns > 0 and 0.2 < schedule.beta(found.heat.peak) < 1.2
        True
    """

    schedule: Schedule
    patience: int = 100

    def __post_init__(self) -> None:
        require_count("Reheated", patience=self.patience)

    def beta(self, progress: float) -> float:
        return self.schedule.beta(progress)


@dataclass(frozen=True, kw_only=True)
class Heat:
    """What has been measured along a reheated schedule.

    Attributes:
        height: the highest specific heat of the first descent; 0 before the first that counts.
        peak: the progress where it was.
        variance: of the energies of a chain there.
        returns: how often the chains have gone back there.
        lowest: the lowest energy of all chains.
        calm: steps since that improved, or since the last return.
        looks: since the start of this descent.
        progress: of the last ten of them.
        energies: of the chains at these, `(looks, B)`.

    Example:
        >>> Heat(height=2.0, peak=0.5, returns=1, looks=10).returned().returns
        2
    """

    height: float = 0.0
    peak: float = 0.0
    variance: float = 0.0
    returns: int = 0
    lowest: float = math.inf
    calm: int = 0
    looks: int = 0
    progress: tuple[float, ...] = ()
    energies: Tensor | None = None

    def looked(self, schedule: Reheated, energies: Tensor, *, progress: float, lowest: float, steps: int) -> Heat:
        """What is known after some more steps, with the chains' energies `(B,)` and the lowest one so far."""
        rows = energies.unsqueeze(0)
        rows = rows if self.energies is None else torch.cat([self.energies, rows])[-LOOKS:]
        new = replace(
            self,
            lowest=lowest,
            calm=0 if lowest < self.lowest else self.calm + steps,
            looks=self.looks + 1,
            progress=(*self.progress, progress)[-LOOKS:],
            energies=rows,
        )
        if self.returns or new.looks < 2 * LOOKS:  # the first ten see the fall from random states
            return new
        middle = (new.progress[0] + progress) / 2
        height = schedule.beta(min(1.0, middle)) ** 2 * new.spread
        return replace(new, height=height, peak=middle, variance=new.spread) if height > self.height else new

    @property
    def spread(self) -> float:
        """The variance of a chain's energies at the last looks about a line, as they fall; mean over chains."""
        assert self.energies is not None
        rows = self.energies.double()
        rows = rows - rows.mean(0)
        time = torch.linspace(-1, 1, LOOKS, dtype=rows.dtype, device=rows.device)
        falling = (time @ rows) ** 2 / (time @ time)
        return float(((rows**2).sum(0) - falling).mean()) / (LOOKS - 2)

    def stalled(self, patience: int) -> bool:
        """Whether the chains wander or have frozen."""
        return self.height > 0 and self.calm >= patience and self.looks >= LOOKS and self.spread <= CALM * self.variance

    def returned(self) -> Heat:
        """What is known when the chains have gone back to the peak."""
        return replace(self, returns=self.returns + 1, calm=0, looks=0, progress=(), energies=None)
