"""Langevin dynamics on real vectors, with or without Metropolis adjustment."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.samplers.compiled import PureSteps, worth_compiling
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.pure_steps import start_adjusted, start_alone, step_adjusted, step_langevin
from ebmlab.samplers.sampler import Sampler, check_settings
from ebmlab.samplers.schedules import Constant, Schedule
from ebmlab.samplers.state import BipartiteState, Info

FEW = 16  # coordinates of a chain up to which `_run` keeps each coordinate of all chains in one row of memory


@dataclass(kw_only=True)
class LangevinState(BipartiteState):
    """x with the energy and gradient there, and the data of the step-size schedule.

    Attributes:
        energy: E(x), `(B,)`; None if the next step does not need it and the gradient alone is cheaper.
        grad: dE/dx, `(B, *event)`.
        step_size: size of the first step, in absolute units.
        horizon: steps planned, over which a schedule is spread.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import Langevin
        >>> grbm = GRBM(6, 3)
        >>> round(Langevin(0.1).init(grbm, grbm.domain.random(4)).step_size, 6)  # mean variance 1
        0.1
    """

    energy: Tensor | None
    grad: Tensor
    step_size: float
    horizon: int | None


class Langevin(Sampler):
    """x - alpha dE/dx + sqrt(2 alpha T) noise (Liao et al. 2022, Alg. 1, Eq. 6), on any Real-domain energy.

    Args:
        step_size: alpha of the first step, in units of `energy.step_unit()` (GRBM: the current mean variance).
        adjust_from: from this step on (0 is the first), accept by Metropolis (Eq. 7); None never adjusts.
        schedule: how alpha changes along the chain: `Constant` (default) or `Cosine`, as in the paper.
        temperature: T; the target is exp(-E / T). For a bipartite energy E is the marginal energy.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import Langevin
        >>> grbm = GRBM(6, 3)
        >>> x, info = Langevin(step_size=0.1, adjust_from=0).sample(grbm, grbm.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 6])
    """

    domains = (Real,)
    step_size: Tensor

    def __init__(
        self,
        step_size: float,
        adjust_from: int | None = None,
        schedule: Schedule | None = None,
        temperature: float = 1.0,
    ) -> None:
        super().__init__()
        check_settings("Langevin", step_size, adjust_from, temperature)
        # Not saved: on resume the config's value is used.
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.adjust_from = adjust_from
        self.schedule = schedule or Constant()
        self.temperature = temperature

    @property
    def exact(self) -> bool:
        return self.adjust_from == 0 and self.temperature == 1.0

    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> LangevinState:
        at = energy.evaluate(x, known)
        step_size = (self.step_size * energy.step_unit()).item()
        return LangevinState(
            x=x,
            energy=at.energy,
            grad=at.grad,
            logits=at.logits,
            known=at.known,
            step_size=step_size,
            horizon=horizon,
        )

    @torch.no_grad()
    def step(self, energy: Energy, state: LangevinState) -> tuple[LangevinState, Info]:
        alpha = state.step_size * self.schedule.factor(state.step, state.horizon)
        noise = torch.randn_like(state.x)
        x = torch.add(state.x, state.grad, alpha=-alpha).add_(noise, alpha=math.sqrt(alpha * (2 * self.temperature)))
        new = self._arrive(energy, state, x)
        if state.energy is None or new.energy is None or not self._adjusts(state.step):
            return new, Info(lambda: x.new_ones(len(x)), lambda: energy.domain.hops(x, state.x))
        back = (state.x - x + alpha * new.grad).square().flatten(1).sum(1) / (4 * alpha * self.temperature)
        forth = noise.square().flatten(1).sum(1) / 2
        log_ratio = (state.energy - new.energy) / self.temperature - back + forth
        accepted, probability = metropolis(log_ratio)
        after = new.overwritten(accepted, state)
        return after, Info(probability, lambda: energy.domain.hops(after.x, state.x))

    def pure_steps(self, energy: Energy) -> PureSteps | None:
        steady = type(self) is Langevin and type(self.schedule) is Constant and self.adjust_from in (None, 0)
        if not steady or not worth_compiling(energy):
            return None
        settings = torch.tensor([[(self.step_size * energy.step_unit()).item(), self.temperature]])
        if self.adjust_from is None:
            return PureSteps(start_alone, step_langevin, settings)
        return PureSteps(start_adjusted, step_adjusted, settings)

    @torch.no_grad()
    def _run(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        """As in `Sampler`. Without Metropolis, a CPU moves x of few coordinates in place, by the gradient alone.

        A row of memory holds one coordinate of all chains, so that sums over the few coordinates run along memory. The
        energy sees an x that is not contiguous, and the noise is drawn in the order of these rows.
        """
        plain = type(self) is Langevin and self.adjust_from is None and x.device.type == "cpu"
        if not plain or isinstance(energy, Bipartite) or x.dim() != 2 or x.shape[1] > FEW:
            return super()._run(energy, x, num_steps)
        columns = x.T.clone(memory_format=torch.contiguous_format)
        step_size, noise = (self.step_size * energy.step_unit()).item(), torch.empty_like(columns)
        for step in range(num_steps):
            alpha = step_size * self.schedule.factor(step, num_steps)
            columns.add_(energy.gradient(columns.T).T, alpha=-alpha)
            columns.add_(noise.normal_(), alpha=math.sqrt(alpha * (2 * self.temperature)))
        return columns.T.contiguous()

    def _adjusts(self, step: int) -> bool:
        return self.adjust_from is not None and step >= self.adjust_from

    def _arrive(self, energy: Energy, state: LangevinState, x: Tensor) -> LangevinState:
        """The state at x after a step from `state`; without the energy if only the gradient is of use."""
        if self._adjusts(state.step + 1) or isinstance(energy, Bipartite):
            at = energy.evaluate(x)
            new = replace(state, x=x, step=state.step + 1, energy=at.energy, grad=at.grad)
            new.logits, new.known = at.logits, at.known
            return new
        return replace(state, x=x, step=state.step + 1, energy=None, grad=energy.gradient(x), known=None)
