"""Energies that take a noise level as an input: one law for data with each amount of Gaussian noise."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies.energy import Energy
from ebmlab.energies.laws import of_states
from ebmlab.energies.perceptron import by_chain_rule, hidden_layers, value_and_slope
from ebmlab.numerics.unrounded import read_out, unrounded
from ebmlab.settings import require_count, require_factor, require_positive

FREQUENCIES = 4  # sines and cosines of each that a network sees of a noise level


class NoisyEnergy(Energy):
    """E(x, sigma), for data plus Gaussian noise of the standard deviation sigma. A subclass writes `noisy`.

    As an energy of x alone it is that at the noise level `lowest`, so that samplers, pictures and likelihoods take it
    as any other. `at` gives the energy at another level.

    Attributes:
        lowest: sigma of E(x).

    Example:
        >>> energy: NoisyEnergy = NoisyMLP(num_coordinates=2, hidden_dim=8)
        >>> x = torch.zeros(3, 2)
        >>> energy.noisy(x, torch.tensor([0.0, 0.5, 2.0])).shape
        torch.Size([3])
    """

    lowest: float = 0.0

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        """Energies `(B,)` of states `(B, *event)` at noise levels `(B,)`."""
        raise NotImplementedError

    def noisy_gradient(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """E(x, sigma) `(B,)` and dE/dx `(B, *event)`, both detached: by autograd, unless a subclass overrides it."""
        return Energy.value_and_grad(AtNoise(self, sigma), x)

    def noisy_slope(self, x: Tensor, sigma: Tensor) -> Tensor:
        """dE/dx `(B, *event)` as `Energy.differentiable_gradient`, by autograd, unless a subclass overrides it."""
        return Energy.differentiable_gradient(AtNoise(self, sigma), x)

    def forward(self, x: Tensor) -> Tensor:
        return self.noisy(x, x.new_full((len(x),), self.lowest))

    def at(self, sigma: float | Tensor) -> AtNoise:
        """The energy at one noise level, or at one for each state, `(B,)`; it shares the parameters."""
        return AtNoise(self, sigma)


def level_features(sigma: Tensor) -> Tensor:
    """Sines and cosines of the logarithm of noise levels `(B,)` in the unit of the data, `(B, 2 FREQUENCIES)`."""
    level = (sigma + 1 / 50).log().unsqueeze(1)
    angles = level * torch.arange(1, FREQUENCIES + 1, device=sigma.device, dtype=sigma.dtype) / 2
    return torch.cat([angles.sin(), angles.cos()], 1)


class AtNoise(Energy):
    """E(x, sigma) at one sigma, or at one for each state, as an energy of x alone.

    Args:
        energy: held, not copied.
        sigma: the noise level, at least 0; or a tensor `(B,)` of them, one for each of B chains.

    Example:
        >>> energy = NoisyMLP(num_coordinates=2, hidden_dim=8)
        >>> bool((AtNoise(energy, 0.0)(torch.ones(3, 2)) == energy(torch.ones(3, 2))).all())
        True
    """

    domains = (Real,)
    per_chain = "sigma"

    def __init__(self, energy: NoisyEnergy, sigma: float | Tensor) -> None:
        super().__init__()
        if not isinstance(sigma, Tensor):
            require_factor("AtNoise", sigma=sigma)
        self.domain = energy.domain
        self.energy = energy
        self.sigma = sigma

    def forward(self, x: Tensor) -> Tensor:
        return self.energy.noisy(x, self._levels(x))

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self.energy.noisy_gradient(x, self._levels(x))

    def differentiable_gradient(self, x: Tensor) -> Tensor:
        return self.energy.noisy_slope(x, self._levels(x))

    def _levels(self, x: Tensor) -> Tensor:
        sigma = torch.as_tensor(self.sigma, dtype=x.dtype, device=x.device)
        return of_states(sigma, len(x)) if sigma.dim() else sigma.expand(len(x))


class NoisyMLP(NoisyEnergy):
    """E(x, sigma) = f(x / s, sigma) + |x|^2 / (2 (scale^2 + sigma^2)), s^2 = unit^2 + sigma^2, f a swish perceptron.

    The second term makes Z finite, as in `RealMLP`. f sees sines and cosines of the logarithm of sigma. A fiftieth of
    the unit is added to sigma before, so that sigma = 0 is possible.

    Args:
        num_coordinates: d, the length of x.
        hidden_dim: units in each hidden layer.
        num_layers: how many hidden layers.
        scale: standard deviation of the Gaussian without noise, in the units of x; a few times that of the data.
        unit: about a quarter of the standard deviation of the data; the smaller, the sooner f learns fine structure.
        lowest: sigma of E(x), the energy of x alone.

    Example:
        >>> energy = NoisyMLP(num_coordinates=2, hidden_dim=8)
        >>> energy(torch.zeros(5, 2)).shape, energy.at(0.5)(torch.zeros(5, 2)).shape
        (torch.Size([5]), torch.Size([5]))
    """

    domains = (Real,)

    def __init__(
        self,
        num_coordinates: int,
        hidden_dim: int = 128,
        *,
        num_layers: int = 3,
        scale: float = 4.0,
        unit: float = 1.0,
        lowest: float = 0.0,
    ) -> None:
        super().__init__()
        require_count("NoisyMLP", num_coordinates=num_coordinates, hidden_dim=hidden_dim, num_layers=num_layers)
        require_positive("NoisyMLP", scale=scale, unit=unit)
        require_factor("NoisyMLP", lowest=lowest)
        self.domain = Real(num_coordinates)
        self.scale, self.unit, self.lowest = scale, unit, lowest
        layers = hidden_layers(num_coordinates + 2 * FREQUENCIES, hidden_dim, num_layers)
        self.network = nn.Sequential(*layers, nn.Linear(hidden_dim, 1))

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        return read_out(self.network, self._inputs(x, sigma, self._spread(sigma))) + self._bowl(x, sigma)

    @torch.no_grad()
    def noisy_gradient(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        """As in `NoisyEnergy`, by the chain rule, as `RealMLP`."""
        return self._chain_rule(x, sigma) if self._by_chain_rule(x) else super().noisy_gradient(x, sigma)

    def noisy_slope(self, x: Tensor, sigma: Tensor) -> Tensor:
        """As in `NoisyEnergy`, by the chain rule."""
        return self._chain_rule(x, sigma)[1] if self._by_chain_rule(x) else super().noisy_slope(x, sigma)

    def _by_chain_rule(self, x: Tensor) -> bool:
        return type(self).noisy is NoisyMLP.noisy and by_chain_rule(self.network, x)

    def _chain_rule(self, x: Tensor, sigma: Tensor) -> tuple[Tensor, Tensor]:
        spread, narrow = self._spread(sigma), (self.scale**2 + sigma.square()).unsqueeze(1)
        value, slope = value_and_slope(self.network, self._inputs(x, sigma, spread))
        return value + self._bowl(x, sigma), slope[:, : x.shape[1]] / spread + x / narrow

    def _spread(self, sigma: Tensor) -> Tensor:
        """The standard deviation `(B, 1)` by which x is divided: s in the formula of the class."""
        return (self.unit**2 + sigma.square()).sqrt().unsqueeze(1)

    def _inputs(self, x: Tensor, sigma: Tensor, spread: Tensor) -> Tensor:
        """What the network sees."""
        return torch.cat([x / spread, level_features(sigma / self.unit)], 1)

    @unrounded
    def _bowl(self, x: Tensor, sigma: Tensor) -> Tensor:
        return x.square().sum(1) / (2 * (self.scale**2 + sigma.square()))
