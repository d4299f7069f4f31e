"""Gibbs-Langevin sampling of GRBMs; one draw from their exact law replaces all inner Langevin steps."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple, cast

import torch
from torch import Tensor

from ebmlab.domains import Real
from ebmlab.energies import GRBM, Bipartite, BipartiteBridge, Energy, Gaussian, PerChain
from ebmlab.errors import UserError
from ebmlab.native import normal
from ebmlab.samplers.block_gibbs import require_bipartite
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.langevin import check_settings
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.schedules import cosine_factors
from ebmlab.samplers.state import BipartiteState, Info
from ebmlab.settings import require_count, require_positive


class InnerLaw(NamedTuple):
    """The law N(m + decay (v - m), std^2) of v after all inner steps, where m = mu + W h.

    Attributes:
        decay: beta_0 of Eq. 11, `(V,)`.
        std: standard deviation, `(V,)`.
    """

    decay: Tensor
    std: Tensor


def inner_law(step_sizes: Tensor, variance: Tensor, temperature: float | Tensor = 1.0) -> InnerLaw:
    """Composes K Langevin steps on the Gaussian p(v | h) into one draw (Liao et al. 2022, Eq. 11).

    Let beta_k be the product of 1 - alpha_j / sigma^2 over j > k. Eq. 11 multiplies mu + W h by the sum of
    beta_k alpha_k / sigma^2, which telescopes to 1 - beta_0.

    Args:
        step_sizes: alpha_1, ..., alpha_K, `(K,)`.
        variance: sigma^2, `(V,)`.
        temperature: the noise of step k has variance 2 alpha_k temperature.
    """
    contraction = 1 - step_sizes.unsqueeze(1) / variance
    products = contraction.flip(0).cumprod(0).flip(0)
    beta = torch.cat([products[1:], torch.ones_like(products[:1])])
    noise = 2 * temperature * (step_sizes.unsqueeze(1) * beta.square()).sum(0)
    return InnerLaw(products[0], noise.sqrt())


@dataclass(kw_only=True)
class GibbsLangevinState(BipartiteState):
    """A pair (x, hidden) with the values that the next step needs.

    Attributes:
        mean: mu + W h, `(B, V)`.
        law: law of v after the inner steps; the same for all chains.
        marginal: marginal energy of x divided by the temperature, `(B,)`; None if the next step is not adjusted. In the
            state from `init`, it is None only if no step is.
    """

    mean: Tensor
    law: InnerLaw
    marginal: Tensor | None = None


def start(
    energy: Energy,
    x: Tensor,
    settings: Sequence[Number],
    factors: Tensor,
    temperature: float,
    noise_temperature: float,
    adjusted: bool,
    known: PerChain | None = None,
    law: InnerLaw | None = None,
) -> GibbsLangevinState:
    """H ~ p(h | x), and the law of v after inner steps of alpha_0 times the factors, if no step before has made it."""
    (alpha,), energy = settings, cast(Bipartite, energy)
    logits, known = energy.hidden_logits(x, known)
    hidden = energy.units.sample(logits / temperature if temperature != 1.0 else logits)
    mean, variance = energy.visible_given_hidden(hidden)
    if law is None:
        law = inner_law(alpha * variance.mean() * factors.to(variance), variance, noise_temperature)
    marginal = energy.marginal_energy(x, logits, temperature=temperature) if adjusted else None
    return GibbsLangevinState(
        x=x, logits=logits, hidden=hidden, mean=mean.to(x), law=law, marginal=marginal, known=known
    )


def step(
    energy: Energy,
    state: GibbsLangevinState,
    settings: Sequence[Number],
    factors: Tensor,
    temperature: float,
    noise_temperature: float,
    adjusted: bool,
    next_adjusted: bool | None = None,
) -> tuple[GibbsLangevinState, Info]:
    """Draws v after all inner steps, and then h ~ p(h | v).

    An adjusted step accepts both with min(1, p(v') q(v | v', h') / (p(v) q(v' | v, h))). Eq. 12 needs only marginal
    energies, because p(v, h) / p(h | v) is p(v).
    """
    noise = normal(state.x)
    x = torch.lerp(state.mean, state.x, state.law.decay).addcmul_(noise, state.law.std)
    later = adjusted if next_adjusted is None else next_adjusted
    new = start(energy, x, settings, factors, temperature, noise_temperature, later, law=state.law)
    probability: Tensor | Sure = Sure(x)
    if adjusted and state.marginal is not None and new.marginal is not None:
        back = _log_density(state.x, new)
        forth = -noise.square().sum(1) / 2
        accepted, probability = metropolis(state.marginal - new.marginal + back - forth)
        new = new.overwritten(accepted, state)
    return new, Info(probability, Moved(energy.domain, new.x, state.x))


class GibbsLangevin(Sampler):
    """Langevin steps on v given h, then h ~ p(h | v) (Liao et al. 2022, Alg. 2).

    Args:
        step_size: alpha_0, the first inner step's size, in units of the current mean variance. The inner steps are
            stable while alpha_0 stays below twice the smallest variance.
        num_inner_steps: K; their sizes follow a cosine (Eq. 22).
        adjust_from: from this step on (0 is the first), accept by Metropolis (Eq. 12); None never adjusts.
        temperature: T; the target is the tempered joint law exp(-E(v, h) / T), of hidden bits alone. `Langevin` tempers
            the marginal law.
        noise_temperature: that of the noise in v alone, T by default. The authors' program divides gradients by the
            batch size and leaves the noise. Its step of 20 at a batch of 512 is a `step_size` of 20 / 512 with a
            `noise_temperature` of 512. Its chains follow no law that is known, and cannot be adjusted.

    Example:
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.samplers import GibbsLangevin
        >>> grbm = GRBM(6, 3)
        >>> x, info = GibbsLangevin(step_size=0.1, adjust_from=0).sample(grbm, grbm.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 6])
    """

    domains = (Real,)
    step_size: Tensor
    factors: Tensor

    def __init__(
        self,
        step_size: float,
        num_inner_steps: int = 10,
        *,
        adjust_from: int | None = None,
        temperature: float = 1.0,
        noise_temperature: float | None = None,
    ) -> None:
        super().__init__()
        check_settings("GibbsLangevin", step_size, adjust_from, temperature)
        require_count("GibbsLangevin", num_inner_steps=num_inner_steps)
        if noise_temperature is not None:
            require_positive("GibbsLangevin", noise_temperature=noise_temperature)
            if adjust_from is not None and noise_temperature != temperature:
                raise UserError(
                    f"GibbsLangevin: noise_temperature is {noise_temperature} and temperature {temperature}; adjusted "
                    "steps need the same, so set adjust_from to null or leave noise_temperature out"
                )
        # Not saved: on resume the config's value is used.
        self.register_buffer("step_size", torch.tensor(float(step_size)), persistent=False)
        self.register_buffer("factors", cosine_factors(num_inner_steps), persistent=False)
        self.num_inner_steps = num_inner_steps
        self.adjust_from = adjust_from
        self.temperature = temperature
        self.noise_temperature = temperature if noise_temperature is None else noise_temperature

    @property
    def exact(self) -> bool:
        return self.adjust_from == 0 and self.temperature == 1.0

    def check(self, energy: Energy) -> None:
        require_bipartite(self, energy)
        bridged = isinstance(energy, BipartiteBridge)
        if not isinstance(energy.energy if bridged else energy, GRBM):
            raise UserError(
                f"GibbsLangevin needs Gaussian visible units with variances (GRBM), not a {type(energy).__name__}; "
                "BlockGibbs samples any bipartite energy"
            )
        if self.temperature != 1.0 and not energy.has_bits:
            raise UserError(
                f"GibbsLangevin: a temperature of {self.temperature} needs hidden units that are bits, but those of "
                "this GRBM are not: set temperature to 1"
            )
        if bridged and isinstance(energy.base, Gaussian):
            raise UserError(
                "GibbsLangevin needs coordinates of v that are independent given h, and a Gaussian base correlates them"
            )

    def kernel_on(self, energy: Energy) -> Kernel | None:
        """The steps; None if Metropolis sets in along the chain."""
        if self.adjust_from not in (None, 0):
            return None
        return Kernel(start, step, self.step_size.view(1, 1), self._options(self.adjust_from == 0))

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> GibbsLangevinState:
        # the next step may be any one of a longer chain (`Leg`), and so an adjusted one
        return start(energy, x, (self.step_size,), *self._options(self.adjust_from is not None), known)

    @torch.no_grad()
    def step(self, energy: Energy, state: GibbsLangevinState) -> tuple[GibbsLangevinState, Info]:
        options, later = self._options(self._adjusts(state.step)), self._adjusts(state.step + 1)
        new, info = step(energy, state, (self.step_size,), *options, next_adjusted=later)
        return replace(new, step=state.step + 1), info

    def _options(self, adjusted: bool) -> tuple[Tensor, float, float, bool]:
        return self.factors, self.temperature, self.noise_temperature, adjusted

    def _adjusts(self, step: int) -> bool:
        return self.adjust_from is not None and step >= self.adjust_from


def _log_density(x: Tensor, start: GibbsLangevinState) -> Tensor:
    """Log of the inner law's density at x from `start`, `(B,)`, up to a constant."""
    mean = torch.lerp(start.mean, start.x, start.law.decay)
    return -((x - mean) / start.law.std).square().sum(1) / 2
