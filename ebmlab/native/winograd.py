"""3x3 convolutions on a CPU by Winograd's minimal filtering, and the swish behind them (`winograd.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import conv2d

from ebmlab.native.library import compiled
from ebmlab.native.plain import readable

LAYER = ((3, 3), (1, 1), (1, 1), (1, 1), 1, "zeros")  # kernel, stride, padding, dilation, groups, what is padded
TILE = 4  # outputs on a side


def applies(images: Tensor, *layers: nn.Conv2d) -> bool:
    """Whether the functions below take these layers on images of this size `(B, C, H, W)`, and are ahead of torch.

    They save half of the time where outputs fill half of the tiles at least.
    """
    if not readable(images) or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return False
    channels, height, width = images.shape[1:]
    if 2 * height * width < TILE**2 * -(-height // TILE) * -(-width // TILE):
        return False
    if not all(_is_plain(layer, channels) for layer in layers):
        return False
    library = kernel()
    return library is not None and channels % library.lanes() == 0


def swish(z: Tensor) -> tuple[Tensor, Tensor]:
    """`z * sigmoid(z)` and its derivative, `(B, C, H, W)` each. C is a multiple of the floats in a vector."""
    library, z = _library(), _laid_out(z, z)
    value, slope = (torch.empty_like(z, memory_format=torch.channels_last) for _ in range(2))
    if z.numel() % library.lanes():
        raise ValueError(f"winograd: {tuple(z.shape)} numbers do not fill vectors of {library.lanes()}")
    library.activate(z.data_ptr(), z.numel(), value.data_ptr(), slope.data_ptr(), torch.get_num_threads())
    return value, slope


def forward(x: Tensor, layer: nn.Conv2d, *, plus: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """The swish of `layer(x) + plus` and its derivative, `(B, C, H, W)` each.

    The result of an image depends neither on the others nor on the number of threads.
    """
    slope = torch.empty_like(x, memory_format=torch.channels_last)
    return _convolved(_library(), x, layer.weight, bias=layer.bias, plus=plus, slope=slope), slope


def back(grad: Tensor, layer: nn.Conv2d, slope: Tensor, *, plus: Tensor | None = None) -> Tensor:
    """The gradient in z `(B, C, H, W)`, from that in `layer(swish(z))` and, as `plus`, that in `swish(z)` itself.

    The gradient in a convolution's input is a convolution whose filters are turned by 180 degrees, and whose input and
    output channels change places. `slope` is the derivative of the swish at z.
    """
    return _convolved(_library(), grad, layer.weight.transpose(0, 1), turned=True, plus=plus, times=slope)


def _convolved(
    library: ctypes.CDLL,
    x: Tensor,
    weight: Tensor,
    *,
    turned: bool = False,
    bias: Tensor | None = None,
    plus: Tensor | None = None,
    times: Tensor | None = None,
    slope: Tensor | None = None,
) -> Tensor:
    """`(conv2d(x, weight) + bias + plus) * times`, or the swish of it where `slope` is to hold the derivative."""
    channels = x.shape[1]
    if weight.shape != (channels, channels, 3, 3) or channels % library.lanes() or not readable(weight):
        raise ValueError(f"winograd: weights {tuple(weight.shape)} do not fit images {tuple(x.shape)}")
    if bias is not None and not (bias.shape == (channels,) and bias.is_contiguous() and readable(bias)):
        raise ValueError(f"winograd: a bias {tuple(bias.shape)} does not fit images {tuple(x.shape)}")
    x, plus, times = (None if t is None else _laid_out(t, x) for t in (x, plus, times))
    assert x is not None
    out = torch.empty_like(x, memory_format=torch.channels_last)
    first, steps = weight, list(weight.stride())
    if turned:
        first, steps[2:] = weight[:, :, 2:, 2:], [-step for step in steps[2:]]
    shape = (len(x), *x.shape[2:], channels)
    pointers = (None if t is None else t.data_ptr() for t in (bias, plus, times, out, slope))
    library.convolve(x.data_ptr(), *shape, first.data_ptr(), *steps, *pointers, torch.get_num_threads())
    return out


def _laid_out(t: Tensor, like: Tensor) -> Tensor:
    """The same numbers with the channels last, which the kernel reads."""
    if t.shape != like.shape or t.dim() != 4 or not readable(t):
        raise ValueError(f"winograd: images {tuple(t.shape)} where {tuple(like.shape)} of float32 belong")
    return t.contiguous(memory_format=torch.channels_last)


def _is_plain(layer: nn.Conv2d, channels: int) -> bool:
    """Whether a layer is a convolution of this kind, and nothing else happens when it is called."""
    if type(layer) is not nn.Conv2d or layer._forward_pre_hooks or layer._forward_hooks or layer.bias is None:
        return False
    kind = (layer.kernel_size, layer.stride, layer.padding, layer.dilation, layer.groups, layer.padding_mode)
    fits = layer.weight.shape == (channels, channels, 3, 3) and layer.bias.shape == (channels,)
    return kind == LAYER and fits and layer.bias.is_contiguous() and readable(layer.weight, layer.bias)


def _library() -> ctypes.CDLL:
    library = kernel()
    if library is None:
        raise RuntimeError("winograd: there is no compiled kernel; ask applies() first")
    return library


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after a convolution has come out right; None where there is none."""
    library = compiled(Path(__file__).with_suffix(".cpp"))
    if library is None:
        return None
    i, p = ctypes.c_int64, ctypes.c_void_p
    library.convolve.argtypes = [p, i, i, i, i, p, i, i, i, i, p, p, p, p, p, ctypes.c_int]
    library.activate.argtypes = [p, i, p, p, ctypes.c_int]
    library.lanes.restype = i
    return library if _is_right(library) else None


def _is_right(library: ctypes.CDLL) -> bool:
    """Whether convolutions of small whole numbers, which float64 holds exactly, come out but for rounding."""
    cpu, channels = torch.device("cpu"), 2 * library.lanes()
    x = torch.arange(2 * channels * 35, device=cpu).view(2, channels, 5, 7).remainder(11).float()
    weight = torch.arange(channels**2 * 9, device=cpu).view(channels, channels, 3, 3).remainder(7).float() - 3
    found = _convolved(library, x, weight)
    return torch.allclose(found.double(), conv2d(x.double(), weight.double(), padding=1), rtol=0, atol=0.05)
