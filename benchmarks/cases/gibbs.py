"""Gibbs sampling: of the two layers of an RBM, and of the two colours of a lattice."""

from __future__ import annotations

from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks import packages, published
from benchmarks.cases.targets import HIDDEN, VISIBLE, bits, rbm, repeating, sampling, steps_for
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import Ising
from ebmlab.graphs import Edges
from ebmlab.samplers import BlockGibbs, ChromaticGibbs, ChromaticMetropolis, Tempered

COUPLING = 0.3
CHAINS = 100


@race("block-gibbs", 1, 100, 10_000)
def block_gibbs(chains: int) -> Race:
    energy, x, steps = rbm(), bits(chains), steps_for(chains)
    parameters = [p.detach() for p in (energy.W, energy.b_v, energy.b_h)]

    def in_jax() -> Contestant:
        from benchmarks import in_jax

        return Contestant(in_jax.runner(in_jax.block_gibbs(*parameters), x.numpy(), steps))

    return Race(
        f"Block Gibbs, RBM 784-500, {chains:,} chain{'s' * (chains > 1)}",
        steps,
        {
            "ebmlab": lambda: sampling(BlockGibbs(), energy, x, steps),
            "ebmlab, compiled": lambda: sampling(BlockGibbs(), energy, x, steps, compile=True),
            "plain torch": lambda: repeating(partial(published.block_gibbs, *parameters), x, steps),
            "JAX": in_jax,
            "rbms": lambda: Contestant(packages.rbms_gibbs(energy, x, steps)),
            "ebmkit": lambda: Contestant(packages.ebmkit_sampling(energy, "GibbsSampler", x, steps)),
            "scikit-learn": lambda: Contestant(packages.sklearn_gibbs(energy, x, steps)),
            "floor": lambda: floor(
                [(chains, VISIBLE, HIDDEN), (chains, HIDDEN, VISIBLE)],
                uniforms=chains * (VISIBLE + HIDDEN),
                times=steps,
            ),
        },
    )


