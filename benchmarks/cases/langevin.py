"""Langevin dynamics in two dimensions: 10,000 chains, 1,000 steps."""

from __future__ import annotations

import torch
from torch import Tensor

from benchmarks.cases.targets import repeating
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from benchmarks.packages import torchebm_langevin
from ebmlab.domains import Real
from ebmlab.energies import Energy
from ebmlab.samplers import Langevin

CHAINS, STEPS, STEP_SIZE = 10_000, 1_000, 0.01


class DoubleWell(Energy):
    """E(x) = sum of (x_i^2 - 1)^2, differentiated by autograd."""

    domains = (Real,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(2)

    def forward(self, x: Tensor) -> Tensor:
        return (x.square() - 1).square().sum(1)


class ClosedForm(DoubleWell):
    """The same energy with its gradient 4 x (x^2 - 1) in closed form."""

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self.gradient(x)

    def gradient(self, x: Tensor) -> Tensor:
        return 4 * x * (x.square() - 1)


def plain(x: Tensor) -> Tensor:
    return x - STEP_SIZE * 4 * x * (x.square() - 1) + (2 * STEP_SIZE) ** 0.5 * torch.randn_like(x)


def plain_autograd(x: Tensor) -> Tensor:
    x = x.detach().requires_grad_()
    (grad,) = torch.autograd.grad((x.square() - 1).square().sum(), x)
    return (x - STEP_SIZE * grad).detach() + (2 * STEP_SIZE) ** 0.5 * torch.randn_like(x)


def in_jax(x: Tensor, closed: bool) -> Contestant:
    import jax
    import jax.numpy as jnp

    from benchmarks import in_jax

    by_hand, automatic = lambda y: 4 * y * (y**2 - 1), jax.grad(lambda y: ((y**2 - 1) ** 2).sum())
    step = in_jax.langevin(by_hand if closed else automatic, STEP_SIZE)
    return Contestant(in_jax.runner(step, jnp.asarray(x.numpy()), STEPS))


@race("langevin", "closed", "autograd")
def langevin(gradient: str) -> Race:
    closed = gradient == "closed"
    x = torch.randn(CHAINS, 2, generator=torch.Generator().manual_seed(0))
    energy, step = (ClosedForm(), plain) if closed else (DoubleWell(), plain_autograd)
    sampler = Langevin(STEP_SIZE)

    return Race(
        f"Langevin, 2-D, 10,000 chains x 1,000 steps, gradient by {'hand' if closed else 'autograd'}",
        1,
        {
            "ebmlab": lambda: Contestant(lambda: sampler.last_states(energy, x, STEPS)),
            "ebmlab, compiled": lambda: Contestant(lambda: sampler.last_states(energy, x, STEPS, compile=True)),
            "torchebm": lambda: Contestant(torchebm_langevin(closed, x, STEPS, STEP_SIZE)),
            "plain torch": lambda: repeating(step, x, STEPS),
            "JAX": lambda: in_jax(x, closed),
            "floor": lambda: floor(normals=x.numel(), times=STEPS),
        },
        unit="s",
    )
