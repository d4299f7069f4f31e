"""A residual block of two convolutions, and its gradient written out."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d, silu

silu_backward = torch.ops.aten.silu_backward


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
        return silu(self.total(self.first(x), self.shortcut(x)))

    def total(self, inner: Tensor, outer: Tensor) -> Tensor:
        """What the last activation is applied to, from the first convolution's output and the shortcut's."""
        total: Tensor = self.second(silu(inner)) + outer
        return total

    def back_to_parts(self, grad: Tensor, inner: Tensor, total: Tensor) -> tuple[Tensor, Tensor]:
        """Gradients in `inner` and `outer`, the arguments of `total`, from that in the block's output."""
        outer: Tensor = silu_backward(grad, total)
        return silu_backward(back(outer, inner, self.second), inner), outer

    def back_to_input(self, inner: Tensor, outer: Tensor, x: Tensor) -> Tensor:
        """The gradient in the block's input x, from those in `inner` and `outer`."""
        grad = back(inner, x, self.first)
        if isinstance(self.shortcut, nn.Conv2d):
            grad[:, :, :: self.stride, :: self.stride] += conv2d(outer, self.shortcut.weight.transpose(0, 1))
            return grad
        return grad.add_(outer)


def back(grad: Tensor, x: Tensor, convolution: nn.Conv2d) -> Tensor:
    """The gradient in a convolution's input, from that in its output. Of x, the input, only the size matters."""
    weight, stride, padding = convolution.weight.to(grad.dtype), list(convolution.stride), [1, 1]
    backward = torch.ops.aten.convolution_backward
    result: Tensor = backward(grad, x, weight, None, stride, padding, [1, 1], False, [0, 0], 1, [True, False, False])[0]
    return result
