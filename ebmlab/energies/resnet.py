"""The residual network of the deep energy-based models on binary images (Zhang et al., 2022, App. I.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import silu, softplus

from ebmlab.domains import Binary
from ebmlab.energies.energy import Energy
from ebmlab.errors import UserError


class ResNet(Energy):
    """E(x) = -net(x) - log Bernoulli(x; mean), x a binary image.

    The net is a 3x3 convolution to C channels, two residual blocks of stride 2 and six of stride 1, the mean over space
    and a linear layer to one number, with swish activations and without normalisation layers.

    Args:
        shape: of an image, `(height, width)` or `(colours, height, width)`.
        channels: C.
        base: mean of the data, as many numbers as an image has pixels; 1/2 everywhere, the uniform law, when None.

    Attributes:
        base_logits: logits of the Bernoulli base, `(*shape)`; a buffer, saved in every checkpoint.

    Example:
        >>> energy = ResNet(shape=(8, 8), channels=4)
        >>> energy(energy.random(5)).shape
        torch.Size([5])
    """

    domains = (Binary,)
    base_logits: Tensor

    def __init__(self, shape: Sequence[int], channels: int = 64, base: Sequence[float] | Tensor | None = None) -> None:
        super().__init__()
        if len(shape) not in (2, 3) or min(*shape, channels) < 1:
            raise UserError(
                f"ResNet: shape is {tuple(shape)} and channels {channels}; shape must be (height, width) or (colours, "
                "height, width), and all of these at least 1"
            )
        self.domain = Binary(shape)
        self.net = nn.Sequential(
            nn.Conv2d(shape[0] if len(shape) == 3 else 1, channels, 3, padding=1),
            *(Block(channels, stride) for stride in (2, 2, 1, 1, 1, 1, 1, 1)),
        ).to(memory_format=torch.channels_last)  # a quarter less time on a CPU
        self.linear = nn.Linear(channels, 1)
        self.register_buffer("base_logits", torch.zeros(*shape))
        if base is not None:
            self.set_base(base)

    @torch.no_grad()
    def set_base(self, mean: Sequence[float] | Tensor) -> None:
        """Makes Bernoulli(mean) the base law, with the mean clamped to [0.01, 0.99]."""
        mean = torch.as_tensor(mean).to(self.base_logits)
        if mean.numel() != self.base_logits.numel():
            raise UserError(
                f"ResNet: base has {mean.numel()} numbers, an image of shape {self.domain.event_shape} needs "
                f"{self.base_logits.numel()}"
            )
        if not ((mean >= 0) & (mean <= 1)).all():
            raise UserError("ResNet: base is a mean of 0/1 pixels, its numbers must be in [0, 1]")
        self.base_logits.copy_(mean.view_as(self.base_logits).clamp(0.01, 0.99).logit())

    def forward(self, x: Tensor) -> Tensor:
        image = x.unsqueeze(1) if x.dim() == 3 else x
        features = self.net(image).mean((2, 3))
        # Half precision is too coarse for energies: near -300 its numbers are 0.25 (float16) or 2 (bfloat16) apart.
        with torch.autocast(x.device.type, enabled=False):
            net: Tensor = self.linear(features.to(self.linear.weight.dtype))
        return self.base_energy(x) - net.squeeze(1)

    def base_energy(self, x: Tensor) -> Tensor:
        """-log Bernoulli(x; mean), `(B,)`."""
        return (softplus(self.base_logits) - x * self.base_logits).flatten(1).sum(1)


class Block(nn.Module):
    """swish(conv(swish(conv(x))) + shortcut(x)); the shortcut is a 1x1 convolution if the stride is 2, else x.

    Args:
        channels: of input and output.
        stride: of the first convolution and the shortcut.
    """

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.first = nn.Conv2d(channels, channels, 3, stride, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(channels, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Features `(B, C, H, W)` to `(B, C, H / stride, W / stride)`, rounded up."""
        return silu(self.second(silu(self.first(x))) + self.shortcut(x))
