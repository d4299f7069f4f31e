"""Replica exchange between the stages of one training."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from ebmlab.domains import Domain
from ebmlab.energies import Bridge, Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.settings import require_count


@dataclass(kw_only=True)
class TrajectoryState(State):
    """The chains and their replicas at earlier stages; x holds the replicas of the sampled energy.

    Attributes:
        replicas: the kernel's state at the energy, then at each stage.
        swap_rates: mean acceptance of swaps between neighbours over chains and `rounds`, `(stages,)`.
        rounds: number of rounds of swaps in these means.
        labels: where the replica at each place has started, `(B, 1 + stages)`: at `init` the place itself.
        horizon: steps planned, if they were given.
    """

    replicas: list[State]
    swap_rates: Tensor
    labels: Tensor
    rounds: int = 0
    horizon: int | None = None

    @property
    def kept(self) -> Tensor:
        """All replicas, `(B, 1 + stages, *event)`."""
        return torch.stack([replica.x for replica in self.replicas], 1)


class TrajectoryTempered(Sampler):
    """Parallel trajectory tempering (Bereux et al. 2025): replica exchange with earlier stages of the same training.

    Every chain has a replica at the sampled energy and one at each earlier stage. All replicas step; then neighbours
    swap their states with probability min(1, exp(E_k(x_k) + E_l(x_l) - E_k(x_l) - E_l(x_k))). Trained models often have
    modes that no path of temperatures connects without a jump, while the path of their training connects them. Early
    stages mix fast. `SwapStages` chooses among the checkpoints of a training those that swap often enough.

    Steps leave the joint law of all replicas invariant. As with `Tempered`, `init` starts all replicas at the same x,
    and the first steps are therefore not exact.

    Args:
        kernel: the sampler that moves each replica.
        stages: energies of earlier checkpoints, the latest first, such as `ebmlab.studies.trained_energy(checkpoint)`.
        swap_every: steps from one round of swaps to the next.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs, TrajectoryTempered
        >>> late, early = Ising.lattice(3, 0.4), Ising.lattice(3, 0.2)
        >>> x, info = TrajectoryTempered(Gibbs(), [early]).sample(late, late.domain.random(5), num_steps=10)
        >>> x.shape
        torch.Size([5, 9])
    """

    domains = (Domain,)

    def __init__(self, kernel: Sampler, stages: Sequence[Energy], *, swap_every: int = 1) -> None:
        super().__init__()
        require_count("TrajectoryTempered", swap_every=swap_every)
        self.kernel = kernel
        self.stages = nn.ModuleList(stages)
        self.swap_every = swap_every

    @property
    def exact(self) -> bool:
        """True only without stages: after `init` their replicas do not follow their own laws yet."""
        return self.kernel.exact and not len(self.stages)

    @property
    def converges(self) -> bool:
        return self.kernel.exact

    def check(self, energy: Energy) -> None:
        for k, stage in enumerate(self.stages):
            if str(stage.domain) != str(energy.domain):
                raise UserError(
                    f"TrajectoryTempered: stage {k} lives on {stage.domain}, but {type(energy).__name__} on "
                    f"{energy.domain}: take stages of the same training"
                )
        for each in self.path(energy):
            self.kernel.check(each)

    def path(self, energy: Energy) -> list[Energy]:
        """The energy, then its earlier stages."""
        return [energy, *self.stages]

    def kernel_of(self, k: int) -> Sampler:
        """What moves the replicas at place k of the path."""
        return self.kernel

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> TrajectoryState:
        """All replicas of a chain start at its x, or at their own states if x is `(B, 1 + stages, *event)`."""
        path = self.path(energy)
        if x.dim() == 1 + len(energy.domain.event_shape):
            x = x.unsqueeze(1).expand(-1, len(path), *x.shape[1:])
        elif x.shape[1] != len(path):
            raise UserError(f"TrajectoryTempered: the chains have {x.shape[1]} replicas, but {len(path)} are needed")
        replicas = [self.kernel_of(k).init(each, x[:, k].contiguous(), horizon) for k, each in enumerate(path)]
        return TrajectoryState(
            x=replicas[0].x,
            replicas=replicas,
            swap_rates=x.new_zeros(len(path) - 1),
            labels=torch.arange(len(path), device=x.device).repeat(len(x), 1),
            horizon=horizon,
        )

    @torch.no_grad()
    def step(self, energy: Energy, state: TrajectoryState) -> tuple[TrajectoryState, Info]:
        path = self.path(energy)
        moved = [self.kernel_of(k).step(each, state.replicas[k]) for k, each in enumerate(path)]
        new = replace(state, replicas=[replica for replica, _ in moved], step=state.step + 1)
        evaluations = sum(info.evaluations for _, info in moved)
        if new.step % self.swap_every == 0 and len(path) > 1:
            new = self.swap(path, new)
            for k, (_, info) in enumerate(moved):
                pairs = (k > 0) + (k < len(path) - 1)
                swaps = pairs / min(2, len(path) - 1)  # every second pair: two energies, and the kernel's `init`
                evaluations += swaps * (2 + info.evaluations * self.kernel_of(k).keeps_values)
        new = replace(new, x=new.replicas[0].x)
        return new, Info(moved[0][1].acceptance, Moved(energy.domain, new.x, state.x), evaluations=evaluations)

    def swap(self, path: list[Energy], state: TrajectoryState) -> TrajectoryState:
        """One round of swaps, between every second pair of neighbours."""
        pairs, replicas, rates = len(path) - 1, list(state.replicas), state.swap_rates.clone()
        labels = state.labels.clone()
        turn = state.rounds // min(2, pairs) + 1  # each pair tries to swap every second round
        for k in range(state.rounds % min(2, pairs), pairs, 2):
            one, other = path[k], path[k + 1]
            x, y = (State(x=replica.x, known=replica.known) for replica in replicas[k : k + 2])
            if not _on_one_path(one, other):
                x.known = y.known = None
            accepted, probability = metropolis(rise(one, other, y) - rise(one, other, x))
            rates[k] += (probability.nan_to_num(0.0).mean() - rates[k]) / turn  # a swap with NaN was rejected
            labels[:, k : k + 2] = labels[:, k : k + 2].flip(1).where(accepted.unsqueeze(1), labels[:, k : k + 2])
            for at, new in ((k, y.where(accepted, x)), (k + 1, x.where(accepted, y))):
                started = self.kernel_of(at).init(path[at], new.x, state.horizon, new.known)
                replicas[at] = replace(started, step=replicas[at].step)
        return replace(state, replicas=replicas, swap_rates=rates, labels=labels, rounds=state.rounds + 1)


def _on_one_path(one: Energy, other: Energy) -> bool:
    """Whether two energies are the same `Bridge` but for its beta, so that what one knows at x the other knows too."""
    bridges = isinstance(one, Bridge) and isinstance(other, Bridge)
    return bridges and one.base is other.base and one.energy is other.energy


def rise(one: Energy, other: Energy, state: State) -> Tensor:
    """The energy of the second law minus that of the first at a state's x, `(B,)`.

    Nothing is evaluated if they are on one path, and the state holds what is known there.
    """
    if _on_one_path(one, other):
        return -cast(Bridge, one).increment(state.x, cast(Bridge, other).beta, state.known)
    difference: Tensor = other(state.x) - one(state.x)
    return difference
