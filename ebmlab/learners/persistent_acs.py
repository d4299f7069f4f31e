"""ACS inside persistent contrastive divergence (Pynadath et al. 2024, Alg. 6)."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.ranks import mean_over_ranks
from ebmlab.samplers import ACS, DMALA, DULA, Sampler
from ebmlab.samplers.tuners import ACSTuner


class PersistentACS(DMALA):
    """ACS over cycles of training iterations: large unadjusted steps in the first, small DMALA steps in the others.

    An iteration is a step of the optimizer. Both step sizes adapt to the changing energy, in every `tune_every`-th
    cycle: the first iteration searches the largest step size with acceptance `rate`, the second the smallest.
    The searches use the current chains, which then continue as in any other iteration (Alg. 6 does not state this).
    Outside of training this sampler is DMALA with the small step size. The learner's checkpoints contain both step
    sizes.

    Args:
        alpha_max: initial value of the large step size, from which its search starts.
        alpha_min: initial value of the small step size, from which its search starts.
        balance_max: balance of the large steps; 0.9 on RBMs.
        balance_min: balance of the small steps.
        cycle_length: training iterations of a cycle; 8 (MNIST) or 20 on RBMs, 50 on deep energies.
        tune_every: cycles from one search to the next; 25, or 10 on Caltech silhouettes. On RBMs the paper spreads the
            steps of a search over training, which is not done here. A search for the small step starts one standard
            deviation below the mean of the earlier results, as there (App. D.4).
        tuning_steps: steps of a search.
        rate: the target acceptance, 0.5, or 0.7 on Caltech silhouettes.
        learning_rate: zeta, see `ACSTuner`.

    Attributes:
        alpha_max: the current large step size; the small one is `step_size`.
        found: the number of small step sizes found so far, their mean, and the sum of their squared deviations, `(3,)`.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, PersistentACS, ReplayBuffer
        >>> learner = ContrastiveDivergence(RBM(4, 3), PersistentACS(cycle_length=8), start=ReplayBuffer(100))
        >>> float(learner.sampler.alpha_max)
        5.0
    """

    alpha_max: Tensor
    found: Tensor

    def __init__(
        self,
        alpha_max: float = 5.0,
        alpha_min: float = 0.05,
        *,
        balance_max: float = 0.9,
        balance_min: float = 0.5,
        cycle_length: int = 50,
        tune_every: int = 25,
        tuning_steps: int = 200,
        rate: float = 0.5,
        learning_rate: float = 0.5,
    ) -> None:
        probe = ACS(
            alpha_max, alpha_min, cycle_length=2, balance_max=balance_max, balance_min=balance_min
        )  # raises if the settings are invalid
        super().__init__(alpha_min, balance_min)
        tuner = ACSTuner(rate, learning_rate, alpha_ceil=alpha_max, alpha_floor=alpha_min)
        if min(cycle_length, tune_every) < 1 or tuning_steps < tuner.proposals:
            raise UserError(
                f"PersistentACS: cycle_length is {cycle_length}, tune_every {tune_every} and tuning_steps "
                f"{tuning_steps}; need at least 1, 1 and {tuner.proposals}"
            )
        self.register_buffer("step_size", torch.tensor(float(alpha_min)))  # saved in checkpoints, unlike that of DMALA
        self.register_buffer("alpha_max", torch.tensor(float(alpha_max)))
        self.register_buffer("found", torch.zeros(3))
        self.balance_max, self.balance_min = balance_max, balance_min
        self.cycle_length = cycle_length
        self.tune_every = tune_every
        self.tuning_steps = tuning_steps
        self._tuner, self._probe = tuner, probe
        self._latest: int | None = None

    @torch.no_grad()
    def at_iteration(self, energy: Energy, x: Tensor, iteration: int, num_steps: int) -> tuple[Sampler, Tensor, int]:
        """As in `ChangesWithTraining`. An iteration with large steps takes half of the steps (App. D.4)."""
        turn = iteration % (self.cycle_length * self.tune_every)
        again, self._latest = iteration == self._latest, iteration  # gradients may accumulate
        if turn == 0 and not again:
            x = self._tune(energy, x, self._tuner, self.alpha_max, self.balance_max, largest=True)
        if not again and turn == min(1, self.cycle_length * self.tune_every - 1):
            tuner = replace(self._tuner, alpha_floor=self._floor())
            x = self._tune(energy, x, tuner, self.step_size, self.balance_min, largest=False)
            self._remember()
        if iteration % self.cycle_length:
            return self, x, num_steps
        return DULA(float(self.alpha_max), self.balance_max).to(x.device), x, max(1, num_steps // 2)

    def _load_from_state_dict(self, state_dict: dict[str, Any], prefix: str, *rest: Any) -> None:
        state_dict.setdefault(f"{prefix}found", torch.zeros_like(self.found))  # earlier versions did not keep it
        self._latest = None  # after a rollback the iteration comes again, and with it its search
        super()._load_from_state_dict(state_dict, prefix, *rest)

    def _floor(self) -> float:
        """Where the search for the small step size starts; not below its first start."""
        number, mean, squares = self.found.tolist()
        floor = mean - math.sqrt(squares / number) if number else 0.0
        return min(max(floor, self._tuner.alpha_floor), self._tuner.alpha_ceil / 2)

    def _remember(self) -> None:
        """Adds the small step size to the running mean and deviation (Welford's algorithm)."""
        number, mean, squares = self.found
        change = self.step_size - mean
        mean = mean + change / (number + 1)
        self.found.copy_(torch.stack([number + 1, mean, squares + change * (self.step_size - mean)]))

    def _tune(self, energy: Energy, x: Tensor, tuner: ACSTuner, into: Tensor, beta: float, largest: bool) -> Tensor:
        """Searches a step size, writes it into the buffer `into`, and returns the last states of the chains.

        Under DDP it is the mean of what the ranks have found.
        """
        probe = self._probe.to(x.device)
        how: dict[str, Any] = {"beta": beta, "num_steps": self.tuning_steps, "largest": largest}
        alpha, state = tuner.estimate_alpha(probe, energy, probe.init(energy, x), **how)
        into.copy_(mean_over_ranks(torch.as_tensor(alpha).to(into)))
        return state.x
