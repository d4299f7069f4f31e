"""Diffusion recovery: each noise level is recovered from the next one by a short chain (Gao et al., 2021)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Real
from ebmlab.energies import Energy, NoisyEnergy
from ebmlab.errors import UserError
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.learners.learner import ADAM, Interval, Learner
from ebmlab.native import normal
from ebmlab.samplers import MALA, Cosine, Sampler, State
from ebmlab.settings import require_all_positive


class Recovery(Energy):
    """E(x' + step z, sigma) + |z|^2 / 2: the law of what was before noise, given x' after it (Gao et al., 2021).

    Where x' = x + step * noise, z = (x - x') / step. In this unit chains of all noise levels take the same steps.

    Args:
        energy: held, not copied.
        after: x', `(B, *event)`.
        sigma: the noise level of x, `(B,)`.
        step: the standard deviation of the noise that was added, `(B,)`; both may be the same for all.
    """

    domains = (Real,)

    def __init__(self, energy: NoisyEnergy, after: Tensor, sigma: Tensor, step: Tensor) -> None:
        super().__init__()
        self.domain = energy.domain
        self.energy, self.after, self.sigma = energy, after, sigma.expand(len(after))
        self.step = step.view(-1, *[1] * (after.dim() - 1))

    def before(self, z: Tensor) -> Tensor:
        """The states x of a lower noise level, `(B, *event)`."""
        return self.after + self.step * z

    def forward(self, z: Tensor) -> Tensor:
        return self.energy.noisy(self.before(z), self.sigma) + z.flatten(1).square().sum(1) / 2

    def value_and_grad(self, z: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self.energy.noisy_gradient(self.before(z), self.sigma)
        return value + z.flatten(1).square().sum(1) / 2, torch.addcmul(z, grad, self.step)


class DiffusionRecovery(Learner):
    """Fits an energy for each noise level by the likelihood of x at this level given x' at the next (DRL).

    Given x', x has one mode mostly, so that short chains from x' reach its law. The gradient is that of contrastive
    divergence with these chains as negatives (Gao et al., 2021, Alg. 1). Noise is added without shrinking x, so that
    the energy at level sigma is that of data plus N(0, sigma^2). Samples come down the levels from noise (Alg. 2):
    `draw`, pictures and `predict` take `num_steps` steps at each. The energy at sigma = 0, which is E(x), is that of
    the data.

    By default the steps shrink along a chain. Where energies are steep, long steps are rejected. Chains of long steps
    alone then stay where they are, and energies grow without bound.

    What it cannot see: how much mass lies in each of several modes further apart than the noise between two levels.
    Only the higher levels tell, each of them the next.

    Args:
        energy: takes the noise level as an input; its `lowest` is 0.
        sampler: moves the chains, with steps in units of the noise between two levels; by default
            `MALA(0.5, schedule=Cosine())`.
        noise_levels: sigma of each level above 0, rising, each about twice the one before. The first is about as wide
            as the finest structure of the data, the last a few times their standard deviation.
        num_steps: steps of each chain.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy takes no noise level, or a setting is out of range.

    Example:
        >>> from ebmlab.energies import NoisyMLP
        >>> learner = DiffusionRecovery(NoisyMLP(2), noise_levels=[0.3, 1.0, 4.0], num_steps=5)
        >>> len([*learner.trajectory(torch.randn(8, 2))]), learner.draw(torch.randn(8, 2)).shape
        (15, torch.Size([8, 2]))
    """

    domains = (Real,)
    takes_weights = True
    logs = (
        *("train/energy_data", "train/energy_negative", "train/energy_gap", "train/grad_norm", "train/learning_rate"),
        *("val/energy", "sampler/acceptance"),
    )
    energy: NoisyEnergy

    def __init__(
        self,
        energy: NoisyEnergy,
        sampler: Sampler | None = None,
        *,
        noise_levels: Sequence[float] = (0.15, 0.3, 0.6, 1.2, 2.5, 5.0),
        num_steps: int = 20,
        l1: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        if not isinstance(energy, NoisyEnergy):
            raise UserError(
                f"DiffusionRecovery: {type(energy).__name__} takes no noise level: take NoisyMLP, or a subclass of "
                "ebmlab.energies.NoisyEnergy"
            )
        super().__init__(
            energy,
            sampler or MALA(0.5, schedule=Cosine()),
            num_steps=num_steps,
            l1=l1,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )
        self.noise_levels = as_numbers(noise_levels, "DiffusionRecovery: noise_levels").flatten().tolist()
        if not self.noise_levels or any(low >= high for low, high in pairwise(self.noise_levels)):
            raise UserError(
                f"DiffusionRecovery: noise_levels are {self.noise_levels}, but must rise from level to level"
            )
        require_all_positive("DiffusionRecovery", noise_levels=self.noise_levels)
        if energy.lowest != 0:
            raise UserError(f"DiffusionRecovery: the energy's lowest is {energy.lowest:g}, but must be 0")

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x, weights = self.states(batch), self.weights(batch)
        levels = x.new_tensor([0.0, *self.noise_levels])
        index = torch.randint(len(self.noise_levels), (len(x),), device=x.device)
        sigma, above = levels[index], levels[index + 1]
        step = (above.square() - sigma.square()).sqrt()
        wide = [s.view(-1, *[1] * (x.dim() - 1)) for s in (sigma, step)]
        before = x + wide[0] * normal(x)
        law = Recovery(self.energy, before + wide[1] * normal(x), sigma, step)
        z, total = torch.zeros_like(x), None
        for state, info in self.sampler.chain(law, z, self.num_steps):
            z, total = state.x, info if total is None else total + info
        data = weighted_mean(self.energy.noisy(before, sigma), weights)
        negative = weighted_mean(self.energy.noisy(law.before(z), sigma), weights)
        if self.log_is_due and total is not None:
            values = {"data": data, "negative": negative, "gap": negative - data}
            self.log_dict({f"train/energy_{name}": value.detach() for name, value in values.items()}, sync_dist=True)
            acceptance = (total / self.num_steps).acceptance.mean()
            self.log("sampler/acceptance", acceptance, prog_bar=True, sync_dist=True)
        return data - negative + self.penalty()

    def walk(self, x: Tensor, num_steps: int) -> Iterator[State]:
        """The states on the way down the noise levels, num_steps of each; x are standard normal numbers."""
        levels = [0.0, *self.noise_levels]
        x = levels[-1] * self.energy.as_states(x)
        for sigma, above in reversed([*pairwise(levels)]):
            law = Recovery(self.energy, x, x.new_tensor(sigma), x.new_tensor(above**2 - sigma**2).sqrt())
            for state, _ in self.sampler.chain(law, torch.zeros_like(x), num_steps):
                x = law.before(state.x)
                yield State(x=x)

    def walk_length(self, num_steps: int) -> int:
        return num_steps * len(self.noise_levels)
