"""MALA on a continuous relaxation of a two-valued domain (R-MALA of Grathwohl et al. 2021, after Han et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.sampler import EnergyState, Info, Sampler


def lift(x: Tensor) -> Tensor:
    """Draws z `(B, *event)` from N(0, I) given that `harden` makes it x."""
    size = torch.randn_like(x).abs()
    return torch.where(x > 0, size, -size)


def harden(domain: Domain, z: Tensor) -> Tensor:
    """The state sign(z) on Spin, z > 0 on Binary."""
    up = (z > 0).to(z)
    return up if isinstance(domain, Binary) else 2 * up - 1


def soften(domain: Domain, z: Tensor, temperature: float) -> tuple[Tensor, Tensor]:
    """tanh(z / T) on Spin, sigmoid(z / T) on Binary, and its derivative in z, both `(B, *event)`."""
    if isinstance(domain, Binary):
        soft = torch.sigmoid(z / temperature)
        return soft, soft * (1 - soft) / temperature
    soft = torch.tanh(z / temperature)
    return soft, (1 - soft.square()) / temperature


@dataclass(kw_only=True)
class RelaxedState(EnergyState):
    """x = `harden`(z) with the energy there.

    Attributes:
        z: `(B, *event)`.
        mean: of the proposal from z, `(B, *event)`.
    """

    z: Tensor
    mean: Tensor


class RelaxedMALA(Sampler):
    """Langevin steps on z, whose density N(z; 0, I) 2^d p(sign z) is flat in p within an orthant.

    The gradient is that of a smooth stand-in, N(z; 0, I) exp(-E(tanh(z / T))), the decision that of the density itself,
    so that x = sign z has the law p exactly. z' ~ N(z - alpha (z + g), 2 alpha I) with g the gradient of
    E(tanh(z / T)); the step alpha g is cut to one unit a coordinate (Roberts and Tweedie's (1996) truncation), without
    which a steep energy is never left. A step costs two evaluations: E at the state, its gradient off it, where the
    energy must be defined as well. The tunable buffer is `step_size`.

    Args:
        step_size: alpha.
        temperature: T of the relaxation (the law does not depend on it); small ones are steep near 0, flat elsewhere.
    """

    domains = (Binary, Spin)
    step_size: Tensor

    def __init__(self, step_size: float, temperature: float = 1.0) -> None:
        super().__init__()
        check_relaxation("RelaxedMALA", step_size, temperature)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.temperature = temperature

    @property
    def exact(self) -> bool:
        return True

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None) -> RelaxedState:
        z = lift(x)
        return RelaxedState(x=x, energy=energy(x), z=z, mean=self._mean(energy, z))

    @torch.no_grad()
    def step(self, energy: Energy, state: RelaxedState) -> tuple[RelaxedState, Info]:
        noise = torch.randn_like(state.z)
        z = state.mean + (2 * self.step_size).sqrt() * noise
        x = harden(energy.domain, z)
        new = replace(state, x=x, energy=energy(x), z=z, mean=self._mean(energy, z))
        gain = state.energy - new.energy + (state.z.square() - z.square()).flatten(1).sum(1) / 2
        back = (state.z - new.mean).square().flatten(1).sum(1) / (4 * self.step_size)
        forth = noise.square().flatten(1).sum(1) / 2
        accepted, probability = metropolis(gain - back + forth)
        after = replace(new.where(accepted, state), step=state.step + 1)
        return after, Info(probability, energy.domain.hops(after.x, state.x), 2.0)

    def _mean(self, energy: Energy, z: Tensor) -> Tensor:
        """Mean of the proposal from z."""
        soft, slope = soften(energy.domain, z, self.temperature)
        _, grad = energy.value_and_grad(soft)
        return z - self.step_size * z - (self.step_size * grad * slope).clamp(-1, 1)


def check_relaxation(name: str, step_size: float, temperature: float) -> None:
    """Raises `UserError` unless the settings of a sampler on a relaxation make sense."""
    if not step_size > 0:
        raise UserError(f"{name}: step_size is {step_size}, but must be positive")
    if not temperature > 0:
        raise UserError(f"{name}: temperature is {temperature}, but must be positive")
