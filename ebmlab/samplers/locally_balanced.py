"""Locally balanced proposals over all one-coordinate changes (Zanella, 2020)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import torch
from torch import Tensor
from torch.nn.functional import logsigmoid

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.noise import categorical
from ebmlab.samplers.blocks import change_differences, place, values_at
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.sampler import EnergyState, Info

LOG_WEIGHTS: dict[str, Callable[[Tensor], Tensor]] = {  # log g as a function of log t; each has g(t) = t g(1 / t)
    "sqrt": lambda log_t: log_t / 2,
    "barker": logsigmoid,
    "min": lambda log_t: log_t.clamp(max=0),
    "max": lambda log_t: log_t.clamp(min=0),
}


@dataclass(kw_only=True)
class LocalState(EnergyState):
    """x with the energy and the whole proposal there.

    Attributes:
        log_probs: of every one-coordinate change in the order of `change_differences`, and last of staying, which only
            a state proposes that has no neighbour of finite energy; `(B, size * (num_values - 1) + 1)`.
    """

    log_probs: Tensor


class LocallyBalanced(MetropolisSampler):
    """Proposes y, one coordinate away from x, with probability proportional to g(p(y) / p(x)) (Zanella 2020, Eq. 3).

    The differences E(y) - E(x) are exact. One step evaluates all of y's neighbours: it counts
    size * (num_values - 1) + 1 evaluations, though structured energies answer `value_differences` at a fraction of it.
    Acceptance is the ratio of the two normalisers: with `sqrt` and `max`, which are unbounded, a descent that leads to
    where a steeper one begins is refused, so that very steep energies are left to `barker` and `min`.

    Args:
        weight: g(t) is `sqrt` t, `barker` t / (1 + t), `min` (1, t) or `max` (1, t).
    """

    domains = (Binary, Spin, Ordinal, Categorical)

    def __init__(self, weight: Literal["sqrt", "barker", "min", "max"] = "sqrt") -> None:
        super().__init__()
        if weight not in LOG_WEIGHTS:
            raise UserError(f"LocallyBalanced: weight is {weight!r}, but must be one of {', '.join(LOG_WEIGHTS)}")
        self.weight = weight

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None) -> LocalState:
        return LocalState(x=x, energy=energy(x), log_probs=self._log_probs(energy, x))

    def propose(self, energy: Energy, state: LocalState) -> tuple[Tensor, Tensor]:
        domain = energy.domain
        assert isinstance(domain, Finite)
        entry = categorical(state.log_probs).unsqueeze(1)
        others = max(domain.num_values - 1, 1)
        coordinate = (entry // others).clamp(max=domain.size - 1)
        shift = (entry % others + 1).masked_fill(entry == state.log_probs.shape[1] - 1, 0)
        value = (values_at(domain, state.x, coordinate) + shift) % domain.num_values
        return place(domain, state.x, coordinate, value.unsqueeze(1)), state.log_probs.gather(1, entry).squeeze(1)

    def log_proposal(self, energy: Energy, state: LocalState, y: Tensor) -> Tensor:
        domain = energy.domain
        assert isinstance(domain, Finite)
        changed = domain.flat(y) != domain.flat(state.x)
        changed = changed.any(-1) if isinstance(domain, Categorical) else changed
        coordinate = changed.byte().argmax(1, keepdim=True)
        shift = (values_at(domain, y, coordinate) - values_at(domain, state.x, coordinate)) % domain.num_values
        entry = coordinate * (domain.num_values - 1) + shift - 1
        entry = torch.where(shift == 0, state.log_probs.shape[1] - 1, entry)  # y is x
        return state.log_probs.gather(1, entry).squeeze(1).masked_fill(changed.sum(1) > 1, -torch.inf)

    def arrive(self, energy: Energy, state: LocalState, y: Tensor) -> LocalState:
        return replace(state, x=y, energy=energy(y), log_probs=self._log_probs(energy, y))

    def step(self, energy: Energy, state: LocalState) -> tuple[LocalState, Info]:
        new, info = super().step(energy, state)
        return new, replace(info, evaluations=float(state.log_probs.shape[1]))

    def _log_probs(self, energy: Energy, x: Tensor) -> Tensor:
        log_t = -change_differences(energy, x).flatten(1)
        # what is certain to be rejected is not proposed; it changes g = max(1, t) alone
        log_g = LOG_WEIGHTS[self.weight](log_t).masked_fill(log_t == -torch.inf, -torch.inf)
        alone = (log_g == -torch.inf).all(1, keepdim=True)
        stay = log_g.new_zeros(len(x), 1).masked_fill(~alone, -torch.inf)
        return torch.cat([log_g, stay], 1).log_softmax(1)
