"""`assert_exact_starts`: a sampler is tested at any size, from exact states of laws whose Z nobody knows.

What follows is true of any kernel that leaves the law invariant, in any dimension and after any number of steps.
Source: Gandy & Scott (2021, Unit testing for MCMC and other Monte Carlo methods).

- Reversible kernels: start and end of a chain from an exact state are exchangeable. So the rise of any function is
  symmetric about 0. Its signed-rank statistic over the standard deviation exceeds t with probability at most 2 exp(-t^2
  / 2). This is Hoeffding's inequality, without approximation. It is their rank test of a chain of two states.
- Other kernels: the ends are as good as fresh draws, with which the ranks of a function are compared.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass

import torch
from scipy.stats import rankdata
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.testing.transitions import Kernel, moved, title

REJECT = 4.46  # 2 exp(-t^2 / 2) < 1e-4
POWER = 1.645  # quantile of the normal law: biases are detected with probability 0.95


@dataclass(frozen=True)
class ExactStarts:
    """What `assert_exact_starts` has found.

    Attributes:
        z: the statistic; right kernels exceed 4.46 at most once in 10,000 times.
        mean_rise: of the function over the chains, in the function's unit.
        smallest_bias: the mean rise that would be detected with probability 0.95.

    Example:
        >>> ExactStarts(z=0.3, mean_rise=0.01, smallest_bias=0.2).smallest_bias
        0.2
    """

    z: float
    mean_rise: float
    _: KW_ONLY
    smallest_bias: float


def assert_exact_starts(
    sampler: Kernel,
    source: Callable[[], tuple[Energy, Tensor]],
    *,
    num_chains: int = 200,
    num_steps: int = 4,
    reversible: bool = True,
    function: Callable[[Energy, Tensor], Tensor] = lambda energy, x: energy(x),
) -> ExactStarts:
    """Asserts that chains from exact states of a law still follow it, whatever the size of the model.

    Args:
        sampler: a sampler, or a function `kernel(energy, x)` that moves states.
        source: gives an energy with independent exact states `(B, *event)` of its law, anew at each call:
            `lambda: planted_rbm()[:2]`, or `lambda: (energy, energy.sample(100))` with a `Tilted` energy.
        num_chains: chains that are run.
        num_steps: steps of each chain.
        reversible: whether the kernel satisfies detailed balance and takes every step with the same settings. A scan or
            a cycle of step sizes does not: then the ends are compared with fresh draws, of which as many are made.
        function: what is looked at, `function(energy, x)` `(B,)`; by default the energy.

    Returns:
        The statistic, and the smallest bias that this test detects.

    Raises:
        AssertionError: the sampler fails, with one line that says by how much.
        UserError: the source gives no states.

    Example:
        >>> import torch
        >>> from ebmlab.samplers import DMALA, DULA
        >>> from ebmlab.testing import assert_exact_starts, planted_rbm
        >>> _ = torch.manual_seed(0)
        >>> found = assert_exact_starts(DMALA(0.5), lambda: planted_rbm(100, 50, scale=0.2)[:2])
        >>> 0 < found.smallest_bias < 10
        True
        >>> assert_exact_starts(DULA(0.5), lambda: planted_rbm(100, 50, scale=0.2)[:2])  # no Metropolis step
        Traceback (most recent call last):
        AssertionError: DULA: chains from 200 exact states leave their law: the function (by default the energy) ...
    """
    starts, ends, count = list[Tensor](), list[Tensor](), 0
    with torch.no_grad():
        while count < num_chains:
            energy, x = source()
            if len(x) == 0:
                raise UserError("assert_exact_starts: the source gave no states")
            starts.append(function(energy, x))
            ends.append(function(energy, moved(sampler, energy, x.clone(), num_steps=num_steps)))
            count += len(x)
        before, after = torch.cat(starts)[:num_chains].detach(), torch.cat(ends)[:num_chains].detach()
        if reversible:
            rise = after - before
            z, smallest, test = signed_rank_z(rise), smallest_bias(rise), "signed ranks of its rises"
        else:
            fresh = list[Tensor]()
            while sum(map(len, fresh)) < num_chains:
                fresh.append(function(*source()))
            others = torch.cat(fresh)[:num_chains].detach()
            z, test = two_sample_z(after, others), "ranks among fresh exact states"
            smallest = smallest_difference(others)
    mean = float((after - before).mean())
    if not abs(z) <= REJECT:
        raise AssertionError(
            f"{title(sampler)}: chains from {num_chains} exact states leave their law: the function (by default the "
            f"energy) rises by {mean:.3g} on average in {num_steps} steps, {test} give z = {z:.1f}, beyond {REJECT} "
            f"(right kernels: once in 10,000 times); the smallest bias that this test detects is {smallest:.2g}"
        )
    return ExactStarts(z, mean, smallest_bias=smallest)


def signed_rank_z(rise: Tensor) -> float:
    """Wilcoxon's signed-rank statistic of `(n,)` numbers over its standard deviation, without those that are 0."""
    rise = rise[rise != 0].double()
    ranks = torch.from_numpy(rankdata(rise.abs().numpy()))
    return float((rise.sign() * ranks).sum() / ranks.square().sum().sqrt()) if len(rise) else 0.0


def two_sample_z(ends: Tensor, fresh: Tensor) -> float:
    """The rank sum of the ends `(n,)` among ends and fresh draws `(m,)`, standardised (Mann & Whitney)."""
    n, m = len(ends), len(fresh)
    ranks = rankdata(torch.cat([ends, fresh]).double().numpy())
    return float((ranks[:n].sum() - n * (n + m + 1) / 2) / math.sqrt(n * m * (n + m + 1) / 12))


def smallest_bias(rise: Tensor) -> float:
    """The mean rise that `signed_rank_z` rejects with probability 0.95, if it comes on top of rises `(n,)` like these.

    Of n normal numbers, shifted by d standard deviations, the statistic has the mean sqrt(3 n) (Phi(sqrt(2) d) - 1/2).
    """
    rising = rise[rise != 0]
    n = len(rising)
    if n < 2:
        return math.inf
    return n / len(rise) * float(rising.std()) * _quantile((REJECT + POWER) / math.sqrt(3 * n)) / math.sqrt(2)


def smallest_difference(fresh: Tensor) -> float:
    """The difference of means that `two_sample_z` rejects with probability 0.95, of n ends and these n fresh draws.

    Of normal numbers d standard deviations apart, the statistic has the mean sqrt(6 n) (Phi(d / sqrt(2)) - 1/2).
    """
    return float(fresh.std()) * _quantile((REJECT + POWER) / math.sqrt(6 * len(fresh))) * math.sqrt(2)


def _quantile(excess: float) -> float:
    """Of the normal law at 1/2 + `excess`; infinite from 1 on."""
    return float(torch.special.ndtri(torch.tensor(min(0.5 + excess, 1.0), dtype=torch.float64)))
