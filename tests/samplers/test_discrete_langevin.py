"""DULA and DMALA: exact transition matrices, the paper's worked examples, mutants."""

from __future__ import annotations

import pytest
import torch
from helpers_finite import DOMAINS, KINDS, Target, bias, proposal_matches_density
from helpers_grbm import PASS
from helpers_mutants import mutant

from ebmlab.domains import Finite, Ordinal
from ebmlab.samplers import DMALA, MetropolisSampler

SETTINGS = {
    "plain": {},
    "balance": {"balance": 0.8},
    "large": {"step_size": 50.0},
}


def make(domain: Finite, **settings: object) -> DMALA:
    return DMALA(**{"step_size": 0.8, **settings})


@pytest.mark.parametrize("settings", SETTINGS.values(), ids=SETTINGS)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_dmala_leaves_the_law_invariant(domain: Finite, kind: str, settings: dict[str, object]) -> None:
    energy = Target(domain, kind)
    sampler = make(domain, **settings)
    assert bias(sampler, energy) < 1e-10
    assert bias(DMALA(0.8, precondition=torch.linspace(0.3, 3, domain.size)), energy) < 1e-10


@pytest.mark.parametrize("window", [1, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_windowed_edges(kind: str, window: int) -> None:
    energy = Target(Ordinal(2, 5), kind, scale=0.3)
    sampler = DMALA(3.0, window=window)
    assert bias(sampler, energy) < 1e-10
    assert proposal_matches_density(sampler, energy) > PASS


@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_proposals_follow_their_density(domain: Finite) -> None:
    assert proposal_matches_density(DMALA(0.8, balance=0.7), Target(domain, "cubic")) > PASS


MUTANTS = {
    "no reverse term": ("state.energy - new.energy + back - forth", "state.energy - new.energy"),
    "no Metropolis": ("metropolis(state.energy - new.energy + back - forth)", "metropolis(0 * forth)"),
    "one acceptance per batch": (
        "state.energy - new.energy + back - forth",
        "(state.energy - new.energy + back - forth).mean().expand_as(forth)",
    ),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_caught(old: str, new: str) -> None:
    wrong = mutant(MetropolisSampler, old, new)
    sampler = type("Wrong", (DMALA,), {"step": wrong.step})(0.8)
    assert bias(sampler, Target(DOMAINS["binary"], "cubic")) > 1e-3