def numpy_checkerboard(spins: Tensor, side: int, sweeps: int) -> Contestant:
    """Each colour is an array `(side, side / 2, chains)`; row r of black holds the columns of r's parity."""
    x = spins.view(-1, side, side // 2, 2).numpy()
    even = np.arange(side) % 2 == 0
    first, second = (np.ascontiguousarray(x[..., k].transpose(1, 2, 0)) for k in (0, 1))
    black = np.where(even[:, None, None], first, second)
    white = np.where(even[:, None, None], second, first)
    rng = np.random.Generator(np.random.SFC64(0))

    def redraw(colour: np.ndarray, other: np.ndarray, right: np.ndarray) -> None:
        """Redraws `colour`. The second neighbour in a row is on the left, or in the rows `right` on the right."""
        pull = np.roll(other, 1, 0) + np.roll(other, -1, 0) + other
        pull[right] += np.roll(other[right], -1, 1)
        pull[~right] += np.roll(other[~right], 1, 1)
        up = rng.random(pull.shape, np.float32) < 1 / (1 + np.exp(-2 * COUPLING * pull))
        np.copyto(colour, np.where(up, np.float32(1), np.float32(-1)))

    def run() -> np.ndarray:
        for _ in range(sweeps):
            redraw(black, white, ~even)
            redraw(white, black, even)
        rows = even[:, None, None]
        both = np.stack([np.where(rows, black, white), np.where(rows, white, black)], 2)
        return both.reshape(side, side, -1).transpose(2, 0, 1)

    return Contestant(run)


def torch_checkerboard(spins: Tensor, side: int, sweeps: int) -> Contestant:
    """Both colours are drawn on rolled lattices, and one of them is kept."""
    x = spins.view(-1, side, side).clone()
    black = (torch.arange(side).unsqueeze(1) + torch.arange(side)) % 2 == 0

    def step(x: Tensor) -> Tensor:
        for colour in (black, ~black):
            pull = x.roll(1, 1) + x.roll(-1, 1) + x.roll(1, 2) + x.roll(-1, 2)
            up = torch.rand_like(x) < torch.sigmoid(2 * COUPLING * pull)
            x = torch.where(colour, torch.where(up, 1.0, -1.0), x)
        return x

    return repeating(step, x, sweeps)


def jax_checkerboard(spins: Tensor, side: int, sweeps: int) -> Contestant:
    import jax.numpy as jnp

    from benchmarks import in_jax

    x = jnp.asarray(spins.view(-1, side, side).numpy())
    return Contestant(in_jax.runner(in_jax.checkerboard(side, COUPLING), x, sweeps))


def lattice_floor(sites: int, sweeps: int) -> Contestant:
    """A uniform number and the four additions of a local field for every site, colour by colour."""
    other = torch.ones(sites // 2)
    draws = floor(uniforms=sites)
    pull = torch.empty_like(other)

    def run() -> None:
        for _ in range(sweeps):
            draws.run()
            for _ in range(2):
                torch.add(other, other, out=pull)
                pull.add_(other).add_(other).add_(other)

    return Contestant(run)


@race("checkerboard", 20, 100)
def checkerboard(side: int) -> Race:
    sweeps = 80 if side < 50 else 8
    energy, spins = Ising.lattice(side, COUPLING), 2 * bits(CHAINS, side * side) - 1
    return Race(
        f"Checkerboard Gibbs, {side}x{side}, {CHAINS} chains, a sweep",
        sweeps,
        {
            "ebmlab": lambda: sampling(ChromaticGibbs(), energy, spins, sweeps),
            "ebmlab, compiled": lambda: sampling(ChromaticGibbs(), energy, spins, sweeps, compile=True),
            "thrml": lambda: Contestant(packages.thrml_lattice(side, COUPLING, CHAINS, sweeps)),
            "peapods": lambda: Contestant(
                packages.peapods_lattice(side, "ferro", torch.tensor([1 / COUPLING]), CHAINS, sweeps)
            ),
            "NumPy": lambda: numpy_checkerboard(spins, side, sweeps),
            "torch, rolled": lambda: torch_checkerboard(spins, side, sweeps),
            "JAX": lambda: jax_checkerboard(spins, side, sweeps),
            "floor": lambda: lattice_floor(side * side * CHAINS, sweeps),
        },
        updates=side * side * CHAINS,
    )


def glass(side: int) -> tuple[Ising, Tensor, Tensor]:
    """A periodic lattice with Gaussian couplings, and those of each site to the right and below, `(side, side)`."""
    generator, sites = torch.Generator().manual_seed(0), torch.arange(side * side).view(side, side)
    bonds = torch.randn(2, side, side, generator=generator)
    ends = torch.stack([torch.stack([sites, sites.roll(-1, axis)]) for axis in (1, 0)], 1).flatten(1)
    rows, columns = torch.cat([ends, ends.flip(0)], 1)
    order = (rows * side * side + columns).argsort()
    energy = Ising(Edges(side * side, rows[order], columns[order], bonds.flatten().repeat(2)[order]))
    return energy, bonds[0], bonds[1]


def numpy_glass(energy: Ising, spins: Tensor, sweeps: int) -> Contestant:
    """The sites of a colour at once, from their four neighbours' rows; each site is a row of all chains."""
    x, edges, rng = np.ascontiguousarray(spins.T.numpy()), energy.edges(), np.random.Generator(np.random.SFC64(0))
    others, weights = edges.columns.view(-1, 4).numpy(), edges.values.view(-1, 4, 1).numpy()
    colours = [(sites.numpy(), others[sites], weights[sites]) for sites in energy.colours]

    def run() -> np.ndarray:
        for _ in range(sweeps):
            for sites, near, weight in colours:
                pull = sum(weight[:, n] * x[near[:, n]] for n in range(4))
                up = rng.random(pull.shape, np.float32) < 1 / (1 + np.exp(-2 * pull))
                x[sites] = np.where(up, np.float32(1), np.float32(-1))
        return x.T

    return Contestant(run)


def jax_glass(right: Tensor, below: Tensor, spins: Tensor, sweeps: int) -> Contestant:
    import jax.numpy as jnp

    from benchmarks import in_jax

    x = jnp.asarray(spins.view(-1, *right.shape).numpy())
    return Contestant(in_jax.runner(in_jax.glass(right, below), x, sweeps))


def thrml_glass(energy: Ising, sweeps: int) -> Contestant:
    edges = energy.edges()
    once = edges.rows < edges.columns
    pairs = torch.stack([edges.rows[once], edges.columns[once]], 1)
    return Contestant(packages.thrml_graph(pairs, energy.colours, edges.values[once].numpy(), CHAINS, sweeps))


@race("gaussian-lattice", 20, 100)
def gaussian_lattice(side: int) -> Race:
    """Couplings that share no quantum, so that chains are not put into words."""
    sweeps = 80 if side < 50 else 8
    (energy, right, below), spins = glass(side), 2 * bits(CHAINS, side * side) - 1
    return Race(
        f"Gibbs by colours, Gaussian couplings, {side}x{side}, {CHAINS} chains, a sweep",
        sweeps,
        {
            "ebmlab": lambda: sampling(ChromaticGibbs(), energy, spins, sweeps),
            "ebmlab, Metropolis": lambda: sampling(ChromaticMetropolis(), energy, spins, sweeps),
            "thrml": lambda: thrml_glass(energy, sweeps),
            "NumPy": lambda: numpy_glass(energy, spins, sweeps),
            "JAX": lambda: jax_glass(right, below, spins, sweeps),
            "floor": lambda: lattice_floor(side * side * CHAINS, sweeps),
        },
        updates=side * side * CHAINS,
    )


@race("tempering", 20, 100)
def tempering(side: int) -> Race:
    """Swaps are tried between all neighbours on the ladder in turn, after each sweep."""
    sweeps, sampler = 40 if side < 50 else 4, Tempered(ChromaticGibbs(), num_temperatures=16)
    (energy, right, below), spins = glass(side), 2 * bits(CHAINS, side * side) - 1
    couplings = torch.stack([below, right], 2).double().numpy()

    def peapods() -> Contestant:
        return Contestant(packages.peapods_lattice(side, couplings, 1 / sampler.betas, CHAINS, sweeps, exchange=True))

    return Race(
        f"Parallel tempering, Gaussian couplings, {side}x{side}, {CHAINS} chains at 16 temperatures, a sweep and swaps",
        sweeps,
        {"ebmlab": lambda: sampling(sampler, energy, spins, sweeps), "peapods": peapods},
        updates=side * side * CHAINS * 16,
    )


@race("tempering-rbm")
def tempering_rbm() -> Race:
    energy, x, steps, sampler = rbm(), bits(CHAINS), 20, Tempered(BlockGibbs(), num_temperatures=8)
    return Race(
        f"Parallel tempering, RBM 784-500, {CHAINS} chains at 8 temperatures, a step of block Gibbs and swaps",
        steps,
        {
            "ebmlab": lambda: sampling(sampler, energy, x, steps),
            "rbms": lambda: Contestant(packages.rbms_tempering(energy, x, sampler.betas.flip(0), steps)),
        },
    )


@race("lattice", 20, 100)
def lattice(side: int) -> Race:
    """Constructs the energy and its colours."""
    return Race(
        f"Ising.lattice({side}) and its colours",
        1,
        {"ebmlab": lambda: Contestant(lambda: Ising.lattice(side, COUPLING).colours)},
    )
