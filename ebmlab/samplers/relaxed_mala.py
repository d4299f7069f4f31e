"""MALA on a continuous relaxation of a two-valued domain (R-MALA of Grathwohl et al. 2021, after Han et al. 2020)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.native import normal
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.proposals import Gaussian, Proposal
from ebmlab.samplers.state import EnergyState
from ebmlab.settings import require_positive


def lift(x: Tensor) -> Tensor:
    """Draws z `(B, *event)` from N(0, I) under the condition `harden`(z) = x."""
    size = normal(x).abs()
    return torch.where(x > 0, size, -size)


def harden(domain: Domain, z: Tensor) -> Tensor:
    """The state of z: sign(z) on Spin, and 1 where z > 0, else 0, on Binary."""
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
    """A relaxed state z, x = `harden`(z), and the energy at x.

    Attributes:
        z: relaxed state, `(B, *event)`.
        drift: gradient of E(tanh(z / T)) in z, `(B, *event)`.
    """

    z: Tensor
    drift: Tensor


class RelaxedMALA(MetropolisSampler):
    """Metropolis-adjusted Langevin steps on a real vector z with density N(z; 0, I) 2^d p(sign z).

    Within an orthant p(sign z) is constant, so its gradient gives no direction. The proposal therefore uses a smooth
    surrogate, N(z; 0, I) exp(-E(tanh(z / T))). It draws z' from N(z - alpha (z + g), 2 alpha I), where g is the
    gradient of E(tanh(z / T)). The Metropolis decision uses the true density, so that x = sign z follows p exactly. The
    step alpha g is truncated to one unit per coordinate (Roberts and Tweedie 1996); otherwise chains of a steep energy
    get stuck. A step costs two evaluations: E at x, and the gradient at tanh(z / T), outside the domain, where the
    energy must be defined too. The tunable buffer is `step_size`.

    Args:
        step_size: alpha.
        temperature: T of the relaxation. The law of x does not depend on it. A small T makes tanh(z / T) steep near 0
            and flat elsewhere.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import RelaxedMALA
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = RelaxedMALA(step_size=0.1).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin)
    evaluations = 2.0
    step_size: Tensor

    def __init__(self, step_size: float, temperature: float = 1.0) -> None:
        super().__init__()
        require_positive("RelaxedMALA", step_size=step_size, temperature=temperature)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.temperature = temperature

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> RelaxedState:
        return self._at(energy, x, lift(x))

    def arrive(self, energy: Energy, state: RelaxedState, y: Tensor) -> RelaxedState:
        """The state at z = y."""
        return self._at(energy, harden(energy.domain, y), y)

    def proposal(self, energy: Energy, state: RelaxedState) -> Proposal:
        z, alpha = state.z, self.step_size
        return Gaussian(z, z - alpha * z - (alpha * state.drift).clamp(-1, 1), variance=2 * alpha)

    def potential(self, state: RelaxedState) -> Tensor:
        """E(x) + |z|^2 / 2."""
        return state.energy + state.z.square().flatten(1).sum(1) / 2

    def _at(self, energy: Energy, x: Tensor, z: Tensor) -> RelaxedState:
        soft, slope = soften(energy.domain, z, self.temperature)
        return RelaxedState(x=x, energy=energy(x), z=z, drift=energy.value_and_grad(soft)[1] * slope)
