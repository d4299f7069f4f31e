"""Kernels on full-size models, from exact states of laws whose Z nobody knows (`ebmlab.testing.exact_starts`)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers_mutants import mutant
from torch import Tensor

from benchmarks.exact_starts import cycle, planted_pivots, planted_rises
from ebmlab.energies import RGCN, ResNet
from ebmlab.samplers import ACS, DMALA, GWG, BlockGibbs, Sampler
from ebmlab.testing import Tilted
from ebmlab.testing.exact_starts import REJECT, signed_rank_z, two_sample_z

LAWS = {  # at x and at y, in the kernel's text
    DMALA: ("here", "new.proposal"),
    ACS: ("here", "there"),
    GWG: ("state.proposal", "new.proposal"),
}
RATIO = "state.energy - new.energy + {0}.log_ratio(draw, {1})"
MUTANTS = {
    "no Metropolis": "0 * new.energy",
    "no reverse term": "state.energy - new.energy",
    "one acceptance per batch": f"({RATIO}).mean().expand_as(new.energy)",
}


def wrong(kernel: Any, name: str) -> Any:
    """The kernel with a mutant's step."""
    ratio, worse = (text.format(*LAWS[type(kernel)]) for text in (RATIO, MUTANTS[name]))
    kernel.__class__ = mutant(type(kernel), ratio, worse)
    return kernel


@pytest.fixture(autouse=True)
def seeded() -> Iterator[None]:
    with torch.random.fork_rng(), torch.no_grad():
        torch.manual_seed(0)
        yield


@pytest.mark.slow
def test_reversible_kernels_on_planted_rbms_of_full_size() -> None:
    """784-500, 120 of them. Rejected with probability 0.95: a bias of 5.5 nats (DMALA), 4.5 (GWG), 10 (block Gibbs)."""
    right: dict[str, Sampler] = {"DMALA": DMALA(0.25), "GWG": GWG(20), "block Gibbs": BlockGibbs()}
    broken = {name: wrong(DMALA(0.25), name) for name in MUTANTS}
    rises = planted_rises({**right, **broken, "GWG, no reverse term": wrong(GWG(20), "no reverse term")}, 120)
    z = {name: signed_rank_z(rise) for name, rise in rises.items()}
    assert all((abs(value) > REJECT) == (name not in right) for name, value in z.items()), z


@pytest.mark.slow
def test_an_irreversible_cycle_on_planted_rbms_of_full_size() -> None:
    """The ends' pivots are N(0, 1): with 200 models their mean is within 0.32, that is 8 nats."""
    assert abs(float(planted_pivots(cycle(), 200, 4).mean())) < REJECT / 200**0.5
    assert abs(float(planted_pivots(wrong(cycle(), "no reverse term"), 200, 4).mean())) > REJECT / 200**0.5


def rise(kernel: Sampler, energy: Tilted, x: Tensor) -> Tensor:
    return energy(kernel.sample(energy, x, 4)[0]) - energy(x)


NETWORKS = {"RGCN": (lambda: RGCN(18), 500), "ResNet": (lambda: ResNet((28, 28)), 250)}


@pytest.mark.parametrize("name", ["RGCN", pytest.param("ResNet", marks=pytest.mark.slow)])
def test_kernels_on_networks_of_full_size(name: str) -> None:
    """Smallest bias that is rejected with probability 0.95: see docs/reliability.md."""
    make, n = NETWORKS[name]
    energy = Tilted(make(), density=0.2)
    x, fresh = energy.sample(n), energy(energy.sample(n))
    for kernel in (DMALA(0.25), GWG(5)):
        assert abs(signed_rank_z(rise(kernel, energy, x))) < REJECT
    for mutant_name in MUTANTS:
        assert abs(signed_rank_z(rise(wrong(DMALA(0.25), mutant_name), energy, x))) > REJECT, mutant_name
    assert abs(two_sample_z(energy(cycle().sample(energy, x, 4)[0]), fresh)) < REJECT
    for mutant_name in ("no Metropolis", "no reverse term") if name == "RGCN" else ():  # takes more chains than 250
        ends = energy(wrong(cycle(), mutant_name).sample(energy, x, 4)[0])
        assert abs(two_sample_z(ends, fresh)) > REJECT, mutant_name
