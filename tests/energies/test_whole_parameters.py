"""Parameters may be whole numbers or booleans: what is made of them is what their floats make."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Domain, Real
from ebmlab.energies import (
    RBM,
    RGCN,
    Bernoulli,
    Energy,
    Frequencies,
    Gaussian,
    Ising,
    Potts,
    ScalarPotts,
    tempered,
)
from ebmlab.evaluation import data_law
from ebmlab.graphs import Edges
from ebmlab.problems.normalised_cut import CutShares
from ebmlab.studies.targets import LatticeGaussian, LogisticPosterior

ENDS = torch.tensor([0, 1]), torch.tensor([1, 0])
PAIR = torch.tensor([[0, 1], [1, 0]])


def with_base(energy: Any, mean: Tensor) -> Energy:
    torch.manual_seed(0)
    made: Energy = energy()
    made.set_base(mean)  # type: ignore[operator]
    for p in made.parameters():
        torch.nn.init.constant_(p, 0.1) if p.dim() > 1 else None
    return made


MAKERS: dict[str, tuple[Callable[[Tensor], Energy], Tensor]] = {
    "Gaussian": (lambda m: Gaussian(m, torch.tensor([[0.5, 0.1], [0.1, 0.25]])), torch.tensor([0, 1])),
    "Gaussian, covariance": (lambda c: Gaussian(torch.zeros(2), c), torch.tensor([[2, 1], [1, 2]])),
    "Bernoulli": (Bernoulli, torch.tensor([0, 1])),
    "Frequencies": (Frequencies, torch.tensor([[0, 1, 0], [1, 0, 0]])),
    "Ising": (Ising, PAIR),
    "Ising, edges": (lambda J: Ising(Edges(2, *ENDS, J), 0.5), torch.tensor([2, 2])),
    "Ising, edges of a matrix": (lambda J: Ising(Edges.of(J), 0.5), PAIR),
    "Ising, learnt edges": (lambda J: Ising(Edges(2, *ENDS, J), 0.5, learn=True), torch.tensor([2, 2])),
    "Ising, field": (lambda h: Ising([[0.0, 0.5], [0.5, 0.0]], h), torch.tensor([1, 0])),
    "ScalarPotts": (lambda J: ScalarPotts(Edges(2, *ENDS, J), [0.5, 0.2, 0.1]), torch.tensor([2, 2])),
    "CutShares": (lambda J: CutShares(Edges(2, *ENDS, J)), torch.tensor([2, 2])),
    "LatticeGaussian": (lambda m: LatticeGaussian([[0.5, 0.1], [0.1, 0.3]], m, num_values=3), torch.tensor([0, 1])),
    "LogisticPosterior": (lambda y: LogisticPosterior([[0.5, 0.1], [0.1, 0.3]], y), torch.tensor([0, 1])),
    "RBM, base": (lambda m: with_base(lambda: RBM(2, 3), m), torch.tensor([0, 1])),
    "RGCN, base": (lambda m: with_base(lambda: RGCN(3), m), torch.tensor([0, 1, 0])),
    "tempered": (lambda beta: tempered(Potts(2, 3), beta), torch.tensor([1, 2, 3])),
}


@pytest.mark.parametrize("name", MAKERS)
def test_whole_numbers_make_what_their_floats_make(name: str) -> None:
    make, numbers = MAKERS[name]
    right = make(numbers.float()).state_dict(keep_vars=True) | dict(make(numbers.float()).named_buffers())
    for dtype in (torch.int64, torch.uint8, *([torch.bool] if numbers.max() == 1 else [])):
        made = make(numbers.to(dtype))
        found = made.state_dict(keep_vars=True) | dict(made.named_buffers())
        for key, value in right.items():
            assert found[key].dtype == value.dtype, (key, dtype)
            assert torch.equal(found[key], value), (key, dtype)
        x = make(numbers.float()).domain.random(3)
        assert torch.equal(made(x), make(numbers.float())(x))


def test_gaussian_and_frequencies_of_whole_numbers_have_the_right_values() -> None:
    base = Gaussian(torch.tensor([0, 1]), torch.tensor([[0.5, 0.0], [0.0, 0.5]]))
    assert float(base(torch.tensor([[0.0, 3.0]]))) == pytest.approx(4)
    expected = torch.tensor([[-5.7038, -0.0067, -5.7038]])
    torch.testing.assert_close(Frequencies(torch.tensor([[0, 1, 0]])).logits, expected, rtol=0, atol=1e-4)


def test_the_precision_of_floats_is_kept() -> None:
    assert Gaussian(torch.zeros(2).double(), torch.eye(2)).mean.dtype == torch.float64
    assert Frequencies(torch.full((2, 2), 0.5).double()).logits.dtype == torch.float64
    assert Edges(2, *ENDS, torch.ones(2).double()).values.dtype == torch.float64


@pytest.mark.parametrize("weights", [None, torch.tensor([1, 2, 1]), torch.tensor([0.5, 1.0, 0.5])])
@pytest.mark.parametrize(
    ("domain", "x"),
    [
        (Binary(2), [[0, 1], [1, 1], [0, 1]]),
        (Categorical(1, 3), [[[0, 1, 0]], [[1, 0, 0]], [[0, 1, 0]]]),
        (Real(2), [[0, 1], [1, 1], [0, 0]]),
    ],
)
def test_laws_of_data_of_any_numeric_type(domain: Domain, x: Any, weights: Tensor | None) -> None:
    right = data_law(domain, torch.tensor(x).float(), weights=weights)
    for dtype in (torch.int64, torch.uint8, torch.bool):
        found = dict(data_law(domain, torch.tensor(x, dtype=dtype), weights=weights).named_buffers())
        for name, value in right.named_buffers():
            torch.testing.assert_close(found[name], value)


def test_the_gaussian_fit_of_whole_numbers() -> None:
    x = torch.tensor([[0, 1], [1, 0], [2, 3]])
    found, right = Gaussian.fit(x), Gaussian.fit(x.float())
    assert torch.equal(found.mean, right.mean) and torch.equal(found.root, right.root)
