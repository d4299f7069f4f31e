"""The layers of a residual network, each a convolution and the swish behind it: forward and back."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, silu

from ebmlab.energies.resnet.residual import Block, back
from ebmlab.native.winograd import Winograd, pays, winograd


class Layers:
    """By torch. What is kept of a swish for its gradient is its argument."""

    def swish(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """The swish of z, and what is kept of it."""
        return silu(z), z

    def forward(self, x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The swish of layer(x) + plus, and what is kept of it."""
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
    """Layers of stride 1 by a kernel in C++. What is kept of a swish is its derivative."""

    def __init__(self, kernel: Winograd) -> None:
        self._kernel = kernel

    def swish(self, z: Tensor) -> tuple[Tensor, Tensor]:
        return self._kernel.swish(z)

    def forward(self, x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
        if layer.stride != (1, 1):
            return super().forward(x, layer, plus=plus)
        return self._kernel.forward(x, layer, plus=plus)

    def back_through_swish(self, grad: Tensor, kept: Tensor) -> Tensor:
        return grad * kept

    def back(self, grad: Tensor, layer: nn.Conv2d, *, kept: Tensor, plus: Tensor | None = None) -> Tensor:
        return self._kernel.back(grad, layer, slope=kept, plus=plus)


def fastest(inner: Tensor, blocks: Sequence[Block]) -> Layers:
    """The layers for blocks, from the argument `inner` `(B, C, H, W)` of the first one's first swish on."""
    height, width = inner.shape[2:]
    if not (pays(height, width) and pays((height + 1) // 2, (width + 1) // 2)):
        return Layers()
    convolutions = (layer for block in blocks for layer in (block.first, block.second))
    kernel = winograd(inner, [layer for layer in convolutions if layer.stride == (1, 1)])
    return Layers() if kernel is None else WinogradLayers(kernel)
