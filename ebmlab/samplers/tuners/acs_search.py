"""The search for ACS's schedule (Pynadath et al. 2024, Alg. 2 to 5 and Appendix A)."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.acs import ACS, cyclical
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import GradientState
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_inside, require_positive


@dataclass(frozen=True)
class ACSTuner(Tuner):
    """Finds alpha_max and alpha_min by their acceptance, then the balance of each step in between (Alg. 2).

    balance_max and balance_min are the sampler's first and last balance. Tuning does not change them, so a second
    tuning does not depend on the first. An acceptance is the mean over the chains in one step: run tens of chains.

    The paper is open or inconsistent on these points, and this class decides them:

    - The budget: the burn-in takes 100 steps, or a fifth of all steps if that is less. The balances take at most half
      of the rest, with 10 proposals each, or fewer if there are few steps. The two step sizes take the remainder.
      With 500 steps and a cycle of 20 these are 100, 180 and 220 steps.
    - The second stage of Alg. 3 runs for 50 steps, even if these are not whole cycles.
    - The chains continue from the step under the chosen proposal, accepted or rejected by Metropolis.
    - The mean acceptance is matched to the rate. Eq. 10 prints the mean of the distance to the rate, which cannot be 0.
    - Alg. 5 draws proposals from [balance_min, balance_max] and returns one entry too many. Here they come from the
      interval [balance_min, beta_(i-1)] of Eq. 9, and there are s entries: balance_max, s - 2 that are searched, and
      balance_min.
    - If the alpha_max found is below alpha_min, Eq. 8 makes all step sizes alpha_min. The paper then advises a
      smaller balance_max.

    Args:
        rate: rho*, the target acceptance for both alpha_max and alpha_min.
        learning_rate: zeta; a larger value spreads the proposals of one round over a wider range.
        alpha_ceil: where the search for alpha_max starts; large on wide Ordinal domains.
        alpha_floor: where the search for alpha_min starts.
        burn_in: steps of each stage of the burn-in, without and with Metropolis.
        proposals: step sizes tried in one round.
        balance_proposals: largest number of balances tried for one step of the cycle.

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
    _: KW_ONLY
    alpha_ceil: float = 60.0
    alpha_floor: float = 0.05
    burn_in: int = 50
    proposals: int = 5
    balance_proposals: int = 10

    def __post_init__(self) -> None:
        require_inside("ACSTuner", "(0, 1)", rate=self.rate)
        require_inside("ACSTuner", "(0, 1]", learning_rate=self.learning_rate)
        require_positive("ACSTuner", alpha_floor=self.alpha_floor, alpha_ceil=self.alpha_ceil)
        if not self.alpha_floor < self.alpha_ceil:
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

    def _tune(self, sampler: ACS, energy: Energy, x: Tensor, num_steps: int) -> tuple[ACS, Tensor]:
        burn_in, each_alpha, each_beta = self._shares(num_steps, len(sampler.step_sizes))
        first, last = float(sampler.balances[0]), float(sampler.balances[-1])

        state = self._burn_in(sampler, energy, sampler.init(energy, x), first, last, burn_in)
        alpha_min, state = self.estimate_alpha(sampler, energy, state, beta=last, num_steps=each_alpha, largest=False)
        alpha_max, state = self.estimate_alpha(sampler, energy, state, beta=first, num_steps=each_alpha, largest=True)
        step_sizes = cyclical(alpha_max, alpha_min, len(sampler.step_sizes))
        balances, state = self._estimate_balances(sampler, energy, state, step_sizes, first, last, each_beta)
        return sampler.with_cycle(step_sizes, balances), state.x

    def estimate_alpha(
        self, sampler: ACS, energy: Energy, state: GradientState, *, beta: float, num_steps: int, largest: bool
    ) -> tuple[float, GradientState]:
        """Returns the largest or smallest step size whose acceptance is `rate` (Eq. 11, Alg. 4), and the last state.

        Acceptance is not monotone in alpha. The search for the largest step size therefore starts at the ceiling, where
        acceptance is too low, and only goes down. The search for the smallest starts at the floor, where acceptance is
        too high, and only goes up. Alg. 4 takes the proposal whose acceptance is nearest to `rate` in every round. If
        all proposals have nearly the same acceptance, noise decides and the search stalls. Here, a round takes the
        nearest proposal only if its acceptances lie on both sides of `rate`. If all are still on the side where the
        search began, it takes the farthest proposal; if all are on the other side, alpha stays.
        """
        alpha, sign = (self.alpha_ceil, -1) if largest else (self.alpha_floor, 1)
        acceptance = 0.0
        for _ in range(num_steps // self.proposals):
            reach = alpha * (1 + sign * self.learning_rate * abs(self.rate - acceptance))
            alphas = torch.linspace(reach, alpha, self.proposals)
            rates, states = self._try(sampler, energy, state, alphas, torch.full_like(alphas, beta))
            excess = rates - self.rate
            if (sign * excess > 0).all():
                best = 0  # the proposal farthest from the current alpha
            elif (sign * excess < 0).all():
                best = -1  # alpha is already past the target, so it stays
            else:
                best = int(excess.abs().argmin())
            alpha, acceptance, state = float(alphas[best]), float(rates[best]), states[best]
        return alpha, state

    def _shares(self, num_steps: int, cycle_length: int) -> tuple[int, int, int]:
        """Steps of one burn-in stage, of the search for one step size, and of the search for one balance."""
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
        """Leaves the start by steps that are always accepted, then takes Metropolis steps to likely states (Alg. 3)."""
        length = len(sampler.step_sizes)
        naive = sampler.with_cycle(cyclical(self.alpha_ceil, self.alpha_floor, length), cyclical(first, last, length))
        for _ in range(num_steps):  # accepts all; `init` sets step to 0, so that all use the first settings
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
        """Finds for each step size the balance of highest acceptance, at most the balance before it (Eq. 9, Alg. 5)."""
        balances = [first]
        for alpha in step_sizes[1:-1]:
            betas = torch.linspace(balances[-1], last, num_proposals)
            rates, states = self._try(sampler, energy, state, alpha.expand_as(betas), betas)
            best = int(rates.argmax())  # on a tie the largest balance, since later ones cannot be larger
            balances.append(float(betas[best]))
            state = states[best]
        return torch.tensor([*balances, last]), state

    def _try(
        self, sampler: ACS, energy: Energy, state: GradientState, alphas: Tensor, betas: Tensor
    ) -> tuple[Tensor, list[GradientState]]:
        """Takes one step from `state` with each of t settings. Returns mean acceptances `(t,)` and the new states."""
        probe = sampler.with_cycle(alphas, betas)  # step k of this cycle uses the k-th settings
        rates, states = [], []
        for k in range(len(alphas)):
            after, info = probe.step(energy, replace(state, step=k))
            rates.append(info.acceptance.nan_to_num(0.0).mean())  # a proposal with NaN energy was rejected
            states.append(after)
        return torch.stack(rates), states
