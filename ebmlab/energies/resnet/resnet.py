"""The residual network of the deep energy-based models on binary images (Zhang et al., 2022, App. I.4)."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Binary
from ebmlab.energies.energy import Energy
from ebmlab.energies.resnet.channels_last import channels_last
from ebmlab.energies.resnet.entrance import Entrance
from ebmlab.energies.resnet.layers import fastest
from ebmlab.energies.resnet.residual import Block
from ebmlab.errors import UserError
from ebmlab.numerics.unrounded import unrounded


class ResNet(Energy):
    """E(x) = -net(x) - log Bernoulli(x; mean), x a binary image.

    The net is a 3x3 convolution to C channels, two residual blocks of stride 2 and six of stride 1. The mean over space
    and a linear layer to one number follow. Activations are swish, and there are no normalisation layers.

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
    fast_compiled = False
    base_logits: Tensor

    def __init__(
        self, shape: Sequence[int], channels: int = 64, *, base: Sequence[float] | Tensor | None = None
    ) -> None:
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
        )
        channels_last(self.net)
        self.linear = nn.Linear(channels, 1)
        self.register_buffer("base_logits", torch.zeros(*shape))
        if base is not None:
            self.set_base(base)

    @torch.no_grad()
    def set_base(self, mean: Sequence[float] | Tensor) -> None:
        """Makes Bernoulli(mean) the base law, with the mean clamped to [0.01, 0.99]."""
        mean = as_numbers(mean, "ResNet: base").to(self.base_logits)
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
        features = self.net(image).permute(0, 2, 3, 1).flatten(1, 2)  # the gradient has the channels last, too
        return self.base_energy(x) - self._read_out(features)

    @unrounded
    def _read_out(self, features: Tensor) -> Tensor:
        """net(x) `(B,)` from the features of all places, `(B, n, C)`."""
        net: Tensor = self.linear(features.mean(1))
        return net.squeeze(1)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """As in `Energy`. On a CPU the gradient is written out.

        The convolutions in front of the first activation are taken as one (`Entrance`), and all gradients have the
        channels last, as the features have. A kernel of C++ takes the convolutions of stride 1 where it can
        (`WinogradLayers`). Under autocast it is computed in half precision, and net(x) read out in
        float32. A compiled energy is left to autograd.
        """
        compiled = getattr(self, "_compiled_call_impl", None) is not None
        changed = type(self) is not ResNet or not all(isinstance(layer, Block) for layer in self.net[1:])
        if x.device.type != "cpu" or compiled or changed:
            return super().value_and_grad(x)
        with torch.no_grad():
            image = x.unsqueeze(1) if x.dim() == 3 else x
            if torch.is_autocast_enabled("cpu") and x.dtype == torch.float32:  # which leaves float64 alone
                image = image.to(torch.get_autocast_dtype("cpu"))
            net, grad = self._net_and_grad(image)
            return self.base_energy(x) - net, -self.base_logits - grad.view_as(x)

    def _net_and_grad(self, image: Tensor) -> tuple[Tensor, Tensor]:
        """net(x) `(B,)` and its gradient in the image `(B, colours, height, width)`."""
        blocks = [block for block in self.net if isinstance(block, Block)]
        entrance = Entrance(self.net[0], blocks[0], image)
        inner, outer = entrance.forward()
        layers = fastest(inner, blocks)
        middle, at_inner = layers.swish(inner)
        kept = []  # of each block, what its gradient needs
        for block, after in zip(blocks, [*blocks[1:], None], strict=True):
            features, at_total = layers.forward(middle, block.second, plus=outer)
            kept.append((at_inner, at_total))
            if after is not None:
                middle, at_inner = layers.forward(features, after.first)
                outer = after.shortcut(features)
        net: Tensor = self._read_out(features.permute(0, 2, 3, 1).flatten(1, 2))

        slope = self.linear.weight.view(1, -1, 1, 1) / features.shape[2:].numel()
        grad = slope.to(features.dtype).expand_as(features).contiguous(memory_format=torch.channels_last)
        outer = layers.back_through_swish(grad, at_total)
        for k in range(len(blocks) - 1, 0, -1):
            inner = layers.back(outer, blocks[k].second, kept=kept[k][0])
            outer = layers.back_through_block(inner, outer, blocks[k], kept=kept[k - 1][1])
        return net, entrance.back(layers.back(outer, blocks[0].second, kept=kept[0][0]), outer)

    def base_energy(self, x: Tensor) -> Tensor:
        """-log Bernoulli(x; mean), `(B,)`."""
        return (softplus(self.base_logits) - x * self.base_logits).flatten(1).sum(1)
