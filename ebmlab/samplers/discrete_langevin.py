"""The discrete Langevin proposal, unadjusted (DULA) and Metropolis-adjusted (DMALA)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.factorised import Factorised, factorised
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.sampler import GradientState, Info, Sampler


@dataclass(kw_only=True)
class GuidedState(GradientState):
    """x with the energy and the gradient that guides the proposal there.

    Attributes:
        guide: the minibatch energy whose gradient `grad` is, where gradients are stochastic.
    """

    guide: Energy | None = None


class DiscreteLangevin(Sampler):
    """Settings and proposal of DULA, DMALA and their descendants (Zhang et al. 2022, Eq. 2).

    Args:
        step_size: alpha.
        balance: beta, the weight of the gradient; 1/2 in the paper.
        precondition: c, a scale for each coordinate's squared distance, in the shape of the domain (App. H).
        window: propose only values within this distance of the current one (App. C); Ordinal domains only.
        stochastic: guide by the gradient of a fresh minibatch each step (Sec. 6), which the energy must offer
            (`energy.minibatch()`).
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    step_size: Tensor
    balance: Tensor
    precondition: Tensor | None

    def __init__(
        self,
        step_size: float,
        balance: float = 0.5,
        precondition: Sequence[float] | Tensor | None = None,
        window: int | None = None,
        stochastic: bool = False,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if not step_size > 0:
            raise UserError(f"{name}: step_size is {step_size}, but must be positive")
        if not 0 <= balance <= 1:
            raise UserError(f"{name}: balance is {balance}, but must be between 0 and 1 (1/2 in the paper)")
        if window is not None and window < 1:
            raise UserError(f"{name}: window is {window}, but must be at least 1, or null for all values")
        scale = None if precondition is None else torch.as_tensor(precondition)
        if scale is not None and not (scale > 0).all():
            raise UserError(f"{name}: every entry of precondition must be positive")
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("balance", torch.tensor(float(balance)), persistent=False)
        self.register_buffer("precondition", scale, persistent=False)
        self.window = window
        self.stochastic = stochastic

    def check(self, energy: Energy) -> None:
        super().check(energy)
        name, domain = type(self).__name__, energy.domain
        assert isinstance(domain, Finite)
        if self.window is not None and not isinstance(domain, Ordinal):
            raise UserError(f"{name}: a window needs an Ordinal domain, but {type(energy).__name__} lives on {domain}")
        if self.precondition is not None and tuple(self.precondition.shape) != domain.shape:
            raise UserError(
                f"{name}: precondition has shape {tuple(self.precondition.shape)}, but {domain} has {domain.shape}"
            )
        if self.stochastic and not hasattr(energy, "minibatch"):
            raise UserError(
                f"{name}: stochastic gradients need an energy that is a sum over data (BinaryNetPosterior), "
                f"but {type(energy).__name__} has no minibatch"
            )

    def settings(self, k: int) -> tuple[Tensor, Tensor]:
        """Step size and balance of step k."""
        return self.step_size, self.balance

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None) -> GuidedState:
        value, grad = energy.value_and_grad(x)
        return GuidedState(x=x, energy=value, grad=grad)

    def proposal(self, energy: Energy, state: GuidedState) -> Factorised:
        """q(. | x) at the state."""
        alpha, beta = self.settings(state.step)
        stiffness = 1 / alpha if self.precondition is None else 1 / (alpha * self.precondition.to(state.x))
        assert isinstance(energy.domain, Finite)
        return factorised(energy.domain, state.x, -beta * state.grad, stiffness, self.window)

    def arrive(self, energy: Energy, state: GuidedState, y: Tensor) -> GuidedState:
        """The state at y."""
        value, grad = energy.value_and_grad(y)
        return replace(state, x=y, energy=value, grad=grad)


class DULA(DiscreteLangevin):
    """The discrete unadjusted Langevin algorithm: every proposal is taken (Zhang et al. 2022, Alg. 1).

    Biased; on log-quadratic targets the bias falls like exp(-1 / (2 alpha)) (Theorem 5.1). Arguments as in
    `DiscreteLangevin`.
    """

    @property
    def exact(self) -> bool:
        return False

    @torch.no_grad()
    def step(self, energy: Energy, state: GuidedState) -> tuple[GuidedState, Info]:
        if self.stochastic:
            value, grad = energy.minibatch().value_and_grad(state.x)  # type: ignore[operator]
            state = replace(state, energy=value, grad=grad)
        x, _ = self.proposal(energy, state).sample()
        acceptance = x.new_ones(len(x)).masked_fill_(state.energy.isnan(), torch.nan)
        if self.stochastic:  # a minibatch's gradient serves one step, and says nothing about E at the new x
            new = replace(state, x=x, energy=torch.full_like(state.energy, torch.nan))
        else:
            new = self.arrive(energy, state, x)
        new = replace(new, step=state.step + 1)
        return new, Info(acceptance, energy.domain.hops(x, state.x))


class DMALA(DiscreteLangevin, MetropolisSampler):
    """The discrete Metropolis-adjusted Langevin algorithm (Zhang et al. 2022, Alg. 1 with Eq. 3).

    With stochastic gradients both directions of a step are guided by the same minibatch, drawn without regard to x, and
    the decision uses full energies, so that the law stays exact. Arguments as in `DiscreteLangevin`.
    """

    def propose(self, energy: Energy, state: GuidedState) -> tuple[Tensor, Tensor]:
        return self.proposal(energy, state).sample()

    def log_proposal(self, energy: Energy, state: GuidedState, y: Tensor) -> Tensor:
        return self.proposal(energy, state).log_prob(y)

    def arrive(self, energy: Energy, state: GuidedState, y: Tensor) -> GuidedState:
        if state.guide is None:
            return super().arrive(energy, state, y)
        return replace(state, x=y, energy=energy(y), grad=state.guide.value_and_grad(y)[1])

    def step(self, energy: Energy, state: GuidedState) -> tuple[GuidedState, Info]:
        if self.stochastic:
            guide: Energy = energy.minibatch()  # type: ignore[operator]
            state = replace(state, guide=guide, grad=guide.value_and_grad(state.x)[1])
        return super().step(energy, state)
