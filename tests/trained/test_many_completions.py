"""Completions of many events at once: chains of each follow its own conditional law."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_family import drawn_potts
from helpers_tier import cases
from helpers_trained import PASS, wild
from torch import Tensor

from ebmlab.data.preprocessing import Preprocessing
from ebmlab.energies import RBM, CategoricalRBM, Clamped, Energy, Ising, ScalarPotts
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import DMALA, GWG, BlockGibbs, ChromaticGibbs, Gibbs, GibbsSweep, RandomWalk, Sampler
from ebmlab.testing import chi_square_p
from ebmlab.trained import TrainedModel, model

CHAINS = 3000


def ising() -> Ising:
    coupling = torch.randn(5, 5).triu(1)
    return Ising(coupling + coupling.T, field=0.3)


MODELS: dict[str, tuple[Callable[[], Any], Sampler]] = {
    "RBM": (lambda: wild(RBM(5, 3)), BlockGibbs()),
    "RBM by gradients": (lambda: wild(RBM(5, 3)), DMALA(0.3)),
    "RBM of letters": (lambda: wild(CategoricalRBM(4, 3, num_hidden=2)), BlockGibbs()),
    "Ising": (ising, ChromaticGibbs()),
    "Ising by differences": (ising, GWG()),
    "Potts": (lambda: drawn_potts(4, 3, None, seed=2).float(), GibbsSweep()),
    "one coordinate": (lambda: ScalarPotts.lattice(2, 3, coupling=0.5), Gibbs()),
}


def least_p(energy: Energy, found: Tensor, events: Tensor, mask: Tensor) -> float:
    """Of completions `(N, k, *event)`, those of each event against its enumerated conditional."""
    least = 1.0
    for event, completions in zip(events, found, strict=True):
        one = Clamped(energy, event, mask=mask)
        states = one.domain.enumerate()
        law = -one(states).double().detach()
        free = one.domain.to_index(one.split(completions))
        equal = (free[:, None] == one.domain.to_index(states)).all(2)
        least = min(least, chi_square_p(equal.sum(0).float(), law.softmax(0)))
    return least


@cases("name", {name: name for name in MODELS}, fast=["RBM", "Ising", "Potts"])
def test_each_event_is_completed_by_its_own_law(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(2)
    energy, sampler = MODELS[name][0](), MODELS[name][1]
    events = energy.domain.random(5)
    mask = torch.arange(energy.domain.size).view(energy.domain.shape) % 2 == 1
    trained = TrainedModel(ContrastiveDivergence(energy, sampler), Preprocessing(energy.domain.event_shape))
    monkeypatch.setattr(model, "TOGETHER", 2 * CHAINS)  # two events at a time, and the last alone
    found = trained.complete(events, mask, num_samples=CHAINS, num_steps=40)
    given = mask.view(*mask.shape, *[1] * (events.dim() - 1 - mask.dim())).expand_as(found)
    assert torch.equal(found[given], events[:, None].expand_as(found)[given])
    assert least_p(energy, found, events, mask) > PASS
    assert least_p(energy, found.roll(1, 0), events, mask) < PASS  # the test sees the law of another event


def test_one_event_whose_chains_stay_is_told_among_others() -> None:
    """Under the first spin the others feel nothing if it is down, and a field that no step leaves if it is up."""
    coupling = torch.zeros(30, 30)
    coupling[0, 1:] = coupling[1:, 0] = 20.0
    energy = Ising(coupling, field=torch.tensor([0.0] + [20.0] * 29))
    trained = TrainedModel(ContrastiveDivergence(energy, RandomWalk()), Preprocessing((30,)))
    mask, loose, held = torch.arange(30) == 0, -torch.ones(1, 30), torch.ones(1, 30)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        trained.complete(loose, mask, num_steps=300)
    with pytest.warns(UserWarning, match="hardly moved"):
        trained.complete(torch.cat([loose, held, loose]), mask, num_steps=300)


def test_a_mask_of_one_hot_events() -> None:
    energy = ScalarPotts.lattice(2, 3, coupling=0.5)
    trained = TrainedModel(ContrastiveDivergence(energy, Gibbs()), Preprocessing(energy.domain.event_shape))
    events = energy.domain.random(2)
    mask = (
        torch.tensor([True, False, False, True]).view(energy.domain.shape)[..., None].expand(energy.domain.event_shape)
    )
    found = trained.complete(events, mask, num_steps=2)
    assert torch.equal(found[mask.expand_as(found)], events[mask.expand_as(found)])
    with pytest.raises(UserError, match=r"^mask gives some classes of a coordinate and not the others$"):
        trained.complete(events, torch.rand(energy.domain.event_shape) < 0.5, num_steps=2)
