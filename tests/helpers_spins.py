"""Ising models for chains in words, and their exact laws in float64."""

from __future__ import annotations

import itertools

import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.energies.paths.tempering import tempered
from ebmlab.samplers.spin_rules import TIES, Rule, heat_bath


def ising(couplings: dict[tuple[int, int], float], field: list[float]) -> Ising:
    matrix = torch.zeros(len(field), len(field))
    for (i, j), value in couplings.items():
        matrix[i, j] = matrix[j, i] = value
    return Ising(matrix, torch.tensor(field))


MODELS = {
    "signs, degrees 0 to 3": ising({(0, 1): 0.5, (0, 2): -0.5, (1, 2): -0.5, (0, 3): 0.5, (3, 4): -0.5}, [0.0] * 6),
    "weights and fields": ising({(0, 1): 0.5, (1, 2): -1.0, (2, 3): 1.5, (0, 3): -0.5}, [0.0, 0.5, -1.0, 0.0, 1.0]),
    "a star of five": ising({(0, i): (-1.0) ** i for i in range(1, 6)}, [0.0] * 6),
    "fields alone": ising({}, [0.25, -0.75, 0.5]),
}


def metropolis_up(states: Tensor, cost: Tensor) -> Tensor:
    """The probability that a spin is up after a flip that costs this much if it is up."""
    flip = torch.where(cost == 0, TIES, torch.minimum(torch.ones_like(cost), (-states * cost).exp()))
    return torch.where(states > 0, 1 - flip, flip)


def exact(energy: Ising, start: int, betas: list[float], rule: Rule = heat_bath) -> Tensor:
    """The law of one chain after draws, or Metropolis flips, of one site after the other, colour by colour."""
    states = energy.domain.enumerate().to(energy.dtype)
    law = torch.zeros(len(states), dtype=torch.float64)
    law[start] = 1
    for beta, sites in itertools.product(betas, energy.colours):
        weights = (-tempered(energy, beta)(states).double()).exp()
        for i in sites.tolist():
            other = torch.arange(len(states)) ^ 1 << (states.shape[1] - 1 - i)
            if rule is heat_bath:
                law = (law + law[other]) * weights / (weights + weights[other])
            else:
                same = (weights - weights[other]).abs() < 1e-9
                flip = torch.where(same, TIES, (weights[other] / weights).clamp(max=1.0))
                law = law * (1 - flip) + (law * flip)[other]
    return law


def chi_square_p(counts: Tensor, law: Tensor) -> float:
    from scipy.stats import chi2

    expected = counts.sum() * law
    assert bool((counts[law == 0] == 0).all())
    seen = expected > 5
    observed = torch.cat([counts[seen], counts[~seen].sum().view(1)])
    wanted = torch.cat([expected[seen], expected[~seen].sum().view(1)])
    kept = wanted > 0
    value = ((observed - wanted) ** 2 / wanted)[kept].sum()
    return float(chi2.sf(float(value), int(kept.sum()) - 1))
