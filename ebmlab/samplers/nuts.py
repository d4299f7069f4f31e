"""The no-U-turn sampler (Hoffman & Gelman, 2014), multinomial, with the generalised criterion (Betancourt, 2017)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy, PerChain
from ebmlab.numerics.noise import normal, uniform
from ebmlab.samplers import hmc
from ebmlab.samplers.hmc import HMCState, leapfrog
from ebmlab.samplers.metric import Scale, as_scale, check_scale, kinetic, length_unit
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info
from ebmlab.settings import require_count, require_positive

DIVERGED = 1000.0  # a trajectory ends where H has risen by more, as in Stan


class Options(NamedTuple):
    """What steps take besides the step size.

    Attributes:
        max_depth: a trajectory doubles at most so often.
        scale: S of the metric (`ebmlab.samplers.metric`); None is 1.
    """

    max_depth: int
    scale: Tensor | None


@dataclass
class Trajectory(PerChain):
    """A trajectory, and what is known of the states on it.

    Attributes:
        front: its end in the direction of time.
        back: its other end.
        front_velocity: at the front, `(B, *event)`.
        back_velocity: at the back, turned round, so that it leads away from the trajectory too.
        total: the sum of all velocities, `(B, *event)`.
        log_weight: log of the sum of exp(H_0 - H) over all states, `(B,)`.
        energy: E at the state where it began, `(B,)`.
        kinetic: |v|^2 / 2 there.
    """

    front: HMCState
    back: HMCState
    front_velocity: Tensor
    back_velocity: Tensor
    total: Tensor
    log_weight: Tensor
    energy: Tensor
    kinetic: Tensor

    def turned_round(self, where: Tensor) -> Trajectory:
        """The trajectory with time reversed where asked for, `(B,)`."""
        turned = replace(
            self,
            front=self.back,
            back=self.front,
            front_velocity=self.back_velocity,
            back_velocity=self.front_velocity,
            total=-self.total,
        )
        return turned.where(where, self)

    def joined(self, half: Half) -> Trajectory:
        """The trajectory, with a half of its new length at the front."""
        return replace(
            self,
            front=half.last,
            front_velocity=half.velocity,
            total=self.total + half.total,
            log_weight=torch.logaddexp(self.log_weight, half.log_weight),
        )


@dataclass
class Half(PerChain):
    """The states that a doubling has reached so far.

    Attributes:
        last: the latest of them.
        velocity: there, `(B, *event)`.
        chosen: one of them, drawn with probability proportional to exp(-H).
        total: the sum of their velocities.
        log_weight: log of the sum of their exp(H_0 - H).
        chance: a uniform number that is independent of all that has been drawn, `(B,)`.
    """

    last: HMCState
    velocity: Tensor
    chosen: HMCState
    total: Tensor
    log_weight: Tensor
    chance: Tensor


@dataclass
class Mark(PerChain):
    """Where a stretch of states begins that will be asked whether it turns.

    Attributes:
        velocity: of its first state.
        before: the sum of the velocities of all states before it.
    """

    velocity: Tensor
    before: Tensor


def step(energy: Energy, state: HMCState, settings: Sequence[Number], options: Options) -> tuple[HMCState, Info]:
    """Doubles a trajectory from x, in time or against it, until it turns; draws the next x from its states.

    A new half replaces the state drawn so far with probability min(1, its weight over that of the older half), which
    favours the far half (Betancourt 2017, A.3.2). A half that turns inside, or diverges, is left out.
    """
    chains = torch.arange(len(state.x), device=state.x.device)  # whose trajectories still grow
    velocity, origin = normal(state.x), energy
    side, inside, swap = uniform(state.x.new_empty(len(state.x), options.max_depth, 3)).unbind(2)
    nothing = torch.zeros_like(state.energy)
    path = Trajectory(state, state, velocity, -velocity, velocity, nothing, state.energy, kinetic(velocity))
    after, leaves, acceptance = state, nothing.clone(), nothing.clone()

    for depth in range(options.max_depth):
        path = path.turned_round(side[chains, depth] < 0.5)
        half: Half | None = None
        marks: list[Mark] = []
        for leaf in range(2**depth):
            half, rise = grown(energy, path, half, inside[chains, depth], settings, options)
            leaves.index_add_(0, chains, torch.ones_like(rise))
            acceptance.index_add_(0, chains, (-rise).clamp(max=0).exp())
            stopped = ~(rise <= DIVERGED)
            marks, turns = turned_inside(half, marks, leaf)
            chains, going = _going(chains, stopped | turns)
            if going is not None:
                path, half, marks = path.rows(going), half.rows(going), [mark.rows(going) for mark in marks]
                energy = origin.of_chains(chains)
            if len(chains) == 0:
                break
        if len(chains) == 0:
            break
        assert half is not None
        moves = swap[chains, depth] < (half.log_weight - path.log_weight).clamp(max=0).exp()
        moved = moves.nonzero().squeeze(1)
        after = after.with_rows(chains[moved], half.chosen.rows(moved))
        path = path.joined(half)
        chains, going = _going(chains, turns_back(path.front_velocity, -path.back_velocity, path.total))
        if going is not None:
            path, energy = path.rows(going), origin.of_chains(chains)
        if len(chains) == 0:
            break
    report = Info(acceptance / leaves, lambda: origin.domain.hops(after.x, state.x), evaluations=float(leaves.mean()))
    return after, report


def grown(
    energy: Energy,
    path: Trajectory,
    half: Half | None,
    chance: Tensor,
    settings: Sequence[Number],
    options: Options,
) -> tuple[Half, Tensor]:
    """A half with one leapfrog step more, and H - H_0 there.

    The new state replaces the chosen one with probability w, its share of the weight so far, if a uniform number u is
    below w. Then u / w is uniform again, and otherwise (u - w) / (1 - w): one number decides for all states.
    """
    at, velocity = (path.front, path.front_velocity) if half is None else (half.last, half.velocity)
    last, velocity = leapfrog(energy, at, velocity, settings, hmc.Options(1, options.scale))
    rise = (last.energy - path.energy) + (kinetic(velocity) - path.kinetic)
    if half is None:
        return Half(last, velocity, last, velocity, -rise, chance), rise
    log_weight = torch.logaddexp(half.log_weight, -rise)
    share = (-rise - log_weight).exp()
    takes = half.chance < share
    chosen = last.where(takes, half.chosen)
    chance = torch.where(takes, half.chance / share, (half.chance - share) / (1 - share))
    return Half(last, velocity, chosen, half.total + velocity, log_weight, chance), rise


def turned_inside(half: Half, marks: list[Mark], leaf: int) -> tuple[list[Mark], Tensor]:
    """Whether one of the stretches of 2, 4, 8, ... states that end at a leaf turns, and the marks for the next leaf.

    In a tree of doublings, stretches begin at even leaves and end at odd ones. Leaf n begins a stretch after as many
    others that are still open as n has bits that are 1, and ends as many as it has trailing ones.
    """
    turns = torch.zeros_like(half.chance, dtype=torch.bool)
    if leaf % 2 == 0:
        return [*marks[: leaf.bit_count()], Mark(half.velocity, half.total - half.velocity)], turns
    ends = (~leaf & (leaf + 1)).bit_length() - 1
    for mark in marks[leaf.bit_count() - ends : leaf.bit_count()]:
        turns = turns | turns_back(half.velocity, mark.velocity, half.total - mark.before)
    return marks, turns


def turns_back(front: Tensor, back: Tensor, total: Tensor) -> Tensor:
    """Whether a stretch of states has turned: one of its ends no longer moves away from the other (Betancourt, A.4.2).

    The sum of the velocities, the ends counted half, is the way between them over the step size.
    """
    way = total - (front + back) / 2
    return (_dot(front, way) <= 0) | (_dot(back, way) <= 0)


def _dot(a: Tensor, b: Tensor) -> Tensor:
    return (a * b).flatten(1).sum(1)


def _going(chains: Tensor, stopped: Tensor) -> tuple[Tensor, Tensor | None]:
    """The chains that have not stopped, and their rows; None if all go on."""
    going = (~stopped).nonzero().squeeze(1)
    return (chains, None) if len(going) == len(chains) else (chains[going], going)


class NUTS(Sampler):
    """The no-U-turn sampler, which is exact: HMC whose trajectories end where they turn.

    A trajectory doubles, in time or against it, until its ends approach each other or its energy error passes 1,000.
    All chains of a batch double together, without a loop over chains. Those whose trajectory has ended leave the batch:
    a step evaluates the energy as often as if chains ran alone, and `Info.evaluations` is the mean over them. It takes
    as many leapfrog steps after each other as the longest trajectory has, the last of them on few chains.

    The number of leapfrog steps is read off the chains. So steps run one by one, also in AIS; `compile=True` is
    refused, and a GPU is waited for after each leapfrog step. `Info.acceptance` is the mean of min(1, exp(H - H')) over
    the states of a trajectory, which tuners bring to a rate.

    Args:
        step_size: epsilon of a leapfrog step, in units of the root of `energy.step_unit()`; tunable (`WarmUp`).
        max_depth: a trajectory has at most 2^max_depth states.
        scale: as in `HMC`.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> energy = RealMLP(2)
        >>> x, info = NUTS(0.5).sample(energy, energy.random(4), num_steps=10)
        >>> x.shape, info.evaluations >= 1
        (torch.Size([4, 2]), True)
    """

    domains = (Real,)
    exact = True
    step_size: Tensor
    scale: Tensor | None

    def __init__(self, step_size: float, *, max_depth: int = 10, scale: Scale | None = None) -> None:
        super().__init__()
        require_positive("NUTS", step_size=step_size)
        require_count("NUTS", max_depth=max_depth)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("scale", as_scale("NUTS", scale), persistent=False)
        self.max_depth = max_depth

    def check(self, energy: Energy) -> None:
        super().check(energy)
        check_scale("NUTS", self.scale, energy.domain)

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> HMCState:
        return hmc.start(energy, x, (), hmc.Options(1, self.scale), known)

    @torch.no_grad()
    def step(self, energy: Energy, state: HMCState) -> tuple[HMCState, Info]:
        epsilon = float(self.step_size * length_unit(energy))
        after, info = step(energy, state, (epsilon,), Options(self.max_depth, self.scale))
        return replace(after, step=state.step + 1), info
