"""Completions follow the conditional law, and chains that do not move are noticed."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers_tier import cases
from helpers_trained import PASS, model_of, wild
from scipy import stats
from torch import nn

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import GRBM, RBM, CategoricalRBM, Clamped, Ising, RealMLP, ScalarPotts
from ebmlab.evaluation import exact_mean
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import (
    DULA,
    MALA,
    BlockGibbs,
    Gibbs,
    GibbsLangevin,
    RandomWalk,
    Sampler,
    SwendsenWang,
    Wolff,
)
from ebmlab.testing import chi_square_p
from ebmlab.trained import TrainedModel

pytestmark = pytest.mark.filterwarnings("ignore::lightning_fabric.utilities.warnings.PossibleUserWarning")


@pytest.mark.parametrize("kind", ["RBM", "Ising", "one-hot raw", "classes"])
def test_completions_follow_the_enumerated_conditional(kind: str) -> None:
    n, steps = 4000, 60
    torch.manual_seed(1)
    coupling = torch.randn(5, 5).triu(1)
    energies = {"RBM": wild(RBM(5, 3)), "Ising": Ising(coupling + coupling.T, field=0.3)}
    energy: Any = energies.get(kind, ScalarPotts.lattice(2, 3, coupling=0.5))
    law = Preprocessing(energy.domain.event_shape)
    if kind == "classes":
        law = Preprocessing((4,), num_classes=3)
    model = model_of(energy, law)
    states = energy.domain.enumerate()
    raw = law.to_raw(states)
    size = energy.domain.size
    mask = torch.zeros(size, dtype=torch.bool)
    mask[[0, 3]] = True
    event = states[len(states) // 3 + 1 : len(states) // 3 + 2]
    torch.manual_seed(0)
    found = model.complete(law.to_raw(event), mask, num_samples=n, num_steps=steps)[0]
    assert found.shape == (n, *law.shape)
    index, whole = energy.domain.to_index(states), energy.domain.to_index(event)
    fits = (index[:, mask] == whole[:, mask]).all(1)
    conditional = (-energy(states[fits])).double().softmax(0).detach()
    place = {tuple(row.flatten().tolist()): i for i, row in enumerate(raw[fits])}
    counts = torch.zeros(len(place))
    for row in found:
        counts[place[tuple(row.flatten().tolist())]] += 1  # a KeyError is a coordinate that was given and changed
    assert chi_square_p(counts, conditional) > PASS
    wrong = (-energy(states)).double().softmax(0).detach()[: len(place)]
    assert chi_square_p(counts, wrong / wrong.sum()) < PASS  # the test sees another law


def test_completions_of_real_data_follow_the_gaussian_conditional() -> None:
    """A GRBM whose weights are 0 is a Gaussian in raw numbers; its sampler cannot serve a conditional law."""
    energy = GRBM(3, 2)
    nn.init.zeros_(energy.W)
    learner = ContrastiveDivergence(energy, GibbsLangevin(0.1), start=FromData())
    model = TrainedModel(learner, Preprocessing((3,), mean=(5.0, 6.0, 7.0), std=(2.0, 3.0, 4.0)))
    raw = np.array([[1.5, np.nan, np.nan]])
    found = model.complete(raw, np.array([True, False, False]), num_samples=5000, num_steps=5)
    assert isinstance(found, np.ndarray) and found.shape == (1, 5000, 3)
    assert found[0, :, 0] == pytest.approx(1.5)
    for i, (mean, std) in ((1, (6, 3)), (2, (7, 4))):
        assert stats.kstest(found[0, :, i], stats.norm(mean, std).cdf).pvalue > PASS
    means = model.complete(raw, np.array([True, False, False]), num_steps=1, denoise=True)
    assert means == pytest.approx(np.array([[1.5, 6, 7]]))
    assert model.complete(torch.zeros(2, 3), [1, 0, 0], num_steps=1).shape == (2, 3)


@cases("energy", {"RBM": RBM(5, 3), "CategoricalRBM": CategoricalRBM(4, 3, num_hidden=2)}, fast=("RBM",))
def test_denoised_completions_average_to_the_conditional_mean(energy: Any) -> None:
    """The mean over h of E[v | h]. Means of hidden units in place of h would give another number."""
    torch.manual_seed(0)
    with torch.no_grad():
        for p in energy.parameters():
            p.normal_()
    event, given = energy.domain.random(1), torch.arange(energy.domain.size) % 2 == 0
    clamped = Clamped(energy, event[0], mask=given)
    found = model_of(energy).complete(event, given, num_samples=4000, num_steps=30, denoise=True)[0]
    assert torch.equal(found[:, given], event[:, given].expand_as(found[:, given]))
    drawn, mean = clamped.split(found), exact_mean(clamped)
    assert ((drawn.mean(0) - mean) / drawn.std(0) * math.sqrt(len(drawn))).abs().max() < 4.5


def test_given_numbers_stay_what_they_are() -> None:
    forms = [
        (Preprocessing((1, 1, 3), 255.0, 1.0, (0.31,), (0.7,), unit=True), np.uint8([[77, 3, 0]]), [77 / 255, 3 / 255]),
        (Preprocessing((1, 1, 3), 255.0, 1.0, (0.31,), (0.7,), unit=True), np.float32([[1.01, 0.1, 0]]), [1.01, 0.1]),
        (Preprocessing((3,), 9.0, 7.0, (0.31,), (0.3,)), np.float64([[-123.1, 0.1, np.nan]]), [-123.1, 0.1]),
        (Preprocessing((3,), mean=(1e9 / 3,), std=(1e-3,)), np.float64([[0.1 + 1e9 / 3] * 3]), [0.1 + 1e9 / 3] * 2),
        (Preprocessing((3,), 9.0, 7.0, (0.31,), (0.3,)), torch.tensor([[9, 2, 0]]), [7, 14 / 9]),
    ]
    for form, raw, expected in forms:
        found = model_of(GRBM(3, 2), form).complete(raw, [True, True, False], num_samples=2, num_steps=1)
        given, drawn = torch.as_tensor(found).reshape(2, 3).split([2, 1], 1)
        assert torch.equal(given, torch.tensor([expected] * 2, dtype=torch.float64).to(given))
        assert drawn.isfinite().all() and (form.unit or drawn[0] != drawn[1])


def test_chains_that_stay_in_noise_are_noticed() -> None:
    energy = wild(RBM(40, 30))
    energy.W.data.mul_(10)
    model = TrainedModel(
        ContrastiveDivergence(energy, RandomWalk(num_flips=15), start=FromData()), Preprocessing((40,))
    )
    mask = torch.arange(40) < 3
    line = "the chains of RandomWalk hardly moved: take more steps, or complete by another sampler, such as BlockGibbs$"
    with pytest.warns(UserWarning, match=line):
        model.complete(torch.zeros(2, 40), mask, num_steps=200)
    model.complete(torch.zeros(2, 40), mask, num_steps=20, sampler=BlockGibbs())


def test_no_sampler_is_advised_where_none_serves() -> None:
    model = TrainedModel(ContrastiveDivergence(wild(RealMLP(3, 4)), MALA(1e6), start=FromData()), Preprocessing((3,)))
    with pytest.warns(UserWarning, match="^the chains of MALA hardly moved: take more steps$"):
        model.complete(torch.zeros(1, 3), [True, False, False], num_samples=9, num_steps=20)


@pytest.mark.parametrize("sampler", [SwendsenWang(), Wolff()])
def test_clusters_cannot_be_clamped_so_that_single_sites_complete(sampler: Sampler) -> None:
    """Of a row of aligned spins the first is given: the chance that its k-th neighbour is equal is known."""
    energy = Ising(0.8 * torch.diag(torch.ones(7), 1) + 0.8 * torch.diag(torch.ones(7), -1))
    model = TrainedModel(ContrastiveDivergence(energy, sampler), Preprocessing((8,)))
    torch.manual_seed(0)
    found = model.complete(torch.ones(1, 8), torch.arange(8) == 0, num_samples=3000, num_steps=60)[0]
    expected = math.tanh(0.8) ** torch.arange(8)
    assert float((found.mean(0) - expected).abs().max()) < 4 / math.sqrt(3000)


def test_steps_that_are_all_accepted_and_change_nothing_are_noticed() -> None:
    energy = Ising.lattice(5, 0.3)
    model = TrainedModel(ContrastiveDivergence(energy, DULA(0.1)), Preprocessing((25,)))
    mask = torch.arange(25) < 3
    line = "the chains of DULA hardly moved: take more steps, or complete by another sampler, such as Gibbs$"
    with pytest.warns(UserWarning, match=line):
        model.complete(torch.ones(2, 25), mask, num_steps=100)
    with pytest.warns(UserWarning, match="the chains of Gibbs hardly moved: .* sampler, such as GWG$"):
        model.complete(torch.ones(2, 25), mask, num_steps=1, sampler=Gibbs())
    model.complete(torch.ones(2, 25), mask, num_steps=100, sampler=Gibbs())
    model.complete(torch.ones(2, 25), torch.arange(25) > 0, num_steps=1)  # of one spin nothing can be said
