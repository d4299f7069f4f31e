"""The convolutions in front of a residual network's first activation, taken together."""

from __future__ import annotations

import functools

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ebmlab.energies.resnet.patches import Kernels, fastest
from ebmlab.energies.resnet.residual import Block
from ebmlab.native.stride_two import SIDE
from ebmlab.numerics.noise import wide
from ebmlab.numerics.unrounded import no_autocast


class Entrance:
    """A 3x3 convolution and the two of a block of stride 2 that read it, as one 5x5 convolution of stride 2.

    There is no activation between them, so one matrix maps every 5x5 patch of the image to the result. The features in
    between, of the image's full size, are never computed. The block pads these features with zeros. An output at an
    edge thus has a kernel of its own: what the block reads beyond the edge is left out of it.

    Args:
        head: the first convolution, of stride 1.
        block: of stride 2.
        image: `(B, colours, H, W)`. Weights and biases are rounded to its type, and so is what is made of them.
    """

    def __init__(self, head: nn.Module, block: Block, image: Tensor) -> None:
        assert isinstance(head, nn.Conv2d) and isinstance(block.shortcut, nn.Conv2d)
        colours, height, width = image.shape[1:]
        layers = (head, block.first, block.shortcut)
        self._patches = fastest(image, *(p for layer in layers for p in layer.parameters()), channels=len(head.weight))
        (rows, down), (columns, across) = kinds(height), kinds(width)
        with no_autocast(image.device):
            (first, first_bias), (second, second_bias), (shortcut, shortcut_bias) = (
                rounded(layer, image.dtype) for layer in layers
            )
            kernel = second.permute(2, 3, 0, 1)  # (3, 3, C, C): a matrix for each place that the block reads
            parts = (kernel @ first.flatten(1)).view(3, 3, -1, colours, 3, 3)
            places = parts.new_zeros(3, 3, len(first), colours, SIDE, SIDE)
            down_by, across_by, *steps = places.stride()
            moved = places.as_strided(parts.shape, (down_by + steps[-2], across_by + steps[-1], *steps))
            moved.copy_(parts)  # that of place (i, j) lies i rows and j columns further on
            inside = torch.einsum("ri,cj->rcij", *(first.new_tensor(side) for side in (down, across)))
            weights = torch.tensordot(inside, places.flatten(3), 2).mT
            bias = torch.tensordot(inside, kernel @ first_bias, 2) + second_bias
            through = shortcut[:, :, 0, 0]
            middle = pad((through @ first.flatten(1)).view_as(first), (1, 1, 1, 1)).flatten(1).T
            middle_bias = through @ first_bias + shortcut_bias
        self._inner = Kernels(weights.to(image.dtype), bias.to(image.dtype), rows, columns)
        weights, bias = middle[None, None], middle_bias[None, None]
        self._outer = Kernels(weights.to(image.dtype), bias.to(image.dtype), (0,) * len(rows), (0,) * len(columns))

    def forward(self) -> tuple[Tensor, Tensor]:
        """The block's first convolution and its shortcut, `(B, C, h, w)` each."""
        return self._patches.forward(self._inner), self._patches.forward(self._outer)

    def back(self, inner: Tensor, outer: Tensor) -> Tensor:
        """The gradient in the image, from those in both outputs of `forward`."""
        return self._patches.back([inner, outer], [self._inner, self._outer])


@functools.cache
def kinds(side: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """The kind of each output along a side of the image, and of each kind which of 3 places it reads, as 0 or 1.

    Places beyond the image are not read. The kind of most outputs comes first.

    Example:
        >>> kinds(6)
        ((1, 0, 0), ((1, 1, 1), (0, 1, 1)))
    """
    read = [tuple(int(0 <= 2 * k + place < side) for place in (-1, 0, 1)) for k in range((side + 1) // 2)]
    found = sorted(set(read), key=read.count, reverse=True)
    return tuple(found.index(one) for one in read), tuple(found)


def rounded(layer: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution, rounded to a type; in float32 where that is half."""
    assert isinstance(layer, nn.Conv2d) and layer.bias is not None
    return wide(layer.weight.to(dtype)), wide(layer.bias.to(dtype))
