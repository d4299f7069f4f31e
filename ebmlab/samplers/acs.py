"""ACS, the automatic cyclical sampler: DMALA whose step size and balance repeat a cycle (Pynadath et al. 2024)."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Binary, Categorical, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.samplers.discrete_langevin import GuidedEnergy, LangevinOptions, Options, propose
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Proposal
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import GradientState, Info
from ebmlab.settings import require_all_positive, require_count, require_inside, require_positive


def cyclical(high: float, low: float, cycle_length: int) -> Tensor:
    """max(high / 2 (cos(pi k / s) + 1), low) for k = 0, ..., s - 1 (Eq. 8), `(cycle_length,)`.

    The paper prints Eq. 8 without the factor 1 / 2 and with the 1 outside the product. Only the form here starts at
    `high`.
    """
    values = [high / 2 * (math.cos(math.pi * k / cycle_length) + 1) for k in range(cycle_length)]
    return torch.tensor([max(value, low) for value in values])


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], options: Options, known: PerChain | None = None
) -> GradientState:
    """E(x) and its gradient. No proposal is kept, since the next step has other settings."""
    at = energy.evaluate(x, known)
    return GradientState(x=x, energy=at.energy, grad=at.grad, known=at.known)


def step(
    energy: Energy, state: GradientState, settings: Sequence[Number], options: Options
) -> tuple[GradientState, Info]:
    """Draws y from q( . | x) (Eq. 6), and accepts with min(1, p(y) q(x | y) / (p(x) q(y | x))).

    Both directions have the settings of this step.
    """
    if options.stochastic:  # as in `DMALA`
        energy = GuidedEnergy(energy)
        state = replace(state, grad=energy.gradient(state.x))
    here = propose(energy, state.x, state.grad, settings, options)
    draw = here.sample()
    new = start(energy, draw.y, settings, options)
    there = propose(energy, new.x, new.grad, settings, options)
    log_ratio = state.energy - new.energy + here.log_ratio(draw, there)
    return decide(energy, log_ratio, new=new, old=state)


class ACS(Sampler):
    """Cycles of large steps, which find modes, and small steps, which explore them, each with its own balance (Alg. 1).

    Step k uses entry k mod s of alpha and beta in both directions of its Metropolis ratio. Every step of the cycle
    therefore leaves p invariant. The tunable buffers are `step_sizes` and `balances`, both `(s,)`; `ACSTuner` tunes
    them.

    Args:
        alpha_max: step size of the first step of a cycle.
        alpha_min: lower bound of the step sizes.
        cycle_length: s; 8 or 20 in the paper.
        balance_max: balance of the first step; 0.95 on RBMs, 0.8 to 0.9 elsewhere.
        balance_min: lower bound of the balances. Before tuning, the balances follow Eq. 8 like the step sizes (Alg. 3).
        step_sizes: all alpha of a cycle, instead of Eq. 8.
        balances: all beta of a cycle, instead of Eq. 8.
        precondition: as in `DMALA`.
        window: as in `DMALA`.
        stochastic: as in `DMALA`.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ACS
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = ACS(alpha_max=5.0, cycle_length=8).sample(ising, ising.domain.random(4), num_steps=16)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    step_sizes: Tensor
    balances: Tensor

    def __init__(
        self,
        alpha_max: float = 60.0,
        alpha_min: float = 0.05,
        *,
        cycle_length: int = 20,
        balance_max: float = 0.95,
        balance_min: float = 0.5,
        step_sizes: Sequence[float] | Tensor | None = None,
        balances: Sequence[float] | Tensor | None = None,
        precondition: Sequence[float] | Tensor | None = None,
        window: int | None = None,
        stochastic: bool = False,
    ) -> None:
        require_count("ACS", cycle_length=cycle_length)
        require_positive("ACS", alpha_min=alpha_min, alpha_max=alpha_max)
        if alpha_min > alpha_max:
            raise UserError(f"ACS: alpha_min is {alpha_min} and alpha_max {alpha_max}; need 0 < alpha_min <= alpha_max")
        require_inside("ACS", "[0, 1]", balance_min=balance_min, balance_max=balance_max)
        if balance_min > balance_max:
            raise UserError(f"ACS: balance_min is {balance_min}, but must be at most balance_max, {balance_max}")
        super().__init__()
        alphas = cyclical(alpha_max, alpha_min, cycle_length) if step_sizes is None else step_sizes
        betas = cyclical(balance_max, balance_min, cycle_length) if balances is None else balances
        dtype = torch.get_default_dtype()
        alphas, betas = (
            as_numbers(given, f"ACS: {name}").to(dtype) for name, given in (("step_sizes", alphas), ("balances", betas))
        )
        if alphas.dim() != 1 or alphas.shape != betas.shape or not len(alphas):
            raise UserError(
                f"ACS: step_sizes {tuple(alphas.shape)} and balances {tuple(betas.shape)} must be two lists of the "
                f"same length; give both, or one and a cycle_length equal to its length"
            )
        require_all_positive("ACS", step_sizes=alphas)
        if not ((betas >= 0) & (betas <= 1)).all():
            raise UserError("ACS: balances must all be between 0 and 1")
        self.register_buffer("step_sizes", alphas, persistent=False)
        self.register_buffer("balances", betas, persistent=False)
        self.options = LangevinOptions("ACS", precondition, window, stochastic)

    def check(self, energy: Energy) -> None:
        super().check(energy)
        self.options.check(energy)

    def settings(self, k: int) -> tuple[Tensor, Tensor]:
        """Step size and balance of step k."""
        k %= len(self.step_sizes)
        return self.step_sizes[k], self.balances[k]

    def proposal(self, energy: Energy, state: GradientState) -> Proposal:
        """q( . | x) of the step that follows a state."""
        settings = [float(number) for number in self.settings(state.step)]
        return propose(energy, state.x, state.grad, settings, self.options.plain())

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, torch.stack([self.step_sizes, self.balances], 1), (self.options.plain(),))

    def with_cycle(self, step_sizes: Tensor, balances: Tensor) -> ACS:
        """A copy of this sampler with another cycle; both `(s,)`, of any length s."""
        new = copy.deepcopy(self)
        new.step_sizes, new.balances = step_sizes.to(self.step_sizes), balances.to(self.balances)
        return new
