"""Drawing the hidden units of one step: ebmlab beside torch.rand and torch.bernoulli, alternating in one process.

python benchmarks/bernoulli.py
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor

from ebmlab.numerics.noise import bernoulli


def by_rand(logits: Tensor) -> Tensor:
    return torch.rand_like(logits).lt_(torch.sigmoid(logits))


def by_bernoulli(logits: Tensor) -> Tensor:
    return torch.bernoulli(torch.sigmoid(logits))


def main() -> None:
    torch.manual_seed(0)
    logits = torch.randn(512, 4096)
    contenders: dict[str, Callable[[Tensor], Tensor]] = {
        "torch.bernoulli": by_bernoulli,
        "torch.rand < p": by_rand,
        "ebmlab": bernoulli,
    }
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(43):
        for name, draw in contenders.items():
            start = time.perf_counter()
            draw(logits)
            if round_ > 2:
                times[name].append(1e3 * (time.perf_counter() - start))
    print(f"512 x 4096 Bernoulli draws, torch {torch.__version__}, {torch.get_num_threads()} threads, 40 rounds")
    for name, values in times.items():
        low, middle, high = statistics.quantiles(values, n=4)
        print(f"{name:<16} {middle:6.1f} ms   (quartiles {low:.1f} to {high:.1f})")


if __name__ == "__main__":
    main()
