"""Trees of doublings, walked leaf by leaf, without recursion (Hoffman & Gelman, 2014; Betancourt, 2017).

A stretch of states is asked whether it turns when its last state is reached. Its first velocity has been kept until
then (Phan et al. 2019, Alg. 2). So every chain is somewhere on a trajectory of its own, and all of them take their next
leapfrog step together.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.numerics.noise import wide
from ebmlab.samplers import hmc
from ebmlab.samplers.hmc import HMCState, Outcome, leapfrog
from ebmlab.samplers.metric import kinetic
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.nuts_walk import Half, Marks, Numbers, Options, Trajectory, Walk

DIVERGED = 1000.0  # a trajectory ends where H has risen by more, as in Stan


def begun(state: HMCState, numbers: Numbers, options: Options) -> Walk:
    """The chains before their first leapfrog step."""
    nothing, none, flat = torch.zeros_like(state.energy), torch.zeros_like(state.energy).long(), state.x.flatten(1)
    marks = Marks(*flat.new_zeros(2, len(flat), options.max_depth, flat.shape[1]).unbind())
    walk = Walk(
        chain=torch.arange(len(flat), device=flat.device),
        taken=none,
        path=of_one_state(state, numbers.velocity[0]),
        half=Half(state, torch.zeros_like(flat), nothing, none, nothing, nothing),
        marks=marks,
        outcome=Outcome(state, *[wide(nothing)] * 3),
    )
    return opened(walk, torch.ones_like(none, dtype=torch.bool), numbers)


def tick(energy: Energy, walk: Walk, numbers: Numbers, settings: Sequence[Number], options: Options) -> Walk:
    """One leapfrog step of every chain, wherever it is.

    A trajectory doubles, in time or against it, until it turns. A new half replaces the state drawn so far with
    probability min(1, its weight over that of the older half). This favours the far half (Betancourt 2017, A.3.2). A
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
    marks, turns = turned_inside(walk.marks, velocity.flatten(1), half, new.total, options)
    return replace(walk, path=path, half=new, marks=marks), ~(rise <= DIVERGED) | turns


def turned_inside(marks: Marks, velocity: Tensor, half: Half, total: Tensor, options: Options) -> tuple[Marks, Tensor]:
    """The marks with the leaf's, and whether one of the stretches of 2, 4, 8, ... states that end at it turns, `(B,)`.

    In a tree of doublings, a stretch of 2^k states begins at each leaf whose number is a multiple of 2^k. It ends just
    before the next one.

    Args:
        marks: of the leaves before; changed in place outside of programs.
        velocity: of the leaf, `(B, n)`.
        half: before the leaf.
        total: the sum of its velocities, with the leaf's.
        options: of the step.
    """
    powers = 2 << torch.arange(options.max_depth, device=velocity.device)
    begins, ends = ((leaf.unsqueeze(1) & (powers - 1)) == 0 for leaf in (half.leaf, half.leaf + 1))
    if torch.compiler.is_compiling():  # which writes to nothing that it is given
        here = begins.unsqueeze(2)
        marks = Marks(
            torch.where(here, velocity.unsqueeze(1), marks.velocity),
            torch.where(here, half.total.unsqueeze(1), marks.before),
        )
        back, before = marks.velocity, marks.before
    else:  # which looks at those lengths alone of which some stretch ends
        row, power = begins.nonzero(as_tuple=True)
        marks.velocity[row, power], marks.before[row, power] = velocity[row], half.total[row]
        ends = ends[:, : int(ends.sum(1).max())]
        back, before = (mark[:, : ends.shape[1]] for mark in (marks.velocity, marks.before))
    turns = turns_back(velocity.unsqueeze(1), back, total.unsqueeze(1) - before)
    return marks, (ends & turns).any(1)


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
    path = joined(path, half).where(full, path)
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
    fresh = of_one_state(walk.outcome.state, numbers.velocity[step, walk.chain])
    path = fresh.where(ended, walk.path)
    side, inside, swap = numbers.chance[step, walk.chain, path.depth].unbind(1)
    path = turned_round(path, closed & (side < 0.5))
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


def of_one_state(at: HMCState, velocity: Tensor) -> Trajectory:
    """A trajectory before its first step."""
    nothing = torch.zeros_like(at.energy)
    return Trajectory(
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
        leaves=wide(nothing),
        acceptance=wide(nothing),
    )


def turned_round(path: Trajectory, where: Tensor) -> Trajectory:
    """The trajectory with time reversed where asked for, `(B,)`."""
    turned = replace(
        path,
        front=path.back,
        velocity=path.back_velocity,
        back=path.front,
        back_velocity=path.velocity,
        total=-path.total,
    )
    return turned.where(where, path)


def joined(path: Trajectory, half: Half) -> Trajectory:
    """The trajectory with the half that has grown at its front."""
    return replace(
        path,
        total=path.total + half.total,
        log_weight=torch.logaddexp(path.log_weight, half.log_weight),
        depth=path.depth + 1,
    )
