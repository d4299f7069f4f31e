"""What steps of a few chains on an RBM by kernels in C++ share (`few_chains.hpp`)."""

from __future__ import annotations

import ctypes
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.nn.functional import pad

from ebmlab.native.library import SUPPORTED, threads, trusted
from ebmlab.native.plain import readable

VECTOR = 16  # numbers of the widest vector
NEVER = -1e30  # the bias of a unit that fills up a vector, and is never 1
LARGEST = 1e30  # numbers of a parameter add up to less: what follows from them is neither infinite nor NaN then
UNIT = 100  # weights that take as long as what else a unit takes
BURST = 2**30  # weights of chains in a call, which takes 0.1 s; Python hears signals in between

Kernel = Callable[..., None]


class Weights(NamedTuple):
    """The parameters of an RBM whose units are bits.

    Attributes:
        weight: `(V, H)`.
        visible_bias: `(V,)`.
        hidden_bias: `(H,)`.
    """

    weight: Tensor
    visible_bias: Tensor
    hidden_bias: Tensor


class Moved(NamedTuple):
    """The result of some steps of the chains.

    Attributes:
        x: their last states, `(B, V)`.
        acceptance: probabilities, added up over the steps, float64 `(B,)`.
        hops: numbers of flips, added up over the steps, float64 `(B,)`.
    """

    x: Tensor
    acceptance: Tensor
    hops: Tensor


class _Rbm(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_void_p) for name in Weights._fields),
        *((name, ctypes.c_int64) for name in ("visible", "hidden")),
    ]


class _Chains(ctypes.Structure):
    _fields_ = [*((name, ctypes.c_void_p) for name in Moved._fields), ("count", ctypes.c_int64)]


def kernel(name: str, check: Callable[[Kernel], bool], *settings: Any) -> Kernel | None:
    """The function of this name in the C++ file of this name; None where there is none, or it fails its check.

    Args:
        name: as above.
        check: whether steps that are certain come out right.
        settings: the C types of its own arguments.
    """
    run = ctypes.c_int64, ctypes.c_uint64, ctypes.c_int64
    types = [ctypes.POINTER(_Rbm), ctypes.POINTER(_Chains), *settings, *run]
    library = trusted(name, lambda library: check(getattr(library, name)), **{name: types})
    return None if library is None else cast(Kernel, getattr(library, name))


def may_be_called(weights: Weights, x: Tensor) -> bool:
    """Whether a kernel can read weights and chains x: their shapes fit, there is a chain, and they are `readable`."""
    visible, hidden = weights.visible_bias.shape, weights.hidden_bias.shape
    fit = weights.weight.shape == (*visible, *hidden) and x.shape[1:] == visible and len(x) > 0
    return SUPPORTED and fit and not torch.is_autocast_enabled("cpu") and readable(*weights, x)


def moved(
    kernel: Kernel,
    weights: Weights,
    x: Tensor,
    num_steps: int,
    *,
    settings: Sequence[Any] = (),
    most: float = math.inf,
    seed: int | None = None,
) -> Moved | None:
    """Moves chains x `(B, V)` of bits by so many steps; None if the weights are too large, or not finite.

    Args:
        kernel: makes the steps.
        weights: of the RBM.
        x: where they begin.
        num_steps: how many.
        settings: arguments of the kernel's own.
        most: the largest weight that the kernel takes.
        seed: of the random numbers; by default torch's generator draws one for each call.
    """
    sizes = [_largest(part) for part in weights]
    moderate = all(size * part.numel() < LARGEST for size, part in zip(sizes, weights, strict=True))  # none is NaN
    if not moderate or sizes[0] > most:
        return None
    whole, (visible, chains), steps = _whole(weights), (x.shape[1], len(x)), operator.index(num_steps)
    rows, columns = whole.weight.shape
    y = pad(x, (0, rows - visible)).clone(memory_format=torch.contiguous_format)
    reports = torch.zeros(2, chains, dtype=torch.float64, device="cpu")
    rbm = _Rbm(*(part.data_ptr() for part in whole), rows, columns)
    at = _Chains(y.data_ptr(), *(report.data_ptr() for report in reports), chains)
    burst = max(1, BURST // (chains * (rows * columns + UNIT * (rows + columns))))
    for first in range(0, steps, burst):
        drawn = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
        taken = min(burst, steps - first)
        kernel(rbm, at, *settings, taken, drawn, threads(taken * chains * rows * columns / 30))
    return Moved(y[:, :visible].contiguous(), *reports)


def _whole(weights: Weights) -> Weights:
    """The weights, padded to multiples of the vector size by units that are never 1."""
    over, up = (-size % VECTOR for size in weights.weight.shape)
    parts = (
        pad(weights.weight, (0, up, 0, over)),
        pad(weights.visible_bias, (0, over), value=NEVER),
        pad(weights.hidden_bias, (0, up), value=NEVER),
    )
    return Weights(*(part.contiguous() for part in parts))


def _largest(numbers: Tensor) -> float:
    """The largest absolute value, NaN if a number is; `vector_norm` takes 24 times as long (torch 2.14.1)."""
    return max(abs(float(end)) for end in numbers.aminmax())


def certain() -> tuple[Weights, Tensor]:
    """Weights so large that draws are certain, and chains, by which kernels are checked."""
    i, j, c = (torch.arange(n, device="cpu", dtype=torch.float32) for n in (37, 21, 7))
    weight = 300 * ((7 * i[:, None] + 3 * j).remainder(11) - 5)
    x = (i + 5 * c[:, None]).remainder(7).lt(3).float()
    return Weights(weight, 100 + 300 * (i.remainder(5) - 2), 100 + 300 * (j.remainder(3) - 1)), x
