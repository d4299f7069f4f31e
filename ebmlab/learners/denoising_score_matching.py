"""Denoising score matching: the energy's gradient points back to where noise has come from (Vincent, 2011)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isclose

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Real
from ebmlab.energies import Energy, NoisyEnergy
from ebmlab.errors import UserError
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.sample_loss import SampleLoss, input_gradient
from ebmlab.native import normal
from ebmlab.samplers import Sampler, State
from ebmlab.settings import require_all_positive


def denoising_losses(energy: Energy, x: Tensor, noise: Tensor, sigma: Tensor) -> Tensor:
    """|sigma dE/dx(x + sigma noise) - noise|^2 / 2, `(B,)`: Vincent's loss (2011, Eq. 9) times sigma^2.

    Args:
        energy: on real numbers.
        x: data, `(B, *event)`.
        noise: standard normal numbers, as x.
        sigma: standard deviation of the noise of each sample, `(B,)`.

    Raises:
        UserError: autograd finds no derivative in x.
    """
    law = energy.at(sigma) if isinstance(energy, NoisyEnergy) else energy
    sigma = sigma.view(-1, *[1] * (x.dim() - 1))
    _, grad = input_gradient(law, x + sigma * noise)
    return (sigma * grad - noise).flatten(1).square().sum(1) / 2


class InUnits(Energy):
    """E(sigma z, sigma) as an energy of z: chains of all noise levels then take steps of the same length.

    Args:
        energy: held, not copied.
        sigma: the noise level.
    """

    domains = (Real,)

    def __init__(self, energy: NoisyEnergy, sigma: float) -> None:
        super().__init__()
        self.domain = energy.domain
        self.law, self.sigma = energy.at(sigma), sigma

    def forward(self, z: Tensor) -> Tensor:
        energies: Tensor = self.law(self.sigma * z)
        return energies


class DenoisingScoreMatching(SampleLoss):
    """Fits an energy to the law of data plus Gaussian noise, without chains, second derivatives or Z.

    The loss of a level sigma is sigma^2 / 2 times the squared distance of dE/dx at the noisy state from
    noise / sigma. Each sample of a step draws one of the levels. With one level the optimum is the data's density
    blurred by sigma. With several, a `NoisyEnergy` learns the blurred density of each. Any other energy learns their
    mixture, with weights in proportion to sigma^2, by which levels are weighted (Song & Ermon, 2019, Sec. 4.2).

    Samples of a `NoisyEnergy` come down its levels from noise, as in annealed Langevin dynamics (there, Alg. 1), to
    `energy.lowest`. `draw`, pictures and `predict` take `num_steps` steps at each level, whose sigma is their unit.

    What it cannot see: with small noise alone, the weights of separated modes, as `ScoreMatching`. A level of about
    half the distance of the modes sees them. Nothing finer than the smallest level is learnt.

    Args:
        energy: the model.
        sampler: draws from it for pictures, scores and `predict`; `MALA(0.1)` when None.
        noise_levels: sigma, or several, in the units of the states.
        num_steps: steps of the sampler's chains.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy does not live on real numbers, or a setting is out of range.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> learner = DenoisingScoreMatching(RealMLP(2), noise_levels=[0.1, 1.0])
        >>> learner.losses(torch.randn(5, 2)).shape
        torch.Size([5])
    """

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        noise_levels: float | Sequence[float] = 0.1,
        num_steps: int = 100,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        super().__init__(energy, sampler, num_steps, l1, optimizer, lr_scheduler, lr_interval)
        self.noise_levels = as_numbers(noise_levels, "DenoisingScoreMatching: noise_levels").flatten().tolist()
        if not self.noise_levels:
            raise UserError("DenoisingScoreMatching: noise_levels is empty, but must hold at least one")
        require_all_positive("DenoisingScoreMatching", noise_levels=self.noise_levels)
        if isinstance(energy, NoisyEnergy) and not any(
            isclose(energy.lowest, s, rel_tol=1e-6) for s in self.noise_levels
        ):
            raise UserError(
                f"DenoisingScoreMatching: {type(energy).__name__} gives the law at the noise level lowest = "
                f"{energy.lowest:g}, which is none of noise_levels: set lowest to {min(self.noise_levels):g}"
            )

    def losses(self, x: Tensor) -> Tensor:
        levels = x.new_tensor(self.noise_levels)
        drawn = levels[torch.randint(len(levels), (len(x),), device=x.device)]
        return denoising_losses(self.energy, x, normal(x), drawn)

    def walk(self, x: Tensor, num_steps: int) -> Iterator[State]:
        """The states on the way down the noise levels, num_steps of each; x are standard normal numbers.

        An energy without levels has chains from x, as other learners do.
        """
        if not isinstance(self.energy, NoisyEnergy):
            yield from super().walk(x, num_steps)
            return
        levels = self._levels_down(self.energy)
        x = levels[0] * self.energy.as_states(x)
        for sigma in levels:
            for state, _ in self.sampler.chain(InUnits(self.energy, sigma), x / sigma, num_steps):
                yield State(x=(x := sigma * state.x))

    def walk_length(self, num_steps: int) -> int:
        return num_steps * (len(self._levels_down(self.energy)) if isinstance(self.energy, NoisyEnergy) else 1)

    def _levels_down(self, energy: NoisyEnergy) -> list[float]:
        """The noise levels that an energy covers, the highest first."""
        lowest = energy.lowest * (1 - 1e-6)
        return [sigma for sigma in sorted(self.noise_levels, reverse=True) if sigma >= lowest]
