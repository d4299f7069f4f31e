"""Random-walk Metropolis, whose proposals do not use the energy: the baseline of the discrete samplers."""

from __future__ import annotations

import math
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.native import uniform
from ebmlab.samplers.blocks import place, random_block, uniform_index, values_at
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.proposals import Draw, Proposal
from ebmlab.samplers.state import EnergyState
from ebmlab.settings import require_count


class RandomWalk(MetropolisSampler):
    """Random-walk Metropolis (Metropolis et al. 1953; RWM in Sun et al. 2023): the gradient is never evaluated.

    A step changes some coordinates, each to a uniformly chosen other value. On a domain with two values, a fixed even
    `num_flips` never changes the parity of the number of ones. Chains then see only half of the space. An odd
    `num_flips` changes the parity at every accepted step. Chains on a nearly flat law then alternate between the two
    halves, and only averages over steps converge.

    Args:
        num_flips: number of coordinates that change; they are chosen uniformly.
        probability: probability with which each coordinate changes, independently, instead of a fixed number (tunable
            buffer).
        window: change coordinates only to values within this distance; Ordinal domains only.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import RandomWalk
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = RandomWalk(num_flips=2).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    probability: Tensor | None

    def __init__(self, num_flips: int = 1, probability: float | None = None, *, window: int | None = None) -> None:
        super().__init__()
        require_count("RandomWalk", num_flips=num_flips)
        if probability is not None and not 0 < probability <= 1:
            raise UserError(f"RandomWalk: probability is {probability}, but must be above 0 and at most 1")
        if window is not None and window < 1:
            raise UserError(f"RandomWalk: window is {window}, but must be at least 1, or null for all values")
        setting = None if probability is None else torch.tensor(float(probability))
        self.register_buffer("probability", setting, persistent=False)
        self.num_flips = num_flips
        self.window = window

    def check(self, energy: Energy) -> None:
        super().check(energy)
        domain = cast(Finite, energy.domain)
        if self.probability is None and self.num_flips > domain.size:
            raise UserError(f"RandomWalk: num_flips is {self.num_flips}, but {domain} has {domain.size} coordinates")
        if self.window is not None and not isinstance(domain, Ordinal):
            raise UserError(f"RandomWalk: a window needs an Ordinal domain, but {type(energy).__name__} is on {domain}")

    def evaluate(self, energy: Energy, x: Tensor, known: PerChain | None = None) -> EnergyState:
        return EnergyState(x=x, energy=energy(x))

    def proposal(self, energy: Energy, state: EnergyState) -> Proposal:
        domain = cast(Finite, energy.domain)
        fixed = self.num_flips if domain.num_values > 1 else 0  # with only one value nothing can change
        rate = None if domain.num_values == 1 else self.probability
        return BlindChanges(domain, state.x, fixed, rate, self.window)


class BlindChanges(Proposal):
    """Some coordinates of x take other values, independently of the energy.

    Args:
        domain: where x lives.
        x: `(B, *event)`.
        num_changes: number of coordinates that change, if `probability` is None.
        probability: probability with which each coordinate changes, or None.
        window: as in `RandomWalk`.
    """

    def __init__(
        self, domain: Finite, x: Tensor, num_changes: int, probability: Tensor | None, window: int | None
    ) -> None:
        self.domain, self.x, self.num_changes = domain, x, num_changes
        self.probability, self.window = probability, window

    def sample(self) -> Draw:
        domain, x = self.domain, self.x
        if self.probability is None:
            block = random_block(domain, x, self.num_changes)
            y = place(domain, x, block, self._other(values_at(domain, x, block)).unsqueeze(1))
            number = x.new_full((len(x),), block.shape[1])
        else:
            old = domain.to_index(x).flatten(1)
            changes = uniform(x.new_empty(old.shape)) < self.probability
            y = domain.from_index(torch.where(changes, self._other(old), old)).to(x.dtype).view_as(x)
            number = changes.sum(1).to(x.dtype)
        return Draw(y, self._log_density(y, number), reverse=x)

    def log_prob(self, move: Tensor) -> Tensor:
        return self._log_density(move, self.domain.hops(move, self.x))

    def _log_density(self, y: Tensor, number: Tensor) -> Tensor:
        """Log q(y | x) `(B,)`, where y differs from x in `number` `(B,)` coordinates."""
        domain, x = self.domain, self.x
        if self.probability is None:
            log_q = torch.full_like(number, -math.log(math.comb(domain.size, self.num_changes)))
            log_q = log_q.masked_fill(number != self.num_changes, -torch.inf)
        else:
            p = self.probability.to(x.dtype)
            log_q = torch.xlogy(number, p) + torch.xlogy(domain.size - number, 1 - p)
        if self.window is None:
            return log_q - number * math.log(max(domain.num_values - 1, 1))
        moved = (y - x).flatten(1)
        low, high = self._reach(x.flatten(1))
        log_q = log_q - (high - low).log().where(moved != 0, 0).sum(1)
        return log_q.masked_fill((moved.abs() > self.window).any(1), -torch.inf)

    def _reach(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """The lowest and the highest number that each value can change to."""
        largest = self.domain.num_values - 1
        reach = largest if self.window is None else self.window
        return (values - reach).clamp(min=0), (values + reach).clamp(max=largest)

    def _other(self, values: Tensor) -> Tensor:
        """Draws for each value another value in its reach, uniformly, in index form."""
        if self.domain.num_values == 2:
            return 1 - values
        low, high = self._reach(values)
        drawn = low + uniform_index(self.x.new_empty(values.shape), high - low)
        return drawn + (drawn >= values)
