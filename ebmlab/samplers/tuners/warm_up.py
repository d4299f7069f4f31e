"""Stan's warm-up: the step size and the metric of Hamiltonian kernels, in windows that double."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.hmc import HMC
from ebmlab.samplers.metric import length_unit
from ebmlab.samplers.nuts import NUTS
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.dual_averaging import DualAveraging
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.samplers.underdamped_langevin import UnderdampedLangevin

FIRST, LAST, WINDOW = 0.15, 0.2, 25  # parts of all steps before and after the windows, and steps of the first window
AGAIN = 0.5  # the first step in a new metric, in which variances are 1
PRIOR = 5.0  # draws for which the guess that nothing is correlated counts
FEWEST = 20


@dataclass(frozen=True)
class WarmUp(Tuner):
    """Finds the step size and the metric of `HMC`, `NUTS` or an adjusted `UnderdampedLangevin`.

    The chains come down to typical states in the first 15 % of the steps. Then each of several windows, of 25, 50,
    100, ... steps, sets the metric to the spread of its states, of all chains and steps together. The last 20 % serve
    the step size alone, which `DualAveraging` follows throughout (Stan Reference Manual, Sec. on HMC algorithm
    parameters). Correlations are shrunk as if 5 more draws had shown none.

    Args:
        rate: the acceptance that the step sizes aim at.
        dense: find a Cholesky factor of the covariance, and not a standard deviation for each coordinate. It pays where
            coordinates are correlated, and costs two products of `(B, size)` with `(size, size)` a leapfrog step.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import NUTS
        >>> from ebmlab.samplers.tuners import WarmUp
        >>> energy = RealMLP(2)
        >>> tuned, x = WarmUp().tune(NUTS(0.1), energy, energy.random(10), num_steps=60)
        >>> tuned.scale.shape
        torch.Size([2])
    """

    rate: float = 0.8
    dense: bool = False

    def __post_init__(self) -> None:
        DualAveraging(self.rate)

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, HMC | NUTS | UnderdampedLangevin):
            raise UserError(
                f"WarmUp tunes HMC, NUTS and UnderdampedLangevin, not {type(sampler).__name__}, which has no metric"
            )
        if not sampler.exact:
            raise UserError("WarmUp: unadjusted steps have no acceptance to aim at; set adjusted: true")
        if num_steps is not None and num_steps < FEWEST:
            raise UserError(f"WarmUp: num_steps is {num_steps}, but its windows take at least {FEWEST}")

    def _tune(
        self, sampler: HMC | NUTS | UnderdampedLangevin, energy: Energy, x: Tensor, num_steps: int
    ) -> tuple[Sampler, Tensor]:
        steps = DualAveraging(self.rate)
        first, last = round(FIRST * num_steps), round(LAST * num_steps)
        x = steps.search(sampler, energy, x, first)
        for window in windows(num_steps - first - last):
            spread = Spread(energy.domain, x, self.dense)
            x = steps.search(sampler, energy, x, window, observe=spread.add)
            sampler.scale = spread.scale()
            sampler.step_size = torch.full_like(sampler.step_size, AGAIN) / length_unit(energy)
        return sampler, steps.search(sampler, energy, x, last)


def windows(num_steps: int) -> list[int]:
    """Lengths that double and add up to a number of steps; the last one takes what is left of them."""
    lengths: list[int] = []
    rest = num_steps
    while rest > 0:
        length = WINDOW * 2 ** len(lengths)
        lengths.append(rest if rest < 3 * length else length)
        rest -= lengths[-1]
    return lengths


class Spread:
    """Sums over draws, which determine their variances or their covariance.

    Args:
        domain: of the draws.
        x: draws, `(B, *event)`; sums are taken of differences from their mean, which round less.
        dense: whether to add up all products.
    """

    def __init__(self, domain: Domain, x: Tensor, dense: bool) -> None:
        self.domain, self.x, self.dense = domain, x, dense
        self.origin = x.flatten(1).double().mean(0)
        self.count, self.sums = 0, torch.zeros_like(self.origin)
        self.squares = torch.zeros(*[len(self.sums)] * (1 + dense), dtype=torch.float64, device=x.device)

    def add(self, x: Tensor) -> None:
        """Counts draws `(B, *event)`."""
        d = x.flatten(1).double() - self.origin
        self.count += len(d)
        self.sums += d.sum(0)
        self.squares += d.T @ d if self.dense else d.square().sum(0)

    def scale(self) -> Tensor:
        """Standard deviations in the shape of the domain, or a Cholesky factor `(size, size)`."""
        mean = self.sums / self.count
        if self.dense:
            covariance = self.squares / self.count - torch.outer(mean, mean)
            shrunk = covariance * (self.count / (self.count + PRIOR))
            factor = torch.linalg.cholesky_ex(shrunk + (covariance - shrunk).diagonal().diag())[0]
            return self._moving(factor, factor.diagonal())
        stds = (self.squares / self.count - mean.square()).sqrt()
        return self._moving(stds.view(self.domain.event_shape), stds)

    def _moving(self, scale: Tensor, stds: Tensor) -> Tensor:
        """The scale in the type of the states; `UserError` unless it is finite and its standard deviations positive."""
        if not (scale.isfinite().all() and (stds > 0).all()):
            raise UserError("WarmUp: the chains do not move, or are not finite; start from other states")
        return scale.to(self.x.dtype)
