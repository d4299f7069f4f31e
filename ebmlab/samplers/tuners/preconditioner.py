"""The search for a preconditioner of the discrete Langevin proposal."""

from __future__ import annotations

from dataclasses import dataclass

from torch import Tensor

from ebmlab.domains import Categorical, Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.acs import ACS
from ebmlab.samplers.dmala import DMALA
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.tuners.any_scale_search import DIAGONALS
from ebmlab.samplers.tuners.curvature import GradientDifferences
from ebmlab.samplers.tuners.target_acceptance import TargetAcceptance
from ebmlab.samplers.tuners.tuner import Tuner
from ebmlab.settings import require_choice

LEAST = 1e-3  # of the largest stiffness; coordinates without curvature take the longest steps


@dataclass(frozen=True)
class Preconditioner(Tuner):
    """Finds a scale for each coordinate of `DMALA`, and its step size (DLP-trace; Sun et al. 2023, Sec. 5.1).

    A third of the steps searches a step size without scales. In another third a matrix W is fitted to the gradients
    along the chains, and D follows from it as in `AnyScaleTuner`. The squared distance of coordinate i then counts D_ii
    times: the scales are mean(D) / D_ii. The rest searches the step size again.

    Args:
        rule: how D follows from W: `trace`, `max`, or `shift`, which gives all coordinates the same scale.
        rate: the acceptance that the step sizes aim at.

    Example:
        >>> import torch
        >>> from ebmlab.studies.targets import LatticeGaussian
        >>> from ebmlab.samplers import DMALA
        >>> from ebmlab.samplers.tuners import Preconditioner
        >>> energy = LatticeGaussian.sparse(size=8, condition=50.0)
        >>> tuned, x = Preconditioner().tune(DMALA(1.0), energy, energy.domain.random(50), num_steps=300)
        >>> tuned.options.precondition.shape
        torch.Size([8])
    """

    rule: str = "trace"
    rate: float = 0.574

    def __post_init__(self) -> None:
        require_choice("Preconditioner", DIAGONALS, rule=self.rule)
        TargetAcceptance(self.rate)

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        if not isinstance(sampler, DMALA):
            raise UserError(f"Preconditioner tunes DMALA, not {type(sampler).__name__}; AnyScaleTuner tunes AnyScale")
        if sampler.options.stochastic:
            raise UserError(
                "Preconditioner: differences of stochastic gradients are mostly noise; set stochastic: false"
            )
        if num_steps is not None and num_steps < 3:
            raise UserError(f"Preconditioner: num_steps is {num_steps}, but its three parts take at least 3")

    def check_energy(self, energy: Energy) -> None:
        if isinstance(domain := energy.domain, Categorical):
            raise UserError(f"Preconditioner: its scales are of numbers, but {type(energy).__name__} lives on {domain}")

    def _tune(self, sampler: DMALA, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        domain = energy.domain
        assert isinstance(domain, Finite)
        search, third = TargetAcceptance(self.rate), num_steps // 3
        sampler.options.precondition = None
        tuned, x = search.tune(sampler, energy, x, third)
        assert isinstance(tuned, DMALA)
        # the same steps as a cycle of one, whose states keep the gradient
        cycle = ACS(step_sizes=tuned.step_size.view(1), balances=tuned.balance.view(1), window=tuned.options.window)
        state, pairs = cycle.init(energy, x), GradientDifferences(domain.size, x.device)
        for _ in range(third):
            before = state
            state, _ = cycle.step(energy, state)
            pairs.add(state.x - before.x, before.grad - state.grad)  # f = -E
        D = DIAGONALS[self.rule](pairs.curvature())
        D = D.clamp(min=LEAST * D.max()) if D.max() > 0 else D + 1  # flat everywhere
        tuned.options.precondition = (D.mean() / D).to(x).view(domain.shape)
        return search.tune(tuned, energy, state.x, num_steps - 2 * third)
