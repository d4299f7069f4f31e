"""Energy matching: one energy is a flow from noise far from the data, and Boltzmann's law near them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import Energy
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.sample_loss import input_gradient
from ebmlab.native import normal, uniform
from ebmlab.samplers import Sampler, State
from ebmlab.samplers.initial_states import Start
from ebmlab.settings import require_count, require_factor, require_positive


def flow(energy: Energy, x: Tensor, temperature: float, num_steps: int) -> Tensor:
    """Carries x `(B, *event)` along dx/dt = -temperature * dE/dx from t = 0 to 1, by Euler steps."""
    for _ in range(num_steps):
        x = x - temperature / num_steps * energy.gradient(x)
    return x


def matching_losses(energy: Energy, noise: Tensor, x: Tensor, time: Tensor, temperature: float) -> Tensor:
    """|temperature * dE/dx(x_t) + x - noise|^2, `(B,)`, at x_t = (1 - t) noise + t x (Balcerak et al., 2025).

    Args:
        energy: on real numbers.
        noise: where the flow begins, `(B, *event)`.
        x: where it ends: data, `(B, *event)`.
        time: t of each pair, `(B,)`.
        temperature: of the law near the data.
    """
    time = time.view(-1, *[1] * (x.dim() - 1))
    _, grad = input_gradient(energy, ((1 - time) * noise + time * x).to(x))  # times of half precision are float32
    return (temperature * grad + x - noise).flatten(1).square().sum(1)


def paired(noise: Tensor, x: Tensor) -> Tensor:
    """The noise in the order in which the squared distances to x add up to the least: optimal transport of a batch."""
    distances = torch.cdist(x.flatten(1).double(), noise.flatten(1).double()).square()
    from scipy.optimize import linear_sum_assignment  # here, because no other learner needs it

    _, order = linear_sum_assignment(distances.cpu().numpy())
    return noise[torch.as_tensor(order, device=noise.device)]


class FromFlow(Start):
    """Chains start where the flow of `EnergyMatching` carries noise, and half of them at data if there are any.

    Args:
        temperature: as in `EnergyMatching`.
        num_steps: Euler steps of the flow.
        noise_scale: as in `EnergyMatching`.
    """

    def __init__(self, temperature: float, num_steps: int, *, noise_scale: float = 1.0) -> None:
        require_positive("FromFlow", temperature=temperature, noise_scale=noise_scale)
        require_count("FromFlow", num_steps=num_steps)
        self.temperature, self.num_steps, self.noise_scale = temperature, num_steps, noise_scale

    @torch.no_grad()
    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        given = energy.random(0) if data is None else data[: n // 2]
        x = self.noise_scale * energy.domain.random(n - len(given), given.device).to(given.dtype)
        return torch.cat([given, flow(energy, x, self.temperature, self.num_steps)])


class EnergyMatching(ContrastiveDivergence):
    """Fits an energy whose gradient carries noise to the data, and whose law near them is that of the data.

    With V = temperature * E, the flow dx/dt = -dV/dx shall take noise at t = 0 along straight lines to data at t = 1.
    Optimal transport pairs them within each batch. The loss is `matching_losses` (Balcerak et al., 2025). After
    `warm_up` steps the loss of contrastive divergence is added. Its chains start where the flow ends, or at data.
    `draw` and pictures follow the flow, then the sampler.

    The first loss wants straight flows of E, the second the law of the data. So the second needs a large factor where a
    density is to be learnt.

    What it cannot see: modes that neither the flow nor the chains reach.

    Args:
        energy: the model, on real numbers.
        sampler: moves the chains at the end of the flow.
        temperature: how much lower V is than E; the smaller, the straighter the flow.
        noise_scale: standard deviation of the noise. Noise that surrounds the data flows inwards from all sides, and
            both losses want the same energy near them. With noise among the data, an energy that points outwards is
            wanted too.
        num_flow_steps: Euler steps of the flow.
        warm_up: training steps of the flow alone.
        contrast_weight: factor of the loss of contrastive divergence.
        num_steps: steps of each chain after the flow.
        l1: see `Learner`.
        energy_l2: see `ContrastiveDivergence`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy does not live on real numbers, or a setting is out of range.

    Example:
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.samplers import MALA
        >>> learner = EnergyMatching(RealMLP(2), MALA(0.1), num_steps=5)
        >>> learner.draw(torch.randn(8, 2)).shape
        torch.Size([8, 2])
    """

    domains = (Real,)
    takes_weights = False
    logs = (*ContrastiveDivergence.logs, "train/flow_loss")

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        *,
        temperature: float = 1.0,
        noise_scale: float = 2.0,
        num_flow_steps: int = 20,
        warm_up: int = 100,
        contrast_weight: float = 30.0,
        num_steps: int = 20,
        l1: float = 0.0,
        energy_l2: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        require_positive("EnergyMatching", temperature=temperature, noise_scale=noise_scale)
        require_count("EnergyMatching", num_flow_steps=num_flow_steps)
        require_factor("EnergyMatching", contrast_weight=contrast_weight)
        require_count("EnergyMatching", least=0, warm_up=warm_up)
        super().__init__(
            energy,
            sampler,
            start=FromFlow(temperature, num_flow_steps, noise_scale=noise_scale),
            num_steps=num_steps,
            l1=l1,
            energy_l2=energy_l2,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )
        self.temperature, self.noise_scale, self.num_flow_steps = temperature, noise_scale, num_flow_steps
        self.warm_up, self.contrast_weight = warm_up, contrast_weight

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        x = self.states(batch)
        noise = paired(self.noise_scale * normal(x), x)
        time = uniform(x.flatten(1)[:, 0])
        loss = matching_losses(self.energy, noise, x, time, self.temperature).mean()
        if self.log_is_due:
            self.log("train/flow_loss", loss.detach(), prog_bar=True, sync_dist=True)
        if self.global_step < self.warm_up or self.contrast_weight == 0:
            return loss + self.penalty()
        difference, penalty = self.contrast(batch)
        return loss + self.contrast_weight * difference + penalty

    def walk(self, x: Tensor, num_steps: int) -> Iterator[State]:
        """The states of chains that start where the flow carries x, which are standard normal numbers."""
        noise = self.noise_scale * self.energy.as_states(x)
        return super().walk(flow(self.energy, noise, self.temperature, self.num_flow_steps), num_steps)
