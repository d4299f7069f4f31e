"""Discrete-HAMS: discrete Hamiltonian-assisted Metropolis sampling (Zhou & Tan 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.native import normal
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number, plus, root
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import GradientState, Info
from ebmlab.settings import require_factor, require_inside, require_positive


@dataclass(kw_only=True)
class HamsState(GradientState):
    """x with its momentum, and the energy and its gradient.

    Attributes:
        momentum: u, `(B, *event)`, standard normal under the law that a step leaves invariant.
    """

    momentum: Tensor

    @property
    def carried(self) -> dict[str, Any]:
        return super().carried | {"momentum": self.momentum}


class Curvature(NamedTuple):
    """W by its eigenvectors, with L L = W + D, D = shift + 1 / delta^2, of which no eigenvalue is negative.

    Attributes:
        vectors: `(d, d)`.
        values: the eigenvalues of W + shift, `(d,)`, at least 0.
        shift: a number, `()`.
    """

    vectors: Tensor
    values: Tensor
    shift: Tensor

    def like(self, x: Tensor) -> Curvature:
        """The same where states x are, in their precision: energies without tensors leave both to the states."""
        return Curvature(*(part.to(x) for part in self))

    def root(self, v: Tensor, stiffness: Number) -> Tensor:
        """L v."""
        return self._by(v, (self.values + stiffness).sqrt())

    def times(self, v: Tensor) -> Tensor:
        """W v."""
        return self._by(v, self.values - self.shift)

    def _by(self, v: Tensor, values: Tensor) -> Tensor:
        return ((v.flatten(1) @ self.vectors * values) @ self.vectors.T).view_as(v)


def propose(
    energy: Energy,
    x: Tensor,
    momentum: Tensor,
    grad: Tensor,
    settings: Sequence[Number],
    curvature: Curvature | None = None,
) -> Proposal:
    """Each y_i over-relaxed with respect to q(y) ~ exp((L u - grad E(x)) . (y - x) - D |y - x|^2 / 2).

    Without curvature, L = 1 / delta and D = L^2: that is q(y) ~ exp(-grad E(x) . y - |x + delta u - y|^2 D / 2).
    """
    delta, _, _, relaxation = settings
    stiffness = 1 / (delta * delta)
    if curvature is None:
        law = factorised(energy.domain, x, plus(-grad, 1 / delta, momentum), stiffness=stiffness)
    else:
        pull = curvature.root(momentum, stiffness) - grad
        law = factorised(energy.domain, x, pull, stiffness=stiffness + curvature.shift)

    def flip(logits: Tensor) -> Tensor:
        """The logits of (1 - r) sigmoid(l) + r min(1, exp(l))."""
        below = (-logits.abs()).exp()
        least = torch.where(logits < 0, below.square(), 1.0)
        return logits + (relaxation * below).log1p() - (-relaxation * least).log1p()

    def move(there: Tensor, here: Tensor) -> Tensor:
        """Log of q(y_i) times (1 - r) + r / (1 - min(q(x_i), q(y_i))): Metropolised Gibbs where r = 1 (Liu 1996)."""
        rarer = torch.minimum(there, here).exp()
        return there + (relaxation * rarer / (1 - rarer)).log1p()

    return law.remade(flip, move, 1 - relaxation)


def start(
    energy: Energy,
    x: Tensor,
    settings: Sequence[Number],
    curvature: Curvature | None = None,
    known: PerChain | None = None,
) -> HamsState:
    """E(x) and its gradient, and a momentum that is drawn anew."""
    at = energy.evaluate(x, known)
    return HamsState(x=x, energy=at.energy, grad=at.grad, momentum=normal(x), known=at.known)


def refresh(state: HamsState, settings: Sequence[Number]) -> HamsState:
    """The state with u' = epsilon u + sqrt(1 - epsilon^2) times standard normal noise."""
    persistence = settings[1]
    fresh = root(1 - persistence * persistence) * normal(state.x)
    return replace(state, momentum=plus(fresh, persistence, state.momentum))


def move(
    energy: Energy, state: HamsState, settings: Sequence[Number], curvature: Curvature | None = None
) -> tuple[HamsState, Info]:
    """Draws y, turns u into a new momentum, and accepts both, or negates u.

    The new one is L (y - x) - u - phi delta (grad E(y) - grad E(x) + W (y - x)).

    A proposal from y with the new momentum negated leads back to x and -u. So the ratio is that of
    exp(-E - |u|^2 / 2) q( . | x, u) at both ends, and generalised detailed balance holds.
    """
    delta, _, correction, _ = settings
    u = state.momentum
    here = propose(energy, state.x, u, state.grad, settings, curvature)
    draw = here.sample()
    at = energy.evaluate(draw.y, None)
    jump, turn = draw.y - state.x, at.grad - state.grad
    if curvature is None:
        kick = jump / delta
    else:
        kick, turn = curvature.root(jump, 1 / (delta * delta)), turn + curvature.times(jump)
    kick = plus(kick, -correction * delta, turn)
    new = HamsState(x=draw.y, energy=at.energy, grad=at.grad, momentum=kick - u, known=at.known)
    there = propose(energy, new.x, -new.momentum, new.grad, settings, curvature)
    kinetic = (u.square() - new.momentum.square()).flatten(1).sum(1) / 2
    log_ratio = state.energy - new.energy + kinetic + here.log_ratio(draw, there)
    return decide(energy, log_ratio, new=new, old=replace(state, momentum=-u))


