"""Closed forms of energies agree with autograd and with energies computed at each neighbour."""

from __future__ import annotations

import pytest
import torch
from helpers_energies import ENERGIES
from torch import Tensor

from ebmlab.domains import Binary, Finite, Spin
from ebmlab.energies import Energy
from ebmlab.studies.targets import LatticeGaussian, LogisticPosterior, QuarticMixture

TIGHT = {"rtol": 1e-10, "atol": 1e-10}


def make(name: str) -> tuple[Energy, Tensor]:
    """A float64 energy whose coordinates have different laws, and states of its domain."""
    torch.manual_seed(0)
    energy = ENERGIES[name]().double()
    return energy, energy.domain.random(9).double()


def some_coordinates(domain: Finite) -> Tensor:
    """`(9, 3)`, different in every row, with repetitions."""
    return torch.randint(domain.size, (9, 3), generator=torch.Generator().manual_seed(1))


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("name", ENERGIES)
def test_gradient_is_that_of_forward(name: str, inference: bool) -> None:
    energy, x = make(name)
    leaf = x.clone().requires_grad_()
    expected = energy(leaf)
    (slope,) = torch.autograd.grad(expected.sum(), leaf)
    with torch.inference_mode(inference):
        value, grad = energy.value_and_grad(x.clone())
    torch.testing.assert_close(value, expected.detach(), **TIGHT)
    torch.testing.assert_close(grad, slope, **TIGHT)
    assert value.shape == (9,) and not value.requires_grad and not grad.requires_grad


@pytest.mark.parametrize("name", [name for name in ENERGIES if isinstance(make(name)[0].domain, Binary | Spin)])
def test_flip_differences_are_those_of_the_neighbours(name: str) -> None:
    energy, x = make(name)
    index = some_coordinates(energy.domain)
    for chosen in (None, index, index[:, :0]):
        expected = Energy.flip_differences(energy, x, chosen)
        torch.testing.assert_close(energy.flip_differences(x, chosen), expected, **TIGHT)
        torch.testing.assert_close(energy.flip_energies(x, chosen), energy(x)[:, None] + expected, **TIGHT)


@pytest.mark.parametrize("name", ENERGIES)
def test_value_differences_are_those_of_the_neighbours(name: str) -> None:
    energy, x = make(name)
    for index in (None, some_coordinates(energy.domain)):
        expected = Energy.value_differences(energy, x, index)
        torch.testing.assert_close(energy.value_differences(x, index), expected, **TIGHT)


@pytest.mark.parametrize("name", ENERGIES)
def test_a_row_does_not_depend_on_its_batch(name: str) -> None:
    energy, x = make(name)
    together, alone = energy.value_and_grad(x), energy.value_and_grad(x[4:5])
    for batch, row in zip(together, alone, strict=True):
        torch.testing.assert_close(batch[4:5], row, **TIGHT)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ENERGIES)
def test_dtype_follows_the_input(name: str, dtype: torch.dtype) -> None:
    energy, x = make(name)
    energy, x = energy.to(dtype), x.to(dtype)
    results = (energy(x), *energy.value_and_grad(x), energy.value_differences(x))
    assert [r.dtype for r in results] == [dtype] * 4
    assert all(r.isfinite().all() for r in results)


GENERATORS = {
    "rotated": lambda seed: LatticeGaussian.rotated(6, seed=seed).precision,
    "sparse": lambda seed: LatticeGaussian.sparse(6, seed=seed).precision,
    "quartic": lambda seed: QuarticMixture(6, seed=seed).axes,
    "features": lambda seed: LogisticPosterior.synthetic(8, seed=seed).features,
    "targets": lambda seed: LogisticPosterior.synthetic(8, seed=seed).targets,
}


@pytest.mark.parametrize("generate", GENERATORS.values(), ids=GENERATORS)
def test_generators_depend_on_their_seed_alone(generate: object) -> None:
    assert callable(generate)
    torch.manual_seed(1)
    state = torch.get_rng_state()
    first = generate(3)
    assert torch.equal(torch.get_rng_state(), state), "drew from the global generator"
    torch.manual_seed(2)
    assert torch.equal(generate(3), first)
    assert not torch.equal(generate(4), first)
