"""Targets on spaces small enough to enumerate, exact transition matrices, and chi-square tests of one step.

The targets are neither quadratic nor symmetric: a quadratic makes the Taylor difference exact, which hides bugs, and a
symmetric target hides sign errors.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from helpers_grbm import chi_square_p
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import RBM, Energy
from ebmlab.samplers import Sampler
from ebmlab.samplers.proposals import Draw, Proposal
from ebmlab.samplers.proposals.factorised import Flips

DOMAINS: dict[str, Finite] = {
    "binary": Binary(4),
    "spin": Spin(4),
    "ordinal": Ordinal(2, 3),
    "categorical": Categorical(2, 3),
}
KINDS = ("quadratic", "cubic", "flat")


class Target(Energy):
    """An energy without symmetries on a small finite domain, float64, by autograd alone.

    Args:
        domain: where it lives.
        kind: `quadratic`; `cubic`, with all third-order terms; `flat`, whose gradient is zero at every state.
        scale: multiplies the energy.
    """

    def __init__(self, domain: Finite, kind: str, scale: float = 1.0) -> None:
        super().__init__()
        self.domain, self.kind, self.scale = domain, kind, scale
        n = math.prod(domain.event_shape)
        generator = torch.Generator().manual_seed(3)
        a = torch.randn(n, n, dtype=torch.float64, generator=generator)
        ordinal = not isinstance(domain, Categorical)
        spread = 1 / (1 + ordinal * (max(domain.num_values, 2) - 2))  # smaller where x is larger
        self.register_buffer("quadratic", 0.5 * (a + a.T) * spread)
        self.register_buffer("linear", 0.7 * torch.randn(n, dtype=torch.float64, generator=generator))
        self.register_buffer("cubic", 0.15 * spread * torch.randn(n, n, n, dtype=torch.float64, generator=generator))

    def forward(self, x: Tensor) -> Tensor:
        e = x.flatten(1).double()
        if self.kind == "flat":  # x enters through functions whose slope is 0 at every state
            e = torch.sin(math.pi / 2 * e) if isinstance(self.domain, Spin) else torch.cos(math.pi * e)
        energy = (e @ self.quadratic * e).sum(1) / 2 + e @ self.linear
        if self.kind == "cubic":
            n = e.shape[1]
            pairs = (e @ self.cubic.reshape(n, n * n)).view(-1, n, n)
            energy = energy + ((pairs @ e[:, :, None])[:, :, 0] * e).sum(1)
        return (self.scale * energy).to(x.dtype)


class Quadratic(Energy):
    """-f, with f(x) = (x - c)' W (x - c) / 2."""

    def __init__(self, domain: Finite, W: Tensor, centre: Tensor | float) -> None:
        super().__init__()
        self.domain, self.W, self.centre = domain, W, centre

    def forward(self, x: Tensor) -> Tensor:
        return self.value_and_grad(x)[0]

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        z = x.flatten(1) - self.centre
        grad = -z @ self.W.to(z)
        return (grad * z).sum(1) / 2, grad


class Exact:
    """The law exp(-E) / Z of an energy on a finite domain.

    Attributes:
        states: all states, float64, `(N, *event)`.
        probabilities: `(N,)`.
    """

    def __init__(self, energy: Energy) -> None:
        assert isinstance(energy.domain, Finite)
        self.domain = energy.domain
        self.states = energy.domain.enumerate().double()
        self.probabilities = (-energy(self.states).detach()).softmax(0)

    def sample(self, n: int) -> Tensor:
        return self.states[torch.multinomial(self.probabilities, n, replacement=True)]

    def number(self, x: Tensor) -> Tensor:
        """The row of each x in `states`, `(B,)`."""
        digits = self.domain.to_index(x).flatten(1)
        powers = self.domain.num_values ** torch.arange(digits.shape[1] - 1, -1, -1)
        return (digits * powers).sum(1)

    def p_value(self, x: Tensor) -> float:
        """Chi-square test that x are independent draws from this law."""
        return chi_square_p(torch.bincount(self.number(x), minlength=len(self.states)), self.probabilities)

    def mean(self) -> Tensor:
        return torch.einsum("n,n...->...", self.probabilities, self.states)


def law_at(sampler: Any, energy: Energy, state: Any) -> Proposal:
    """q( . | x) of the next step: what the state keeps, or what the sampler makes at it."""
    law: Proposal = state.proposal or sampler.proposal(energy, state)
    return law


@contextlib.contextmanager
def forced(y: Tensor) -> Iterator[None]:
    """Within it every proposal draws the move to y, with the probability that it has."""

    def sample(self: Any) -> Draw:
        move = self.move_to(y)
        return Draw(y.clone(), self.log_prob(move), move if isinstance(self, Flips) else self.x)

    with contextlib.ExitStack() as stack:
        for law in _subclasses(Proposal):
            if "sample" in vars(law):
                stack.enter_context(mock.patch.object(law, "sample", sample))
        yield


def _subclasses(cls: type) -> list[type]:
    return [each for sub in cls.__subclasses__() for each in (sub, *_subclasses(sub))]


