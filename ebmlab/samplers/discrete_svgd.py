"""Stein variational gradient descent on a continuous relaxation of a two-valued domain (Han et al. 2020)."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.numerics.noise import wide
from ebmlab.samplers.by_chain import Moved
from ebmlab.samplers.relaxed_mala import harden, lift, soften
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.settings import require_positive


@dataclass(kw_only=True)
class ParticleState(State):
    """Particles z and their states x = `harden`(z).

    Attributes:
        z: relaxed particles, `(B, *event)`.
    """

    z: Tensor


class DiscreteSVGD(Sampler):
    """B particles that together approximate p: a baseline, not a Markov chain.

    The batch is one set of particles. This is the only sampler whose chains interact: the result for one particle
    depends on which and how many others are in the batch. After the start it is deterministic. It is not exact, even
    after many steps: the particles minimise a discrepancy to the law N(z; 0, I) 2^d p(sign z). A single particle
    climbs to a mode of the smooth surrogate below.

    The method is gradient-free SVGD. The score s(z) is that of the surrogate rho(z) = N(z; 0, I) exp(-E(tanh(z / T))).
    The weights w_j are proportional to rho / p, that is, the softmax of E(sign z_j) - E(tanh(z_j / T)). The update is

        z_i += step_size * sum over j of w_j (k(z_j, z_i) s(z_j) + grad_(z_j) k(z_j, z_i))

    with k(z, z') = exp(-|z - z'|^2 / h), h = median of |z_i - z_j|^2 / log(B + 1). No coordinate moves by more than
    one unit in a step, whatever the scale of the energy. A step costs two evaluations; one is at tanh(z / T), outside
    the domain. The tunable buffer is `step_size`.

    Args:
        step_size: factor of the update.
        temperature: T of the relaxation.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import DiscreteSVGD
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = DiscreteSVGD(step_size=0.1).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin)
    exact = False
    independent = False
    step_size: Tensor

    def __init__(self, step_size: float, temperature: float = 1.0) -> None:
        super().__init__()
        require_positive("DiscreteSVGD", step_size=step_size, temperature=temperature)
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.temperature = temperature

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> ParticleState:
        return ParticleState(x=x, z=lift(x))

    @torch.no_grad()
    def step(self, energy: Energy, state: ParticleState) -> tuple[ParticleState, Info]:
        soft, slope = soften(energy.domain, state.z, self.temperature)
        smooth, grad = energy.value_and_grad(soft)
        weights = (energy(state.x) - smooth).softmax(0)
        score = -state.z - grad * slope
        particles = wide(state.z).flatten(1)  # there are no distances in half precision
        move = stein_direction(particles, score.to(particles).flatten(1), weights.to(particles)).view_as(state.z)
        z = state.z + (self.step_size * move).clamp(-1, 1).to(state.z)
        x = harden(energy.domain, z)
        new = replace(state, x=x, z=z, step=state.step + 1)
        acceptance = x.new_ones(len(x)).masked_fill_(z.flatten(1).sum(1).isnan(), torch.nan)
        return new, Info(acceptance, Moved(energy.domain, x, state.x), evaluations=2.0)


def stein_direction(z: Tensor, score: Tensor, weights: Tensor) -> Tensor:
    """Sum over j of w_j (k(z_j, z_i) s_j + grad_(z_j) k(z_j, z_i)), `(B, d)`.

    Args:
        z: particles, `(B, d)`.
        score: s, `(B, d)`.
        weights: w, `(B,)`, summing to 1.
    """
    distances = torch.cdist(z, z).square()
    width = distances.median() / math.log(len(z) + 1)
    width = width.where(width > 0, 1.0)  # the median is 0: one particle, or most of them are equal
    kernel = (-distances / width).exp() * weights
    repulsion = z * kernel.sum(1, keepdim=True) - kernel @ z
    return kernel @ score + 2 / width * repulsion
