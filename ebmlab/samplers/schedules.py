"""How a step size changes along a chain: a schedule gives for each step a factor of the first step size."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded


class Schedule(Recorded):
    """Factors of the first step size.

    Example:
        >>> from ebmlab.samplers import Cosine, Schedule
        >>> schedule: Schedule = Cosine()
        >>> schedule.factor(5, horizon=10)
        0.5
    """

    def factor(self, k: int, horizon: int | None) -> float:
        """The factor at step k = 0, 1, ... of `horizon` planned steps."""
        raise NotImplementedError


@dataclass(frozen=True)
class Constant(Schedule):
    """Always 1.

    Example:
        >>> Constant().factor(5, horizon=None)
        1.0
    """

    def factor(self, k: int, horizon: int | None) -> float:
        return 1.0


@dataclass(frozen=True)
class Cosine(Schedule):
    """(1 + cos(pi k / K)) / 2 for k = 0, ..., K - 1 (Liao et al. 2022, Eq. 22).

    The paper prints k = 1, ..., K. Then the last step would have size 0 and a Metropolis ratio of 0 / 0.

    Example:
        >>> [Cosine().factor(k, horizon=2) for k in range(2)]
        [1.0, 0.5]
    """

    def factor(self, k: int, horizon: int | None) -> float:
        if horizon is None:
            raise UserError(
                "a Cosine schedule needs its length: call sampler.init(energy, x, horizon) or sampler.sample"
            )
        return (1 + math.cos(math.pi * min(k, horizon - 1) / horizon)) / 2


def cosine_factors(horizon: int) -> Tensor:
    """All the factors of a `Cosine` schedule, `(horizon,)`."""
    return torch.tensor([Cosine().factor(k, horizon) for k in range(horizon)])


@contextmanager
def scaled_steps(sampler: nn.Module, factor: float) -> Iterator[None]:
    """Runs its body with a multiple of the sampler's `step_size`, which lies where it lay, as CUDA graphs need it.

    Args:
        sampler: has a tensor `step_size`, unless the factor is 1.
        factor: of the step size.
    """
    if factor == 1.0:
        yield
        return
    size = sampler.step_size
    assert isinstance(size, Tensor)
    whole = size.clone()
    size.mul_(factor)
    try:
        yield
    finally:
        size.copy_(whole)
