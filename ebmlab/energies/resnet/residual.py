"""A residual block of two convolutions, and the gradient of one written out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import silu


class Block(nn.Module):
    """swish(conv(swish(conv(x))) + shortcut(x)); the shortcut is a 1x1 convolution if the stride is 2, else x.

    Args:
        channels: of input and output.
        stride: of the first convolution and the shortcut.
    """

    def __init__(self, channels: int, stride: int) -> None:
        super().__init__()
        self.stride = stride
        self.first = nn.Conv2d(channels, channels, 3, stride, padding=1)
        self.second = nn.Conv2d(channels, channels, 3, padding=1)
        self.shortcut = nn.Identity() if stride == 1 else nn.Conv2d(channels, channels, 1, stride)

    def forward(self, x: Tensor) -> Tensor:
        """Features `(B, C, H, W)` to `(B, C, H / stride, W / stride)`, rounded up."""
        return silu(self.second(silu(self.first(x))) + self.shortcut(x))


def back(grad: Tensor, x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """The gradient in a convolution's input, from that in its output. Of x, the input, only the size matters."""
    weight, stride, padding = convolution.weight.to(grad.dtype), list(convolution.stride), [1, 1]
    backward = torch.ops.aten.convolution_backward
    result: Tensor = backward(grad, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, [True, False, False])[0]
    return result
