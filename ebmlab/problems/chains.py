"""The chains of an annealing, and the best state of each: as states for any sampler, or 64 of them in a word."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, Protocol, cast

import torch
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy, Evaluation, PerChain
from ebmlab.energies.paths.tempering import TemperedEnergy, Tempering, tempered
from ebmlab.errors import UserError, explained
from ebmlab.numerics.bit_planes import random_words
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis, Sampler, Tempered
from ebmlab.samplers.multi_spin import MultiSpin, multi_spin
from ebmlab.samplers.spin_rules import Rule, heat_bath, metropolis

CACHED = 2**19  # coordinates of the chains that move at a time on a CPU, as in `Sampler.sample`
STRANGE = "the states of the saved search are none of this energy's"

RULES: dict[type[Sampler], Rule] = {ChromaticGibbs: heat_bath, ChromaticMetropolis: metropolis}  # in words


Carried = dict[str, Any]
"""`State.carried`: numbers of all chains, and tensors with a row for each."""


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


def check_annealed(energy: Energy, sampler: Sampler) -> None:
    """Raises `UserError` if the sampler does not support the energy, or not at other temperatures."""
    sampler.check(energy)
    with explained(
        f"{type(sampler).__name__} samples {type(energy).__name__}, but not at other temperatures, through which "
        "chains are annealed: take another sampler, such as ChromaticMetropolis or PathAuxiliary",
        UserError,
    ):
        sampler.check(tempered(energy, 1.0))


def random_chains(energy: Energy, sampler: Sampler, num_chains: int) -> Chains:
    """Chains at random states, in words where the energy and the sampler allow it and there is enough to do."""
    if isinstance(sampler, Tempered):
        return Ladders(energy, sampler, num_chains)
    rule = RULES.get(type(sampler))
    coded = None if rule is None else multi_spin(energy)
    if rule is None or coded is None:
        return States(energy, sampler, num_chains)
    if not coded.pays(rule, num_chains):
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
        self.carried = self._begun()

    def anneal(self, betas: Sequence[float]) -> None:
        parts, begin, moved = self._parts(), 0, []
        for rows in parts:
            moved.append(self._moved(rows, betas, _rows(self.carried, slice(begin, begin + len(rows)))))
            begin += len(rows)
        self.x = torch.cat([x for x, _ in moved])
        self.carried = _joined([carried for _, carried in moved])
        self.now = energies = self.target(self.x).detach()
        if bool(energies.isnan().any()):
            raise UserError("minimise: the energy is NaN at a state that the sampler has entered")
        better = energies < self.energy
        self.lowest[better] = self.x[better].to(torch.int8)  # first, as a signal may come before the next line
        self.energy[better] = energies[better]

    def take(self, parents: Tensor) -> None:
        index = parents.to(self.x.device)
        self.x, self.carried = self.x[index], _rows(self.carried, index)

    def present(self) -> Tensor:
        return self.x.to(torch.int8)

    def best(self) -> Tensor:
        return self.lowest

    def states(self) -> dict[str, Tensor]:
        carried = {name: torch.as_tensor(value) for name, value in self.carried.items()}
        return {"now": self.present(), "best": self.lowest, **carried}

    def put_back(self, states: Mapping[str, Tensor]) -> None:
        values = torch.tensor([-1, 1] if isinstance(self.target.domain, Spin) else [0, 1])
        if not all(torch.isin(states[name].cpu(), values).all() for name in ("now", "best")):
            raise UserError(STRANGE)
        for name, value in self.carried.items():
            kept = states[name]
            if not kept.isfinite().all() or (kept.dim() == 0 and kept < 0):
                raise UserError(STRANGE)
            self.carried[name] = kept.to(value) if isinstance(value, Tensor) else int(kept)
        self.x, best = (states[name].to(self.x) for name in ("now", "best"))
        self.lowest, self.energy = best.to(torch.int8), self.target(best).detach()
        self.now = self.target(self.x).detach()

    def _parts(self) -> Sequence[Tensor]:
        return self.x.chunk(self.blocks)

    def _moved(self, x: Tensor, betas: Sequence[float], carried: Carried) -> tuple[Tensor, Carried]:
        """Chains after a step at each beta. What is known at x goes along from one beta to the next."""
        if isinstance(self.sampler, ChromaticGibbs):
            return self.sampler.annealed(self.target, x, betas=betas), carried
        at = self._law(betas[0])
        state = _with(self.sampler.init(at, x), carried)
        for before, beta in pairwise([betas[0], *betas]):
            if beta != before:
                at = self._law(beta)
                known = {} if state.known is None else {"known": state.known}
                state = _with(self.sampler.init(at, state.x, **known), state.carried)
            state, _ = self.sampler.step(at, state)
        return state.x, state.carried

    def _begun(self) -> Carried:
        """What is carried at the first step."""
        if isinstance(self.sampler, ChromaticGibbs):
            return {}
        at = self._law(1.0)
        return _joined([self.sampler.init(at, rows).carried for rows in self._parts()])

    def _law(self, beta: float) -> Tempering:
        at = tempered(self.target, beta)
        return Cooling(self.target, beta) if isinstance(at, TemperedEnergy) else at


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

    def _moved(self, x: Tensor, betas: Sequence[float], carried: Carried) -> tuple[Tensor, Carried]:
        at = tempered(self.target, betas[0])
        state = _with(self.sampler.init(at, self._by_ladder(x)), carried)
        state.replicas.step = state.step
        for before, beta in pairwise([betas[0], *betas]):
            if beta != before:
                at = tempered(self.target, beta)
                state = self.sampler.refresh(at, state, state.replicas.x)
            state, _ = self.sampler.step(at, state)
        return state.replicas.x, state.carried

    def _begun(self) -> Carried:
        return {"step": 0, "rounds": 0}

    def _by_ladder(self, x: Tensor) -> Tensor:
        return x.reshape(-1, self.rungs, *x.shape[1:])


class Cooling(TemperedEnergy):
    """beta E(x), whose evaluations say what E and its gradient are at x, so that a state there serves the next beta."""

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        inner = Evaluation(*self.energy.value_and_grad(x)) if known is None else cast(Evaluation, known)
        return Evaluation(self._scale(inner.energy), self._scale(inner.grad), known=inner)


def _with(state: Any, carried: Carried) -> Any:
    """A state that `init` has made at some x, with what steps before have carried there."""
    for name, value in carried.items():
        setattr(state, name, value)
    return state


def _joined(parts: Sequence[Carried]) -> Carried:
    """What all blocks carry: the rows of all, and the numbers of the first."""
    return {
        name: torch.cat([part[name] for part in parts]) if isinstance(value, Tensor) else value
        for name, value in parts[0].items()
    }


def _rows(carried: Carried, index: slice | Tensor) -> Carried:
    return {name: value[index] if isinstance(value, Tensor) else value for name, value in carried.items()}


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
        words = self.words.clone()
        self.coded.sweeps(words, betas, self.rule)
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
