"""Lattice Gaussians: their spectra, their law, and what they refuse."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.studies.targets import LatticeGaussian


def spectrum(energy: LatticeGaussian) -> Tensor:
    return torch.linalg.eigvalsh(energy.precision.double())


@pytest.mark.parametrize("condition", [2.0, 10.0, 50.0])
def test_rotated_spectrum(condition: float) -> None:
    energy = LatticeGaussian.rotated(condition=condition)
    eigenvalues = spectrum(energy)
    ratios = eigenvalues[1:] / eigenvalues[:-1]
    torch.testing.assert_close(ratios, torch.full_like(ratios, condition ** (1 / 99)), rtol=1e-5, atol=0)
    torch.testing.assert_close(eigenvalues[0].rsqrt().item(), 4.2, rtol=1e-5, atol=0)
    assert (energy.mean == 10).all()
    covariance = torch.linalg.inv(energy.precision.double())
    correlation = covariance / covariance.diagonal().sqrt().outer(covariance.diagonal().sqrt())
    assert correlation.fill_diagonal_(0).abs().max() > 0.05, "not rotated"
    assert covariance.diagonal().sqrt().min() > 1.7 and covariance.diagonal().sqrt().max() < 4.2


@pytest.mark.parametrize("condition", [2.0, 10.0, 50.0])
def test_sparse_precision(condition: float) -> None:
    energy = LatticeGaussian.sparse(condition=condition)
    A = energy.precision.double()
    S = A.diagonal().sqrt()
    M = A / S.outer(S)
    torch.testing.assert_close((A.diagonal()[-1] / A.diagonal()[0]).item(), condition, rtol=1e-5, atol=0)
    torch.testing.assert_close(1 / S[0].item(), 4.2, rtol=1e-5, atol=0)
    i = torch.arange(100)
    distance = (i[:, None] - i).abs()
    neighbours = (distance == 1) | (distance == 99)
    assert ((M != 0) == neighbours | (distance == 0)).all()
    couplings = M[i, (i + 1) % 100]
    assert abs(couplings.mean()) < 4 * 0.02 and abs(couplings.std() - 0.2) < 4 * 0.2 / 200**0.5
    eigenvalues, of_M = spectrum(energy), torch.linalg.eigvalsh(M)
    assert eigenvalues[0] > 0
    assert eigenvalues[-1] / eigenvalues[0] <= condition * of_M[-1] / of_M[0] * (1 + 1e-5)


@pytest.mark.parametrize("size", [1, 2, 3])
def test_short_cycles(size: int) -> None:
    A = LatticeGaussian.sparse(size, num_values=5, condition=1.0).precision
    torch.testing.assert_close(A.diagonal(), torch.ones(size))
    assert torch.equal(A, A.T)


def test_law_is_the_discretised_gaussian() -> None:
    energy = LatticeGaussian([[0.5, 0.2], [0.2, 0.4]], [9.3, 11.0]).double()
    x = energy.domain.enumerate().double()
    p = (-energy(x)).softmax(0)
    covariance = torch.linalg.inv(energy.precision)
    reference = torch.distributions.MultivariateNormal(energy.mean, covariance)
    torch.testing.assert_close(p, reference.log_prob(x).exp(), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(p @ x, energy.mean, rtol=1e-4, atol=0)


def test_one_value() -> None:
    energy = LatticeGaussian.rotated(3, num_values=1)
    assert energy.value_and_grad(torch.zeros(2, 3))[0].tolist() == [0, 0]


BAD = {
    "shape": ([[1.0, 0.0]], [0.0, 0.0], "shape"),
    "asymmetric": ([[1.0, 0.5], [0.0, 1.0]], [0.0, 0.0], "symmetric"),
    "indefinite": ([[1.0, 2.0], [2.0, 1.0]], [0.0, 0.0], "positive definite"),
}


@pytest.mark.parametrize(("precision", "mean", "message"), BAD.values(), ids=BAD)
def test_bad_arguments(precision: list[list[float]], mean: list[float], message: str) -> None:
    with pytest.raises(UserError, match=message):
        LatticeGaussian(precision, mean)
