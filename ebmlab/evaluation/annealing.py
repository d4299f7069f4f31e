"""Annealed importance sampling (Neal, 2001; for RBMs Salakhutdinov & Murray, 2008), with optional resampling."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor

from ebmlab.energies import Base, Bipartite, Bridge, Energy, bridge, reference
from ebmlab.energies.laws import require_one_for_all
from ebmlab.energies.layers import require_one_law
from ebmlab.errors import UserError
from ebmlab.evaluation.ladder import Ladder, Schedule, fixed_ladder
from ebmlab.evaluation.log_z import LogZ
from ebmlab.evaluation.pilot import pilot_ladder
from ebmlab.evaluation.population import Population
from ebmlab.evaluation.walk import anneal, annealing_kernel, noted_after
from ebmlab.numerics.ranks import rank_and_world
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count, require_inside


def ais(
    energy: Energy,
    sampler: Sampler,
    *,
    num_chains: int = 500,
    num_temperatures: int = 10_000,
    base: Base | None = None,
    schedule: Schedule | Ladder = "linear",
    num_replicates: int = 1,
    progress: bool = False,
    saved: Path | None = None,
    check: Callable[[], None] | None = None,
    resample: float = 0.0,
    num_moves: int = 1,
    compile: bool = False,
) -> LogZ:
    """Estimates log Z from chains that move from a base law to the energy's law through a sequence of temperatures.

    For a bipartite energy, every sampler anneals the joint law of visible and hidden units. Under torch.distributed
    each rank runs its share of the chains, and all ranks return the result of all chains. The ranks' random streams
    must differ, as in a learner. Resampling only mixes chains of the same replicate and rank. The result averages
    estimates of Z, not of log Z, and so stays unbiased for Z on any number of ranks.

    Args:
        energy: E.
        sampler: an exact sampler, which leaves the law at each temperature invariant.
        num_chains: chains in one replicate.
        num_temperatures: K; the inverse temperatures are 0 = b_0 < b_1 < ... < b_K = 1.
        base: law of the chains' initial states; the domain's reference law when None. The closer to the energy's law,
            the better: `data_law`, or an earlier model by `Solved`.
        schedule: `linear`, `sigmoid`, `adaptive` or the ladder of an earlier result, which has its own K. `sigmoid` has
            small steps near both ends: b_k is a logistic function of 2 k / K - 1 with slope 4, scaled to [0, 1] (Wu et
            al. 2017, Sec. 4). `adaptive` takes at most K temperatures, and step sizes, from a pilot run
            (`pilot_ladder`).
        num_replicates: number of independent estimates, whose chains run at the same time.
        progress: show a progress bar.
        saved: a file to which the chains are saved every minute, so that a later call with the same arguments
            continues. A fingerprint of the arguments is appended to its name. It is deleted at the end.
        check: called before each temperature, or each program of them; an exception from it ends the call.
        resample: the effective share of the chains below which they are resampled systematically; 0 never resamples.
        num_moves: steps of each chain at each temperature.
        compile: let `torch.compile` make one program of eight temperatures, as in `Sampler.last_states`. The sampler
            must offer a kernel, as DMALA and BlockGibbs do, with one move and without resampling.

    Raises:
        UserError: the sampler is not exact, does not support the energy, or cannot be compiled. Or the energy is in
            training mode, with batch normalisation or dropout, which have no law there.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Ising.lattice(2, coupling=0.3)
        >>> result = ais(energy, Gibbs(), num_chains=100, num_temperatures=20, schedule="adaptive", resample=0.5)
        >>> abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error
        True
    """
    _check(energy, sampler, num_chains, num_temperatures, num_replicates, num_moves)
    require_inside("AIS", "[0, 1]", resample=resample)
    base = (reference(energy.domain) if base is None else base).to(energy.device)
    total = num_chains * num_replicates
    first, share = _mine(total)
    path = path_for(sampler, base, energy)
    if compile:
        annealing_kernel(path, sampler, resample, num_moves)
    ladder = _ladder(path, sampler, schedule, num_temperatures, total, num_moves)
    islands = [size for size in (torch.arange(first, first + share) // num_chains).bincount().tolist() if size]
    chains = Population(base.sample(share).to(energy.dtype), islands, first)
    anneal(path, sampler, chains, ladder, progress, saved, check, resample, num_moves, compile)
    shape = num_replicates, num_chains
    log_w = (_gather(chains.log_w, total) + path.log_z).view(shape)
    families = _gather(chains.family, total).view(shape) if resample else None
    return LogZ.of_chains(log_w, chains.x, families=families, ladder=ladder, path=_path(chains, ladder))


def reverse_ais(
    energy: Energy,
    sampler: Sampler,
    x: Tensor,
    *,
    num_temperatures: int = 10_000,
    base: Base | None = None,
    schedule: Schedule | Ladder = "linear",
    progress: bool = False,
    check: Callable[[], None] | None = None,
    num_moves: int = 1,
    compile: bool = False,
) -> LogZ:
    """Estimates log Z from chains that move from exact samples of the energy's law to a base law.

    The estimate is too large on average. Together with `ais` it brackets log Z (Grosse et al. 2015, bidirectional
    Monte Carlo).

    Args:
        energy: E.
        sampler: as in `ais`.
        x: exact, independent samples `(chains, *event)`, such as those of `exact_samples`. Rank r of n ranks takes the
            rows r, r + n, ... of its own x.
        num_temperatures: K, as in `ais`.
        base: law at which the chains end; the domain's reference law when None.
        schedule: of the inverse temperatures, as in `ais`, but from 1 down to 0.
        progress: show a progress bar.
        check: as in `ais`.
        num_moves: steps of each chain at each temperature.
        compile: as in `ais`.

    Raises:
        UserError: as in `ais`, or x is not in the energy's domain.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.evaluation import exact_log_z, exact_samples
        >>> from ebmlab.samplers import Gibbs
        >>> energy = Ising.lattice(2, coupling=0.3)
        >>> result = reverse_ais(energy, Gibbs(), exact_samples(energy, 100), num_temperatures=20)
        >>> abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error
        True
    """
    x = energy.as_states(x)
    energy.domain.validate(x)
    _check(energy, sampler, len(x), num_temperatures, 1, num_moves)
    rank, world = rank_and_world()
    base = (reference(energy.domain) if base is None else base).to(x.device)
    path = path_for(sampler, base, energy)
    if compile:
        annealing_kernel(path, sampler, num_moves=num_moves)
    ladder = _ladder(path, sampler, schedule, num_temperatures, len(x), num_moves)
    chains = Population(x[rank::world])
    anneal(
        path, sampler, chains, turned := ladder.turned(), progress, check=check, num_moves=num_moves, compile=compile
    )
    log_w = (_gather(chains.log_w, len(x)) - path.log_z).view(1, -1)
    return LogZ.of_chains(log_w, chains.x, reverse=True, ladder=ladder, path=_path(chains, turned))


def path_for(sampler: Sampler, base: Base, energy: Energy) -> Bridge:
    """The path from a base law to an energy that the sampler follows.

    For bipartite energies it is that of the joint law if the sampler draws hidden units, else that of the marginal law.
    Gradients at x that are known for both ends are then known at every temperature.

    Raises:
        UserError: the sampler supports no energy on the path.
    """
    marginal = Bridge(base, energy)
    try:
        sampler.check(marginal)
    except UserError:
        joint = bridge(base, energy)
        try:
            sampler.check(joint)
        except UserError as error:
            sampler.check(energy)  # what it cannot sample at all it refuses in its own words
            name, other = type(sampler).__name__, "BlockGibbs" if isinstance(energy, Bipartite) else "another sampler"
            raise UserError(
                f"{name} samples {type(energy).__name__}, but not the laws between it and {type(base).__name__}, "
                f"through which chains are annealed: use {other}"
            ) from error
        return joint
    return marginal


def _ladder(
    path: Bridge, sampler: Sampler, schedule: Schedule | Ladder, num_temperatures: int, total: int, num_moves: int
) -> Ladder:
    if isinstance(schedule, Ladder):
        return schedule
    if schedule != "adaptive":
        return fixed_ladder(schedule, num_temperatures)
    return pilot_ladder(path, sampler, -(-total // rank_and_world()[1]), num_temperatures, num_moves)


def _path(chains: Population, ladder: Ladder) -> Tensor:
    """`LogZ.path`, from the sums of all ranks' chains."""
    sums = _gather_ranks(chains.sums)
    ess = (2 * sums[:, :, 0].logsumexp(0) - sums[:, :, 1].logsumexp(0)).exp().cpu()
    at = torch.tensor([ladder.betas[k + 1] for k in noted_after(len(ladder.betas) - 1)], dtype=ess.dtype)
    return torch.stack([at, ess], 1)


