"""An energy of images with noise: a residual network that sees the noise level."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from torch import Tensor, nn
from torch.nn.functional import silu

from ebmlab.domains import Real
from ebmlab.energies.noisy import FREQUENCIES, NoisyEnergy, level_features
from ebmlab.energies.resnet.channels_last import channels_last
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count, require_factor, require_positive


class NoisyResNet(NoisyEnergy):
    """E(x, sigma) = s f(x / s, sigma) / (sigma + finest) + |x|^2 / (2 (scale^2 + sigma^2)), x an image.

    Here s^2 = unit^2 + sigma^2. f is a residual network of 3x3 convolutions, with swish activations and without
    normalisation layers. Its features are summed over all places at the end. Each block sees sines and cosines of the
    logarithm of sigma. The factor in front of f makes its slope about 1 at all noise levels, where the slope of E is
    about 1 / sigma (cf. Karras et al., 2022, Sec. 5). The second term makes Z finite, as in `RealMLP`.

    Args:
        shape: of an image, `(colours, height, width)`, such as (3, 32, 32).
        channels: of the features at full size. Each halving of the size doubles them, up to four times as many.
        num_halvings: how often the size is halved; a residual block stands before each halving, and one at the end.
        scale: standard deviation of the Gaussian without noise, in the units of x; at least that of the data.
        unit: about the standard deviation of the data.
        finest: the width of the finest structure of E without noise, in the units of x.
        lowest: sigma of E(x), the energy of x alone.

    Example:
        >>> import torch
        >>> energy = NoisyResNet((3, 8, 8), channels=8)
        >>> energy(torch.zeros(5, 3, 8, 8)).shape, energy.at(0.5)(torch.zeros(5, 3, 8, 8)).shape
        (torch.Size([5]), torch.Size([5]))
    """

    domains = (Real,)
    fast_compiled = False

    def __init__(
        self,
        shape: Sequence[int],
        channels: int = 32,
        *,
        num_halvings: int = 2,
        scale: float = 2.0,
        unit: float = 1.0,
        finest: float = 0.1,
        lowest: float = 0.0,
    ) -> None:
        super().__init__()
        if len(shape) != 3:
            raise UserError(f"NoisyResNet: shape is {tuple(shape)}, but must be (colours, height, width)")
        require_count("NoisyResNet", channels=channels, num_halvings=num_halvings)
        require_positive("NoisyResNet", scale=scale, unit=unit, finest=finest)
        require_factor("NoisyResNet", lowest=lowest)
        self.domain = Real(shape)
        self.scale, self.unit, self.finest, self.lowest = scale, unit, finest, lowest
        widths = [channels * min(4, 2**k) for k in range(num_halvings + 1)]
        self.entrance = nn.Conv2d(shape[0], channels, 3, padding=1)
        self.blocks = nn.ModuleList(LevelBlock(width) for width in widths)
        self.halvings = nn.ModuleList(nn.Conv2d(a, b, 3, 2, padding=1) for a, b in pairwise(widths))
        self.linear = nn.Linear(widths[-1], 1)
        channels_last(self)

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        spread = (self.unit**2 + sigma.square()).sqrt()
        level = level_features(sigma / self.unit)
        features = self.entrance(x / spread.view(-1, 1, 1, 1))
        for block, halving in zip(self.blocks, [*self.halvings, nn.Identity()], strict=True):
            features = halving(block(features, level))
        return self._read_out(silu(features), spread / (sigma + self.finest)) + self._bowl(x, sigma)

    @unrounded
    def _read_out(self, features: Tensor, factor: Tensor) -> Tensor:
        """The sum over places, `(B, C, H, W)` to `(B,)`, times a factor of each state."""
        total: Tensor = self.linear(features.sum((2, 3)))
        return factor * total.squeeze(1)

    @unrounded
    def _bowl(self, x: Tensor, sigma: Tensor) -> Tensor:
        return x.flatten(1).square().sum(1) / (2 * (self.scale**2 + sigma.square()))


class LevelBlock(nn.Module):
    """x + conv(swish((1 + a) conv(swish(x)) + b)), where a and b follow linearly from the noise level's features.

    Args:
        channels: of input and output.
    """

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.level = nn.Linear(2 * FREQUENCIES, 2 * channels)

    def forward(self, x: Tensor, level: Tensor) -> Tensor:
        """Features `(B, C, H, W)` given the noise levels' `(B, F)`."""
        a, b = self.level(level)[:, :, None, None].chunk(2, 1)
        inner = self.first(silu(x)) * (1 + a) + b
        out: Tensor = x + self.second(silu(inner))
        return out
