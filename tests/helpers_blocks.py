"""Exact transition matrices of single steps of a scan, and fast or simple energies."""

from __future__ import annotations

from helpers_finite import Exact
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.samplers import Sampler
from ebmlab.samplers.gibbs import GibbsState
from ebmlab.testing import transition_matrix


class Table(Energy):
    """Another energy and its gradient in tables by state: fast for the many chains of a chi-square test."""

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.domain, self._exact = energy.domain, Exact(energy)
        self._values, self._grads = energy.value_and_grad(self._exact.states)

    def forward(self, x: Tensor) -> Tensor:
        return self._values[self._exact.number(x)].to(x.dtype)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self._grads[self._exact.number(x)].to(x.dtype)


class Sum(Energy):
    """E(x) = the sum of x, on any domain."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).sum(1)


def block_matrix(sampler: Sampler, energy: Energy, at: int = 0) -> Tensor:
    """P `(N, N)` of step number `at`; a systematic scan begins with block 0."""

    def step(energy: Energy, x: Tensor) -> Tensor:
        state = sampler.init(energy, x)
        state.step = at
        if isinstance(state, GibbsState):
            state.first = 0
        return sampler.step(energy, state)[0].x

    return transition_matrix(step, energy)


def block_bias(sampler: Sampler, energy: Energy, at: int = 0) -> float:
    """max |pi P - pi|: 0 for an exact kernel."""
    pi = Exact(energy).probabilities
    return float((pi @ block_matrix(sampler, energy, at) - pi).abs().max())
