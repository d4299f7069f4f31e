"""What `NUTS` knows of chains on their trajectories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from torch import Tensor

from ebmlab.energies import PerChain
from ebmlab.samplers.hmc import HMCState, Outcome


class Options(NamedTuple):
    """What steps take besides the step size.

    Attributes:
        max_depth: a trajectory doubles at most so often.
        scale: S of the metric (`ebmlab.samplers.metric`); None is 1.
    """

    max_depth: int
    scale: Tensor | None


class Numbers(NamedTuple):
    """All random numbers of some steps, which chains take as they come to need them.

    Attributes:
        velocity: at the beginning of trajectories, `(steps, B, *event)`.
        chance: uniform, three for each doubling, `(steps, B, max_depth, 3)`. They decide whether it goes in time or
            against it, and which state of the new half is taken. The third decides whether that one replaces the state
            drawn so far.
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
class Walk(PerChain):
    """Chains, each somewhere on a trajectory of its own.

    Attributes:
        chain: their numbers, `(B,)`.
        taken: how many steps each has taken.
        path: the trajectories.
        half: what grows at their fronts.
        marks: of the half.
        outcome: of the steps. Its state is drawn from the trajectory without the half that is growing, with probability
            proportional to exp(-H). The chain goes on from there when the trajectory ends.
    """

    chain: Tensor
    taken: Tensor
    path: Trajectory
    half: Half
    marks: Marks
    outcome: Outcome
