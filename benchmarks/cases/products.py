"""A product of float32 matrices as samplers and learners compute it, beside plain torch: rows times the weights."""

from __future__ import annotations

import torch

from benchmarks.cases.targets import HIDDEN, VISIBLE
from benchmarks.harness import Contestant, Race, race
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
