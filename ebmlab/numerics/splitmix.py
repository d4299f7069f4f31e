"""Uniform numbers as compiled programs on a CPU draw them: SplitMix64 (Steele, Lea & Flood, 2014)."""

from __future__ import annotations

import torch
from torch import Tensor

FIRST, SECOND = (word - 2**64 for word in (0xBF58476D1CE4E5B9, 0x94D049BB133111EB))

WIDE = torch.backends.cpu.get_cpu_capability() == "AVX512"  # whether products of 64-bit integers are made as vectors


def in_vectors(like: Tensor) -> bool:
    """Whether `splitmix` is faster than torch's generator and the compiler's: in a program with AVX-512."""
    return WIDE and torch.compiler.is_compiling() and like.device.type == "cpu"


def splitmix(like: Tensor) -> Tensor:
    """Uniform numbers from 0 to 1 in the shape of `like`, float32 or float64.

    torch's global generator draws a seed and a stride for each call. A program computes what follows from them as
    vectors. The compiler's own random numbers, drawn one at a time, took twice as long. With AVX2 they took less.

    Example:
        >>> splitmix(torch.zeros(2, 3)).shape
        torch.Size([2, 3])
    """
    # The compiler computes a sum once. A number that it draws it would draw again for each entry.
    seed, stride = torch.randint(-(2**63), 2**63 - 1, (2, 2)).sum(0).unbind()
    word = words(seed, stride | 1, like.numel()).view(like.shape)
    if like.dtype == torch.float64:
        return _shifted(word, 11).double() * 2.0**-53
    return _shifted(word, 40).float() * 2.0**-24


def words(seed: Tensor, stride: Tensor, count: int) -> Tensor:
    """The first 64-bit words of a seed and an odd stride, int64 `(count,)`.

    Example:
        >>> words(torch.tensor(1234567), torch.tensor(0x9E3779B97F4A7C15 - 2**64), 1)
        tensor([6457827717110365317])
    """
    word = seed + stride * torch.arange(1, count + 1)
    word = (word ^ _shifted(word, 30)) * FIRST
    word = (word ^ _shifted(word, 27)) * SECOND
    return word ^ _shifted(word, 31)


def _shifted(word: Tensor, by: int) -> Tensor:
    """Shifts to the right, and fills up with zeros."""
    shifted: Tensor = (word >> by) & (2 ** (64 - by) - 1)
    return shifted
