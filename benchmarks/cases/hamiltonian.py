"""HMC and NUTS on real numbers at the same settings: seconds for 1,000 effective draws of the worst coordinate.

OMP_NUM_THREADS=1 python -m benchmarks hmc nuts --threads 1 --rounds 5

A row also says how many gradients an effective draw takes. Packages that are not installed are left out with a line.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.harness import Contestant, Race, race
from benchmarks.packages import blackjax_draws, ebmkit_draws, numpyro_draws, torchebm_hmc_draws
from ebmlab.domains import Real
from ebmlab.energies import Energy, RealMLP
from ebmlab.evaluation import effective_sample_size
from ebmlab.samplers import HMC, NUTS, Sampler

CHAINS, STEPS, LEAPFROG, MAX_DEPTH, EFFECTIVE = 100, 200, 5, 8, 1000
Draws = Callable[[], tuple[Tensor, float]]
"""Draws `(steps, chains, d)` of a run, and the gradients of a chain in it."""


@dataclass
class Target:
    """One law in both languages.

    Attributes:
        title: what it is.
        energy: in torch, differentiated by autograd.
        in_jax: makes -log p of one state in JAX.
        step_size: of leapfrog steps; about eight tenths are accepted.
    """

    title: str
    energy: Energy
    in_jax: Callable[[], Callable[[Any], Any]]
    step_size: float

    def starts(self) -> Tensor:
        """Exact draws, where the energy has them, or states that 200 steps of HMC have reached, `(chains, d)`."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(0)
            if isinstance(self.energy, Rotated | Funnel):
                return self.energy.sample(CHAINS)
            return HMC(self.step_size, LEAPFROG).last_states(self.energy, self.energy.random(CHAINS), 200)


class Normals(Energy):
    """50 independent normal numbers with standard deviations from 1 to 5."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(50)
        self.register_buffer("precision", torch.logspace(0, 1.4, 50).reciprocal())

    def forward(self, x: Tensor) -> Tensor:
        return (self.precision * x.square()).sum(1) / 2


class Schools(Energy):
    """Eight schools (Rubin, 1981), non-centred: a state is (mu, log tau, z)."""

    Y = (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0)
    SIGMA = (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(10)
        self.register_buffer("y", torch.tensor(self.Y))
        self.register_buffer("sigma", torch.tensor(self.SIGMA))

    def forward(self, x: Tensor) -> Tensor:
        mu, log_tau, z = x[:, :1], x[:, 1:2], x[:, 2:]
        tau = log_tau.exp()
        misfit = ((self.y - mu - tau * z) / self.sigma).square().sum(1) + z.square().sum(1)
        return misfit / 2 + ((mu / 5).square() / 2 + (1 + (tau / 5).square()).log() - log_tau).squeeze(1)


class Funnel(Energy):
    """Neal's (2003) funnel: v of N(0, 3^2), and nine x of N(0, exp(v))."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(10)

    def forward(self, x: Tensor) -> Tensor:
        v, rest = x[:, 0], x[:, 1:]
        return v.square() / 18 + (rest.square().sum(1) * (-v).exp() + 9 * v) / 2

    def sample(self, n: int) -> Tensor:
        v = 3 * torch.randn(n, 1)
        return torch.cat([v, (v / 2).exp() * torch.randn(n, 9)], 1)


class Rotated(Energy):
    """A normal law of 10 numbers, its variances from 1 to 1,000 along turned axes."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(10)
        axes = torch.linalg.qr(torch.randn(10, 10, generator=torch.Generator().manual_seed(3)).double())[0]
        variances = torch.logspace(0, 3, 10, dtype=torch.float64)
        self.register_buffer("precision", (axes / variances @ axes.T).float())
        self.register_buffer("root", (axes * variances.sqrt()).float())

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ self.precision) * x).sum(1) / 2

    def sample(self, n: int) -> Tensor:
        return torch.randn(n, 10) @ self.root.T


def funnel_in_jax() -> Callable[[Any], Any]:
    import jax.numpy as jnp

    return lambda x: x[0] ** 2 / 18 + ((x[1:] ** 2).sum() * jnp.exp(-x[0]) + 9 * x[0]) / 2


def rotated_in_jax() -> Callable[[Any], Any]:
    import jax.numpy as jnp

    precision = jnp.asarray(Rotated().precision.numpy())
    return lambda x: (precision @ x) @ x / 2


def normals_in_jax() -> Callable[[Any], Any]:
    import jax.numpy as jnp

    precision = jnp.asarray(Normals().precision.numpy())
    return lambda x: (precision * x**2).sum() / 2


def schools_in_jax() -> Callable[[Any], Any]:
    import jax.numpy as jnp

    y, sigma = jnp.asarray(Schools.Y), jnp.asarray(Schools.SIGMA)

    def energy(x: Any) -> Any:
        mu, log_tau, z = x[0], x[1], x[2:]
        tau = jnp.exp(log_tau)
        misfit = (((y - mu - tau * z) / sigma) ** 2).sum() + (z**2).sum()
        return misfit / 2 + (mu / 5) ** 2 / 2 + jnp.log1p((tau / 5) ** 2) - log_tau

    return energy


def network() -> RealMLP:
    """A perceptron of three layers of 128 units on 16 numbers, with an energy that is far from quadratic."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        energy = RealMLP(16, scale=2.0)
        torch.nn.init.normal_(energy.network[-1].weight, std=3.0)
    return energy


