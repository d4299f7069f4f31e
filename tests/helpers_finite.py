"""Small targets, and chi-square tests of one step and of where chains end.

`ebmlab.testing` has what proves a kernel: its exact law, its transition matrix, a target without symmetries.
"""

from __future__ import annotations

import math
from typing import Literal

import pytest
import torch
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import RBM, Energy
from ebmlab.samplers import Sampler
from ebmlab.samplers.proposals import Proposal
from ebmlab.testing import ExactLaw as Exact
from ebmlab.testing import Rugged as Target  # noqa: F401
from ebmlab.testing import transition_matrix

DOMAINS: dict[str, Finite] = {
    "binary": Binary(4),
    "spin": Spin(4),
    "ordinal": Ordinal(2, 3),
    "categorical": Categorical(2, 3),
}
KINDS: tuple[Literal["quadratic", "cubic", "flat"], ...] = ("quadratic", "cubic", "flat")
# For many samplers at once: what a quadratic or flat target would show, a cubic one shows nearly always.
MOSTLY_CUBIC = pytest.mark.parametrize(
    "kind", ["cubic", *(pytest.param(k, marks=pytest.mark.slow) for k in ("quadratic", "flat"))]
)


# A domain of two values and one of more; tests/samplers/test_finite_contract.py has the others in the fast tier.
MOSTLY_TWO_DOMAINS = cases("domain", DOMAINS, fast=("spin", "categorical"))


class Linear(Energy):
    """E(x) = b' x, b without symmetries."""

    def __init__(self, domain: Finite) -> None:
        super().__init__()
        self.domain = domain
        self.b = 0.7 * torch.linspace(-2, 3, math.prod(domain.event_shape), dtype=torch.float64).cos()

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1) @ self.b

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self.b.view(x.shape[1:]).expand_as(x)


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


def density(proposal: Proposal, y: Tensor) -> Tensor:
    """Log q(y | x), `(B,)`."""
    return proposal.log_prob(proposal.move_to(y))


def bias(sampler: Sampler, energy: Energy, at: int = 0) -> float:
    """max |pi P - pi|: 0 for an exact kernel."""
    pi = Exact(energy).probabilities
    return float((pi @ transition_matrix(sampler, energy, step=at) - pi).abs().max())


def invariance_p(
    sampler: Sampler, energy: Energy, num_steps: int = 1, num_chains: int = 100_000, seed: int = 0
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


def rbms(num_visible: int, num_hidden: int) -> list[Energy]:
    """Three RBMs as stages of a training, the latest and most strongly coupled one first."""
    torch.manual_seed(3)
    path = [RBM(num_visible, num_hidden).double().requires_grad_(False) for _ in range(3)]
    for k, rbm in enumerate(path):
        rbm.W.data.normal_(0, 1.5 / (k + 1))
        rbm.b_v.data.normal_(0, 0.5)
    return [*path]
