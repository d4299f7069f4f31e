"""The programs beside which sweeps and clusters are raced sample the same law."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import PASS

from benchmarks.cases.pairs import machine, numpy_sweeps, scipy_clusters, torch_sweeps
from ebmlab.energies import Ising

CHAINS = 20_000
PROGRAMS: dict[str, tuple[Callable[..., Any], Ising, int]] = {
    "sweeps by NumPy": (numpy_sweeps, machine(6), 200),
    "sweeps by torch": (torch_sweeps, machine(6), 200),
    "Swendsen-Wang by SciPy": (scipy_clusters, Ising.lattice(3, 0.4), 20),
    "Wolff by SciPy": (partial(scipy_clusters, single=True), Ising.lattice(3, 0.4), 60),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_it_has_the_law(name: str) -> None:
    make, energy, steps = PROGRAMS[name]
    torch.manual_seed(0)
    exact, x = Exact(energy), torch.ones(CHAINS, energy.domain.size)
    with torch.no_grad():
        last = make(energy, x, steps).run()
    assert exact.p_value(torch.as_tensor(last).float()) > PASS
