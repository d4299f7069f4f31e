"""Split R-hat, a test of mixing (Gelman et al., 2013, Bayesian Data Analysis, 3rd ed., Section 11.4)."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from ebmlab.errors import UserError

MIN_STEPS = 4
CHUNK = 2**22  # numbers that are converted to float64 at a time


@torch.no_grad()
def split_r_hat(chains: Tensor) -> Tensor:
    """The ratio of the spread of all draws to that within half chains; 1 if the chains have mixed.

    It is sqrt((n - 1) / n + V / W). V is the variance of the means of the half chains, W the mean of their variances, n
    their length. Chains are halved, so that a chain that drifts disagrees with itself. One chain cannot tell whether
    others would go elsewhere. As in ArviZ's `rhat(method="split")`, draws are not replaced by ranks.

    Args:
        chains: `(num_steps, num_chains)` or `(num_steps, num_chains, *statistics)`.

    Returns:
        `statistics`, float64. It is infinite if the half chains are constant but differ. It is NaN if all draws are the
        same number or there is one chain: neither proves anything. So it is if a draw is not finite.

    Example:
        >>> mixed, apart = torch.randn(1000, 4), torch.randn(1000, 4) + 10 * torch.arange(4)
        >>> round(split_r_hat(mixed).item(), 1), split_r_hat(apart).item() > 5
        (1.0, True)
    """
    factors = [_r_hat(halves.flatten(1, 2)) for halves in split_halves(chains)]
    found = torch.cat(factors).view(chains.shape[2:])
    return found if chains.shape[1] > 1 else torch.full_like(found, torch.nan)


def split_halves(chains: Tensor) -> Iterator[Tensor]:
    """First and second halves, a few statistics at a time: float64 `(num_steps // 2, 2, num_chains, k)`.

    The middle draw of an odd number is left out. If it is not finite, all draws of its chain become NaN.
    """
    if chains.dim() < 2 or len(chains) < MIN_STEPS or chains.numel() == 0:
        raise UserError(
            f"chains have shape (num_steps, num_chains, *statistics) with at least {MIN_STEPS} steps and 1 chain, "
            f"got {tuple(chains.shape)}"
        )
    num_steps, num_chains = chains.shape[:2]
    half, k = num_steps // 2, max(1, CHUNK // (num_steps * num_chains))
    for part in torch.split(chains.reshape(num_steps, num_chains, -1), k, dim=2):
        halves = torch.stack([part[:half], part[num_steps - half :]], 1).double()
        yield halves + 0 * part[half].double() if num_steps % 2 else halves


def _r_hat(x: Tensor) -> Tensor:
    """R-hat `(k,)` of m sequences of n draws of k statistics, `(n, m, k)`."""
    n = len(x)
    moves = x - x[0]  # exactly zero if a sequence is constant
    within = moves.var(0).mean(0)
    between = (x[0] + moves.mean(0)).var(0)
    return ((n - 1) / n + between / within).sqrt()
