"""The kernel Stein discrepancy of samples from the law of an energy, which needs no log Z, and its test."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Finite, Real
from ebmlab.energies import Energy
from ebmlab.energies.laws import require_one_for_all
from ebmlab.errors import UserError
from ebmlab.evaluation.discrete_stein import discrete_stein
from ebmlab.evaluation.langevin_stein import langevin_stein
from ebmlab.numerics.noise import uniform_numbers
from ebmlab.settings import require_count, require_inside

BATCH = 1024  # states whose gradients or neighbours are computed at once
CHUNK = 2**22  # signs at a time


class SteinTest(NamedTuple):
    """Whether samples follow the law of an energy.

    Attributes:
        discrepancy: the squared discrepancy, as `stein_discrepancy` gives it.
        p_value: the chance of one as large from samples of the law.

    Example:
        >>> SteinTest(discrepancy=0.3, p_value=0.001).p_value
        0.001
    """

    discrepancy: float
    p_value: float


def stein_discrepancy(energy: Energy, x: Tensor, *, bandwidth: float | None = None) -> Tensor:
    """The squared kernel Stein discrepancy between samples and the law exp(-E(x)) / Z, without log Z.

    It is the mean over pairs of different samples of a kernel u(x, x') that vanishes on average over the law. On `Real`
    u is of the gradient of E and of an inverse multiquadric kernel, see `langevin_stein.py`. On finite domains
    it is of the law of each coordinate given the others and of exp(-H / d), see `discrete_stein.py`. The mean has no
    bias, and may be below 0 for samples of the law.

    Like score matching it is all but blind to the weights of modes that lie far apart. It needs n^2 numbers in float64,
    several times over. Gradients and energies have the energy's precision, all else is float64.

    Args:
        energy: of the law.
        x: independent samples, `(n, *event)`, n at least 2.
        bandwidth: h of the inverse multiquadric, on `Real` alone; by default the median distance between samples.

    Returns:
        A scalar, float64.

    Raises:
        UserError: there are too few samples, they are not in the domain, or the energy is not finite around them.

    Example:
        >>> from ebmlab.energies import StandardNormal
        >>> energy, x = StandardNormal(Real(2)), torch.randn(500, 2)
        >>> bool(stein_discrepancy(energy, x) < 0.1 < stein_discrepancy(energy, x + 1))
        True
    """
    return _mean_of_pairs(stein_matrix(energy, x, bandwidth))


@torch.no_grad()
def stein_test(
    energy: Energy,
    x: Tensor,
    *,
    num_bootstraps: int = 1000,
    change: float = 0.5,
    bandwidth: float | None = None,
) -> SteinTest:
    """Tests whether samples follow the law of an energy, by a wild bootstrap (Chwialkowski et al., 2016, Sec. 3).

    The sum of u(x_i, x_j) over all pairs is compared with sums of w_i w_j u(x_i, x_j), of random signs w. Signs follow
    each other as a Markov chain, which keeps the correlation of samples that are states of one chain in order. The
    p-value is right for many samples. At 100 independent ones, of 1 to 6 real coordinates, 600 tests at the level 0.05
    rejected the right law at rates from 0.03 to 0.05. Of 2,000 tests on each of 7 laws of 2 to 8 bits or classes it was
    0.04 to 0.06.

    Deep modes of finite domains need more draws: rates came to 0.2 where redrawing each coordinate of all draws, given
    the others, would change m = 4 to 15 of them. Below, the p-value is at least exp(-m), the chance that none is seen
    changed, and little can be told.

    Args:
        energy: see `stein_discrepancy`.
        x: see `stein_discrepancy`; or the states of one chain, in order.
        num_bootstraps: number of sums with random signs.
        change: chance that the sign changes from one sample to the next. 1/2 is for independent samples. Take
            1 / (4 t) for a chain of n states of the effective sample size n / t, t being its integrated autocorrelation
            time. On autoregressions of 300 states this rejected at 0.03 to 0.07, and 1 / (2 t) at 0.10 to 0.13.
        bandwidth: see `stein_discrepancy`.

    Raises:
        UserError: see `stein_discrepancy`; or there are no sums, or no such chance.

    Example:
        >>> from ebmlab.energies import StandardNormal
        >>> stein_test(StandardNormal(Real(2)), torch.randn(500, 2) + 1).p_value < 0.01
        True
    """
    require_count("stein_test", num_bootstraps=num_bootstraps)
    require_inside("stein_test", "(0, 0.5]", change=change)
    matrix, moves = _kernel(energy, x, bandwidth)
    found, larger = matrix.sum(), 0
    for part in torch.split(torch.ones(num_bootstraps), max(1, CHUNK // len(x))):
        signs = 1 - 2 * (uniform_numbers(len(part), len(x), device=x.device) < change).to(matrix)
        signs[:, 0] = 1  # all signs at once change no sum
        signs = signs.cumprod(1)
        larger += int(((signs @ matrix * signs).sum(1) >= found).sum())
    p_value = max((1 + larger) / (1 + num_bootstraps), math.exp(-2 * change * moves))
    return SteinTest(float(_mean_of_pairs(matrix)), p_value)


def stein_matrix(energy: Energy, x: Tensor, bandwidth: float | None) -> Tensor:
    """The Stein kernel of all pairs of samples, `(n, n)`, float64."""
    return _kernel(energy, x, bandwidth)[0]


@torch.no_grad()
def _kernel(energy: Energy, x: Tensor, bandwidth: float | None) -> tuple[Tensor, float]:
    """The Stein kernel, and how many coordinates would change if each were redrawn given the others; inf on `Real`."""
    require_one_for_all(energy, "the Stein discrepancy")
    domain = energy.domain
    domain.validate(x)
    if len(x) < 2:
        raise UserError(f"the Stein discrepancy is a mean over pairs and needs 2 or more samples, got {len(x)}")
    parts = torch.split(x, BATCH)
    if isinstance(domain, Finite):
        if bandwidth is not None:
            raise UserError(f"the Stein discrepancy on {domain} has no bandwidth: leave it out")
        index = domain.to_index(x).flatten(1)
        laws = (-torch.cat([energy.value_differences(part).double() for part in parts])).softmax(2)
        _require_finite(laws.flatten(1), "the law of a coordinate given the others")
        stay = laws.gather(2, index.unsqueeze(2))
        return discrete_stein(index, laws), float((1 - stay).sum())
    if not isinstance(domain, Real):
        raise UserError(f"the Stein discrepancy needs real numbers or a finite domain, got {domain}")
    if bandwidth is not None and not bandwidth > 0:
        raise UserError(f"the Stein discrepancy: bandwidth is {bandwidth}, but must be positive")
    score = -torch.cat([energy.gradient(part).double() for part in parts]).flatten(1)
    _require_finite(score, "the gradient of its energy")
    return langevin_stein(x.double().flatten(1), score, bandwidth=bandwidth), math.inf


def _require_finite(values: Tensor, what: str) -> None:
    if (bad := ~values.isfinite().all(1)).any():
        raise UserError(
            f"the Stein discrepancy: {what} is not finite (NaN or infinite) at {int(bad.sum())} of {len(bad)} samples, "
            f"the first is number {int(bad.nonzero()[0])}, counted from 0"
        )


def _mean_of_pairs(matrix: Tensor) -> Tensor:
    """The mean over pairs of two different samples."""
    n = len(matrix)
    mean: Tensor = (matrix.sum() - matrix.diagonal().sum()) / (n * (n - 1))
    return mean