def network_in_jax() -> Callable[[Any], Any]:
    import jax
    import jax.numpy as jnp

    energy = network()
    layers = [
        (jnp.asarray(part.weight.detach().numpy()), jnp.asarray(part.bias.detach().numpy()))
        for part in energy.network
        if isinstance(part, torch.nn.Linear)
    ]

    def of_one(x: Any) -> Any:
        y = x
        for weight, bias in layers[:-1]:
            y = jax.nn.silu(weight @ y + bias)
        return (layers[-1][0] @ y + layers[-1][1])[0] + (x**2).sum() / (2 * energy.scale**2)

    return of_one


TARGETS: dict[str, Callable[[], Target]] = {
    "normals": lambda: Target("50 normal numbers", Normals(), normals_in_jax, 0.5),
    "schools": lambda: Target("eight schools", Schools(), schools_in_jax, 0.45),
    "funnel": lambda: Target("a funnel of 10 numbers", Funnel(), funnel_in_jax, 0.3),
    "rotated": lambda: Target("a rotated normal law of condition 1,000", Rotated(), rotated_in_jax, 0.9),
    "network": lambda: Target("a network 16-128-128-128-1", network(), network_in_jax, 0.35),
}


def ours(sampler: Sampler, target: Target, x: Tensor) -> Draws:
    def run() -> tuple[Tensor, float]:
        draws, gradients = [], 0.0
        for state, info in sampler.chain(target.energy, x, STEPS):
            draws.append(state.x)
            gradients += info.evaluations
        return torch.stack(draws), gradients

    return run


def compiled(sampler: Sampler, target: Target, x: Tensor) -> Contestant:
    """The time of `last_states(compile=True)`, which keeps the last draws alone, over the effective draws of `ours`."""
    draws, cost = ours(sampler, target, x)()
    size = least(draws)

    def run() -> float:
        begin = time.perf_counter()
        sampler.last_states(target.energy, x, STEPS, compile=True)
        return (time.perf_counter() - begin) * EFFECTIVE / size

    return Contestant(run, gradients(cost, size), own_clock=True)


def least(draws: Tensor) -> float:
    """The effective sample size of the mean of the worst coordinate."""
    return float(effective_sample_size(draws).min())


def gradients(per_chain: float, size: float) -> str:
    return f"{per_chain * CHAINS / size:.3g} an effective draw"


def effective(make: Callable[[], Draws]) -> Contestant:
    """Seconds of a run for each 1,000 effective draws in it."""
    draw = make()
    first, cost = draw()
    assert first.shape[:2] == (STEPS, CHAINS), first.shape

    def run() -> float:
        begin = time.perf_counter()
        draws, _ = draw()
        seconds = time.perf_counter() - begin
        return seconds * EFFECTIVE / least(draws)

    return Contestant(run, gradients(cost, least(first)), own_clock=True)


@race("hmc", *TARGETS)
def hmc(name: str) -> Race:
    target = TARGETS[name]()
    x, epsilon = target.starts(), target.step_size
    sampler = HMC(epsilon, LEAPFROG)
    common = {"x": x, "step_size": epsilon, "steps": STEPS, "num_leapfrog": LEAPFROG}
    entries = {
        "ebmlab": partial(ours, sampler, target, x),
        "blackjax": lambda: blackjax_draws(target.in_jax(), **common),
        "numpyro": lambda: numpyro_draws(target.in_jax(), **common),
        "torchebm": lambda: torchebm_hmc_draws(target.energy, **common),
        "ebmkit": lambda: ebmkit_draws(target.energy, **common),
    }
    return Race(
        f"HMC, {LEAPFROG} leapfrog steps, {target.title}, {CHAINS} chains: {EFFECTIVE:,} effective draws",
        1,
        {who: partial(effective, make) for who, make in entries.items()}
        | {"ebmlab, compiled": lambda: compiled(sampler, target, x)},
        unit="s",
    )


@race("nuts", *TARGETS)
def nuts(name: str) -> Race:
    target = TARGETS[name]()
    x, epsilon = target.starts(), target.step_size
    common = {"x": x, "step_size": epsilon, "steps": STEPS, "max_depth": MAX_DEPTH}
    sampler = NUTS(epsilon, max_depth=MAX_DEPTH)
    entries = {
        "ebmlab": partial(ours, sampler, target, x),
        "blackjax": lambda: blackjax_draws(target.in_jax(), **common),
        "numpyro": lambda: numpyro_draws(target.in_jax(), **common),
        "ebmkit": lambda: ebmkit_draws(target.energy, **common),
    }
    return Race(
        f"NUTS, {target.title}, {CHAINS} chains: {EFFECTIVE:,} effective draws",
        1,
        {who: partial(effective, make) for who, make in entries.items()}
        | {"ebmlab, compiled": lambda: compiled(sampler, target, x)},
        unit="s",
    )
