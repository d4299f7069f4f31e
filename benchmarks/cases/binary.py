"""Gradient-based samplers of an RBM of 784 visible and 500 hidden units."""

from __future__ import annotations

from functools import partial

import torch

from benchmarks import published
from benchmarks.cases.targets import HIDDEN, VISIBLE, bits, log_prob, rbm, repeating, sampling, steps_for
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Make, Race, race
from ebmlab.energies import RBM
from ebmlab.samplers import ACS, DMALA, DULA, GWG, AnyScale, PathAuxiliary, Sampler

STEP_SIZE = 0.2
TWICE = [(VISIBLE, HIDDEN), (HIDDEN, VISIBLE)]
"""The two products of an evaluation with its gradient."""


def gradient_floor(chains: int, steps: int, uniforms: int, extra: tuple[tuple[int, int, int], ...] = ()) -> Contestant:
    products = [(chains, *shape) for shape in TWICE]
    return floor([*products, *extra], uniforms=uniforms, times=steps)


def in_jax(kernel: str, energy: RBM, chains: int, steps: int, **settings: float) -> Contestant:
    from benchmarks import in_jax

    density = in_jax.rbm(energy.W, energy.b_v, energy.b_h)
    step = getattr(in_jax, kernel)(density, **settings)
    return Contestant(in_jax.runner(step, in_jax.start(density, bits(chains).numpy()), steps), "1 / 1")


def sampler_race(title: str, sampler: Sampler, chains: int, peers: dict[str, Make], uniforms: int) -> Race:
    energy, x, steps = rbm(), bits(chains), steps_for(chains)
    entries: dict[str, Make] = {"ebmlab": lambda: sampling(sampler, energy, x, steps)}
    if sampler.compilable(energy) is not None:
        entries["ebmlab, compiled"] = lambda: sampling(sampler, energy, x, steps, compile=True)
    entries |= peers
    entries["floor"] = lambda: gradient_floor(chains, steps, uniforms)
    return Race(f"{title}, RBM 784-500, {chains:,} chain{'s' * (chains > 1)}", steps, entries)


@race("dmala", 1, 16, 100, 1_000, 10_000)
def dmala(chains: int) -> Race:
    energy, x, steps = rbm(), bits(chains), steps_for(chains)
    step = partial(published.dmala, log_prob(energy), step_size=STEP_SIZE)
    peers = {
        "published": lambda: repeating(step, x, steps, published.ADJUSTED),
        "JAX": lambda: in_jax("dmala", energy, chains, steps, step_size=STEP_SIZE),
    }
    return sampler_race("DMALA", DMALA(STEP_SIZE), chains, peers, chains * VISIBLE)


@race("dula", 100)
def dula(chains: int) -> Race:
    step = partial(published.dmala, log_prob(rbm()), step_size=STEP_SIZE, adjusted=False)
    peers = {"published": lambda: repeating(step, bits(chains), steps_for(chains), published.UNADJUSTED)}
    return sampler_race("DULA", DULA(STEP_SIZE), chains, peers, chains * VISIBLE)


@race("acs", 100)
def acs(chains: int) -> Race:
    sampler, energy, x, steps = ACS(2.0, 0.1), rbm(), bits(chains), steps_for(chains)
    f = log_prob(energy)

    def run() -> None:
        y = x
        for k in range(steps):
            y = published.acs(f, y, sampler.step_sizes, sampler.balances, k)

    peers = {
        "published": lambda: Contestant(run, published.ADJUSTED),
        "JAX (DMALA)": lambda: in_jax("dmala", energy, chains, steps, step_size=STEP_SIZE),
    }
    return sampler_race("ACS", sampler, chains, peers, chains * VISIBLE)


@race("ab-first", 100)
def ab_first(chains: int) -> Race:
    step = partial(published.dmala, log_prob(rbm()), step_size=STEP_SIZE, balance=0.6)
    peers = {"published": lambda: repeating(step, bits(chains), steps_for(chains), published.ADJUSTED)}
    return sampler_race("AB-1st", AnyScale("first", STEP_SIZE, balance=0.6), chains, peers, chains * VISIBLE)


@race("ab-trace", 100)
def ab_trace(chains: int) -> Race:
    steps = steps_for(chains)
    W = 0.02 * torch.randn(VISIBLE, VISIBLE, generator=torch.Generator().manual_seed(2))
    W = (W + W.T) / 2
    D = torch.full((VISIBLE,), float(torch.linalg.eigvalsh(W).abs().max()) * 1.01)
    sampler = AnyScale("trace", STEP_SIZE, balance=0.5, curvature=W, diagonal=D)
    assert sampler.root is not None
    step = partial(
        published.any_scale, log_prob(rbm()), step_size=STEP_SIZE, balance=0.5, root=sampler.root, diagonal=D
    )
    peers = {"published": lambda: repeating(step, bits(chains), steps, published.ADJUSTED)}
    contest = sampler_race("AB-trace", sampler, chains, peers, 0)
    pulls = ((chains, VISIBLE, VISIBLE),) * 2  # A xi and A (x - y)
    contest.entries["floor"] = lambda: gradient_floor(chains, steps, chains * VISIBLE, pulls)
    return contest


@race("gwg", 100, 1_000)
def gwg(chains: int) -> Race:
    from benchmarks.packages import ebmkit_sampling

    energy, x, steps = rbm(), bits(chains), steps_for(chains)
    step = partial(published.gwg, log_prob(energy))
    peers = {
        "published": lambda: repeating(step, x, steps, published.ADJUSTED),
        "JAX": lambda: in_jax("gwg", energy, chains, steps),
        "ebmkit": lambda: Contestant(ebmkit_sampling(energy, "GibbsWithGradients", x, steps), "2 / 2"),
    }
    return sampler_race("GWG", GWG(), chains, peers, chains)


@race("pas", 100)
def pas(chains: int) -> Race:
    step = partial(published.path_auxiliary, log_prob(rbm()), max_length=5)
    peers = {"published": lambda: repeating(step, bits(chains), steps_for(chains), published.ADJUSTED)}
    return sampler_race("PAS, paths of 5 on average", PathAuxiliary(5), chains, peers, chains * VISIBLE)
