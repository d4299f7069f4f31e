"""Spins that interact in pairs: sweeps where all do, as in Boltzmann learning, and clusters of a lattice."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from benchmarks.cases.targets import bits, sampling
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import Ising
from ebmlab.samplers import GibbsSweep, SwendsenWang, Wolff

SPINS = 100
CRITICAL = 0.5 * float(np.log(1 + 2**0.5))  # coupling of a square lattice


def machine(spins: int) -> Ising:
    """Couplings from N(0, 1 / spins) between all spins, and fields from N(0, 0.1^2)."""
    generator = torch.Generator().manual_seed(0)
    coupling = torch.randn(spins, spins, generator=generator).div(spins**0.5).triu(1)
    return Ising(coupling + coupling.T, 0.1 * torch.randn(spins, generator=generator), learn=True)


def numpy_sweeps(energy: Ising, spins: Tensor, sweeps: int) -> Contestant:
    """One site of all chains after the other; each site is a row of memory."""
    x, rng = np.ascontiguousarray(spins.T.numpy()), np.random.Generator(np.random.SFC64(0))
    J, h = (t.detach().numpy() for t in (energy.coupling, energy.field))

    def run() -> np.ndarray:
        for _ in range(sweeps):
            for i in range(len(x)):
                up = rng.random(x.shape[1], np.float32) < 1 / (1 + np.exp(-2 * (J[i] @ x + h[i])))
                x[i] = np.where(up, np.float32(1), np.float32(-1))
        return x.T

    return Contestant(run)


def torch_sweeps(energy: Ising, spins: Tensor, sweeps: int) -> Contestant:
    x, J, h = spins.T.contiguous(), energy.coupling.detach(), energy.field.detach()

    def run() -> Tensor:
        for _ in range(sweeps):
            for i in range(len(x)):
                x[i] = torch.bernoulli(torch.sigmoid(2 * (J[i] @ x + h[i]))).mul_(2).sub_(1)
        return x.T

    return Contestant(run)


@race("boltzmann-sweep", 100, 5_000)
def boltzmann_sweep(chains: int) -> Race:
    energy, sweeps = machine(SPINS), max(2, 2_000 // chains)
    x = 2 * bits(chains, SPINS) - 1
    return Race(
        f"Gibbs sweep, Boltzmann machine of {SPINS} spins, {chains:,} chains",
        sweeps,
        {
            "ebmlab": lambda: sampling(GibbsSweep(), energy, x, sweeps),
            "NumPy": lambda: numpy_sweeps(energy, x, sweeps),
            "plain torch": lambda: torch_sweeps(energy, x, sweeps),
        },
        updates=SPINS * chains,
    )


def scipy_clusters(energy: Ising, spins: Tensor, steps: int, *, single: bool = False) -> Contestant:
    """Bonds of all chains are one sparse graph, whose connected parts SciPy finds."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    edges, rng = energy.edges(), np.random.Generator(np.random.SFC64(0))
    once = edges.rows < edges.columns
    a, b, J = (t[once].numpy() for t in (edges.rows, edges.columns, edges.values))
    chance, x = 1 - np.exp(-2 * J), spins.numpy().copy()
    chains, size = x.shape

    def run() -> np.ndarray:
        for _ in range(steps):
            bonded = (x[:, a] == x[:, b]) & (rng.random((chains, len(a)), np.float32) < chance)
            chain, edge = bonded.nonzero()
            ends = chain * size + a[edge], chain * size + b[edge]
            graph = coo_array((np.ones(len(chain), bool), ends), shape=(chains * size,) * 2)
            count, label = connected_components(graph, directed=False)
            label = label.reshape(chains, size)
            if single:
                site = rng.integers(size, size=(chains, 1))
                x[label == np.take_along_axis(label, site, 1)] *= -1
            else:
                x[...] = np.where(rng.random(count) < 0.5, 1, -1).astype(np.float32)[label]
        return x

    return Contestant(run)


@race("clusters", 20, 100)
def swendsen_wang(side: int) -> Race:
    return clusters(side, single=False)


@race("cluster", 20, 100)
def wolff(side: int) -> Race:
    return clusters(side, single=True)


def clusters(side: int, *, single: bool) -> Race:
    energy, chains, steps = Ising.lattice(side, CRITICAL), 100, 40 if side < 50 else 2
    x = 2 * bits(chains, side * side) - 1
    return Race(
        f"{'Wolff' if single else 'Swendsen-Wang'}, {side}x{side} at the critical point, {chains} chains",
        steps,
        {
            "ebmlab": lambda: sampling(Wolff() if single else SwendsenWang(), energy, x, steps),
            "SciPy": lambda: scipy_clusters(energy, x, steps, single=single),
        },
    )
