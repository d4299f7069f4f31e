"""The targets of the races, and loops around one step."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from benchmarks.harness import Contestant
from ebmlab.energies import RBM, Energy
from ebmlab.samplers import Sampler

VISIBLE, HIDDEN = 784, 500


def rbm() -> RBM:
    """An RBM of 784 and 500 units with fixed weights from N(0, 0.05^2)."""
    generator = torch.Generator().manual_seed(0)
    energy = RBM(VISIBLE, HIDDEN)
    with torch.no_grad():
        energy.W.copy_(0.05 * torch.randn(VISIBLE, HIDDEN, generator=generator))
        energy.b_v.copy_(0.1 * torch.randn(VISIBLE, generator=generator))
    return energy


def log_prob(energy: RBM) -> Callable[[Tensor], Tensor]:
    """-E(x) in plain torch, with constant parameters."""
    W, b_v, b_h = (p.detach() for p in (energy.W, energy.b_v, energy.b_h))
    return lambda x: x @ b_v + torch.nn.functional.softplus(x @ W + b_h).sum(1)


def bits(n: int, size: int = VISIBLE) -> Tensor:
    """Fixed random 0/1 states `(n, size)`."""
    return torch.randint(2, (n, size), generator=torch.Generator().manual_seed(1)).float()


def steps_for(chains: int) -> int:
    """Steps in a run: enough that the evaluation at its start, which peers have made before, hardly counts."""
    return max(20, min(500, 40_000 // chains))


def sampling(sampler: Sampler, energy: Energy, x: Tensor, steps: int, compile: bool = False) -> Contestant:
    """A contestant that runs `Sampler.last_states`; a gradient counts as one forward and one backward pass."""
    _, info = sampler.sample(energy, x, 2)
    passes = f"{info.evaluations:g} / {info.evaluations:g}"
    return Contestant(lambda: sampler.last_states(energy, x, steps, compile=compile), passes)


def repeating(step: Callable[[Tensor], Tensor], x: Tensor, steps: int, passes: str = "") -> Contestant:
    """A contestant that repeats a plain step."""

    def run() -> Tensor:
        y = x
        for _ in range(steps):
            y = step(y)
        return y

    return Contestant(run, passes)
