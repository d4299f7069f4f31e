"""Weighted chains, resampled within islands."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from ebmlab.energies import PerChain
from ebmlab.native import uniform
from ebmlab.numerics.noise import by_weight


class Population:
    """Chains with their log-weights, and for each chain the number of the first state that it descends from.

    An island is a block of chains that are resampled among themselves; each replicate on each rank is one island. The
    mean weight of an island is an unbiased estimate, because resampling gives every chain of it the mean weight (Del
    Moral, Doucet & Jasra 2006). So is the mean weight over any set of islands.

    Args:
        x: first states `(chains, *event)`.
        islands: the sizes of the islands, which add up to the number of chains. None makes one island of all.
        first: the family number of the first chain; the next chains count up from it.

    Attributes:
        x: states `(chains, *event)`.
        log_w: log-weights `(chains,)`, float64.
        family: `(chains,)`, integers: the number of the first state that each chain descends from.
        sums: the logarithms of the sums of the weights and of their squares where `note` was called, `(points, 2)`.
    """

    def __init__(self, x: Tensor, islands: list[int] | None = None, first: int = 0) -> None:
        self.x = x
        self.log_w = torch.zeros(len(x), dtype=torch.float64, device="cpu" if x.device.type == "mps" else x.device)
        self.family = torch.arange(first, first + len(x), device=x.device)
        self.sums = self.log_w.new_zeros(0, 2)
        self._islands = [len(x)] if islands is None else islands

    def note(self) -> None:
        """Appends the sums of the present weights, from which the effective number of chains follows."""
        now = torch.stack([self.log_w.logsumexp(0), (2 * self.log_w).logsumexp(0)])
        self.sums = torch.cat([self.sums, now.unsqueeze(0)])

    def resample(self, threshold: float) -> Tensor | None:
        """Resamples every island whose effective share of chains is below the threshold; 0 never resamples.

        Returns:
            The parent of each chain `(chains,)`; None if nothing was resampled.
        """
        if threshold == 0:
            return None
        parents, any_resampled, begin = [], False, 0
        for log_w in torch.split(self.log_w, self._islands):
            n, shares = len(log_w), log_w.softmax(0)
            mine = torch.arange(n, device=log_w.device)
            if n > 1 and 1 / float(shares.square().sum()) < threshold * n:
                mine, any_resampled = systematic(shares), True
                log_w.fill_(float(log_w.logsumexp(0)) - math.log(n))  # a view of self.log_w
            parents.append(mine + begin)
            begin += n
        if not any_resampled:
            return None
        index = torch.cat(parents).to(self.x.device)
        self.x, self.family = self.x[index], self.family[index]
        return index


def systematic(shares: Tensor) -> Tensor:
    """Draws the parents `(n,)` of the next generation by systematic resampling, see `numerics.noise.by_weight`.

    Args:
        shares: the chains' shares of the total weight `(n,)`, which add up to 1.
    """
    return by_weight(shares, len(shares), start=uniform(torch.empty((), dtype=shares.dtype)))


def conditional_ess(log_w: Tensor, increment: Tensor) -> float:
    """Effective share of the chains for an increment of the log-weights, from 1 / n to 1.

    It is (sum W u)^2 / sum W u^2 (Zhou, Johansen & Aston 2016, divided by n). Here u is the exponential of the
    increment, and W are the normalised weights before it. It is 1 if all chains have the same increment, even if W is
    uneven.
    """
    log_w = log_w.log_softmax(0)
    share = 2 * (log_w + increment).logsumexp(0) - (log_w + 2 * increment).logsumexp(0)
    return float(share.clamp(max=0).exp())


def rows(known: PerChain | None, index: Tensor | None) -> PerChain | None:
    """The values computed at the chains' states, reordered after chains were replaced by their parents."""
    return known if known is None or index is None else known.rows(index)
