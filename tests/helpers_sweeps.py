"""Sweeps of single sites: their exact transitions as products of conditionals."""

from __future__ import annotations

from typing import cast

import torch
from helpers_finite import Exact
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy


def number(energy: Energy, x: Tensor) -> Tensor:
    """Of each state in the order of `enumerate`, `(B,)`."""
    domain = cast(Finite, energy.domain)
    return domain.to_index(x).flatten(1) @ (domain.num_values ** torch.arange(domain.size).flip(0))


def transitions(energy: Energy, orders: list[tuple[int, ...]]) -> Tensor:
    """Of sweeps, in the mean over these orders; p(y_i | all others) by enumeration, in float64."""
    exact = Exact(energy.double())
    digits = cast(Finite, energy.domain).to_index(exact.states).flatten(1)
    total = torch.zeros(len(digits), len(digits), dtype=torch.float64)
    for order in orders:
        product = torch.eye(len(digits), dtype=torch.float64)
        for i in order:
            others = torch.arange(digits.shape[1]) != i
            agree = (digits[:, None, others] == digits[None, :, others]).all(-1)
            law = torch.where(agree, exact.probabilities, 0)
            product = product @ (law / law.sum(1, keepdim=True))
        total += product
    energy.float()
    return total / len(orders)
