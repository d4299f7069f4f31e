"""Other implementations of checkerboard sweeps follow the exact law of the energy on the 4x4 lattice."""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import numpy as np
import pytest
import torch
from helpers_grbm import FAIL, PASS
from torch import Tensor

from benchmarks import packages
from benchmarks.cases.gibbs import (
    COUPLING,
    glass,
    jax_checkerboard,
    jax_glass,
    numpy_checkerboard,
    numpy_glass,
    torch_checkerboard,
)
from ebmlab.domains import Spin
from ebmlab.energies import Ising
from ebmlab.testing import chi_square_p

SIDE, CHAINS, SWEEPS = 4, 20_000, 20


def _bonds(x: Tensor) -> Tensor:
    """The sum s of the products of neighbours as a whole number (s + 32) / 2 from 0 to 32, `(B,)`."""
    grid = x.view(-1, SIDE, SIDE)
    return ((grid * grid.roll(1, 1) + grid * grid.roll(1, 2)).sum((1, 2)) / 2 + 16).long()


def _p_value(x: Tensor) -> float:
    states = Spin(SIDE * SIDE).enumerate()
    law = torch.zeros(33).index_add_(0, _bonds(states), (-Ising.lattice(SIDE, COUPLING)(states)).softmax(0))
    return chi_square_p(torch.bincount(_bonds(x), minlength=33), law)


def _start() -> Tensor:
    torch.manual_seed(0)
    return torch.ones(CHAINS, SIDE * SIDE)


@pytest.mark.parametrize("make", [numpy_checkerboard, torch_checkerboard, jax_checkerboard])
def test_sweeps_converge_to_the_law(make: Callable[..., object]) -> None:
    if make is jax_checkerboard:
        pytest.importorskip("jax")
    spins = make(_start(), SIDE, SWEEPS).run()  # type: ignore[attr-defined]
    assert _p_value(torch.as_tensor(np.array(spins) if make is not torch_checkerboard else spins).float()) > PASS


def test_thrml_samples_the_same_law() -> None:
    pytest.importorskip("thrml")
    blocks = packages.thrml_lattice(SIDE, COUPLING, CHAINS, SWEEPS)()
    x = torch.empty(CHAINS, SIDE, SIDE)
    parity = torch.arange(SIDE).unsqueeze(1) + torch.arange(SIDE)
    for k, block in enumerate(blocks):  # type: ignore[arg-type, var-annotated]
        x[:, parity % 2 == k] = 2 * torch.from_numpy(np.array(block)).view(CHAINS, -1).float() - 1
    assert _p_value(x) > PASS


def test_peapods_has_the_same_mean() -> None:
    """Of the sum over bonds, a spin; its chains begin anywhere."""
    pytest.importorskip("peapods")
    states = Spin(SIDE * SIDE).enumerate()
    energies = Ising.lattice(SIDE, COUPLING)(states).double()
    mean = -float((energies * (-energies).softmax(0)).sum()) / COUPLING / SIDE**2
    found = packages.peapods_lattice(SIDE, COUPLING, 200, 4000)()
    assert abs(float(np.ravel(found["energies"])[0]) - mean) < 0.005  # type: ignore[index]


def test_a_coupling_3_percent_smaller_is_detected() -> None:
    states = Spin(SIDE * SIDE).enumerate()
    torch.manual_seed(0)
    wrong = (-Ising.lattice(SIDE, COUPLING * 0.97)(states)).softmax(0).multinomial(CHAINS, replacement=True)
    assert _p_value(states[wrong]) < 1e-6


def test_programs_for_gaussian_couplings_follow_the_law() -> None:
    """Of the first eight spins."""
    (energy, right, below), number = glass(SIDE), 2 ** torch.arange(8)
    states = Spin(SIDE * SIDE).enumerate()
    first = lambda x: x[:, :8].gt(0).long() @ number  # noqa: E731
    law = torch.zeros(256).index_add_(0, first(states), (-energy(states)).softmax(0))
    found = [numpy_glass(energy, _start(), 10 * SWEEPS).run()]
    with contextlib.suppress(ImportError):
        found.append(jax_glass(right, below, _start(), 10 * SWEEPS).run())
    for spins in found:
        x = torch.from_numpy(np.array(spins)).view(CHAINS, -1)
        assert chi_square_p(torch.bincount(first(x), minlength=256), law) > PASS
    assert chi_square_p(torch.bincount(first(x), minlength=256), law.roll(1)) < FAIL
