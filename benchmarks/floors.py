"""The floor of a race: the matrix products and random numbers that every implementation of the work needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch

from benchmarks.harness import Contestant
from ebmlab.numerics.products import by_onednn

Shape = tuple[int, int, int]


def floor(products: Sequence[Shape] = (), uniforms: int = 0, normals: int = 0, times: int = 1) -> Contestant:
    """The least work of `times` units, by the fastest library that torch brings.

    Args:
        products: n, k and m of every matrix product of a unit, `(n, k)` times `(k, m)`.
        uniforms: how many uniform numbers of 32 bits a unit draws.
        normals: how many normal numbers.
        times: units in a run.
    """
    multiply = [_product(*shape) for shape in products]
    bits, noise = np.random.SFC64(0), torch.empty(normals)

    def run() -> None:
        for _ in range(times):
            for product in multiply:
                product()
            if uniforms:
                bits.random_raw((uniforms + 1) // 2)
            if normals:
                noise.normal_()

    return Contestant(run)


def _product(n: int, k: int, m: int) -> Callable[[], None]:
    a, b, out = torch.rand(n, k), torch.rand(k, m), torch.empty(n, m)

    def multiply() -> None:
        with by_onednn(n * k * m):
            torch.mm(a, b, out=out)

    return multiply
