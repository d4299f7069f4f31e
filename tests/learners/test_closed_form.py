"""Mean field and TAP: against NumPy from the definition, and against couplings that made exact moments."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import torch

from ebmlab.energies import RBM, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.learners.closed_form import mean_field_, tap_

D, Q = 4, 3


def test_mean_field_of_a_potts_model_is_its_definition_in_numpy() -> None:
    energy = Potts(D, Q, pairs=[[0, 1], [2, 1], [0, 3]]).double()
    x = energy.domain.random(30).double()
    weights = torch.rand(30).double()
    mean_field_(energy, x, weights, pseudo_count=0.4)
    flat, w, k = x.numpy().reshape(30, -1), (weights / weights.sum()).numpy(), Q - 1
    kept = [i * Q + a for i in range(D) for a in range(k)]
    one, two = 0.6 * (w @ flat) + 0.4 / Q, 0.6 * (flat.T * w) @ flat + 0.4 / Q**2
    for i in range(D):
        own = slice(i * Q, (i + 1) * Q)
        two[own, own] = np.diag(one[own])
    inverse = np.linalg.inv((two - np.outer(one, one))[np.ix_(kept, kept)])
    expected, field = np.zeros((D, D, Q, Q)), np.log(one.reshape(D, Q) / one.reshape(D, Q)[:, -1:])
    for i, j in [(0, 1), (1, 2), (0, 3)]:
        expected[i, j, :k, :k] = -inverse[i * k : (i + 1) * k, j * k : (j + 1) * k]
        expected[j, i] = expected[i, j].T
    for i, j in itertools.permutations(range(D), 2):
        field[i] -= expected[i, j] @ one.reshape(D, Q)[j]
    np.testing.assert_allclose(energy.couplings().detach().numpy(), expected, atol=1e-10)
    np.testing.assert_allclose(energy.field.detach().numpy(), field, atol=1e-10)


def errors(scale: float) -> tuple[float, float, float, float]:
    """Errors of couplings and fields by mean field and by TAP, from the exact law as weights."""
    generator = torch.Generator().manual_seed(0)
    truth = scale * torch.randn(D, D, generator=generator).double().triu(1)
    truth, field = truth + truth.T, 0.5 * torch.randn(D, generator=generator).double()
    exact, found = Ising(truth, field), []
    states = exact.domain.enumerate().double()
    for fit in (mean_field_, tap_):
        energy = Ising.learnable(D).double()
        fit(energy, states, (-exact(states)).softmax(0), pseudo_count=1e-9)
        found += [
            float((energy.coupling - truth).abs().max().detach()),
            float((energy.field - field).abs().max().detach()),
        ]
    return found[0], found[1], found[2], found[3]


def test_errors_fall_with_the_couplings_as_the_expansions_say() -> None:
    """Mean field neglects second order in J, TAP third: half of J is a quarter, or an eighth, of the error."""
    large, small = errors(0.04), errors(0.02)
    assert small[0] < large[0] / 3.2 and small[1] < large[1] / 3.2
    assert small[2] < large[2] / 6 and small[3] < large[3] / 6
    assert large[2] < large[0] and large[3] < large[1]


def test_what_has_no_closed_form_is_refused() -> None:
    x = torch.ones(3, 4)
    with pytest.raises(UserError, match="mean_field_ needs a Potts or Ising energy that learns"):
        mean_field_(RBM(4, 2), x)
    with pytest.raises(UserError, match="tap_ needs an Ising energy that learns"):
        tap_(Potts(4, 2), x)
    with pytest.raises(UserError, match="pseudo_count is 0"):
        tap_(Ising.learnable(4), x, pseudo_count=0.0)
