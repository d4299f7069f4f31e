"""Maximum mean discrepancy between sets of discrete states (Gretton et al., 2012, A Kernel Two-Sample Test)."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.errors import UserError
from ebmlab.settings import require_choice

KERNELS = ("exponential", "linear")
CHUNK = 2**22  # kernel values at a time


@torch.no_grad()
def hamming_mmd(
    x: Tensor, y: Tensor, *, kernel: str = "exponential", unbiased: bool = False, domain: Finite | None = None
) -> Tensor:
    """Squared MMD between two sets of states, under a kernel of the Hamming distance H of states of d coordinates.

    - `exponential`: exp(-H / d). Papers compare samplers with block Gibbs on an RBM by it: Grathwohl et al. (2021, Oops
      I Took A Gradient), Zhang et al. (2022, Fig. 4).
    - `linear`: d - H. Papers compare energies learned from synthetic data by it (Dai et al., 2020, ALOE; Liu et al.,
      2023, RMwGGIS). It compares the marginals of single coordinates and nothing else.

    The default is the V-statistic, mean k(x, x') + mean k(y, y') - 2 mean k(x, y) over all pairs. It is the squared
    distance between the kernel means of the empirical laws, and never negative. For independent draws from one law it
    is (1/n + 1/m) (k(x, x) - E k(x, x')) on average. Below that no sampler can be told from an exact one. The
    U-statistic leaves out the pairs of a state with itself. It is unbiased, but often negative if the laws agree, and
    then has neither a root nor a logarithm.

    Args:
        x: states, `(n, *event)`.
        y: states, `(m, *event)`.
        kernel: `exponential` or `linear`.
        unbiased: the U-statistic in place of the V-statistic.
        domain: of the states; needed for one-hot states only, which differ in two entries per coordinate.

    Returns:
        A scalar, float64.

    Raises:
        UserError: no such kernel, sets that are too small or differ in shape, or states that are not discrete.

    Example:
        >>> x, y = torch.zeros(5, 4), torch.ones(5, 4)
        >>> hamming_mmd(x, x).item(), round(hamming_mmd(x, y).item(), 4)  # 2 - 2 / e
        (0.0, 1.2642)
    """
    check_kernel(kernel)
    x, y = _coordinates(x, domain), _coordinates(y, domain)
    n, m = len(x), len(y)
    if x.shape[1] != y.shape[1] or min(n, m) < 1 + unbiased:
        raise UserError(
            f"hamming_mmd compares two sets of {1 + unbiased} or more states with the same number of coordinates, "
            f"got {n} states with {x.shape[1]} and {m} with {y.shape[1]}"
        )
    xx, yy, xy = (_kernel_sum(a, b, kernel) for a, b in ((x, x), (y, y), (x, y)))
    if unbiased:
        same = 1 if kernel == "exponential" else x.shape[1]  # k(x, x)
        return (xx / n - same) / (n - 1) + (yy / m - same) / (m - 1) - 2 * xy / (n * m)
    return (xx / n**2 + yy / m**2 - 2 * xy / (n * m)).clamp(min=0)  # below 0 by rounding only


def log_mmd(x: Tensor, y: Tensor, *, kernel: str = "exponential", domain: Finite | None = None) -> Tensor:
    """Natural logarithm of the squared MMD of `hamming_mmd`, always of the V-statistic, which is never negative.

    It is minus infinity if the two sets are equal up to order. Arguments and errors as in `hamming_mmd`.

    Example:
        >>> log_mmd(torch.zeros(5, 4), torch.zeros(5, 4)).item()
        -inf
    """
    return hamming_mmd(x, y, kernel=kernel, domain=domain).log()


def check_kernel(kernel: str) -> None:
    """Raises `UserError` unless there is a kernel of that name."""
    require_choice("hamming_mmd", KERNELS, kernel=kernel)


def _coordinates(x: Tensor, domain: Finite | None) -> Tensor:
    """One number per coordinate, `(n, d)`."""
    if domain is not None:
        domain.validate(x)
        return domain.to_index(x).flatten(1)
    if x.dim() < 2 or x[:1].numel() == 0 < len(x):
        raise UserError(f"hamming_mmd compares states (n, *event) of a coordinate or more, got shape {tuple(x.shape)}")
    x = x.byte() if x.dtype == torch.bool else x
    if not ((x == x.round()) & x.isfinite()).all():
        raise UserError("hamming_mmd compares states of a finite domain, which hold integers, but these hold others")
    return x.flatten(1)


def _kernel_sum(x: Tensor, y: Tensor, kernel: str) -> Tensor:
    """Sum of the kernel over all pairs of rows of x `(n, d)` and y `(m, d)`; a scalar, float64."""
    d = x.shape[1]
    values = torch.unique(x)
    total = torch.zeros((), dtype=torch.float64, device=x.device)
    for rows in torch.split(x, max(1, CHUNK // len(y))):
        agreements = sum((rows == v).float() @ (y == v).float().T for v in values)  # d - H; whole numbers
        assert isinstance(agreements, Tensor)
        if kernel == "linear":
            total += agreements.double().sum()
        else:
            total += ((agreements.double() - d) / d).exp().sum()
    return total