def step(
    energy: Energy, state: HamsState, settings: Sequence[Number], curvature: Curvature | None = None
) -> tuple[HamsState, Info]:
    """Refreshes a part of the momentum, then moves."""
    return move(energy, refresh(state, settings), settings, curvature and curvature.like(state.x))


class DiscreteHAMS(Sampler):
    """Discrete Hamiltonian-assisted Metropolis sampling (Zhou & Tan 2025, arXiv:2507.09807), irreversible.

    The law is extended to p(x) N(u; 0, I). A step refreshes a part of u, proposes y near z = x + delta u, and reflects
    the momentum there. An accepted move so goes on in its direction. A rejected one turns back: u is negated. Each y_i
    is over-relaxed: its kernel leaves x_i more often than a draw from the law of y_i given z does. The kernel is
    reversible with respect to that law. On linear energies every proposal is accepted, on quadratic ones not.

    With a curvature W it is Preconditioned Discrete-HAMS (Zhou & Tan 2025, arXiv:2507.21982): z = L x + u, L L = W + D.
    Where E is quadratic with the Hessian -W, p(y | z) has independent coordinates, and all proposals are accepted.

    Args:
        step_size: delta, in the units of x; tunable. `DMALA` calls its square alpha.
        persistence: epsilon, the share of the momentum that a step keeps; from 0 to below 1.
        correction: phi, the weight of the gradient's change in the momentum, times delta; a leapfrog step has 1/2.
        over_relaxation: r, from 0 (an independent draw) to below 1.
        curvature: W, symmetric `(d, d)`: minus the Hessian of E, or near it; the coupling of an Ising model. None on
            one-hot states.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DiscreteHAMS
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = DiscreteHAMS(step_size=1.0).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    step_size: Tensor
    persistence: Tensor
    correction: Tensor
    over_relaxation: Tensor
    vectors: Tensor
    values: Tensor
    shift: Tensor

    def __init__(
        self,
        step_size: float,
        persistence: float = 0.9,
        *,
        correction: float = 0.0,
        over_relaxation: float = 0.0,
        curvature: Sequence[Sequence[float]] | Tensor | None = None,
    ) -> None:
        super().__init__()
        require_positive("DiscreteHAMS", step_size=step_size)
        require_inside("DiscreteHAMS", "[0, 1)", persistence=persistence, over_relaxation=over_relaxation)
        require_factor("DiscreteHAMS", correction=correction)
        for name, value in (
            ("step_size", step_size),
            ("persistence", persistence),
            ("correction", correction),
            ("over_relaxation", over_relaxation),
        ):
            self.register_buffer(name, torch.tensor(float(value)), persistent=False)
        for name, tensor in (_parts(curvature) or {}).items():
            self.register_buffer(name, tensor, persistent=False)
        self.preconditioned = curvature is not None

    def check(self, energy: Energy) -> None:
        super().check(energy)
        if not self.preconditioned:
            return
        if isinstance(energy.domain, Categorical):
            raise UserError("DiscreteHAMS: curvature is for numbers, and these are classes: leave it out")
        if energy.domain.size != len(self.values):
            there, here = len(self.values), energy.domain.size
            raise UserError(f"DiscreteHAMS: curvature has {there} coordinates, but {energy.domain} has {here}")

    def kernel_on(self, energy: Energy) -> Kernel:
        numbers = [self.step_size, self.persistence, self.correction, self.over_relaxation]
        settings = torch.stack(numbers).unsqueeze(0)
        if not self.preconditioned:
            return Kernel(start, step, settings)
        parts = (part.to(energy.device, energy.dtype) for part in (self.vectors, self.values, self.shift))
        return Kernel(start, step, settings, (Curvature(*parts),))


def _parts(curvature: Sequence[Sequence[float]] | Tensor | None) -> dict[str, Tensor] | None:
    """Eigenvectors and shifted eigenvalues of W, in float64."""
    if curvature is None:
        return None
    matrix = torch.as_tensor(curvature, dtype=torch.float64)
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or not torch.allclose(matrix, matrix.T):
        raise UserError(f"DiscreteHAMS: curvature {tuple(matrix.shape)} must be a symmetric matrix of finite numbers")
    values, vectors = torch.linalg.eigh(matrix)
    shift = (-values.min()).clamp(min=0.0)
    return {"vectors": vectors, "values": (values + shift).clamp(min=0.0), "shift": shift}
