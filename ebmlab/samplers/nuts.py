"""The no-U-turn sampler (Hoffman & Gelman, 2014), multinomial, with the generalised criterion (Betancourt, 2017)."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy, PerChain
from ebmlab.energies.laws import of_chains
from ebmlab.errors import UserError
from ebmlab.native import normal, uniform
from ebmlab.numerics.noise import wide
from ebmlab.samplers import hmc
from ebmlab.samplers.hmc import HMCState
from ebmlab.samplers.kernel import UnevenKernel
from ebmlab.samplers.metric import Scale, as_scale, check_scale, length_unit
from ebmlab.samplers.nuts_tree import begun, tick
from ebmlab.samplers.nuts_walk import Numbers, Options
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info
from ebmlab.settings import require_count, require_positive

DEEPEST = 20  # doublings: a million states


class NUTS(Sampler):
    """The no-U-turn sampler, which is exact: HMC whose trajectories end where they turn.

    A trajectory doubles, in time or against it, until its ends approach each other or its energy error passes 1,000.
    All chains of a batch take their leapfrog steps together, without a loop over chains.

    Step by step, as `chain` and `sample` go, those whose trajectory has ended leave the batch. A step evaluates the
    energy as often as if chains ran alone. It takes as many leapfrog steps after each other as the longest trajectory
    has, the last of them on few chains.

    With `compile=True` no chain waits for another: one whose trajectory has ended begins the next at once, up to 256
    steps ahead. The last chain alone makes the others wait, about a tenth of the time with 100 chains and 200 steps. A
    program holds the first velocities of all stretches that are open, 2 max_depth vectors for each chain. It looks at
    all of them in each leapfrog step, so with thousands of coordinates steps one by one may be faster. It draws the
    same random numbers as they do.

    The number of leapfrog steps is read off the chains. So a GPU is waited for after each of them. AIS and training
    take steps one by one. `Info.acceptance` is the mean of min(1, exp(H - H')) over the states of a trajectory, which
    tuners bring to a rate. `Info.evaluations` is the mean over the chains.

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

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> HMCState:
        return hmc.start(energy, x, (), hmc.Options(1, self.scale), known)

    @torch.no_grad()
    def step(self, energy: Energy, state: HMCState) -> tuple[HMCState, Info]:
        options, settings = Options(self.max_depth, self.scale), (float(self.step_size * length_unit(energy)),)
        numbers = drawn(state.x, 1, 1, options)
        walk = begun(state, numbers, options)
        outcome, of_rest = walk.outcome, energy
        while len(walk.chain):
            walk = tick(of_rest, walk, numbers, settings, options)
            ended = walk.taken.nonzero().squeeze(1)
            if len(ended):
                outcome = outcome.with_rows(walk.chain[ended], walk.outcome.rows(ended))
                walk = walk.rows((walk.taken == 0).nonzero().squeeze(1))
                of_rest = of_chains(energy, walk.chain, len(state.x))
        report = Info(outcome.acceptance, outcome.hops, evaluations=float(outcome.evaluations.mean()))
        return replace(outcome.state, step=state.step + 1), report

    def uneven_on(self, energy: Energy) -> UnevenKernel | None:
        if type(self).step is not NUTS.step:  # whose steps a program would not take
            return None
        options = Options(self.max_depth, self.scale)
        epsilon = torch.as_tensor(self.step_size * length_unit(energy)).view(1)
        width = energy.domain.size + 3 * self.max_depth
        return UnevenKernel(self.init, partial(drawn, options=options), begun, tick, epsilon, options, width)


def drawn(x: Tensor, steps: int, room: int, options: Options) -> Numbers:
    """The random numbers of so many steps, in room for more, drawn step by step."""
    velocity = x.new_empty(room, *x.shape)
    chance = wide(x.new_empty(0)).new_empty(room, len(x), options.max_depth, 3)
    for k in range(steps):
        velocity[k], chance[k] = normal(x), uniform(x.new_empty(chance.shape[1:]))
    return Numbers(velocity, chance, torch.tensor(steps, device=x.device))
