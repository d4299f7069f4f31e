"""Gibbs sweeps, energies and statistics of pairs of a Potts model as large as a protein family."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor
from torch.nn.functional import embedding_bag, one_hot

from benchmarks import packages
from benchmarks.cases.targets import repeating, sampling
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import Potts
from ebmlab.energies.pairwise.statistics import half_moments
from ebmlab.samplers import GibbsSweep

SITES, VALUES = 141, 21


def family(sites: int = SITES, values: int = VALUES) -> Potts:
    """Fixed couplings from N(0, 0.1^2) between all pairs of sites, and fields from N(0, 1)."""
    generator, energy = torch.Generator().manual_seed(0), Potts(sites, values)
    with torch.no_grad():
        energy.coupling.normal_(0, 0.1, generator=generator)
        energy.field.normal_(generator=generator)
    return energy


def plain_sweep(matrix: Tensor, field: Tensor, x: Tensor) -> Tensor:
    """Logits as a product of one-hot states with the couplings of a site, `(d, q, d q)`."""
    flat = x.flatten(1).clone()
    states = flat.view_as(x)
    for i in range(len(field)):
        p = (flat @ matrix[i].T + field[i]).softmax(1)
        states[:, i] = one_hot(torch.multinomial(p, 1).squeeze(1), len(field[i]))
    return states


def rows_floor(chains: int, sweeps: int) -> Contestant:
    """A row of the couplings for each chain, site and other site, and a uniform number for each chain and site."""
    rows, draws = torch.ones(SITES * VALUES, VALUES), floor(uniforms=chains)
    places = torch.randint(VALUES, (chains, SITES)) + torch.arange(0, SITES * VALUES, VALUES)

    def run() -> None:
        for _ in range(sweeps * SITES):
            embedding_bag(places, rows, mode="sum")
            draws.run()

    return Contestant(run)


@race("potts-sweep", 100, 1_000, 5_000)
def potts_sweep(chains: int) -> Race:
    energy, sweeps = family(), max(1, 2_000 // chains)
    torch.manual_seed(1)
    x = energy.random(chains)
    matrix, field = energy.couplings().detach().transpose(1, 2).reshape(SITES, VALUES, -1), energy.field.detach()
    return Race(
        f"Gibbs sweep, Potts model of {SITES} sites and {VALUES} values, {chains:,} chains",
        sweeps,
        {
            "ebmlab": lambda: sampling(GibbsSweep(), energy, x, sweeps),
            "plain torch": lambda: repeating(partial(plain_sweep, matrix, field), x, sweeps),
            "adabmDCA": lambda: Contestant(packages.adabmdca_sweeps(energy, x, sweeps)),
            "floor": lambda: rows_floor(chains, sweeps),
        },
        updates=SITES * chains,
    )


def plain_energy(matrix: Tensor, field: Tensor, x: Tensor) -> Tensor:
    """Products of one-hot states with all couplings, `(d q, d q)`."""
    flat = x.flatten(1)
    return -0.5 * ((flat @ matrix) * flat).sum(1) - flat @ field


@race("potts-energy", 1_000, 10_000)
def potts_energy(states: int) -> Race:
    energy = family().requires_grad_(False)
    torch.manual_seed(1)
    x = energy.random(states)
    matrix, field = energy.couplings().transpose(1, 2).reshape(SITES * VALUES, -1), energy.field.flatten()
    return Race(
        f"Energies of a Potts model of {SITES} sites and {VALUES} values, {states:,} states",
        1,
        {
            "ebmlab": lambda: Contestant(partial(energy, x)),
            "plain torch": lambda: Contestant(partial(plain_energy, matrix, field, x)),
            "adabmDCA": lambda: Contestant(packages.adabmdca_energy(energy, x)),
        },
    )


def plain_statistics(weights: Tensor, x: Tensor) -> Tensor:
    flat = x.flatten(1)
    return (flat * weights.unsqueeze(1)).T @ flat


@race("pair-statistics", 1_000, 10_000)
def pair_statistics(states: int) -> Race:
    torch.manual_seed(1)
    x, weights = family().random(states), torch.rand(states)
    weights /= weights.sum()
    return Race(
        f"How often two of {SITES} sites have each two of {VALUES} values, {states:,} weighted states",
        1,
        {
            "ebmlab": lambda: Contestant(partial(half_moments, x, weights)),
            "plain torch": lambda: Contestant(partial(plain_statistics, weights, x)),
            "adabmDCA": lambda: Contestant(packages.adabmdca_statistics(x, weights)),
        },
    )
