"""Fused sweeps over Ising and Potts models: exact laws, big graphs where all is certain, and mutants."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import pytest
import torch
from helpers_fused import DEVICE, HERE, mutated, p_value
from torch import Tensor

from ebmlab import engine
from ebmlab.energies import Energy, Ising, Potts
from ebmlab.fused import Fused
from ebmlab.graphs import Edges
from ebmlab.samplers import ChromaticGibbs, GibbsSweep, Sampler

pytestmark = [HERE, pytest.mark.filterwarnings("ignore:overflow encountered in exp")]  # NumPy's, where a GPU goes on
PASS, FAIL = 1e-3, 1e-6


def ring(size: int, scale: float) -> Ising:
    """A ring with chords, random couplings and fields; with many sites it is kept as lists."""
    generator = torch.Generator().manual_seed(3)
    a = torch.arange(size).repeat(2)
    b = torch.cat([torch.arange(1, size + 1), torch.arange(3, size + 3)]) % size
    values = scale * torch.randn(2 * size, generator=generator)
    order = torch.argsort(torch.cat([a, b]) * size + torch.cat([b, a]))
    rows, columns = torch.cat([a, b])[order], torch.cat([b, a])[order]
    edges = Edges(size, rows, columns, values.repeat(2)[order])
    return Ising(edges, scale * torch.randn(size, generator=generator)).to(DEVICE)


def family(sites: int, values: int, scale: float) -> Potts:
    torch.manual_seed(3)
    pairs = [[i, j] for i in range(sites) for j in range(i) if (i + j) % 3]
    energy = Potts(sites, values, pairs=pairs).requires_grad_(False)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return energy.to(DEVICE)


SMALL = {
    "colours": (ChromaticGibbs(), lambda: ring(7, 0.5)),
    "potts": (GibbsSweep(), lambda: family(4, 3, 0.8)),
    "potts, random order": (GibbsSweep(scan="random"), lambda: family(4, 3, 0.8)),
}


@pytest.mark.parametrize("name", SMALL)
def test_exact_draws_stay_exact(name: str) -> None:
    sampler, energy = Fused(SMALL[name][0]), SMALL[name][1]()
    assert p_value(energy, lambda x: sampler.last_states(energy, x, 2)) > PASS


@pytest.mark.parametrize(
    ("sampler", "energy"),
    [(ChromaticGibbs(), lambda: ring(601, 1e6)), (GibbsSweep(), lambda: family(9, 5, 1e6))],
    ids=["colours", "potts"],
)
@pytest.mark.parametrize("chains", [1, 37])
def test_where_all_is_certain_a_sweep_is_the_plain_one(sampler: Sampler, energy: Energy, chains: int) -> None:
    energy = energy()
    x = energy.random(chains)
    assert torch.equal(Fused(sampler).last_states(energy, x, 1), sampler.last_states(energy, x, 1))


def test_nan_is_reported() -> None:
    ising, potts = ring(7, 0.5), family(4, 3, 0.8)
    ising.field[2] = potts.field[1, 1] = torch.nan
    for sampler, energy in ((ChromaticGibbs(), ising), (GibbsSweep(), potts)):
        assert Fused(sampler).sample(energy, energy.random(3), 1)[1].acceptance.isnan().all()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "old", "new"),
    [
        ("colours", "2.0 * pull", "pull"),
        (
            "colours",
            "place = site[:, None] * chains + chain[None, :]",
            "place = number[:, None] * chains + chain[None, :]",
        ),
        ("colours", "at, some = (begin + n, begin + n < end)", "at, some = (begin + n, begin + n + 1 < end)"),
        ("potts", "turn * chains + chain", "chain"),
        ("potts", "* q + b) * q", "* q + 0 * b) * q"),
        ("potts", "transpose(2, 3).", ""),
        ("potts", "cdf <= level[:, None]", "cdf < 0.9 * level[:, None]"),
    ],
)
def test_a_wrong_kernel_is_noticed(name: str, old: str, new: str, tmp_path: Path) -> None:
    (sampler, make), module = SMALL[name], mutated(f"ebmlab.fused.{name}", old, new, tmp_path)
    assert p_value(make(), lambda x: moved(module, sampler, make(), x), chains=6000) < FAIL


def moved(module: ModuleType, sampler: Sampler, energy: Energy, x: Tensor) -> Tensor:
    return [state.x for state, _ in engine.steps(module.kernel(sampler, energy), energy, x, 4)][-1]
