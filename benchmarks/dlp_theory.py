"""Theorems 5.2 (Figure 1b) and 6.1 of Zhang et al. (2022), exactly: DULA's bias on one spin, and noisy gradients.

    python benchmarks/dlp_theory.py        # prints both tables; the picture goes to docs/pictures/dlp_theory.png

One spin has U = a x^2 + b x + 2 eps sin(pi x / 2), with a = 1 and b = 0.1. Its gradient on {-1, 1} does not depend on
eps while the law does: the further U is from quadratic, the more biased is DULA. The noise of Theorem 6.1 is +sigma or
-sigma with equal probability, added to the gradient of one bit. For a gradient bounded by L the theorem says that the
proposal changes by at most 2 sigma exp(L - 1 / (2 alpha)) in L1.
"""

from __future__ import annotations

import math
from pathlib import Path

import matplotlib.pyplot as plt
import torch
from torch import Tensor

from ebmlab.domains import Binary, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.evaluation import exact_log_z
from ebmlab.samplers import DULA, GradientState
from ebmlab.samplers.proposals import factorised

A, B = 1.0, 0.1
EPSILONS = [0.0, 0.05, 0.1, 0.2, 0.3, 0.4, 0.5]
STEP = 0.4  # on a spin; 0.1 on a bit
SIGMAS, ALPHAS, BOUND = [0.1, 0.3, 1.0], [0.1, 0.2, 0.4], 2.0  # Theorem 6.1: noise, steps on a bit, L


class Wave(Energy):
    """-U of the paper's example."""

    def __init__(self, epsilon: float) -> None:
        super().__init__()
        self.domain, self.epsilon = Spin(1), epsilon

    def forward(self, x: Tensor) -> Tensor:
        return -(A * x.square() + B * x + 2 * self.epsilon * torch.sin(math.pi * x / 2)).squeeze(1)


def transition_matrix(sampler: DULA, energy: Energy) -> Tensor:
    """Row by row the law of a step of DULA from each state, `(N, N)`."""
    domain = energy.domain
    assert isinstance(domain, Finite)
    states = domain.enumerate().double()
    value, grad = energy.value_and_grad(states)
    proposal = sampler.double().proposal(energy, GradientState(x=states, energy=value, grad=grad))
    columns = [proposal.log_prob(proposal.move_to(y.expand_as(states))).exp() for y in states]
    return torch.stack(columns, 1)


def bias(epsilon: float) -> float:
    """L1 distance between the stationary law of DULA and exp(U) / Z."""
    energy = Wave(epsilon)
    law = torch.matrix_power(transition_matrix(DULA(STEP), energy), 2**30)[0]
    states = energy.domain.enumerate().double()  # type: ignore[attr-defined]
    target = (-energy(states) - exact_log_z(energy)).double().exp()
    return float((law - target / target.sum()).abs().sum())


def change(sigma: float, alpha: float) -> float:
    """The largest L1 distance between E[q] with noise and q without it, over gradients up to L - sigma in size."""
    x = torch.zeros(401, 1, dtype=torch.float64)
    grad = torch.linspace(-(BOUND - sigma), BOUND - sigma, len(x), dtype=torch.float64).unsqueeze(1)

    def flip(drift: Tensor) -> Tensor:
        proposal = factorised(Binary(1), x, drift / 2, torch.tensor(1 / alpha, dtype=torch.float64))
        return proposal.log_prob(torch.ones_like(x)).exp()

    noisy = (flip(grad + sigma) + flip(grad - sigma)) / 2
    return float(2 * (noisy - flip(grad)).abs().max())


def main() -> None:
    biases = [bias(epsilon) for epsilon in EPSILONS]
    print("| eps | L1 distance |\n|---|---|")
    print("\n".join(f"| {e:g} | {b:.4g} |" for e, b in zip(EPSILONS, biases, strict=True)))
    print("\n| sigma | step | change of the proposal | bound |\n|---|---|---|---|")
    for sigma in SIGMAS:
        for alpha in ALPHAS:
            bound = 2 * sigma * math.exp(BOUND - 1 / (2 * alpha))
            print(f"| {sigma:g} | {alpha:g} | {change(sigma, alpha):.3g} | {bound:.3g} |")
    figure, axes = plt.subplots(figsize=(4.5, 3))
    axes.plot(EPSILONS, biases, "o-")
    axes.set(xlabel="distance from a quadratic, eps", ylabel="L1 distance", title="DULA's bias on one spin")
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "dlp_theory.png", dpi=120)


if __name__ == "__main__":
    main()
