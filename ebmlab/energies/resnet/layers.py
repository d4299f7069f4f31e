"""The layers of a residual network, each a convolution and the swish behind it: forward and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, silu

from ebmlab.energies.resnet.residual import Block, back
from ebmlab.native import winograd


class Layers:
    """By torch. What is kept of a swish for its gradient is its argument."""

    def swish(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """swish(z) and what is kept of it."""
        return silu(z), z

    def forward(self, x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """swish(layer(x) + plus) and what is kept of it."""
        z = layer(x)
        return self.swish(z if plus is None else z + plus)

    def back_through_swish(self, grad: Tensor, kept: Tensor) -> Tensor:
        """The gradient in z, from that in swish(z)."""
        result: Tensor = torch.ops.aten.silu_backward(grad, kept)
        return result

    def back(self, grad: Tensor, layer: nn.Conv2d, *, kept: Tensor, plus: Tensor | None = None) -> Tensor:
        """The gradient in z, from that in layer(swish(z)) and, as `plus`, another one in swish(z)."""
        grad = back(grad, kept, layer)
        return self.back_through_swish(grad if plus is None else grad.add_(plus), kept)

    def back_through_block(self, inner: Tensor, outer: Tensor, block: Block, *, kept: Tensor) -> Tensor:
        """The gradient in z, from those in both parts of the block at swish(z)."""
        if not isinstance(block.shortcut, nn.Conv2d):
            return self.back(inner, block.first, kept=kept, plus=outer)
        grad = back(inner, kept, block.first)
        grad[:, :, :: block.stride, :: block.stride] += conv2d(outer, block.shortcut.weight.transpose(0, 1))
        return self.back_through_swish(grad, kept)


class WinogradLayers(Layers):
    """By a kernel of C++ (`winograd`), layers of stride 2 excepted. What is kept of a swish is its derivative."""

    def swish(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return winograd.swish(z)

    def forward(self, x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if layer.stride != (1, 1):
            return super().forward(x, layer, plus=plus)
        return winograd.forward(x, layer, plus=plus)

    def back_through_swish(self, grad: Tensor, kept: Tensor) -> Tensor:
        return grad * kept

    def back(self, grad: Tensor, layer: nn.Conv2d, *, kept: Tensor, plus: Tensor | None = None) -> Tensor:
        return winograd.back(grad, layer, kept, plus=plus)


def fastest(inner: Tensor, blocks: Sequence[Block]) -> Layers:
    """The layers for blocks of which the second and last of stride 2 reads images of the size of `inner`."""
    half = inner[:, :, ::2, ::2]
    first, *rest = (layer for block in blocks for layer in (block.first, block.second) if layer.stride == (1, 1))
    return WinogradLayers() if winograd.applies(inner, first) and winograd.applies(half, *rest) else Layers()