def _gather_ranks(mine: Tensor) -> Tensor:
    """A tensor that has the same shape on all ranks, from all of them, `(world, *shape)`."""
    _, world = rank_and_world()
    if world == 1:
        return mine.unsqueeze(0)
    parts = [torch.empty_like(mine) for _ in range(world)]
    torch.distributed.all_gather(parts, mine)
    return torch.stack(parts)


def _check(
    energy: Energy, sampler: Sampler, num_chains: int, num_temperatures: int, num_replicates: int, num_moves: int
) -> None:
    require_one_law(energy)
    require_one_for_all(energy, "AIS")
    if not sampler.exact:
        raise UserError(
            f"AIS needs a sampler that leaves each temperature's law invariant, but {type(sampler).__name__} is not "
            "exact: take one that is, such as DMALA, GWG, Gibbs, or BlockGibbs for RBMs"
        )
    counts = {"num_chains": num_chains, "num_temperatures": num_temperatures}
    require_count("AIS", **counts, num_replicates=num_replicates, num_moves=num_moves)


def _mine(total: int) -> tuple[int, int]:
    """Number of this rank's first chain, and how many chains it has."""
    rank, world = rank_and_world()
    each, more = divmod(total, world)
    return rank * each + min(rank, more), each + (rank < more)


def _gather(mine: Tensor, total: int) -> Tensor:
    """One number per chain from all ranks, `(total,)`."""
    _, world = rank_and_world()
    if world == 1:
        return mine
    most = -(-total // world)
    parts = _gather_ranks(torch.cat([mine, mine.new_zeros(most - len(mine))]))
    return torch.cat([part[: total // world + (r < total % world)] for r, part in enumerate(parts)])
