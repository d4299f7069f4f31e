"""The no-U-turn sampler (Hoffman & Gelman, 2014), multinomial, with the generalised criterion (Betancourt, 2017).

The tree of doublings is walked leaf by leaf, without recursion: a stretch of states is asked whether it turns when its
last state is reached, and its first velocity has been kept until then (Phan et al. 2019, Alg. 2). So every chain is
somewhere on a trajectory of its own, and all of them take their next leapfrog step together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor
from torch._higher_order_ops import while_loop

from ebmlab import engine
from ebmlab.domains import Real
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.numerics.noise import normal, uniform, wide
from ebmlab.samplers import hmc
from ebmlab.samplers.hmc import HMCState, leapfrog
from ebmlab.samplers.metric import Scale, as_scale, check_scale, kinetic, length_unit
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info
from ebmlab.settings import require_count, require_positive

DIVERGED = 1000.0  # a trajectory ends where H has risen by more, as in Stan
DEEPEST = 20  # a million states
NUMBERS = 2**22  # random numbers that are drawn ahead for a compiled run
AHEAD = 256  # steps for which they are drawn, at most


class Options(NamedTuple):
    """What steps take besides the step size.

    Attributes:
        max_depth: a trajectory doubles at most so often.
        scale: S of the metric (`ebmlab.samplers.metric`); None is 1.
        bits: how many bits of n are 1, for n from 0 to 2^(max_depth - 1), int64.
    """

    max_depth: int
    scale: Tensor | None
    bits: Tensor


class Numbers(NamedTuple):
    """All random numbers of some steps, which chains take as they come to need them.

    Attributes:
        velocity: at the beginning of trajectories, `(steps, B, *event)`.
        chance: uniform, three for each doubling, `(steps, B, max_depth, 3)`: in time or against it; which state of the
            new half; whether that one replaces the state drawn so far.
        steps: how many steps chains take, `()`.
    """

    velocity: Tensor
    chance: Tensor
    steps: Tensor


@dataclass
class Trajectory(PerChain):
    """A trajectory of leapfrog steps; n is the size of an event.

    Attributes:
        front: the end that grows.
        velocity: there, `(B, *event)`.
        back: its other end.
        back_velocity: there, turned round, so that it leads away from the trajectory too.
        total: the sum of all velocities but those of the half that is growing, `(B, n)`.
        log_weight: log of the sum of exp(H_0 - H) over the same states, `(B,)`.
        depth: how often it has doubled, `(B,)`.
        begin: x where it began.
        energy: E there, `(B,)`.
        kinetic: |v|^2 / 2 there.
        leaves: leapfrog steps so far.
        acceptance: the sum of min(1, exp(H_0 - H)) over them.
    """

    front: HMCState
    velocity: Tensor
    back: HMCState
    back_velocity: Tensor
    total: Tensor
    log_weight: Tensor
    depth: Tensor
    begin: Tensor
    energy: Tensor
    kinetic: Tensor
    leaves: Tensor
    acceptance: Tensor

    @classmethod
    def of_one_state(cls, at: HMCState, velocity: Tensor) -> Trajectory:
        """The trajectory before its first step."""
        nothing = torch.zeros_like(at.energy)
        return cls(
            front=at,
            velocity=velocity,
            back=at,
            back_velocity=-velocity,
            total=velocity.flatten(1),
            log_weight=nothing,
            depth=nothing.long(),
            begin=at.x,
            energy=at.energy,
            kinetic=kinetic(velocity),
            leaves=nothing,
            acceptance=nothing,
        )

    def turned_round(self, where: Tensor) -> Trajectory:
        """The trajectory with time reversed where asked for, `(B,)`."""
        turned = replace(
            self,
            front=self.back,
            velocity=self.back_velocity,
            back=self.front,
            back_velocity=self.velocity,
            total=-self.total,
        )
        return turned.where(where, self)

    def joined(self, half: Half) -> Trajectory:
        """The trajectory with the half that has grown at its front."""
        return replace(
            self,
            total=self.total + half.total,
            log_weight=torch.logaddexp(self.log_weight, half.log_weight),
            depth=self.depth + 1,
        )


@dataclass
class Half(PerChain):
    """The states that a doubling has reached so far.

    Attributes:
        chosen: one of them, drawn with probability proportional to exp(-H).
        total: the sum of their velocities, `(B, n)`.
        log_weight: log of the sum of their exp(H_0 - H), `(B,)`.
        leaf: how many there are.
        chance: a uniform number that is independent of all that has been drawn.
        swap: another, which decides at the end of the doubling.
    """

    chosen: HMCState
    total: Tensor
    log_weight: Tensor
    leaf: Tensor
    chance: Tensor
    swap: Tensor


@dataclass
class Marks(PerChain):
    """Where stretches of states begin that will be asked whether they turn.

    Attributes:
        velocity: of their first states, `(B, max_depth, n)`.
        before: the sums of the velocities of all states before them, likewise.
    """

    velocity: Tensor
    before: Tensor


@dataclass
class Outcome(PerChain):
    """What chains have come to.

    Attributes:
        state: one of the states of the trajectory without the half that is growing, drawn with probability proportional
            to exp(-H): where the chain goes on from when the trajectory ends.
        acceptance: the sum over the steps, `(B,)`.
        hops: likewise.
        evaluations: likewise.
    """

    state: HMCState
    acceptance: Tensor
    hops: Tensor
    evaluations: Tensor


@dataclass
class Walk(PerChain):
    """Chains, each somewhere on a trajectory of its own.

    Attributes:
        chain: their numbers, `(B,)`.
        taken: how many steps each has taken.
        path: the trajectories.
        half: what grows at their fronts.
        marks: of the half.
        outcome: as above.
    """

    chain: Tensor
    taken: Tensor
    path: Trajectory
    half: Half
    marks: Marks
    outcome: Outcome


def begun(state: HMCState, numbers: Numbers, options: Options) -> Walk:
    """The chains before their first leapfrog step."""
    nothing, none, flat = torch.zeros_like(state.energy), torch.zeros_like(state.energy).long(), state.x.flatten(1)
    marks = Marks(*flat.new_zeros(2, len(flat), options.max_depth, flat.shape[1]).unbind())
    walk = Walk(
        chain=torch.arange(len(flat), device=flat.device),
        taken=none,
        path=Trajectory.of_one_state(state, numbers.velocity[0]),
        half=Half(state, torch.zeros_like(flat), nothing, none, nothing, nothing),
        marks=marks,
        outcome=Outcome(state, nothing, nothing, nothing),
    )
    return opened(walk, torch.ones_like(none, dtype=torch.bool), numbers)


def tick(energy: Energy, walk: Walk, numbers: Numbers, settings: Sequence[Number], options: Options) -> Walk:
    """One leapfrog step of every chain, wherever it is.

    A trajectory doubles, in time or against it, until it turns. A new half replaces the state drawn so far with
    probability min(1, its weight over that of the older half), which favours the far half (Betancourt 2017, A.3.2). A
    half that turns inside, or diverges, is left out. A chain whose trajectory has ended begins the next one.
    """
    walk, stopped = grown(energy, walk, settings, options)
    full = walk.half.leaf >> walk.path.depth > 0
    if not torch.compiler.is_compiling() and not (stopped | full).any():
        return walk
    return closed(energy, walk, stopped, full & ~stopped, numbers, options)


def grown(energy: Energy, walk: Walk, settings: Sequence[Number], options: Options) -> tuple[Walk, Tensor]:
    """The halves with one state more, and which of them turn inside or diverge, `(B,)`.

    The new state replaces the chosen one with probability w, its share of the weight so far, if a uniform number u is
    below w. Then u / w is uniform again, and otherwise (u - w) / (1 - w): one number decides for all states.
    """
    path, half = walk.path, walk.half
    front, velocity = leapfrog(energy, path.front, path.velocity, settings, hmc.Options(1, options.scale))
    rise = (front.energy - path.energy) + (kinetic(velocity) - path.kinetic)
    log_weight = torch.logaddexp(half.log_weight, -rise)
    share = (-rise - log_weight).exp()
    takes = half.chance < share
    new = replace(
        half,
        chosen=front.where(takes, half.chosen),
        total=half.total + velocity.flatten(1),
        log_weight=log_weight,
        leaf=half.leaf + 1,
        chance=torch.where(takes, half.chance / share, (half.chance - share) / (1 - share)),
    )
    path = replace(
        path,
        front=front,
        velocity=velocity,
        leaves=path.leaves + 1,
        acceptance=path.acceptance + (-rise).clamp(max=0).exp(),
    )
    turns = turned_inside(walk.marks, velocity.flatten(1), half, new.total, options)
    return replace(walk, path=path, half=new), ~(rise <= DIVERGED) | turns


def turned_inside(marks: Marks, velocity: Tensor, half: Half, total: Tensor, options: Options) -> Tensor:
    """Whether one of the stretches of 2, 4, 8, ... states that end at a leaf turns, `(B,)`; marks the leaf.

    In a tree of doublings, stretches begin at even leaves and end at odd ones. Leaf n begins a stretch after as many
    others that are still open as n has bits that are 1. It ends those that are no longer open at leaf n + 1, and the
    mark of an odd leaf is never read.

    Args:
        marks: changed in place.
        velocity: of the leaf, `(B, n)`.
        half: before the leaf.
        total: the sum of its velocities, with the leaf's.
        options: of the step.
    """
    ones = options.bits
    end, first = ones[half.leaf], ones[half.leaf + 1] - 1
    rows = torch.arange(len(velocity), device=velocity.device)
    marks.velocity[rows, end] = velocity
    marks.before[rows, end] = half.total
    low, high = 0, options.max_depth
    if not torch.compiler.is_compiling():  # those alone that are asked for
        low, high = int(first.min()), int(end.max())
    places = torch.arange(low, max(low, high), device=velocity.device)
    asked = (first.unsqueeze(1) <= places) & (places < end.unsqueeze(1))
    way = total.unsqueeze(1) - marks.before[:, low:high]
    return (asked & turns_back(velocity.unsqueeze(1), marks.velocity[:, low:high], way)).any(1)


def bits(max_depth: int, device: torch.device) -> Tensor:
    """How many bits of n are 1, for n from 0 to 2^(max_depth - 1)."""
    ones = torch.zeros(1, dtype=torch.long)
    for _ in range(max_depth):
        ones = torch.cat([ones, ones + 1])
    return ones.to(device)


def turns_back(front: Tensor, back: Tensor, total: Tensor) -> Tensor:
    """Whether a stretch of states has turned: one of its ends no longer moves away from the other (Betancourt, A.4.2).

    The sum of the velocities, the ends counted half, is the way between them over the step size.
    """
    way = total - (front + back) / 2
    return ((front * way).sum(-1) <= 0) | ((back * way).sum(-1) <= 0)


def closed(energy: Energy, walk: Walk, stopped: Tensor, full: Tensor, numbers: Numbers, options: Options) -> Walk:
    """Joins halves that are full, ends trajectories that have turned or stopped, and opens the next halves."""
    path, half, outcome = walk.path, walk.half, walk.outcome
    live = walk.taken < numbers.steps
    moves = full & live & (half.swap < (half.log_weight - path.log_weight).clamp(max=0).exp())
    state = half.chosen.where(moves, outcome.state)
    path = path.joined(half).where(full, path)
    turns = turns_back(path.velocity.flatten(1), -path.back_velocity.flatten(1), path.total)
    ended = stopped | (full & (turns | (path.depth == options.max_depth)))
    counted = ended & live
    outcome = Outcome(
        state,
        torch.where(counted, outcome.acceptance + path.acceptance / path.leaves, outcome.acceptance),
        torch.where(counted, outcome.hops + energy.domain.hops(state.x, path.begin), outcome.hops),
        torch.where(counted, outcome.evaluations + path.leaves, outcome.evaluations),
    )
    walk = replace(walk, path=path, outcome=outcome, taken=walk.taken + counted)
    return opened(walk, ended, numbers, stopped | full)


def opened(walk: Walk, ended: Tensor, numbers: Numbers, closed: Tensor | None = None) -> Walk:
    """Begins new trajectories where they have `ended`, and new halves where they are `closed` (by default there too).

    A chain that has taken all its steps goes on without a trace, until those of the others have ended.
    """
    closed = ended if closed is None else closed
    step = walk.taken.clamp(max=len(numbers.velocity) - 1)
    fresh = Trajectory.of_one_state(walk.outcome.state, numbers.velocity[step, walk.chain])
    path = fresh.where(ended, walk.path)
    side, inside, swap = numbers.chance[step, walk.chain, path.depth].unbind(1)
    path = path.turned_round(closed & (side < 0.5))
    half = walk.half
    empty = replace(
        half,
        total=torch.zeros_like(half.total),
        log_weight=torch.full_like(half.log_weight, -torch.inf),
        leaf=torch.zeros_like(half.leaf),
        chance=inside,
        swap=swap,
    )
    return replace(walk, path=path, half=empty.where(closed, half))


class NUTS(Sampler):
    """The no-U-turn sampler, which is exact: HMC whose trajectories end where they turn.

    A trajectory doubles, in time or against it, until its ends approach each other or its energy error passes 1,000.
    All chains of a batch take their leapfrog steps together, without a loop over chains.

    Step by step, as `chain` and `sample` go, those whose trajectory has ended leave the batch. A step evaluates the
    energy as often as if chains ran alone. It takes as many leapfrog steps after each other as the longest trajectory
    has, the last of them on few chains.

    With `compile=True` no chain waits for another: one whose trajectory has ended begins the next at once, up to 256
    steps ahead. The last chain alone makes the others wait, about a tenth of the time with 100 chains and 200 steps.
    A program holds the first velocities of all stretches that are open, 2 max_depth vectors for each chain, and
    looks at all of them in each leapfrog step: with thousands of coordinates steps one by one may be faster. It draws
    the same random numbers as they do.

    The number of leapfrog steps is read off the chains. So a GPU is waited for after each of them. AIS and training
    take steps one by one. `Info.acceptance` is the mean of min(1, exp(H - H')) over the states of a trajectory, which
    tuners bring to a rate; `Info.evaluations` is the mean over the chains.

    Args:
        step_size: epsilon of a leapfrog step, in units of the root of `energy.step_unit()`; tunable (`WarmUp`).
        max_depth: a trajectory has at most 2^max_depth states; 20 at most.
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
        if max_depth > DEEPEST:
            raise UserError(f"NUTS: max_depth is {max_depth}, but must be at most {DEEPEST}: a million states")
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("scale", as_scale("NUTS", scale), persistent=False)
        self.max_depth = max_depth

    def check(self, energy: Energy) -> None:
        super().check(energy)
        check_scale("NUTS", self.scale, energy.domain)

    def options(self, device: torch.device) -> Options:
        """What steps on a device take."""
        return Options(self.max_depth, self.scale, bits(self.max_depth, device))

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> HMCState:
        return hmc.start(energy, x, (), hmc.Options(1, self.scale), known)

    @torch.no_grad()
    def step(self, energy: Energy, state: HMCState) -> tuple[HMCState, Info]:
        options, settings = self.options(state.x.device), (float(self.step_size * length_unit(energy)),)
        numbers = drawn(state.x, 1, 1, options)
        walk = begun(state, numbers, options)
        outcome, of_rest = walk.outcome, energy
        while len(walk.chain):
            walk = tick(of_rest, walk, numbers, settings, options)
            ended = walk.taken.nonzero().squeeze(1)
            if len(ended):
                outcome = outcome.with_rows(walk.chain[ended], walk.outcome.rows(ended))
                walk = walk.rows((walk.taken == 0).nonzero().squeeze(1))
                of_rest = energy.of_chains(walk.chain)
        report = Info(outcome.acceptance, outcome.hops, evaluations=float(outcome.evaluations.mean()))
        return replace(outcome.state, step=state.step + 1), report

    @torch.no_grad()
    def _program(self, energy: Energy, x: Tensor, num_steps: int, caller: str, report: bool) -> engine.Ran:
        """Steps ahead of each other; see above."""
        if type(self).step is not NUTS.step or self._watched or not engine.worth_compiling(energy):
            raise self._not_compilable(energy, caller)
        options = self.options(x.device)
        epsilon = (self.step_size * length_unit(energy)).to(x.device, torch.promote_types(x.dtype, torch.float32))
        ahead = max(1, min(AHEAD, NUMBERS // (x.numel() + 3 * self.max_depth * len(x))))
        state = self.init(energy, x)
        sums = x.new_zeros(3, len(x))
        with engine.compiling(_to_the_end, energy, x, caller) as program:
            for first in range(0, num_steps, ahead):
                numbers = drawn(x, min(ahead, num_steps - first), ahead, options)
                done = program(energy, begun(state, numbers, options), numbers, (epsilon,), options)
                state = done.state
                sums += torch.stack([done.acceptance, done.hops, done.evaluations])
        return engine.Ran(state.x.contiguous(), sums[0], sums[1], float(sums[2].mean()))


def _to_the_end(energy: Energy, walk: Walk, numbers: Numbers, settings: Sequence[Number], options: Options) -> Outcome:
    """Leapfrog steps until all chains have taken their steps: a loop within the program, which compiles one of them."""

    def going(*tensors: Tensor) -> Tensor:
        return (walk.with_tensors(tensors).taken < numbers.steps).any()

    def once(*tensors: Tensor) -> tuple[Tensor, ...]:
        here = walk.with_tensors(tensors)
        marks = Marks(here.marks.velocity.clone(), here.marks.before.clone())  # a loop may not change what it is given
        after = tick(energy, replace(here, marks=marks), numbers, settings, options).tensors()
        return tuple(new.clone() if any(new is old for old in tensors) else new for new in after)

    begin = tuple(tensor.clone() for tensor in walk.tensors())
    end = while_loop(going, once, begin)  # type: ignore[no-untyped-call]  # torch gives it no types
    return walk.with_tensors(end).outcome


def drawn(x: Tensor, steps: int, room: int, options: Options) -> Numbers:
    """The random numbers of so many steps, in room for more, drawn step by step."""
    velocity = x.new_empty(room, *x.shape)
    chance = wide(x.new_empty(0)).new_empty(room, len(x), options.max_depth, 3)
    for k in range(steps):
        velocity[k], chance[k] = normal(x), uniform(x.new_empty(chance.shape[1:]))
    return Numbers(velocity, chance, torch.tensor(steps, device=x.device))
