"""The square lattice with one bit a spin: each spin follows its law given its neighbours."""

from __future__ import annotations

import pytest
import torch
from helpers_fused import DEVICE, HERE
from scipy.stats import binom
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.fused import SquareLattice

SIDE = 128


def redrawn(coupling: float) -> tuple[Tensor, Tensor]:
    """White spins after some sweeps, and the sums of their neighbours: they are redrawn last, given black spins."""
    torch.manual_seed(1)
    lattice = SquareLattice(SIDE, coupling)
    words = lattice.random(DEVICE)
    white = torch.arange(SIDE).view(-1, 1).add(torch.arange(SIDE)) % 2 == 1
    found: list[Tensor] = []
    for _ in range(8):
        lattice.sweep(words)
        spins = lattice.spins(words).cpu().long()
        pull = sum(spins.roll(shift, axis) for shift in (-1, 1) for axis in (0, 1))
        found.append(torch.stack([spins[white], pull[white]]))
    spins, pull = torch.cat(found, 1)
    return spins, pull


def p_values(spins: Tensor, pull: Tensor, coupling: float) -> list[float]:
    """Of those with 0 to 4 neighbours up: are as many up as the law of a coupling says?"""
    values = []
    for h in (-4, -2, 0, 2, 4):
        here = spins[pull == h]
        chance = float(torch.sigmoid(torch.tensor(2.0 * coupling * h, dtype=torch.float64)))
        up, law = int((here > 0).sum()), binom(len(here), chance)
        values.append(float(2 * min(law.cdf(up), law.sf(up - 1))))
    return values


@HERE
@pytest.mark.parametrize("coupling", [0.3, pytest.param(-0.2, marks=pytest.mark.slow)])
def test_each_spin_follows_its_law_given_its_neighbours(coupling: float) -> None:
    """A coupling that is larger by a tenth has another law."""
    spins, pull = redrawn(coupling)
    assert min(p_values(spins, pull, coupling)) > 1e-4
    assert min(p_values(spins, pull, 1.1 * coupling)) < 1e-6


@HERE
def test_spins_at_zero_temperature_follow_their_neighbours() -> None:
    lattice = SquareLattice(64, 1e9)
    words = lattice.random(DEVICE)
    ups = torch.full_like(words, -1)
    lattice.sweep(ups)
    assert (ups == -1).all()
    SquareLattice(64, -1e9).sweep(words, num_sweeps=1)
    spins = lattice.spins(words).long()
    pull = sum(spins.roll(shift, axis) for shift in (-1, 1) for axis in (0, 1))
    white = torch.arange(64, device=DEVICE).view(-1, 1).add(torch.arange(64, device=DEVICE)) % 2 == 1
    sure = white & (pull != 0)
    assert (spins[sure] == -pull[sure].sign()).all()


@pytest.mark.parametrize(
    ("side", "coupling", "message"),
    [
        (100, 0.4, "side is 100, but must be a multiple of 64"),
        (64, float("nan"), "coupling is nan, but must be a finite"),
    ],
)
def test_other_lattices_are_refused(side: int, coupling: float, message: str) -> None:
    with pytest.raises(UserError, match=message):
        SquareLattice(side, coupling)


@HERE
def test_words_of_another_lattice_are_refused() -> None:
    with pytest.raises(UserError, match="words must be int32"):
        SquareLattice(128, 0.4).sweep(SquareLattice(64, 0.4).random(DEVICE))
