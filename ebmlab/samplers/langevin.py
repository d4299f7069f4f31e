"""Langevin dynamics on real vectors, with or without Metropolis adjustment."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.native import normal, normal_
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.columns import Columns
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number, plus, root
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.schedules import Constant, Schedule
from ebmlab.samplers.state import BipartiteState, Info
from ebmlab.settings import require_positive


@dataclass(kw_only=True)
class LangevinState(BipartiteState):
    """x with the energy and gradient there, and where the chain stands in a schedule.

    Attributes:
        energy: E(x), `(B,)`; None if the next step does not need it and the gradient alone is cheaper.
        grad: dE/dx, `(B, *event)`.
        step_size: size of the first step, in absolute units; None where the engine gives the size of each step.
        horizon: steps planned, over which a schedule is spread.
    """

    energy: Tensor | None
    grad: Tensor
    step_size: float | None = None
    horizon: int | None = None


def start(
    energy: Energy,
    x: Tensor,
    settings: Sequence[Number],
    temperature: float,
    adjusted: bool,
    known: PerChain | None = None,
) -> LangevinState:
    """dE/dx, and E(x) if the next step is adjusted, or costs nothing more."""
    if not adjusted and not isinstance(energy, Bipartite):
        return LangevinState(x=x, energy=None, grad=energy.gradient(x))
    at = energy.evaluate(x, known)
    return LangevinState(x=x, energy=at.energy, grad=at.grad, logits=at.logits, known=at.known)


def step(
    energy: Energy,
    state: LangevinState,
    settings: Sequence[Number],
    temperature: float,
    adjusted: bool,
    next_adjusted: bool | None = None,
) -> tuple[LangevinState, Info]:
    """Moves to y = x - alpha dE/dx + sqrt(2 alpha T) noise (Eq. 6).

    An adjusted step accepts y with min(1, exp((E(x) - E(y)) / T) q(x | y) / q(y | x)) (Eq. 7), where q is the normal
    law of the move.
    """
    (alpha,) = settings
    noise = normal(state.x)
    y = plus(plus(state.x, -alpha, state.grad), root(alpha * (2 * temperature)), noise)
    new = start(energy, y, settings, temperature, adjusted if next_adjusted is None else next_adjusted)
    if not adjusted:
        return new, Info(Sure(y), Moved(energy.domain, y, state.x))
    assert state.energy is not None and new.energy is not None
    back = plus(state.x - y, alpha, new.grad).square().flatten(1).sum(1) / (4 * alpha * temperature)
    forth = noise.square().flatten(1).sum(1) / 2
    log_ratio = (state.energy - new.energy) / temperature - back + forth
    accepted, probability = metropolis(log_ratio)
    after = new.overwritten(accepted, state)
    return after, Info(probability, Moved(energy.domain, after.x, state.x))


class Langevin(Sampler):
    """x - alpha dE/dx + sqrt(2 alpha T) noise (Liao et al. 2022, Alg. 1, Eq. 6), on any Real-domain energy.

    `ULA` never accepts or rejects and `MALA` always does. This class of both also begins to in the middle of a chain.

    Args:
        step_size: alpha of the first step, in units of `energy.step_unit()` (GRBM: the current mean variance).
        adjust_from: from this step on (0 is the first), accept by Metropolis (Eq. 7); None never adjusts.
        schedule: how alpha changes along the chain: `Constant` (default) or `Cosine`, as in the paper.
        temperature: T; the target is exp(-E / T). For a bipartite energy E is the marginal energy.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import Langevin
        >>> grbm = GRBM(6, 3)
        >>> x, info = Langevin(step_size=0.1, adjust_from=5).sample(grbm, grbm.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 6])
    """

    domains = (Real,)
    step_size: Tensor

    def __init__(
        self,
        step_size: float,
        adjust_from: int | None = None,
        *,
        schedule: Schedule | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        check_settings(type(self).__name__, step_size, adjust_from, temperature)
        # Not saved: on resume the config's value is used.
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.adjust_from = adjust_from
        self.schedule = schedule or Constant()
        self.temperature = temperature

    @property
    def exact(self) -> bool:
        return self.adjust_from == 0 and self.temperature == 1.0

    def kernel_on(self, energy: Energy) -> Kernel | None:
        """The steps; None if they change along the chain."""
        if type(self.schedule) is not Constant or self.adjust_from not in (None, 0):
            return None
        unit = self.step_size * energy.step_unit()
        return Kernel(start, step, unit.view(1, 1), (self.temperature, self.adjust_from == 0))

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> LangevinState:
        state = start(energy, x, (), self.temperature, True, known)
        return replace(state, step_size=float(self.step_size * energy.step_unit()), horizon=horizon)

    @torch.no_grad()
    def step(self, energy: Energy, state: LangevinState) -> tuple[Any, Info]:
        assert state.step_size is not None
        alpha, now = state.step_size * self.schedule.factor(state.step, state.horizon), self._adjusts(state.step)
        new, info = step(energy, state, (alpha,), self.temperature, now, self._adjusts(state.step + 1))
        return replace(new, step=state.step + 1, step_size=state.step_size, horizon=state.horizon), info

    @torch.no_grad()
    def _in_place(self, energy: Energy, x: Tensor, num_steps: int, hops: Tensor | None = None) -> Tensor | None:
        """Without Metropolis, `Columns` of few coordinates are moved by the gradient alone."""
        if self._watched or self._by_steps or self.adjust_from is not None or not Columns.suit(energy, x):
            return None
        walk, step_size = Columns(x, hops), float(self.step_size * energy.step_unit())
        for step in range(num_steps):
            alpha = step_size * self.schedule.factor(step, num_steps)
            move = normal_(walk.next_move(), std=math.sqrt(alpha * (2 * self.temperature)))
            move.add_(walk.gradient(energy), alpha=-alpha)
            walk.move()
        return walk.last()

    def _adjusts(self, step: int) -> bool:
        return self.adjust_from is not None and step >= self.adjust_from


class _Alike(Langevin):
    """Langevin dynamics whose steps are all adjusted, or none."""

    adjusted = False

    def __init__(self, step_size: float, *, schedule: Schedule | None = None, temperature: float = 1.0) -> None:
        super().__init__(step_size, 0 if self.adjusted else None, schedule=schedule, temperature=temperature)


class ULA(_Alike):
    """The unadjusted Langevin algorithm, whose law is the target's up to a bias that grows with the step size.

    Args:
        step_size: as in `Langevin`.
        schedule: as in `Langevin`.
        temperature: as in `Langevin`.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import ULA
        >>> grbm = GRBM(6, 3)
        >>> ULA(step_size=0.1).last_states(grbm, grbm.random(4), num_steps=10).shape
        torch.Size([4, 6])
    """


class MALA(_Alike):
    """The Metropolis-adjusted Langevin algorithm (Roberts and Tweedie, 1996), which is exact.

    Args:
        step_size: as in `Langevin`.
        schedule: as in `Langevin`.
        temperature: as in `Langevin`.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import MALA
        >>> grbm = GRBM(6, 3)
        >>> x, info = MALA(step_size=0.1).sample(grbm, grbm.random(4), num_steps=10)
        >>> info.acceptance.shape
        torch.Size([4])
    """

    adjusted = True


def check_settings(name: str, step_size: float, adjust_from: int | None, temperature: float) -> None:
    """Raises `UserError` unless a Langevin-like sampler's settings are valid."""
    require_positive(name, step_size=step_size, temperature=temperature)
    if adjust_from is not None and adjust_from < 0:
        raise UserError(f"{name}: adjust_from is {adjust_from}, but must be a step (0 is the first) or null for never")
