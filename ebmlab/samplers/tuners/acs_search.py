"""The search for ACS's schedule (Pynadath et al. 2024, Alg. 2 to 5 and Appendix A)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.acs import ACS, cyclical
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import GradientState
from ebmlab.samplers.tuners.tuner import Tuner


@dataclass(frozen=True)
class ACSTuner(Tuner):
    """Finds alpha_max and alpha_min by their acceptance, then the balance of each step in between (Alg. 2).

    beta_max and beta_min are the sampler's first and last balance and stay so: tuning again starts afresh. Acceptances
    are means over the chains, of one step each: run tens of chains or more.

    The paper leaves open, or garbles, and here: the steps are shared out as 100 of burn-in (a fifth, when that is
    less), at most half of the rest on balances (10 proposals each, fewer when steps are scarce) and the remainder on
    the two step sizes, so that 500 steps are the 100 + 220 + 180 of a cycle of 20. Alg. 3's second stage runs to its
    50th step, not only in whole cycles. Chains go on from the chosen proposal by its Metropolis decision. A rate of
    acceptance is matched as a mean; the mean of its distance, as Eq. 10 prints, cannot vanish. Alg. 5 draws
    proposals from [beta_min, beta_max] and appends an entry too many; Eq. 9's interval [beta_min, beta_(i-1)] is meant,
    and s entries: beta_max, s - 2 searched ones, beta_min. If alpha_max comes out below alpha_min (the paper then
    advises a smaller beta_max), Eq. 8 makes all step sizes alpha_min.

    Args:
        rate: rho*, the acceptance wanted of both ends.
        learning_rate: zeta, how far one round of proposals reaches.
        alpha_ceil: where the search for alpha_max starts; large on wide Ordinal domains.
        alpha_floor: where the search for alpha_min starts.
        burn_in: steps of each stage of the burn-in, without and with Metropolis.
        proposals: step sizes tried in one round.
        balance_proposals: balances tried for one step of the cycle, at most.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ACS
        >>> from ebmlab.samplers.tuners import ACSTuner
        >>> ising = Ising.lattice(3, 0.2)
        >>> tuned, x = ACSTuner().tune(ACS(cycle_length=4), ising, ising.domain.random(50), num_steps=40)
        >>> tuned.step_sizes.shape
        torch.Size([4])
    """

    rate: float = 0.5
    learning_rate: float = 0.5
    alpha_ceil: float = 60.0
    alpha_floor: float = 0.05
    burn_in: int = 50
    proposals: int = 5
    balance_proposals: int = 10

    def __post_init__(self) -> None:
        if not 0 < self.rate < 1:
            raise UserError(f"ACSTuner: rate is {self.rate}, but must be an acceptance between 0 and 1")
        if not 0 < self.learning_rate <= 1:
            raise UserError(f"ACSTuner: learning_rate is {self.learning_rate}, but must be above 0 and at most 1")
        if not 0 < self.alpha_floor < self.alpha_ceil:
            raise UserError(
                f"ACSTuner: alpha_floor is {self.alpha_floor} and alpha_ceil {self.alpha_ceil}; "
                f"need 0 < alpha_floor < alpha_ceil"
            )
        if self.burn_in < 0 or self.proposals < 2 or self.balance_proposals < 2:
            raise UserError("ACSTuner: need burn_in >= 0, proposals >= 2 and balance_proposals >= 2")

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, ACS):
            raise UserError(f"ACSTuner tunes the cycle of ACS, but {type(sampler).__name__} has none")
        if len(sampler.step_sizes) < 2:
            raise UserError("ACSTuner: a cycle of 1 step has no schedule to tune; set cycle_length to 2 or more")
        if num_steps is not None:
            self._shares(num_steps, len(sampler.step_sizes))

    @torch.no_grad()
    def tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[ACS, Tensor]:
        self.check(sampler)
        assert isinstance(sampler, ACS)
        sampler.check(energy)
        energy.domain.validate(x)
        burn_in, each_alpha, each_beta = self._shares(num_steps, len(sampler.step_sizes))
        first, last = float(sampler.balances[0]), float(sampler.balances[-1])

        state = self._burn_in(sampler, energy, sampler.init(energy, x), first, last, burn_in)
        alpha_min, state = self.estimate_alpha(sampler, energy, state, last, each_alpha, largest=False)
        alpha_max, state = self.estimate_alpha(sampler, energy, state, first, each_alpha, largest=True)
        step_sizes = cyclical(alpha_max, alpha_min, len(sampler.step_sizes))
        balances, state = self._estimate_balances(sampler, energy, state, step_sizes, first, last, each_beta)
        return sampler.with_cycle(step_sizes, balances), state.x

    def estimate_alpha(
        self, sampler: ACS, energy: Energy, state: GradientState, beta: float, num_steps: int, largest: bool
    ) -> tuple[float, GradientState]:
        """The largest or the smallest step size whose acceptance is `rate` (Eq. 11, Alg. 4), and the chains there.

        Acceptance is not monotone in alpha: the search comes from the ceiling, where it is too low, or from the floor,
        where it is too high, and never turns. Alg. 4 takes the nearest acceptance in every round; where all proposals
        have almost the same, noise then decides, and the search stalls. Here the nearest is taken in rounds that
        straddle `rate`; before that the search goes as far as it reaches, after that it stays.
        """
        alpha, sign = (self.alpha_ceil, -1) if largest else (self.alpha_floor, 1)
        acceptance = 0.0
        for _ in range(num_steps // self.proposals):
            reach = alpha * (1 + sign * self.learning_rate * abs(self.rate - acceptance))
            alphas = torch.linspace(reach, alpha, self.proposals)
            rates, states = self._try(sampler, energy, state, alphas, torch.full_like(alphas, beta))
            excess = rates - self.rate
            if (sign * excess > 0).all():
                best = 0  # the one that reaches furthest
            elif (sign * excess < 0).all():
                best = -1  # far enough already
            else:
                best = int(excess.abs().argmin())
            alpha, acceptance, state = float(alphas[best]), float(rates[best]), states[best]
        return alpha, state

    def _shares(self, num_steps: int, cycle_length: int) -> tuple[int, int, int]:
        """Steps of a burn-in stage, of the search for one step size, and of that for one balance."""
        between = cycle_length - 2
        burn_in = min(self.burn_in, num_steps // 10)
        rest = num_steps - 2 * burn_in
        each_beta = min(self.balance_proposals, rest // 2 // max(between, 1))
        each_alpha = (rest - each_beta * between) // 2
        if each_alpha < self.proposals or each_beta < 2:
            enough = 5 * max(self.proposals, between)
            raise UserError(
                f"ACSTuner: {num_steps} steps are too few to tune a cycle of {cycle_length}; {enough} would do, "
                f"and 500 are usual"
            )
        return burn_in, each_alpha, each_beta

    def _burn_in(
        self, sampler: ACS, energy: Energy, state: GradientState, first: float, last: float, num_steps: int
    ) -> GradientState:
        """Away from the start as fast as the gradient leads, then towards likely states with Metropolis (Alg. 3)."""
        length = len(sampler.step_sizes)
        naive = sampler.with_cycle(cyclical(self.alpha_ceil, self.alpha_floor, length), cyclical(first, last, length))
        for _ in range(num_steps):  # all proposals taken, and all at the first step's settings: step stays 0
            state = naive.init(energy, naive.proposal(energy, state).sample().y)
        for _ in range(num_steps):
            state, _ = naive.step(energy, state)
        return state

    def _estimate_balances(
        self,
        sampler: ACS,
        energy: Energy,
        state: GradientState,
        step_sizes: Tensor,
        first: float,
        last: float,
        num_proposals: int,
    ) -> tuple[Tensor, GradientState]:
        """For each step size the balance of best acceptance that is not above its predecessor's (Eq. 9, Alg. 5)."""
        balances = [first]
        for alpha in step_sizes[1:-1]:
            betas = torch.linspace(balances[-1], last, num_proposals)
            rates, states = self._try(sampler, energy, state, alpha.expand_as(betas), betas)
            best = int(rates.argmax())  # of equals, the largest balance: the next ones cannot rise again
            balances.append(float(betas[best]))
            state = states[best]
        return torch.tensor([*balances, last]), state

    def _try(
        self, sampler: ACS, energy: Energy, state: GradientState, alphas: Tensor, betas: Tensor
    ) -> tuple[Tensor, list[GradientState]]:
        """One step from the same chains under each of t settings: mean acceptances `(t,)` and where the chains went."""
        probe = sampler.with_cycle(alphas, betas)  # a cycle of trials: trial k is its step k
        rates, states = [], []
        for k in range(len(alphas)):
            after, info = probe.step(energy, replace(state, step=k))
            rates.append(info.acceptance.nan_to_num(0.0).mean())  # a NaN energy was rejected
            states.append(after)
        return torch.stack(rates), states
