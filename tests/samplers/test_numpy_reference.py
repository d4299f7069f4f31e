"""DMALA, GWG and AIS once more: plain loops in NumPy from the papers' formulas, which share no code with the kernels.

A coordinate is the number of its value in a table of choices: the bits 0 and 1, spins, levels, or one-hot vectors.
Where both are fed the same uniform numbers, they must give the same chains and weights, not only the same law.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from helpers_finite import DOMAINS, Exact, Target, transition_matrix
from helpers_tier import cases
from numpy.typing import NDArray

from ebmlab.domains import Finite
from ebmlab.energies import Bernoulli
from ebmlab.evaluation import ais
from ebmlab.samplers import DMALA, GWG, MetropolisSampler

Vector = NDArray[np.float64]
CHOICES = {
    "binary": np.array([[0.0], [1.0]]),
    "spin": np.array([[-1.0], [1.0]]),
    "ordinal": np.array([[0.0], [1.0], [2.0]]),
    "categorical": np.eye(3),
}
ALPHA, BALANCE = 0.5, 0.625  # these and 1 / alpha are exact in float32, in which the kernel keeps them
SIZES = {"binary": 4, "spin": 4, "ordinal": 2, "categorical": 2}


@dataclass
class Law:
    """E(v) = v'Qv / 2 + l'v + sum of C_ijk v_i v_j v_k, where v holds the rows of all coordinates."""

    choices: Vector
    size: int
    quadratic: Vector
    linear: Vector
    cubic: Vector

    def vector(self, x: tuple[int, ...]) -> Vector:
        return np.concatenate([self.choices[c] for c in x])

    def energy(self, x: tuple[int, ...]) -> float:
        v, total = self.vector(x), 0.0
        for i in range(len(v)):
            total += self.linear[i] * v[i]
            for j in range(len(v)):
                total += self.quadratic[i, j] * v[i] * v[j] / 2
                for k in range(len(v)):
                    total += self.cubic[i, j, k] * v[i] * v[j] * v[k]
        return float(total)

    def gradient(self, x: tuple[int, ...]) -> Vector:
        """dE/dv, a row for each coordinate."""
        v = self.vector(x)
        grad = self.linear.copy()
        for i in range(len(v)):
            for j in range(len(v)):
                grad[i] += (self.quadratic[i, j] + self.quadratic[j, i]) / 2 * v[j]
                for k in range(len(v)):
                    grad[i] += (self.cubic[i, j, k] + self.cubic[j, i, k] + self.cubic[j, k, i]) * v[j] * v[k]
        return grad.reshape(self.size, -1)

    def states(self) -> list[tuple[int, ...]]:
        return list(itertools.product(range(len(self.choices)), repeat=self.size))


def law_of(name: str) -> tuple[Law, Target]:
    target = Target(DOMAINS[name], "cubic")
    table = (target.quadratic.numpy(), target.linear.numpy(), target.cubic.numpy())
    return Law(CHOICES[name], SIZES[name], *table), target


def between(base: Vector, law: Law, beta: float) -> Law:
    """The energy (1 - beta) (-base'v) + beta E(v) on bits, with E that of the law."""
    linear = beta * law.linear - (1 - beta) * base
    return Law(law.choices, law.size, beta * law.quadratic, linear, beta * law.cubic)


def softmax(logits: list[float]) -> list[float]:
    weights = [math.exp(value - max(logits)) for value in logits]
    return [w / sum(weights) for w in weights]


def langevin(law: Law, x: tuple[int, ...], alpha: float, beta: float) -> list[list[float]]:
    """Zhang et al. 2022, Eq. 2 with the balance beta for 1/2: for each coordinate, the probability of each choice."""
    rows = []
    for grad, c in zip(law.gradient(x), x, strict=True):
        steps = law.choices - law.choices[c]
        rows.append(softmax([-beta * float(grad @ s) - float(s @ s) / (2 * alpha) for s in steps]))
    return rows


def one_change(law: Law, x: tuple[int, ...]) -> dict[tuple[int, ...], float]:
    """Grathwohl et al. 2021, Alg. 1: states that differ in one coordinate, by coordinate and cyclic shift."""
    moves, logits = [], []
    for i, grad in enumerate(law.gradient(x)):
        for shift in range(1, len(law.choices)):
            new = (x[i] + shift) % len(law.choices)
            moves.append((*x[:i], new, *x[i + 1 :]))
            logits.append(-float(grad @ (law.choices[new] - law.choices[x[i]])) / 2)
    return dict(zip(moves, softmax(logits), strict=True))


def density(kernel: str, law: Law, x: tuple[int, ...], y: tuple[int, ...]) -> float:
    """q(y | x)."""
    if kernel == "GWG":
        return one_change(law, x).get(y, 0.0)
    return math.prod(row[c] for row, c in zip(langevin(law, x, ALPHA, BALANCE), y, strict=True))


def acceptance(kernel: str, law: Law, x: tuple[int, ...], y: tuple[int, ...]) -> float:
    back, forth = density(kernel, law, y, x), density(kernel, law, x, y)
    return min(1.0, math.exp(law.energy(x) - law.energy(y)) * back / forth)


def pick(cumulative: list[float], u: float) -> int:
    """The first entry of a distribution function that is above u."""
    return next(k for k, value in enumerate(itertools.accumulate(cumulative)) if u * sum(cumulative) < value)


def move(kernel: str, law: Law, x: tuple[int, ...], us: Vector, u: float) -> tuple[tuple[int, ...], float]:
    """Next state and acceptance probability, from one uniform number per coordinate (GWG: one in all) and one more."""
    if kernel == "GWG":
        options = one_change(law, x)
        y = list(options)[pick(list(options.values()), float(us[0]))]
    elif len(law.choices) == 2:  # flips where the uniform number is below the probability of a flip
        rows = langevin(law, x, ALPHA, BALANCE)
        y = tuple(1 - c if v < row[1 - c] else c for row, c, v in zip(rows, x, us, strict=True))
    else:
        rows = langevin(law, x, ALPHA, BALANCE)
        y = tuple(pick(row, float(v)) for row, v in zip(rows, us, strict=True))
    accept = acceptance(kernel, law, x, y)
    return (y if u < accept else x), accept


KERNELS: dict[str, Callable[[], MetropolisSampler]] = {"DMALA": lambda: DMALA(ALPHA, BALANCE), "GWG": GWG}
every_kernel = pytest.mark.parametrize("kernel", KERNELS)
every_domain = pytest.mark.parametrize("name", DOMAINS)


def numbers(domain: Finite, x: torch.Tensor) -> list[tuple[int, ...]]:
    return [tuple(row) for row in domain.to_index(x).flatten(1).tolist()]


@every_domain
def test_transition_probabilities_are_those_of_the_paper(name: str) -> None:
    law, target = law_of(name)
    states = numbers(target.domain, Exact(target).states)
    expected = np.zeros((len(states), len(states)))
    for a, x in enumerate(states):
        for b, y in enumerate(states):
            expected[a, b] = density("DMALA", law, x, y) * acceptance("DMALA", law, x, y) if a != b else 0
        expected[a, a] = 1 - expected[a].sum()
    np.testing.assert_allclose(transition_matrix(KERNELS["DMALA"](), target).numpy(), expected, atol=1e-12)


@every_kernel
@cases("name", list(DOMAINS), fast=[0, 2, 3])
def test_the_same_uniform_numbers_make_the_same_chains(kernel: str, name: str) -> None:
    """Fifty steps of eight chains, with the same acceptance probabilities."""
    law, target = law_of(name)
    n, draws = 8, 1 if kernel == "GWG" else law.size
    torch.manual_seed(1)
    x = target.domain.random(n).double()
    chains = numbers(target.domain, x)
    torch.manual_seed(2)
    uniforms = [(torch.rand(n, draws, dtype=torch.float64), torch.rand(n, dtype=torch.float64)) for _ in range(50)]
    torch.manual_seed(2)
    moved = 0
    for (us, u), (state, info) in zip(uniforms, KERNELS[kernel]().chain(target, x, 50), strict=True):
        before = chains
        steps = [move(kernel, law, c, us[i].numpy(), float(u[i])) for i, c in enumerate(chains)]
        chains = [y for y, _ in steps]
        assert numbers(target.domain, state.x) == chains
        np.testing.assert_allclose(info.acceptance.numpy(), [a for _, a in steps], atol=1e-9)
        moved += sum(a != b for a, b in zip(before, chains, strict=True))
    assert 30 < moved < 400, "some proposals are rejected, some are not"


def annealed(kernel: str, law: Law, mean: Vector, steps: int, n: int) -> Vector:
    """AIS (Neal 2001) from independent bits: log-weights, whose mean weight is Z. Draws from torch's generator."""
    logits = np.log(mean / (1 - mean))
    first = torch.rand(n, law.size, dtype=torch.float64).numpy()
    chains = [tuple(int(u < p) for u, p in zip(row, mean, strict=True)) for row in first]
    log_w = np.full(n, -np.log(1 - mean).sum())  # log Z of the bits
    draws = 1 if kernel == "GWG" else law.size
    for k in range(steps):
        now, new = between(logits, law, k / steps), between(logits, law, (k + 1) / steps)
        log_w += [now.energy(x) - new.energy(x) for x in chains]
        us, u = torch.rand(n, draws, dtype=torch.float64).numpy(), torch.rand(n, dtype=torch.float64).numpy()
        chains = [move(kernel, new, x, us[i], float(u[i]))[0] for i, x in enumerate(chains)]
    return log_w


@every_kernel
def test_annealing_has_the_same_weights(kernel: str) -> None:
    """They agree chain by chain, and their mean is the enumerated Z."""
    law, target = law_of("binary")
    mean, steps, n = np.array([0.3, 0.5, 0.6, 0.8]), 8, 60
    torch.manual_seed(3)
    expected = annealed(kernel, law, mean, steps, n)
    torch.manual_seed(3)
    found = ais(
        target, KERNELS[kernel](), num_chains=n, num_temperatures=steps, base=Bernoulli(torch.from_numpy(mean))
    ).log_weights
    np.testing.assert_allclose(found.flatten().numpy(), expected, atol=1e-9)
    z = sum(math.exp(-law.energy(x)) for x in law.states())
    weights = np.exp(expected)
    assert abs(weights.mean() - z) < 4 * weights.std() / n**0.5
    assert weights.std() / z < 1
