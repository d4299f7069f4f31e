"""The effective sample size: how many independent draws would give as accurate a mean as the chains."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.evaluation.r_hat import split_halves


@torch.no_grad()
def effective_sample_size(chains: Tensor, per_chain: bool = False) -> Tensor:
    """Effective sample size of the mean, by Geyer's initial monotone sequence over split chains.

    The estimator of Vehtari et al. (2021, Rank-Normalization, Folding, and Localization, Section 3.2) without ranks, as
    in Stan. It agrees with ArviZ's `ess(method="mean")` up to rounding. Chains are split into halves, so that a chain
    that drifts counts as two that disagree. The middle draw of an odd number is left out. V is the variance of the
    means of the m half chains. c_t is the mean of their autocovariances, divided by their length n at every lag. With W
    = c_0 n / (n - 1),

        rho_t = 1 - (W - c_t) / (c_0 + V),    ESS = m n / (1 + 2 sum over t > 0 of rho_t).

    The sum runs over pairs rho_2k + rho_2k+1 up to the first that is not positive, plus half of the even term that
    follows. A pair larger than the one before it is reduced to that one (Geyer, 1992). The ESS is at most m n log10(m
    n), which strongly antithetic chains reach. Chains that are frozen at different numbers count as about one draw
    each.

    Args:
        chains: `(num_steps, num_chains)` or `(num_steps, num_chains, *statistics)`.
        per_chain: treat each chain as the only one. A chain that is stuck then looks perfect, see below.

    Returns:
        `statistics`, or `(num_chains, *statistics)` if `per_chain`; float64. If all draws are the same number, the ESS
        is the number of draws, as in ArviZ: check the acceptance or R-hat first. It is NaN if draws are not finite.

    Example:
        >>> independent = torch.randn(1000, 4)
        >>> walk = independent.cumsum(0)
        >>> int(effective_sample_size(independent)) > 3000, int(effective_sample_size(walk)) < 40
        (True, True)
    """
    sizes = [
        _ess((halves.flatten(2) if per_chain else halves.flatten(1, 2)).permute(2, 1, 0).contiguous())
        for halves in split_halves(chains)
    ]
    if not per_chain:
        return torch.cat(sizes).view(chains.shape[2:])
    return torch.cat([size.view(chains.shape[1], -1) for size in sizes], 1).view(chains.shape[1:])


def _ess(x: Tensor) -> Tensor:
    """The ESS `(k,)` of k statistics of m sequences of n draws, `(k, m, n)`."""
    _, m, n = x.shape
    highest = x.amax((1, 2))
    constant = (highest == x.amin((1, 2))) & highest.isfinite()
    means = x.mean(2)
    autocovariance = _mean_autocovariance(x - means.unsqueeze(2))
    variance = autocovariance[:, :1] + means.var(1, keepdim=True)
    rho = 1 - (autocovariance[:, :1] * n / (n - 1) - autocovariance) / variance
    rho[:, :1] = variance / variance  # 1, unless draws are not finite
    tau = _integrated_time(rho).clamp(min=1 / math.log10(m * n))
    return torch.where(constant, m * n, m * n / tau)


def _mean_autocovariance(x: Tensor) -> Tensor:
    """The mean over sequences of their autocovariances at every lag, `(k, n)`, from centred sequences `(k, m, n)`."""
    n = x.shape[2]
    padded = 1 << (2 * n - 1).bit_length()  # zeros after the sequence keep lags from wrapping around
    spectrum = torch.view_as_real(torch.fft.rfft(x, padded)).square().sum(-1).mean(1)
    autocovariance: Tensor = torch.fft.irfft(spectrum, padded)[:, :n] / n
    return autocovariance


def _integrated_time(rho: Tensor) -> Tensor:
    """1 + 2 sum over t > 0 of rho_t, `(k,)`, where rho `(k, n)` is cut off and made monotone."""
    num_pairs = max(1, (rho.shape[1] - 1) // 2)  # without the last lags, as in ArviZ
    even = rho[:, : 2 * num_pairs : 2]
    pairs = even + rho[:, 1 : 2 * num_pairs : 2]
    positive = (~(pairs <= 0)).long().cumprod(1)
    cut = positive.sum(1, keepdim=True).clamp(max=num_pairs - 1)
    before = torch.arange(num_pairs, device=rho.device) < cut
    total = torch.where(before, pairs.cummin(1).values, 0).sum(1)
    last = even.gather(1, cut)
    last = torch.where(pairs.gather(1, cut) < 0, last.clamp(min=0), last)
    return 2 * total - 1 + last.squeeze(1)
