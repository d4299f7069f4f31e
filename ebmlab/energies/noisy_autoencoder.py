"""An energy of images with noise: the squared distance to what an autoencoder makes of them."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn
from torch.nn.functional import silu

from ebmlab.domains import Real
from ebmlab.energies.noisy import FREQUENCIES, NoisyEnergy, level_features
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count, require_positive


class NoisyAutoencoder(NoisyEnergy):
    """E(x, sigma) = |x - g(x / s, sigma)|^2 / (2 sigma^2), x an image (Salimans & Ho, 2021, Sec. 3).

    Here s^2 = unit^2 + sigma^2. g halves the size twice by 4x4 convolutions, mixes all places by three linear maps, and
    doubles the size twice. Features from the way down are added on the way up. Activations are swishes, and each level
    of features sees sines and cosines of the logarithm of sigma. A tanh bounds the images that g makes, so that Z is
    finite.

    The linear maps see the whole image, and each pixel of g has a target of its own. So it learns whole digits where
    sums over places, such as `NoisyResNet`, have learnt strokes. Autocast does not round it: errors of g count in units
    of sigma.

    Args:
        shape: of an image, `(colours, height, width)`, with sizes that are multiples of 4.
        channels: of the features at half of the size; at a quarter there are twice as many.
        hidden_dim: units between the linear maps.
        bound: no pixel of g is larger, in the units of x; at least the largest pixel of the data.
        unit: about the standard deviation of the data.
        lowest: sigma of E(x), the energy of x alone; positive.

    Example:
        >>> energy = NoisyAutoencoder((1, 8, 8), channels=4, hidden_dim=8)
        >>> energy(torch.zeros(5, 1, 8, 8)).shape, energy.at(0.5)(torch.zeros(5, 1, 8, 8)).shape
        (torch.Size([5]), torch.Size([5]))
    """

    domains = (Real,)
    fast_compiled = False

    def __init__(
        self,
        shape: Sequence[int],
        channels: int = 16,
        *,
        hidden_dim: int = 256,
        bound: float = 4.0,
        unit: float = 1.0,
        lowest: float = 0.1,
    ) -> None:
        super().__init__()
        if len(shape) != 3 or shape[1] % 4 or shape[2] % 4:
            raise UserError(
                f"NoisyAutoencoder: shape is {tuple(shape)}, but must be (colours, height, width) with sizes that are "
                "multiples of 4"
            )
        require_count("NoisyAutoencoder", channels=channels, hidden_dim=hidden_dim)
        require_positive("NoisyAutoencoder", bound=bound, unit=unit, lowest=lowest)
        self.domain = Real(shape)
        self.bound, self.unit, self.lowest = bound, unit, lowest
        sizes, code = (shape[0], channels, 2 * channels), 2 * channels * (shape[1] // 4) * (shape[2] // 4)
        self.down = nn.ModuleList(nn.Conv2d(a, b, 4, 2, padding=1) for a, b in pairwise(sizes))
        self.mix = nn.ModuleList(nn.Linear(a, b) for a, b in pairwise([code, hidden_dim, hidden_dim, code]))
        self.up = nn.ModuleList(nn.ConvTranspose2d(b, a, 4, 2, padding=1) for a, b in pairwise(sizes))
        widths = (channels, 2 * channels, hidden_dim, channels)
        self.levels = nn.ModuleList(nn.Linear(2 * FREQUENCIES, width) for width in widths)

    @unrounded
    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        return (x - self.clean(x, sigma)).flatten(1).square().sum(1) / (2 * sigma.square())

    def clean(self, x: Tensor, sigma: Tensor) -> Tensor:
        """What the autoencoder makes of images at noise levels `(B,)`: g of the class, `(B, *event)`."""
        at_half, at_quarter, inside, back = (level(level_features(sigma / self.unit)) for level in self.levels)
        s = (self.unit**2 + sigma.square()).sqrt()
        half = silu(self.down[0](x / s[:, None, None, None]) + at_half[:, :, None, None])
        quarter = silu(self.down[1](half) + at_quarter[:, :, None, None])
        hidden = silu(self.mix[1](silu(self.mix[0](quarter.flatten(1)) + inside)))
        quarter = silu(quarter + self.mix[2](hidden).view_as(quarter))
        half = silu(half + self.up[1](quarter) + back[:, :, None, None])
        return self.bound * torch.tanh(self.up[0](half) / self.bound)
