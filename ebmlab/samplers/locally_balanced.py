"""Locally balanced proposals over all one-coordinate changes (Zanella, 2020)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, cast

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.blocks import change_differences, place, values_at
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.proposals import Draw, Proposal
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_choice

LOG_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {  # log g as a function of log t; each has g(t) = t g(1 / t)
    "sqrt": lambda log_t: log_t / 2,
    "barker": logsigmoid,
    "min": lambda log_t: log_t.clamp(max=0),
    "max": lambda log_t: log_t.clamp(min=0),
}


class LocallyBalanced(MetropolisSampler):
    """Proposes y, one coordinate away from x, with probability proportional to g(p(y) / p(x)) (Zanella 2020, Eq. 3).

    The differences E(y) - E(x) are exact. One step needs the energies of y and of all its neighbours. Each counts as
    one evaluation, size * (num_values - 1) + 1 in all. `value_differences` of structured energies is much cheaper. That
    of an energy made of others, such as a sum or a path, evaluates these a second time at y. The acceptance ratio is
    the normaliser at x over that at y. The weights `sqrt` and `max` are unbounded: a move to a y with a much steeper
    descent is almost always rejected. For very steep energies take `barker` or `min`. A chain that starts at a state of
    infinite energy moves to any neighbour of finite energy, if there is one.

    Args:
        weight: g(t) is `sqrt` t, `barker` t / (1 + t), `min` (1, t) or `max` (1, t).

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import LocallyBalanced
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = LocallyBalanced("barker").sample(ising, ising.domain.random(4), num_steps=10)
        >>> info.evaluations
        10.0
    """

    domains = (Binary, Spin, Ordinal, Categorical)

    def __init__(self, weight: Literal["sqrt", "barker", "min", "max"] = "sqrt") -> None:
        super().__init__()
        require_choice("LocallyBalanced", LOG_WEIGHTS, weight=weight)
        self.weight = weight

    def evaluate(self, energy: Energy, x: Tensor, known: PerChain | None = None) -> EnergyState:
        return EnergyState(x=x, energy=energy(x))

    def proposal(self, energy: Energy, state: EnergyState) -> Proposal:
        log_t = -change_differences(energy, state.x, here=state.energy).flatten(1)
        # nothing compares with a state of infinite energy: all possible neighbours are alike
        forbidden = (state.energy == torch.inf).unsqueeze(1)
        log_t = torch.where(forbidden, torch.where(log_t == torch.inf, 0, -torch.inf), log_t)
        # Moves that are certain to be rejected are never drawn; only g = max(1, t) gives them a weight. Their logarithm
        # is finite: it is that of the way back to a forbidden start, which must not outweigh the infinite energy there.
        impossible = log_t == -torch.inf
        log_g = LOG_WEIGHTS[self.weight](log_t).masked_fill(impossible, torch.finfo(log_t.dtype).min / 2)
        alone = impossible.all(1, keepdim=True)
        stay = log_g.new_zeros(len(state.x), 1).masked_fill(~alone, -torch.inf)
        return OneChange(cast(Finite, energy.domain), state.x, torch.cat([log_g, stay], 1).log_softmax(1))

    @torch.no_grad()
    def step(self, energy: Energy, state: EnergyState) -> tuple[EnergyState, Info]:
        new, info = super().step(energy, state)
        domain = cast(Finite, energy.domain)
        info.evaluations = float(domain.size * (domain.num_values - 1) + 1)
        return new, info


class OneChange(Proposal):
    """One coordinate takes another value.

    Args:
        domain: where x lives.
        x: `(B, *event)`.
        log_probs: log-probability of every one-coordinate change, in the order of `change_differences`, and as the last
            entry that of staying, `(B, size * (num_values - 1) + 1)`. Only a state without a neighbour of finite energy
            proposes to stay.
    """

    def __init__(self, domain: Finite, x: Tensor, log_probs: Tensor) -> None:
        self.domain, self.x, self.log_probs = domain, x, log_probs

    def sample(self) -> Draw:
        domain = self.domain
        entry = categorical(self.log_probs).unsqueeze(1)
        others = max(domain.num_values - 1, 1)
        coordinate = (entry // others).clamp(max=domain.size - 1)
        shift = (entry % others + 1).masked_fill(entry == self.log_probs.shape[1] - 1, 0)
        value = (values_at(domain, self.x, coordinate) + shift) % domain.num_values
        y = place(domain, self.x, coordinate, value.unsqueeze(1))
        return Draw(y, self.log_probs.gather(1, entry).squeeze(1), reverse=self.x)

    def log_prob(self, move: Tensor) -> Tensor:
        domain = self.domain
        changed = domain.flat(move) != domain.flat(self.x)
        changed = changed.any(-1) if isinstance(domain, Categorical) else changed
        coordinate = changed.byte().argmax(1, keepdim=True)
        shift = (values_at(domain, move, coordinate) - values_at(domain, self.x, coordinate)) % domain.num_values
        entry = coordinate * (domain.num_values - 1) + shift - 1
        entry = torch.where(shift == 0, self.log_probs.shape[1] - 1, entry)  # y is x
        return self.log_probs.gather(1, entry).squeeze(1).masked_fill(changed.sum(1) > 1, -torch.inf)
