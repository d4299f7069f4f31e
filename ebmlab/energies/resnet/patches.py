"""Convolutions 5x5 of stride 2 that read every patch of an image, with kernels of their own at the edges."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.native.stride_two import SIDE, StrideTwo, stride_two


@dataclass(frozen=True)
class Kernels:
    """Of each kind of outputs.

    Args:
        weights: `(kinds of rows, kinds of columns, 25 colours, C)`.
        bias: `(kinds of rows, kinds of columns, C)`.
        rows: the kind of each row of outputs, of which those alike stand together.
        columns: the kind of each column.
    """

    weights: Tensor
    bias: Tensor
    rows: Sequence[int]
    columns: Sequence[int]

    @cached_property
    def edges(self) -> list[tuple[tuple[slice, slice], Tensor, Tensor]]:
        """Rows and columns of all kinds but (0, 0), with what is added there to the weights and to the bias."""
        weights, bias = self.weights - self.weights[0, 0], self.bias - self.bias[0, 0]
        ranges = product(enumerate(_ranges(self.rows)), enumerate(_ranges(self.columns)))
        return [((down, across), weights[i, j], bias[i, j]) for (i, down), (j, across) in ranges if (i, j) != (0, 0)]


class Patches:
    """By products of matrices.

    Args:
        image: `(B, colours, H, W)`.
    """

    def __init__(self, image: Tensor) -> None:
        self.colours, self.height, self.width = image.shape[1:]
        windows = pad(image, (2, 2, 2, 2)).unfold(2, SIDE, 2).unfold(3, SIDE, 2)  # (B, colours, h, w, 5, 5)
        planes = windows.permute(1, 4, 5, 0, 2, 3).contiguous()  # sooner than `torch.nn.functional.unfold`
        self.patches = planes.flatten(0, 2).permute(1, 2, 3, 0)  # (B, h, w, 25 colours)

    def forward(self, kernels: Kernels) -> Tensor:
        """The outputs `(B, C, h, w)`."""
        batch, *half, _ = self.patches.shape
        weight, bias = kernels.weights[0, 0].expand(batch, -1, -1), kernels.bias[0, 0]
        out = torch.baddbmm(bias, self.patches.flatten(1, 2), weight).view(batch, *half, len(bias))
        for (rows, columns), more, plus in kernels.edges:
            out[:, rows, columns] += self.patches[:, rows, columns] @ more + plus
        return out.permute(0, 3, 1, 2)

    def back(self, grads: Sequence[Tensor], kernels: Sequence[Kernels]) -> Tensor:
        """The gradient in the image, from those in the outputs of several convolutions, `(B, C, h, w)` each."""
        batch, *half, taps = self.patches.shape
        patches = self.patches.new_zeros(taps, batch, *half)
        for grad, those in zip(grads, kernels, strict=True):
            grad = grad.permute(0, 2, 3, 1)
            patches.flatten(1).addmm_(those.weights[0, 0], grad.flatten(0, 2).T)
            for (rows, columns), more, _ in those.edges:
                part = grad[:, rows, columns]
                patches[:, :, rows, columns] += (more @ part.flatten(0, 2).T).view(taps, *part.shape[:3])
        height, width = (2 * n for n in half)
        patches = patches.view(self.colours, SIDE, SIDE, batch, *half)
        image = patches.new_zeros(batch, self.colours, height + SIDE - 1, width + SIDE - 1)
        for i in range(SIDE):
            for j in range(SIDE):
                image[:, :, i : i + height : 2, j : j + width : 2] += patches[:, i, j].transpose(0, 1)
        return image[:, :, 2 : 2 + self.height, 2 : 2 + self.width]


class PatchesInCpp:
    """By a kernel in C++, which never writes down patches.

    Args:
        image: `(B, colours, H, W)`.
        kernel: of C++.
    """

    def __init__(self, image: Tensor, kernel: StrideTwo) -> None:
        self._image, self._kernel = image, kernel

    def forward(self, kernels: Kernels) -> Tensor:
        """As `Patches.forward`."""
        rows, columns = kernels.rows, kernels.columns
        return self._kernel.forward(self._image, kernels.weights, bias=kernels.bias, rows=rows, columns=columns)

    def back(self, grads: Sequence[Tensor], kernels: Sequence[Kernels]) -> Tensor:
        """As `Patches.back`."""
        image = torch.zeros_like(self._image, memory_format=torch.contiguous_format)
        for grad, those in zip(grads, kernels, strict=True):
            self._kernel.back(grad, those.weights, rows=those.rows, columns=those.columns, into=image)
        return image


def fastest(image: Tensor, *parameters: Tensor, channels: int) -> Patches | PatchesInCpp:
    """The convolutions of an image to so many channels, by weights that are made of these parameters."""
    kernel = stride_two(image, *parameters, channels=channels)
    return Patches(image) if kernel is None else PatchesInCpp(image, kernel)


def _ranges(kinds: Sequence[int]) -> Iterator[slice]:
    """Where each kind stands."""
    for kind in range(max(kinds) + 1):
        first = kinds.index(kind)
        yield slice(first, first + kinds.count(kind))
