"""How a step size changes along a chain: small frozen objects that map a step to a factor of the first size."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.errors import UserError


class Schedule:
    """Factors of the first step size."""

    def factor(self, k: int, num_steps: int | None) -> float:
        """The factor at step k = 0, 1, ... of `num_steps`."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Schedule):
    """Always 1."""

    def factor(self, k: int, num_steps: int | None) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """(1 + cos(pi k / K)) / 2 for k = 0, ..., K - 1 (Liao et al. 2022, Eq. 22).

    The paper prints k = 1, ..., K, whose last step has size 0 and a Metropolis ratio of 0 / 0.
    """

    def factor(self, k: int, num_steps: int | None) -> float:
        if num_steps is None:
            raise UserError(
                "a Cosine schedule needs its length: call sampler.init(energy, x, num_steps) or sampler.sample"
            )
        return (1 + math.cos(math.pi * min(k, num_steps - 1) / num_steps)) / 2


def cosine_factors(num_steps: int) -> Tensor:
    """All the factors of a `Cosine` schedule, `(num_steps,)`."""
    return torch.tensor([Cosine().factor(k, num_steps) for k in range(num_steps)])
