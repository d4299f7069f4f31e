"""Theorems 5.2 (Figure 1b) and 6.1 and the example of Appendix H of Zhang et al. (2022), without sampling.

    python papers/dlp_theory.py        # prints three tables; the picture goes to docs/pictures/dlp_theory.png

One spin has U = a x^2 + b x + 2 eps sin(pi x / 2), with a = 1 and b = 0.1. Its gradient on {-1, 1} does not depend on
eps while the law does: the further U is from quadratic, the more biased is DULA. The noise of Theorem 6.1 is +sigma or
-sigma with equal probability, added to the gradient of one bit. For a gradient bounded by L the theorem says that the
proposal changes by at most 2 sigma exp(L - 1 / (2 alpha)) in L1.

Appendix H: two spins with U = -0.001 x_1^2 - 1000 x_2^2, which is the same for all four states. Their gradients differ
by a factor of a million, so that one step size does not suit both. Each spin flips with a probability of its own, from
which the error of its mean over a chain follows.
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
STEPS = [0.001, 0.01, 0.1, 0.3, 1.0, 10.0]  # of the example in Appendix H
LENGTH = 250_000  # steps of a chain on two spins; with scales the error is then the -6.2 that the paper prints
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
        proposal = factorised(Binary(1), x, drift / 2, stiffness=torch.tensor(1 / alpha, dtype=torch.float64))
        return proposal.log_prob(torch.ones_like(x)).exp()

    noisy = (flip(grad + sigma) + flip(grad - sigma)) / 2
    return float(2 * (noisy - flip(grad)).abs().max())


class TwoSpins(Energy):
    """-U of the example in Appendix H, whose law is uniform."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Spin(2)

    def forward(self, x: Tensor) -> Tensor:
        return x.square() @ torch.tensor([0.001, 1000.0]).to(x)


def flips(sampler: DULA) -> Tensor:
    """The probabilities of the two spins to flip in a step, which do not depend on their values."""
    energy = TwoSpins()
    one_law = transition_matrix(sampler, energy)[0]
    states = energy.domain.enumerate()
    return torch.stack([one_law[states[:, i] != states[0, i]].sum() for i in range(2)])


def log_rmse(flip: Tensor) -> float:
    """Logarithm of the root of E[mean^2], over both spins, of the mean over a chain; the true mean is 0.

    States k steps apart have the correlation (1 - 2 flip)^k.
    """
    lag = torch.arange(1, LENGTH, dtype=torch.float64)
    correlation = (1 - 2 * flip.unsqueeze(1)) ** lag
    error = (LENGTH + 2 * ((LENGTH - lag) * correlation).sum(1)) / LENGTH**2
    return 0.5 * math.log(error.mean())


def main() -> None:
    biases = [bias(epsilon) for epsilon in EPSILONS]
    print("| eps | L1 distance |\n|---|---|")
    print("\n".join(f"| {e:g} | {b:.4g} |" for e, b in zip(EPSILONS, biases, strict=True)))
    print("\n| sigma | step | change of the proposal | bound |\n|---|---|---|---|")
    for sigma in SIGMAS:
        for alpha in ALPHAS:
            bound = 2 * sigma * math.exp(BOUND - 1 / (2 * alpha))
            print(f"| {sigma:g} | {alpha:g} | {change(sigma, alpha):.3g} | {bound:.3g} |")
    print("\n| step | scales | the spins flip with probability | log RMSE of the mean |\n|---|---|---|---|")
    for step, scales in [*((step, None) for step in STEPS), (1.0, torch.tensor([1000.0, 0.001]))]:
        flip = flips(DULA(step, precondition=scales))
        named = "-" if scales is None else "1000, 0.001"
        print(f"| {step:g} | {named} | {flip[0]:.3g}, {flip[1]:.3g} | {log_rmse(flip):.2f} |")
    figure, axes = plt.subplots(figsize=(4.5, 3))
    axes.plot(EPSILONS, biases, "o-")
    axes.set(xlabel="distance from a quadratic, eps", ylabel="L1 distance", title="DULA's bias on one spin")
    figure.tight_layout()
    figure.savefig(Path(__file__).parents[1] / "docs" / "pictures" / "dlp_theory.png", dpi=120)


if __name__ == "__main__":
    main()
