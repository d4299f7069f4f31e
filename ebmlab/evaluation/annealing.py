"""Annealed importance sampling (Neal, 2001; for RBMs Salakhutdinov & Murray, 2008)."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import pairwise
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor
from tqdm import tqdm

from ebmlab.energies import Base, Bridge, Energy, bridge, reference
from ebmlab.errors import UserError
from ebmlab.evaluation.saved_chains import SavedChains
from ebmlab.ranks import rank_and_world
from ebmlab.samplers import Sampler

Schedule = Literal["linear", "sigmoid"]
SLOPE = 4.0  # of the sigmoid schedule


@dataclass(frozen=True)
class AISResult:
    """The estimate of log Z from the chains' weights, and diagnostics of it.

    Attributes:
        log_weights: `(replicates, chains)`, float64, of all ranks. The mean of their exponentials estimates Z, or 1 / Z
            for reverse chains.
        samples: this rank's last states `(chains here, *event)`. Those of forward chains follow the energy's law
            approximately.
        reverse: whether the chains went from the energy to the base.

    Example:
        >>> result = AISResult(torch.tensor([[2.0, 2.0], [2.0, 2.0]], dtype=torch.float64), samples=torch.zeros(4, 3))
        >>> result.log_z, result.std_error, round(result.ess, 6), result.max_weight
        (2.0, 0.0, 4.0, 0.25)
    """

    log_weights: Tensor
    samples: Tensor
    reverse: bool = False

    @property
    def log_z(self) -> float:
        """The estimate from all chains. On average it is too small, or too large for reverse chains (Jensen)."""
        return float(self._estimate(self.log_weights.flatten(), 0))

    @property
    def replicates(self) -> list[float]:
        """The estimate from each replicate alone."""
        return [float(value) for value in self._estimate(self.log_weights, 1)]

    @property
    def std_error(self) -> float:
        """Standard error of `log_z`, from the spread of the weights; too small if a few weights dominate."""
        weights = (self.log_weights.flatten() - self.log_weights.max()).exp()
        return float(weights.std() / weights.mean() / math.sqrt(len(weights)))

    @property
    def ess(self) -> float:
        """Effective number of chains, (sum of w)^2 / sum of w^2."""
        return float(1 / self._shares().square().sum())

    @property
    def max_weight(self) -> float:
        """The largest share that one chain has of the total weight."""
        return float(self._shares().max())

    def _shares(self) -> Tensor:
        return self.log_weights.flatten().softmax(0)

    def _estimate(self, log_weights: Tensor, dim: int) -> Tensor:
        mean = log_weights.logsumexp(dim) - math.log(log_weights.shape[dim])
        return -mean if self.reverse else mean


def ais(
    energy: Energy,
    sampler: Sampler,
    num_chains: int = 500,
    num_temperatures: int = 10_000,
    base: Base | None = None,
    schedule: Schedule = "linear",
    num_replicates: int = 1,
    progress: bool = False,
    saved: Path | None = None,
    check: Callable[[], None] | None = None,
) -> AISResult:
    """Estimates log Z from chains that move from a base law to the energy's law, one step at each temperature.

    For a bipartite energy the joint law is annealed, whatever the sampler. Under torch.distributed every rank runs its
    share of the chains and gets the result of all; the ranks' random streams must differ, as in a learner.

    Args:
        energy: E.
        sampler: an exact sampler, so that it leaves the law at each temperature invariant.
        num_chains: chains in one replicate.
        num_temperatures: K, steps of each chain; the inverse temperatures are 0 = b_0 < b_1 < ... < b_K = 1.
        base: law of the chains' initial states, such as Bernoulli(data mean) for images; the domain's reference law
            when None.
        schedule: `linear`, or `sigmoid`, which has small steps near both ends: b_k is a logistic function of
            2 k / K - 1 with slope 4, scaled to [0, 1] (Wu et al. 2017, Sec. 4).
        num_replicates: independent repeats, which run at the same time.
        progress: show a progress bar.
        saved: a file to which the chains are saved every minute, so that a later call with the same arguments
            continues. A fingerprint of the arguments is appended to its name. It is deleted at the end.
        check: called before each temperature; an exception from it ends the call.

    Raises:
        UserError: the sampler is not exact, or does not support the energy.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Ising.lattice(2, coupling=0.3)
        >>> result = ais(energy, Gibbs(), num_chains=100, num_temperatures=20)
        >>> abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error
        True
    """
    _check(sampler, num_chains, num_temperatures, num_replicates)
    base = (reference(energy.domain) if base is None else base).to(energy.device)
    rank, world = rank_and_world()
    total = num_chains * num_replicates
    share = total // world + (rank < total % world)
    betas = inverse_temperatures(schedule, num_temperatures)
    path = bridge(base, energy)
    log_w, x = _anneal(path, sampler, base.draw(share).to(energy.dtype), betas, progress, saved, check)
    log_w = _gather(log_w, total) + path.log_z
    return AISResult(log_w.view(num_replicates, num_chains), x)


def reverse_ais(
    energy: Energy,
    sampler: Sampler,
    x: Tensor,
    num_temperatures: int = 10_000,
    base: Base | None = None,
    schedule: Schedule = "linear",
    progress: bool = False,
) -> AISResult:
    """Bounds log Z from above, on average, by chains that move from exact samples of the energy's law to a base law.

    Together with `ais` it brackets log Z (Grosse et al. 2015, bidirectional Monte Carlo).

    Args:
        energy: E.
        sampler: as in `ais`.
        x: exact, independent samples `(chains, *event)`, such as those of `exact_samples`. Rank r of n ranks takes the
            rows r, r + n, ... of its own x.
        num_temperatures: steps of each chain.
        base: law at which the chains end; the domain's reference law when None.
        schedule: of the inverse temperatures, as in `ais`, but from 1 down to 0.
        progress: show a progress bar.

    Raises:
        UserError: the sampler is not exact or does not support the energy, or x is not in the energy's domain.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z, exact_samples
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Ising.lattice(2, coupling=0.3)
        >>> result = reverse_ais(energy, Gibbs(), exact_samples(energy, 100), num_temperatures=20)
        >>> abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error
        True
    """
    _check(sampler, len(x), num_temperatures, 1)
    energy.domain.validate(x)
    total = len(x)
    rank, world = rank_and_world()
    x = x[rank::world]
    base = (reference(energy.domain) if base is None else base).to(x.device)
    betas = inverse_temperatures(schedule, num_temperatures)[::-1]
    path = bridge(base, energy, 1.0)
    log_w, x = _anneal(path, sampler, x, betas, progress)
    return AISResult((_gather(log_w, total) - path.log_z).view(1, -1), x, reverse=True)


def inverse_temperatures(schedule: Schedule, num_temperatures: int) -> list[float]:
    """The inverse temperatures b_0 = 0, ..., b_K = 1 of a schedule, see `ais`."""
    if schedule not in ("linear", "sigmoid"):
        raise UserError(f'AIS: schedule is "{schedule}", but must be "linear" or "sigmoid"')
    line = torch.linspace(0, 1, num_temperatures + 1, dtype=torch.float64)
    if schedule == "linear":
        return line.tolist()
    curve = torch.sigmoid(SLOPE * (2 * line - 1))
    scaled = (curve - curve[0]) / (curve[-1] - curve[0])
    return [0.0, *scaled[1:-1].tolist(), 1.0]


@torch.no_grad()
def _anneal(
    path: Bridge,
    sampler: Sampler,
    x: Tensor,
    betas: list[float],
    progress: bool,
    saved: Path | None = None,
    check: Callable[[], None] | None = None,
) -> tuple[Tensor, Tensor]:
    """Log-weights `(chains,)`, float64, relative to the law that x follows, and the chains' last states."""
    sampler.check(path)
    log_w = torch.zeros(len(x), dtype=torch.float64, device="cpu" if x.device.type == "mps" else x.device)
    store = SavedChains(saved, path, sampler, betas, len(x))
    begin, x, log_w = store.load(x, log_w)
    steps = list(pairwise(betas))
    known = None  # what the path has computed at x, if the sampler keeps it in its state
    bar = tqdm(steps[begin:], "AIS", len(steps), initial=begin, disable=not progress, delay=2, leave=False)
    for k, (old, new) in enumerate(bar, start=begin):
        if check is not None:
            check()
        path.beta = old
        log_w += path.increment(x, new, known).to(log_w)
        path.beta = new
        state = replace(sampler.init(path, x, len(steps), known), step=k)
        state, _ = sampler.step(path, state)
        x, known = state.x, state.known
        store.save(k + 1, x, log_w)
    store.delete()
    return log_w, x


def _check(sampler: Sampler, num_chains: int, num_temperatures: int, num_replicates: int) -> None:
    if not sampler.exact:
        raise UserError(
            f"AIS needs a sampler that leaves each temperature's law invariant, but {type(sampler).__name__} is not "
            "exact: take one that is, such as DMALA, GWG, Gibbs, or BlockGibbs for RBMs"
        )
    if min(num_chains, num_temperatures, num_replicates) < 1:
        raise UserError(
            f"AIS: num_chains is {num_chains}, num_temperatures {num_temperatures} and num_replicates "
            f"{num_replicates}; all must be at least 1"
        )


def _gather(log_w: Tensor, total: int) -> Tensor:
    """The log-weights of all ranks, `(total,)`."""
    _, world = rank_and_world()
    if world == 1:
        return log_w
    most = -(-total // world)
    padded = torch.cat([log_w, log_w.new_zeros(most - len(log_w))])
    parts = [torch.empty_like(padded) for _ in range(world)]
    torch.distributed.all_gather(parts, padded)
    return torch.cat([part[: total // world + (r < total % world)] for r, part in enumerate(parts)])
