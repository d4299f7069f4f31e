"""5x5 convolutions of stride 2 on a CPU, whose kernels are others at the edges of an image (`stride_two.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor
from torch.nn.functional import fold, pad, unfold

from ebmlab.native.library import example, threads, trusted
from ebmlab.native.plain import readable, require_float32

SIDE = 5


class StrideTwo:
    """Convolutions of images, forward and back. What comes out of one depends neither on others nor on threads.

    Args:
        library: the compiled kernel.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.lanes.restype = ctypes.c_int64
        self._library, self.lanes = library, int(library.lanes())

    def forward(
        self, image: Tensor, weights: Tensor, *, bias: Tensor, rows: Sequence[int], columns: Sequence[int]
    ) -> Tensor:
        """The outputs `(B, C, h, w)`, with the channels last; h and w are half of H and W, rounded up.

        Args:
            image: `(B, colours, H, W)`.
            weights: of each kind of output, `(kinds of rows, kinds of columns, 25 colours, C)`.
            bias: `(kinds of rows, kinds of columns, C)`.
            rows: the kind of each of h rows of outputs.
            columns: the kind of each of w columns.
        """
        channels = weights.shape[-1]
        sizes = self._sizes(image.shape, weights, rows, columns)
        require_float32("StrideTwo", image, image.shape)
        require_float32("StrideTwo", bias, (*weights.shape[:2], channels))
        image, weights, bias = image.contiguous(), weights.contiguous(), bias.contiguous()
        out = image.new_empty(len(image), len(rows), len(columns), channels)
        places = (weights.data_ptr(), bias.data_ptr(), out.data_ptr())
        self._library.forward(
            image.data_ptr(), *sizes, *_kinds(rows, columns), weights.shape[1], *places, _threads(out)
        )
        return out.permute(0, 3, 1, 2)

    def back(self, grad: Tensor, weights: Tensor, *, rows: Sequence[int], columns: Sequence[int], into: Tensor) -> None:
        """Adds the gradient in the images to `into` `(B, colours, H, W)`, from that in the outputs `(B, C, h, w)`."""
        sizes = self._sizes(into.shape, weights, rows, columns)
        require_float32("StrideTwo", grad, (len(into), weights.shape[-1], len(rows), len(columns)))
        require_float32("StrideTwo", into, into.shape)
        if not into.is_contiguous():
            raise ValueError("StrideTwo: the sum of gradients must be contiguous")
        grad = grad.permute(0, 2, 3, 1).contiguous()
        by_rows = weights.view(*weights.shape[:2], -1, SIDE, weights.shape[3])
        turned = pad(by_rows.permute(0, 1, 4, 2, 3), (0, self.lanes - SIDE)).contiguous()  # (..., C, rows, lanes)
        places = (turned.data_ptr(), into.data_ptr())
        self._library.backward(
            grad.data_ptr(), *sizes, *_kinds(rows, columns), weights.shape[1], *places, _threads(grad)
        )

    def _sizes(self, images: torch.Size, weights: Tensor, rows: Sequence[int], columns: Sequence[int]) -> Sequence[int]:
        """Checks images, weights and kinds against each other; returns the images' sizes and the number of channels."""
        _, colours, height, width = images
        of_rows, of_columns, _, channels = weights.shape
        require_float32("StrideTwo", weights, (of_rows, of_columns, colours * SIDE**2, channels))
        if channels % self.lanes:
            raise ValueError(f"StrideTwo: {channels} channels, which must be a multiple of {self.lanes}")
        for kinds, of, side in ((rows, of_rows, height), (columns, of_columns, width)):
            if len(kinds) != (side + 1) // 2 or not all(0 <= kind < of for kind in kinds):
                raise ValueError(f"StrideTwo: kinds {list(kinds)}, which must be {(side + 1) // 2} numbers below {of}")
        return *images, channels


def stride_two(image: Tensor, *parameters: Tensor, channels: int) -> StrideTwo | None:
    """The kernel, if it can take images like `image` `(B, colours, H, W)` and weights like `parameters`; else None.

    Example:
        >>> with torch.no_grad():
        ...     found = stride_two(torch.ones(2, 1, 8, 8), channels=16)
        >>> weights, bias = torch.ones(1, 1, 25, 16), torch.zeros(1, 1, 16)
        >>> kinds = [0] * 4
        >>> found is None or found.forward(torch.ones(2, 1, 8, 8), weights, bias=bias, rows=kinds, columns=kinds).max()
        tensor(25.)
    """
    if torch.is_grad_enabled() or torch.is_autocast_enabled("cpu") or not readable(image, *parameters):
        return None
    found = kernel()
    return None if found is None or channels % found.lanes else found


@functools.cache
def kernel() -> StrideTwo | None:
    """The compiled kernel, after a convolution and its gradient have come out right; None where there is none."""
    i, p = ctypes.c_int64, ctypes.c_void_p
    images = [p, i, i, i, i, i, p, p, i]
    library = trusted(
        "stride_two",
        lambda library: _is_right(StrideTwo(library)),
        forward=[*images, p, p, p, ctypes.c_int],
        backward=[*images, p, p, ctypes.c_int],
    )
    return None if library is None else StrideTwo(library)


@torch.no_grad()
def _is_right(found: StrideTwo) -> bool:
    """Whether images of an odd and an even side, with four kinds of outputs, come out as in float64."""
    colours, channels, height, width = 2, 2 * found.lanes, 5, 18
    image, weights = example(3, colours, height, width), example(2, 2, SIDE**2 * colours, channels)
    bias, rows, columns = example(2, 2, channels), [0, 1, 1], [0] * 8 + [1]
    out = found.forward(image, weights, bias=bias, rows=rows, columns=columns)
    grad, into = example(*out.shape), example(*image.shape)
    places = {"kernel_size": SIDE, "padding": SIDE // 2, "stride": 2}
    patches = unfold(image.double(), **places)  # (B, 25 colours, outputs)
    each, plus = (t[rows][:, columns].flatten(0, 1).double() for t in (weights, bias))  # of the kind of each output
    exact = torch.einsum("bpl,lpc->bcl", patches, each) + plus.T
    back = fold(torch.einsum("bcl,lpc->bpl", grad.flatten(2).double(), each), (height, width), **places) + into
    found.back(grad, weights, rows=rows, columns=columns, into=into)
    pairs = ((out.flatten(2), exact), (into, back))
    return all(torch.allclose(ours.double(), right, rtol=0, atol=1e-4) for ours, right in pairs)


def _kinds(*sides: Sequence[int]) -> Iterator[ctypes.Array[ctypes.c_int32]]:
    for kinds in sides:
        yield (ctypes.c_int32 * len(kinds))(*kinds)


def _threads(outputs: Tensor) -> int:
    return threads(outputs.numel() * 2)  # two nanoseconds for each number at least
