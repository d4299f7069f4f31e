"""The convolutions in front of a residual network's first activation, taken together."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor, nn
from torch.nn.functional import pad

from ebmlab.energies.resnet.residual import Block
from ebmlab.numerics.noise import wide
from ebmlab.numerics.unrounded import no_autocast

SIDE = 5  # of the patches that two 3x3 convolutions in a row see


class Entrance:
    """A 3x3 convolution and the two of a block of stride 2 that read it, as one 5x5 convolution of stride 2.

    There is no activation between them, so one matrix maps every 5x5 patch of the image to the result. The features in
    between, of the image's full size, are never computed. The block pads these features with zeros. The 5x5 convolution
    reads there what the first convolution gives outside of the image; at the edges this part is subtracted.

    Args:
        head: the first convolution, of stride 1.
        block: of stride 2.
        image: `(B, colours, H, W)`. Weights and biases are rounded to its type, and so is what is made of them.
    """

    def __init__(self, head: nn.Module, block: Block, image: Tensor) -> None:
        assert isinstance(head, nn.Conv2d) and isinstance(block.shortcut, nn.Conv2d)
        colours, self.height, self.width = image.shape[1:]
        self.half = (self.height + 1) // 2, (self.width + 1) // 2
        windows = pad(image, (2, 2, 2, 2)).unfold(2, SIDE, 2).unfold(3, SIDE, 2)  # (B, colours, h, w, 5, 5)
        planes = windows.permute(1, 4, 5, 0, 2, 3).contiguous()  # sooner than `torch.nn.functional.unfold`
        self.patches = planes.flatten(0, 2).flatten(2).permute(1, 2, 0)  # (B, h w, 25 colours)
        with no_autocast(image.device):
            (first, first_bias), (second, second_bias), (shortcut, shortcut_bias) = (
                rounded(layer, image.dtype) for layer in (head, block.first, block.shortcut)
            )
            kernel = second.permute(2, 3, 0, 1)  # (3, 3, C, C): a matrix for each place that the block reads
            parts = (kernel @ first.flatten(1)).view(3, 3, -1, colours, 3, 3)
            places = parts.new_zeros(3, 3, len(first), colours, SIDE, SIDE)
            for i in range(3):
                for j in range(3):
                    places[i, j, :, :, i : i + 3, j : j + 3] = parts[i, j]
            matrices, biases = places.flatten(3).mT, kernel @ first_bias  # (3, 3, 25 colours, C), (3, 3, C)
            across = shortcut[:, :, 0, 0]
            middle = pad((across @ first.flatten(1)).view_as(first), (1, 1, 1, 1))
        self.edges = [
            (*where, sign * matrices[at].sum((0, 1)).to(image.dtype), sign * biases[at].sum((0, 1)).to(image.dtype))
            for where, at, sign in self._edges()
        ]
        self.inner_weight = matrices.sum((0, 1)).to(image.dtype)
        self.inner_bias = (biases.sum((0, 1)) + second_bias).to(image.dtype)
        self.outer_weight = middle.flatten(1).T.to(image.dtype)
        self.outer_bias = (across @ first_bias + shortcut_bias).to(image.dtype)

    def _edges(self) -> Iterator[tuple[tuple[slice, slice], tuple[slice, slice], int]]:
        """Rows and columns of the half-sized image, the kernel's places that are read beyond it there, and a sign.

        What is read beyond an edge is subtracted, and at a corner, where two edges have subtracted it, added once.
        """
        # along one side: which of a kernel's 3 places, and the outputs for which they lie outside of the image
        everywhere = (slice(0, 3), slice(None))
        sides = [
            [everywhere, (slice(0, 1), slice(0, 1)), *([(slice(2, 3), slice(half - 1, half))] * (full % 2))]
            for full, half in zip((self.height, self.width), self.half, strict=True)
        ]
        for i, rows in sides[0]:
            for j, columns in sides[1]:
                if beyond := (i != everywhere[0]) + (j != everywhere[0]):
                    yield (rows, columns), (i, j), 1 if beyond == 2 else -1

    def forward(self) -> tuple[Tensor, Tensor]:
        """The block's first convolution and its shortcut, `(B, C, h, w)` each."""
        batch = len(self.patches)
        inner, outer = (
            torch.baddbmm(bias, self.patches, weight.expand(batch, -1, -1)).view(batch, *self.half, len(bias))
            for weight, bias in ((self.inner_weight, self.inner_bias), (self.outer_weight, self.outer_bias))
        )
        patches = self.patches.view(batch, *self.half, len(self.outer_weight))
        for rows, columns, weight, bias in self.edges:
            inner[:, rows, columns] += patches[:, rows, columns] @ weight + bias
        return inner.permute(0, 3, 1, 2), outer.permute(0, 3, 1, 2)

    def back(self, inner: Tensor, outer: Tensor) -> Tensor:
        """The gradient in the image, from those in both outputs of `forward`."""
        inner, outer = inner.permute(0, 2, 3, 1), outer.permute(0, 2, 3, 1)
        grad = self.inner_weight @ inner.flatten(0, 2).T
        grad.addmm_(self.outer_weight, outer.flatten(0, 2).T)
        grad = grad.view(len(self.outer_weight), *inner.shape[:3])  # (25 colours, B, h, w)
        for rows, columns, weight, _ in self.edges:
            part = inner[:, rows, columns]
            grad[:, :, rows, columns] += (weight @ part.flatten(0, 2).T).view(len(grad), *part.shape[:3])
        height, width = (2 * n for n in self.half)
        grad = grad.view(len(grad) // SIDE**2, SIDE, SIDE, *inner.shape[:3])
        image = grad.new_zeros(len(inner), len(grad), height + SIDE - 1, width + SIDE - 1)
        for i in range(SIDE):
            for j in range(SIDE):
                image[:, :, i : i + height : 2, j : j + width : 2] += grad[:, i, j].transpose(0, 1)
        return image[:, :, 2 : 2 + self.height, 2 : 2 + self.width]


def rounded(layer: nn.Module, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Weight and bias of a convolution, rounded to a type; in float32 where that is half."""
    assert isinstance(layer, nn.Conv2d) and layer.bias is not None
    return wide(layer.weight.to(dtype)), wide(layer.bias.to(dtype))
