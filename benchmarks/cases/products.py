"""Products of float32 matrices as samplers and learners compute them, beside plain torch: rows times the weights."""

from __future__ import annotations

import torch

from benchmarks.cases.targets import HIDDEN, VISIBLE, bits
from benchmarks.harness import Contestant, Race, race
from ebmlab.native import affine
from ebmlab.numerics.products import by_onednn

REPEATS = 20


@race("products", 1, 16, 100, 1000)
def product(rows: int) -> Race:
    x, matrix = torch.rand(rows, VISIBLE), torch.randn(VISIBLE, HIDDEN)

    def ours() -> Contestant:
        def run() -> None:
            for _ in range(REPEATS):
                with by_onednn(rows * VISIBLE * HIDDEN):
                    torch.mm(x, matrix)

        return Contestant(run)

    return Race(
        f"A product of {rows:,} x {VISIBLE} and {VISIBLE} x {HIDDEN} numbers",
        REPEATS,
        {
            "ebmlab": ours,
            "plain torch": lambda: Contestant(lambda: [torch.mm(x, matrix) for _ in range(REPEATS)]),
        },
    )


@race("bit-products", 100, 1000)
def bit_product(rows: int) -> Race:
    x, matrix, bias = bits(rows), torch.randn(VISIBLE, HIDDEN), torch.randn(HIDDEN)

    def ours() -> Contestant:
        @torch.no_grad()
        def run() -> None:
            for _ in range(REPEATS):
                affine(bias, x, matrix)

        return Contestant(run)

    def onednn() -> Contestant:
        def run() -> None:
            with by_onednn(rows * VISIBLE * HIDDEN):
                for _ in range(REPEATS):
                    torch.addmm(bias, x, matrix)

        return Contestant(run)

    return Race(
        f"Hidden inputs of {rows:,} states of {VISIBLE} bits, {VISIBLE} x {HIDDEN} numbers",
        REPEATS,
        {
            "ebmlab": ours,
            "torch, oneDNN": onednn,
            "plain torch": lambda: Contestant(lambda: [torch.addmm(bias, x, matrix) for _ in range(REPEATS)]),
        },
    )