def transition_matrix(sampler: Any, energy: Energy, at: Any = None) -> Tensor:
    """P `(N, N)` of one step, from the sampler's own proposal density and acceptance.

    The acceptance is read off the sampler's own `step`, which is made to propose each state in turn.

    Args:
        sampler: a sampler with a density.
        energy: the target.
        at: which step of a schedule: `step` of the state.
    """
    exact = Exact(energy)
    n = len(exact.states)
    matrix = torch.zeros(n, n, dtype=torch.float64)
    state = sampler.init(energy, exact.states)
    state.step = at or 0
    for j in range(n):
        y = exact.states[j : j + 1].expand_as(exact.states).clone()
        with torch.no_grad():
            log_q = density(law_at(sampler, energy, state), y)
        with forced(y):
            _, info = sampler.step(energy, state)
        matrix[:, j] = torch.where(log_q == -torch.inf, 0, log_q.exp() * info.acceptance)
    stay = torch.arange(n)
    matrix[stay, stay] = 0
    matrix[stay, stay] = 1 - matrix.sum(1)
    return matrix


def density(proposal: Proposal, y: Tensor) -> Tensor:
    """Log q(y | x), `(B,)`."""
    return proposal.log_prob(proposal.move_to(y))


def bias(sampler: Sampler, energy: Energy, at: Any = None) -> float:
    """max |pi P - pi|: 0 for an exact kernel."""
    pi = Exact(energy).probabilities
    return float((pi @ transition_matrix(sampler, energy, at) - pi).abs().max())


def proposal_matches_density(sampler: Sampler, energy: Energy, n: int = 200_000, seed: int = 0) -> float:
    """Smallest p-value, over some starts, that proposals are drawn from their density.

    Each draw must also come with its own density, and with the move by which the proposal at y leads back.
    """
    torch.manual_seed(seed)
    exact = Exact(energy)
    smallest = 1.0
    for start in exact.states[:: max(1, len(exact.states) // 4)]:
        state = sampler.init(energy, start.expand(n, *start.shape).clone())
        with torch.no_grad():
            law = law_at(sampler, energy, state)
            draw = law.sample()
            torch.testing.assert_close(draw.log_prob, density(law, draw.y), rtol=1e-8, atol=1e-8)
            there = law_at(sampler, energy, sampler.init(energy, draw.y))
            torch.testing.assert_close(there.log_prob(draw.reverse), density(there, state.x), rtol=1e-8, atol=1e-8)
            one = sampler.init(energy, start.expand(len(exact.states), *start.shape).clone())
            law_of_y = density(law_at(sampler, energy, one), exact.states).exp()
        assert abs(float(law_of_y.sum()) - 1) < 1e-8
        smallest = min(smallest, chi_square_p(torch.bincount(exact.number(draw.y), minlength=len(law_of_y)), law_of_y))
    return smallest


def invariance_p(
    sampler: Sampler, energy: Energy, num_steps: int = 1, num_chains: int = 200_000, seed: int = 0
) -> float:
    """p-value of the hypothesis that exact draws are still exact draws after `num_steps` steps.

    `init` must draw whatever else the kernel keeps (auxiliary variables) given x.
    """
    torch.manual_seed(seed)
    exact = Exact(energy)
    x = exact.sample(num_chains)
    for state, _ in sampler.chain(energy, x, num_steps):
        x = state.x
    return exact.p_value(x)


def convergence_distance(sampler: Sampler, energy: Energy, num_steps: int, num_chains: int = 20_000) -> float:
    """Total variation between the law after `num_steps` from the least likely state, and exp(-E) / Z.

    Invariance alone passes the identity: this fails it. Chains are simulated: the distance of `num_chains` exact draws
    is about sqrt(N / (2 pi num_chains)).
    """
    torch.manual_seed(0)
    exact = Exact(energy)
    x = exact.states[exact.probabilities.argmin()].expand(num_chains, *exact.states.shape[1:]).clone()
    for state, _ in sampler.chain(energy, x, num_steps):
        x = state.x
    law = torch.bincount(exact.number(x), minlength=len(exact.states)) / num_chains
    return float((law - exact.probabilities).abs().sum()) / 2


def limit_distance(sampler: Sampler, energy: Energy, num_steps: int = 2**20) -> float:
    """`convergence_distance` by the transition matrix, without simulation: 0 for a kernel that reaches every state."""
    exact = Exact(energy)
    one = torch.eye(len(exact.states), dtype=torch.float64)
    for k in range(getattr(sampler, "cycle_length", 1)):
        one = one @ transition_matrix(sampler, energy, k)
    law = torch.matrix_power(one, num_steps)[exact.probabilities.argmin()]
    return float((law - exact.probabilities).abs().sum()) / 2


def rbms(num_visible: int, num_hidden: int) -> list[Energy]:
    """Three RBMs as stages of a training, the latest and most strongly coupled one first."""
    torch.manual_seed(3)
    path = [RBM(num_visible, num_hidden).double().requires_grad_(False) for _ in range(3)]
    for k, rbm in enumerate(path):
        rbm.W.data.normal_(0, 1.5 / (k + 1))
        rbm.b_v.data.normal_(0, 0.5)
    return [*path]
