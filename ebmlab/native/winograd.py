"""3x3 convolutions on a CPU by Winograd's minimal filtering, and the swish behind them (`winograd.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d
from torch.nn.utils import skip_init

from ebmlab.native.library import example, threads, trusted
from ebmlab.native.plain import readable, require_float32

KIND = ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros")  # kernel, stride, padding, dilation, groups, what is padded
TILE = 4  # outputs on a side


class Winograd:
    """Layers of a network, forward and back. Images are `(B, C, H, W)`, with the channels last in memory.

    What comes out of an image depends neither on the others nor on the number of threads. Rounding errors of a
    convolution are four times torch's: a relative 5e-7 of its outputs' norm.

    Args:
        library: the compiled kernel.
    """

    def __init__(self, library: ctypes.CDLL) -> None:
        library.lanes.restype = ctypes.c_int64
        self._library, self.lanes = library, int(library.lanes())

    def swish(self, z: Tensor) -> tuple[Tensor, Tensor]:
        """`z * sigmoid(z)` and its derivative."""
        z = self._images(z, z.shape)
        value, slope = _like(z), _like(z)
        self._library.activate(z.data_ptr(), z.numel(), value.data_ptr(), slope.data_ptr(), threads(z.numel()))
        return value, slope

    def forward(self, x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """The swish of `layer(x) + plus` and its derivative."""
        slope = _like(x)
        return self._convolved(x, layer.weight, bias=layer.bias, plus=plus, slope=slope), slope

    def back(self, grad: Tensor, layer: nn.Conv2d, *, slope: Tensor, plus: Tensor | None = None) -> Tensor:
        """The gradient in z, from that in `layer(swish(z))` and, as `plus`, that in `swish(z)` itself.

        The gradient in a convolution's input is a convolution whose filters are turned by 180 degrees, and whose input
        and output channels change places. `slope` is the derivative of the swish at z.
        """
        return self._convolved(grad, layer.weight.transpose(0, 1), turned=True, plus=plus, times=slope)

    def _convolved(
        self,
        x: Tensor,
        weight: Tensor,
        *,
        turned: bool = False,
        bias: Tensor | None = None,
        plus: Tensor | None,
        times: Tensor | None = None,
        slope: Tensor | None = None,
    ) -> Tensor:
        """`(conv2d(x, weight) + bias + plus) * times`, or the swish of it where `slope` is to hold the derivative."""
        count, channels, height, width = x.shape
        require_float32("Winograd", weight, (channels, channels, 3, 3))
        if bias is not None:
            require_float32("Winograd", bias, (channels,))
            bias = bias.contiguous()
        x = self._images(x, x.shape)
        plus, times = (None if t is None else self._images(t, x.shape) for t in (plus, times))
        out, steps, first = _like(x), weight.stride(), weight.data_ptr()
        if turned:  # read from the last row and column on
            first += 2 * (steps[2] + steps[3]) * weight.element_size()
            steps = (*steps[:2], -steps[2], -steps[3])
        shape, others = (count, height, width, channels), (bias, plus, times, out, slope)
        addresses = [None if t is None else t.data_ptr() for t in others]
        self._library.convolve(x.data_ptr(), *shape, first, *steps, *addresses, torch.get_num_threads())
        return out

    def _images(self, t: Tensor, shape: torch.Size) -> Tensor:
        """The same numbers with the channels last, which fill whole vectors."""
        require_float32("Winograd", t, shape)
        if t.dim() != 4 or t.shape[1] % self.lanes:
            raise ValueError(f"Winograd: images {tuple(t.shape)}; the channels must be a multiple of {self.lanes}")
        return t.contiguous(memory_format=torch.channels_last)


def winograd(x: Tensor, layers: Sequence[nn.Conv2d]) -> Winograd | None:
    """The kernel, if it can take all these layers on tensors like x `(B, C, H, W)`; else None.

    Example:
        >>> layer = torch.nn.Conv2d(16, 16, 3, padding=1)
        >>> x = torch.ones(2, 16, 7, 7)
        >>> with torch.no_grad():
        ...     found = winograd(x, [layer])
        ...     expected = torch.nn.functional.silu(layer(x))
        ...     found is None or torch.allclose(found.forward(x, layer)[0], expected, atol=1e-4)
        True
    """
    parameters = [parameter for layer in layers for parameter in (layer.weight, layer.bias) if parameter is not None]
    if torch.is_grad_enabled() or not readable(x, *parameters) or torch.is_autocast_enabled("cpu"):
        return None
    found = kernel()
    if found is None or x.shape[1] % found.lanes or not all(_is_plain(layer, x.shape[1]) for layer in layers):
        return None
    return found


def pays(height: int, width: int) -> bool:
    """Whether outputs fill half of their tiles at least, on images of this size. Torch is ahead on others."""
    return 2 * height * width >= TILE**2 * -(-height // TILE) * -(-width // TILE)


@functools.cache
def kernel() -> Winograd | None:
    """The compiled kernel, after two layers have come out right; None where there is none."""
    i, p, c = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    library = trusted(
        "winograd",
        lambda library: _is_right(Winograd(library)),
        convolve=[p, i, i, i, i, p, i, i, i, i, p, p, p, p, p, c],
        activate=[p, i, p, p, c],
    )
    return None if library is None else Winograd(library)


@torch.no_grad()
def _is_right(found: Winograd) -> bool:
    """Whether a convolution of images whose sizes are no multiples of a tile's is that of float64, forward and back."""
    channels, shape = 2 * found.lanes, (5, 2 * found.lanes, 5, 13)
    layer = skip_init(nn.Conv2d, channels, channels, 3, padding=1, device="cpu", dtype=torch.float32)  # type: ignore[no-untyped-call]
    layer.weight.copy_(example(*layer.weight.shape) / channels)
    layer.bias.copy_(example(channels))
    x, plus = example(*shape), example(*shape).flip(0)
    weight, bias = layer.weight.double(), layer.bias.double()
    z = conv2d(x.double(), weight, bias, padding=1) + plus
    (value, slope), share = found.swish(x), x.double().sigmoid()
    grad = conv2d(plus.double(), weight.transpose(0, 1).flip(2, 3), padding=1) + x
    pairs = [
        (found.forward(x, layer, plus=plus)[0], z * z.sigmoid()),
        (found.back(plus, layer, slope=slope, plus=x), grad * (share + x * share * (1 - share))),
        (value, x * share),
    ]
    return all(torch.allclose(ours.double(), exact, rtol=0, atol=1e-3) for ours, exact in pairs)


def _like(x: Tensor) -> Tensor:
    return torch.empty_like(x, memory_format=torch.channels_last)


def _is_plain(layer: nn.Conv2d, channels: int) -> bool:
    """Whether a layer is a convolution of this kind, and nothing else happens when it is called."""
    if type(layer) is not nn.Conv2d or layer._forward_pre_hooks or layer._forward_hooks or layer.bias is None:
        return False
    kind = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    return kind == KIND and layer.weight.shape == (channels, channels, 3, 3) and layer.bias.shape == (channels,)
