"""The chains of an annealing, and the best state of each: as states for any sampler, or 64 of them in a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Protocol

import torch
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.numerics.bit_planes import random_words
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis, Sampler, Tempered
from ebmlab.samplers.multi_spin import MultiSpin, Rule, heat_bath, metropolis, multi_spin

CACHED = 2**19  # coordinates of the chains that move at a time on a CPU, as in `Sampler.sample`
STRANGE = "the states of the saved search are none of this energy's"
WORTH = 2**12  # spins of all chains for each pull on a group of sites, from which words are faster than states
MANY = 16  # pulls from which states become slower, too

RULES: dict[type[Sampler], Rule] = {ChromaticGibbs: heat_bath, ChromaticMetropolis: metropolis}  # in words


class Chains(Protocol):
    """Chains, and the lowest state of each that was looked at."""

    @property
    def energy(self) -> Tensor:
        """Of the best states, `(B,)`."""

    @property
    def now(self) -> Tensor:
        """Of the present states, at the last look, `(B,)`."""

    def restart(self) -> None:
        """Puts random states in place of the present ones; the best stay."""

    def anneal(self, betas: Sequence[float]) -> None:
        """Moves all chains by a step at each inverse temperature, and looks at the last states."""

    def take(self, parents: Tensor) -> None:
        """Puts the present chains with these numbers, `(B,)`, in place of all; the best states stay where they are."""

    def present(self) -> Tensor:
        """The present states, `(B, *event)`, in int8."""

    def best(self) -> Tensor:
        """The best states, `(B, *event)`, in int8."""

    def states(self) -> dict[str, Tensor]:
        """The present states and the best ones, to be saved. The present ones are no more changed."""

    def put_back(self, states: Mapping[str, Tensor]) -> None:
        """Puts such states in place of the chains'; raises `UserError` if one is none of the energy's."""


def random_chains(energy: Energy, sampler: Sampler, num_chains: int) -> Chains:
    """Chains at random states, in words where the energy and the sampler allow it and there is enough to do."""
    if isinstance(sampler, Tempered):
        return Ladders(energy, sampler, num_chains)
    rule = RULES.get(type(sampler))
    coded = None if rule is None else multi_spin(energy)
    if rule is None or coded is None:
        return States(energy, sampler, num_chains)
    if energy.domain.size * num_chains < WORTH * sum(min(group.total, MANY) for group in coded.groups):
        return States(energy, sampler, num_chains)
    return Words(coded, rule, energy.dtype, num_chains)


class States:
    """Chains of any sampler, in blocks whose states fit the cache of a CPU."""

    def __init__(self, energy: Energy, sampler: Sampler, num_chains: int) -> None:
        self.target, self.sampler, self.num_chains = energy, sampler, num_chains
        rows = max(100, CACHED // energy.domain.size)
        self.blocks = 1 if energy.device.type != "cpu" else -(-num_chains // rows)
        self.restart()
        self.lowest, self.energy = self.present(), self.now.clone()

    def restart(self) -> None:
        self.x = self.target.random(self.num_chains)
        self.now = self.target(self.x).detach()

    def anneal(self, betas: Sequence[float]) -> None:
        self.x = torch.cat([self._moved(rows, betas) for rows in self._parts()])
        self.now = energies = self.target(self.x).detach()
        if bool(energies.isnan().any()):
            raise UserError("minimise: the energy is NaN at a state that the sampler has entered")
        better = energies < self.energy
        self.lowest[better] = self.x[better].to(torch.int8)  # first, as a signal may come before the next line
        self.energy[better] = energies[better]

    def take(self, parents: Tensor) -> None:
        self.x = self.x[parents.to(self.x.device)]

    def present(self) -> Tensor:
        return self.x.to(torch.int8)

    def best(self) -> Tensor:
        return self.lowest

    def states(self) -> dict[str, Tensor]:
        return {"now": self.present(), "best": self.lowest}

    def put_back(self, states: Mapping[str, Tensor]) -> None:
        values = torch.tensor([-1, 1] if isinstance(self.target.domain, Spin) else [0, 1])
        if not all(torch.isin(states[name].cpu(), values).all() for name in ("now", "best")):
            raise UserError(STRANGE)
        self.x, best = (states[name].to(self.x) for name in ("now", "best"))
        self.lowest, self.energy = best.to(torch.int8), self.target(best).detach()
        self.now = self.target(self.x).detach()

    def _parts(self) -> Sequence[Tensor]:
        return self.x.chunk(self.blocks)

    def _moved(self, x: Tensor, betas: Sequence[float]) -> Tensor:
        if isinstance(self.sampler, ChromaticGibbs):
            return self.sampler.annealed(self.target, x, betas=betas)
        for beta in betas:
            at = tempered(self.target, beta)
            state, _ = self.sampler.step(at, self.sampler.init(at, x))
            x = state.x
        return x


class Ladders(States):
    """Replicas at the rungs of `Tempered`, ladder by ladder, the coldest first; neighbours swap their states.

    Raises:
        UserError: the replicas do not fill their ladders.
    """

    sampler: Tempered

    def __init__(self, energy: Energy, sampler: Tempered, num_chains: int) -> None:
        self.rungs = len(sampler.betas)
        if num_chains % self.rungs:
            raise UserError(
                f"minimise: num_chains is {num_chains}, but must be a multiple of {self.rungs}: "
                "Tempered has a chain at each of its temperatures"
            )
        super().__init__(energy, sampler, num_chains)

    def _parts(self) -> Sequence[Tensor]:
        return [ladders.flatten(0, 1) for ladders in self._by_ladder(self.x).chunk(self.blocks)]

    def _moved(self, x: Tensor, betas: Sequence[float]) -> Tensor:
        at = tempered(self.target, betas[0])
        state = self.sampler.init(at, self._by_ladder(x))
        for before, beta in pairwise([betas[0], *betas]):
            if beta != before:
                at = tempered(self.target, beta)
                state = self.sampler.refresh(at, state, state.replicas.x)
            state, _ = self.sampler.step(at, state)
        return state.replicas.x

    def _by_ladder(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.rungs, *x.shape[1:])


class Words:
    """Chains by multi-spin coding."""

    def __init__(self, coded: MultiSpin, rule: Rule, dtype: torch.dtype, num_chains: int) -> None:
        self.coded, self.rule, self.dtype, self.num_chains = coded, rule, dtype, num_chains
        self.restart()
        self.lowest, self.energy = self.words.clone(), self.now.clone()

    def restart(self) -> None:
        self.words = self.coded.random(-(-self.num_chains // 64), random_words(self.coded.place.device))
        self.now = self._energies(self.words)

    def anneal(self, betas: Sequence[float]) -> None:
        random, words = random_words(self.words.device), self.words.clone()
        for beta in betas:
            self.coded.sweep(words, beta, random, self.rule)
        self.words = words  # the earlier ones stay as they were, should a signal come before this line
        self.now = energies = self._energies(words)
        better = energies < self.energy
        self.lowest ^= (self.lowest ^ self.words) & self.coded.masks(better)
        self.energy[better] = energies[better]

    def take(self, parents: Tensor) -> None:
        self.words = self.coded.taken(self.words, parents)

    def present(self) -> Tensor:
        return self.coded.unpacked(self.words, self.num_chains)

    def best(self) -> Tensor:
        return self.coded.unpacked(self.lowest, self.num_chains)

    def states(self) -> dict[str, Tensor]:
        return {"now": self.words, "best": self.lowest}

    def put_back(self, states: Mapping[str, Tensor]) -> None:
        self.words, self.lowest = (states[name].to(self.words.device) for name in ("now", "best"))
        if bool(self.words[-1].any()) or bool(self.lowest[-1].any()):
            raise UserError(STRANGE)
        self.energy, self.now = self._energies(self.lowest), self._energies(self.words)

    def _energies(self, words: Tensor) -> Tensor:
        return self.coded.energies(words)[: self.num_chains].to(self.dtype)
