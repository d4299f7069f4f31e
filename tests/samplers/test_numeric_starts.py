"""Chains start at states of any numeric type, and go the way that they go from the energy's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_cases import CASES, STRUCTURED
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import reverse_ais
from ebmlab.samplers import DMALA, BlockGibbs, ChromaticGibbs, Gibbs, GibbsLangevin, Langevin, Sampler
from ebmlab.samplers.tuners import TargetAcceptance

KERNELS: dict[str, Callable[[], tuple[Sampler, Energy]]] = {
    name: lambda case=case: _on_bits(case.make) for name, case in CASES.items() if "binary" in case.domains
}
KERNELS |= {kind.__name__: make for kind, make in STRUCTURED.items()}
KERNELS |= {
    "DMALA window": lambda: (DMALA(0.2, window=1), _lattice()),
    "Langevin": lambda: (Langevin(0.1, adjust_from=0), GRBM(6, 3)),
    "GibbsLangevin": lambda: (GibbsLangevin(0.1), GRBM(6, 3)),
}


def _on_bits(make: Callable[[Finite], Sampler]) -> tuple[Sampler, Energy]:
    return make(Binary(6)), MLP(6)


def _lattice() -> Energy:
    from ebmlab.studies.targets import LatticeGaussian

    return LatticeGaussian.rotated(6, num_values=5)


def starts(energy: Energy) -> Tensor:
    torch.manual_seed(1)
    return energy.random(4).round()


def ends(sampler: Sampler, energy: Energy, x: Tensor) -> list[Tensor]:
    """States of all methods that move chains, from one seed."""
    torch.manual_seed(2)
    last, _ = sampler.sample(energy, x, 3)
    state, _ = sampler.step(energy, sampler.init(energy, x, 1))
    *_, (final, _) = sampler.chain(energy, x, 3)
    return [last, sampler.last_states(energy, x, 3), state.x, final.x]


@cases("dtype", [torch.int8, torch.int64, torch.float16, torch.float64], fast=[0])
@pytest.mark.parametrize("name", KERNELS)
def test_chains_from_any_numeric_type_are_those_from_the_energys_own(name: str, dtype: torch.dtype) -> None:
    torch.manual_seed(0)
    sampler, energy = KERNELS[name]()
    x = starts(energy)

    for found, right in zip(ends(sampler, energy, x.to(dtype)), ends(sampler, energy, x), strict=True):
        assert found.dtype == energy.dtype == torch.float32 and torch.equal(found, right)


@pytest.mark.parametrize("name", KERNELS)
def test_a_seed_repeats_chains_from_states_in_columns(name: str) -> None:
    torch.manual_seed(0)
    sampler, energy = KERNELS[name]()
    for n in (4, 350)[: 1 if name == "Bfloat16Proposals" else 2]:  # kernels in C++ draw many numbers, DMALA's too
        x = energy.random(n)
        for found, right in zip(ends(sampler, energy, x.mT.contiguous().mT), ends(sampler, energy, x), strict=True):
            assert torch.equal(found, right)


@pytest.mark.slow
def test_compiled_chains_take_whole_numbers() -> None:
    rbm = RBM(6, 3)
    torch.manual_seed(0)
    found = BlockGibbs().last_states(rbm, torch.ones(3, 6, dtype=torch.uint8), 8, compile=True)
    assert found.dtype == torch.float32 and ((found == 0) | (found == 1)).all()


@pytest.mark.parametrize(
    "use",
    [
        lambda energy, x: Gibbs().sample(energy, x, 1),
        lambda energy, x: ChromaticGibbs().last_states(energy, x, 1),
        lambda energy, x: DMALA(0.2).init(energy, x),
        lambda energy, x: list(DMALA(0.2).chain(energy, x, 1)),
        lambda energy, x: TargetAcceptance().tune(DMALA(0.2), energy, x, 20),
        lambda energy, x: reverse_ais(energy, Gibbs(), x, num_temperatures=2),
    ],
)
@pytest.mark.parametrize("x", [torch.zeros(4, 9, dtype=torch.int8), torch.ones(4, 9, dtype=torch.bool).logical_not()])
def test_bits_are_no_starts_on_spins(use: Callable[[Energy, Tensor], Any], x: Tensor) -> None:
    with pytest.raises(UserError, match=r"its values must be -1 or \+1$"):
        use(Ising.lattice(3, 0.2), x)


def test_tuners_and_reverse_annealing_take_spins_of_an_annealer() -> None:
    """Sample sets of dimod, openjij and dwave-samplers are int8."""
    energy = Ising.lattice(3, 0.2)
    x = energy.random(60).to(torch.int8)
    _, last = TargetAcceptance().tune(DMALA(0.2), energy, x, 20)
    assert last.dtype == torch.float32
    torch.manual_seed(0)
    found = reverse_ais(energy, Gibbs(), x, num_temperatures=4, base=reference(energy.domain))
    torch.manual_seed(0)
    assert found.log_z == reverse_ais(energy, Gibbs(), x.float(), num_temperatures=4).log_z
