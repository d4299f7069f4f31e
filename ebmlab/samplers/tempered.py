"""Parallel tempering around any kernel."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies import Energy, PerChain
from ebmlab.energies.paths.tempering import Tempering, tempered
from ebmlab.errors import UserError
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.settings import require_count


@dataclass(kw_only=True)
class TemperedState(State):
    """The chains and all their replicas; x holds the replicas at beta = 1.

    Attributes:
        replicas: the kernel's state over B * K rows, chain by chain, coldest replica first.
        swap_rates: mean acceptance of swaps between neighbours on the ladder over chains and `rounds`, `(K - 1,)`.
        rounds: number of rounds of swaps in these means.
        labels: where the replica at each rung has started, `(B, K)`: at `init` the rung itself.
        horizon: steps planned, if they were given.
    """

    replicas: State
    swap_rates: Tensor
    labels: Tensor
    rounds: int = 0
    horizon: int | None = None

    @property
    def kept(self) -> Tensor:
        """All replicas, `(B, K, *event)`."""
        return self.replicas.x.view(len(self.x), -1, *self.x.shape[1:])

    @property
    def carried(self) -> dict[str, Any]:
        return super().carried | {"rounds": self.rounds}


class Tempered(Sampler):
    """Replica exchange (Hukushima & Nemoto 1996): K replicas of every chain, one at each rung of a temperature ladder.

    Steps leave the joint law of all replicas invariant. `init` usually gets the coldest replica alone and starts all
    others at the same x. A short run is therefore not exact, even from exact draws: run the chains for a while first.
    In training, a `ReplayBuffer` keeps all replicas from one training step to the next (Desjardins et al. 2010). Take
    at least two rounds of swaps in each training step, so that all neighbours swap.

    All replicas step together, as one batch of the kernel. Then neighbours on the ladder swap states with probability
    min(1, exp((b_i - b_j) (E(x_i) - E(x_j)))). Kernels that keep E and its gradient, or the inputs of hidden units,
    evaluate nothing for it. One round tries the pairs (1, 2), (3, 4), ..., the next (2, 3), (4, 5), .... A bipartite
    energy is tempered jointly: F_b(v) = -log of the sum over h of exp(-b E(v, h)) replaces b E(v).

    Args:
        kernel: the sampler that moves each replica.
        betas: the ladder, falling from 1; by default geometric from 1 to 0.1. Tunable (`SwapRate`).
        num_temperatures: K, if `betas` is not given.
        swap_every: steps from one round of swaps to the next.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DMALA, Tempered
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = Tempered(DMALA(0.2), num_temperatures=3).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Domain,)
    betas: Tensor

    def __init__(
        self, kernel: Sampler, betas: Sequence[float] | None = None, *, num_temperatures: int = 8, swap_every: int = 1
    ) -> None:
        super().__init__()
        require_count("Tempered", num_temperatures=num_temperatures, swap_every=swap_every)
        ladder = torch.logspace(0, -1, num_temperatures) if betas is None else torch.tensor([float(b) for b in betas])
        if len(ladder) == 0 or ladder[0] != 1 or not (ladder > 0).all() or not (ladder.diff() < 0).all():
            raise UserError(f"Tempered: betas are {betas}, but must start at 1 and fall, all of them positive")
        self.kernel = kernel
        self.swap_every = swap_every
        self.register_buffer("betas", ladder, persistent=False)

    @property
    def exact(self) -> bool:
        """True only without hot replicas: after `init` these do not follow their own laws yet."""
        return self.kernel.exact and len(self.betas) == 1

    @property
    def converges(self) -> bool:
        return self.kernel.exact

    def check(self, energy: Energy) -> None:
        self.kernel.check(energy)
        try:
            self.kernel.check(tempered(energy, self.betas))
        except UserError as error:
            name = type(self.kernel).__name__
            raise UserError(f"Tempered: {name} cannot move replicas of {type(energy).__name__}: {error}") from error

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> TemperedState:
        """All replicas of a chain start at its x, or at their own states if x is `(B, K, *event)`."""
        if x.dim() > 1 + len(energy.domain.event_shape):
            if x.shape[1] != (rungs := len(self.betas)):
                raise UserError(f"Tempered: the chains have {x.shape[1]} replicas, but there are {rungs} betas")
            return self.start(energy, x, horizon)
        return self.start(energy, x.unsqueeze(1).expand(-1, len(self.betas), *x.shape[1:]), horizon)

    @torch.no_grad()
    def start(self, energy: Energy, replicas: Tensor, horizon: int | None = None) -> TemperedState:
        """The state whose replicas are at `(B, K, *event)`."""
        rows = replicas.flatten(0, 1)
        state = self.kernel.init(self.ladder(energy, rows), rows, horizon)
        return TemperedState(
            x=replicas[:, 0],
            replicas=state,
            swap_rates=replicas.new_zeros(len(self.betas) - 1),
            labels=torch.arange(len(self.betas), device=rows.device).repeat(len(replicas), 1),
            horizon=horizon,
        )

    @torch.no_grad()
    def step(self, energy: Energy, state: TemperedState) -> tuple[TemperedState, Info]:
        chains, k = len(state.x), state.step + 1
        replicas, info = self.kernel.step(self.ladder(energy, state.replicas.x), state.replicas)
        new = replace(state, replicas=replicas)
        evaluations = info.evaluations
        if k % self.swap_every == 0 and len(self.betas) > 1:
            new = self._swap(energy, new)
            if replicas.known is None:
                evaluations += 1  # the energies of the swap decision
                evaluations += info.evaluations if self.kernel.keeps_values else 0  # `init` at the new states
        x = new.replicas.x.view(chains, -1, *state.x.shape[1:])[:, 0]
        acceptance = info.acceptance.view(chains, -1)[:, 0]
        new = replace(new, x=x, step=k)
        return new, Info(acceptance, Moved(energy.domain, x, state.x), evaluations=evaluations * len(self.betas))

    def ladder(self, energy: Energy, rows: Tensor) -> Tempering:
        """The energy of B * K replicas, each at its own temperature."""
        return tempered(energy, self.betas.to(rows).repeat(len(rows) // len(self.betas)))

    def refresh(
        self, energy: Energy, state: TemperedState, rows: Tensor, known: PerChain | None = None
    ) -> TemperedState:
        """The state with its replicas at `rows` `(B * K, *event)`; the kernel computes its cached values again.

        Args:
            energy: the model.
            state: whose replicas were elsewhere.
            rows: where they are now.
            known: what is known there at beta = 1.
        """
        more = {} if known is None else {"known": known}  # kernels that keep none need not take any
        replicas = self.kernel.init(self.ladder(energy, rows), rows, state.horizon, **more)
        return replace(state, replicas=replace(replicas, step=state.replicas.step))

    def _swap(self, energy: Energy, state: TemperedState) -> TemperedState:
        """One round of swaps, between every second pair of neighbours on the ladder."""
        rows, known, chains, rungs = state.replicas.x, state.replicas.known, len(state.x), len(self.betas)
        upper = torch.arange(state.rounds % min(2, rungs - 1), rungs - 1, 2, device=rows.device)
        lower = upper + 1
        partner = torch.arange(rungs, device=rows.device)
        partner[upper], partner[lower] = lower, upper

        betas = self.betas.to(rows)
        own_and_other = torch.stack([betas, betas[partner]], 1).repeat(chains, 1)
        energies = self.ladder(energy, rows).energies_at(rows, own_and_other, known=known)
        own, other = energies.view(chains, rungs, 2).unbind(2)
        gain = own - other
        accepted, probability = metropolis(gain[:, upper] + gain[:, lower])

        source = torch.arange(rungs, device=rows.device).repeat(chains, 1)
        source[:, upper] = torch.where(accepted, lower, upper)
        source[:, lower] = torch.where(accepted, upper, lower)
        labels = state.labels.gather(1, source)
        source = (source + rungs * torch.arange(chains, device=rows.device).unsqueeze(1)).flatten()

        rates = state.swap_rates.clone()
        turn = state.rounds // min(2, rungs - 1) + 1  # each pair tries to swap every second round
        rates[upper] += (probability.nan_to_num(0.0).mean(0) - rates[upper]) / turn  # a swap with NaN was rejected
        state = replace(state, swap_rates=rates, labels=labels, rounds=state.rounds + 1)
        return self.refresh(energy, state, _chosen(rows, source), known and known.rows(source))


def _chosen(rows: Tensor, numbers: Tensor) -> Tensor:
    """The rows of these numbers; chains whose sites are rows of memory stay so."""
    if rows.dim() == 2 and rows.stride(0) == 1:
        return rows.T.gather(1, numbers.expand(rows.shape[1], -1)).T
    return rows[numbers]
