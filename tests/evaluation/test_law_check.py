"""Samples of a law pass, those of a neighbouring law do not, and the expected values are those by enumeration."""

from __future__ import annotations

import pytest
import torch
from helpers_tier import cases

from ebmlab.domains import Spin
from ebmlab.energies import RBM, Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_samples, law_check
from ebmlab.samplers import Gibbs


def small(scale: float = 1.0) -> Ising:
    generator = torch.Generator().manual_seed(0)
    J = scale * torch.randn(5, 5, generator=generator).triu(1)
    return Ising(J + J.T, scale * torch.randn(5, generator=generator))


def test_expected_values_are_sums_over_all_states() -> None:
    energy = small()
    x = energy.domain.enumerate().double()
    law = (-energy(x.float()).double()).softmax(0)
    check = law_check(energy, exact_samples(energy, 100))
    pairs = torch.einsum("n,ni,nj->ij", law, x, x)[tuple(torch.triu_indices(5, 5, 1))]
    expected = torch.cat([(law @ energy(x.float()).double()).view(1), law @ x, pairs])
    torch.testing.assert_close(check.expected, expected, atol=1e-6, rtol=1e-6)
    assert check.names[0] == "E" and check.names[1] == "x0" and check.names[6] == "x0 x1" and len(check.names) == 16


@cases("scale", [0.3, 1.0, 4.0], fast=[2])
def test_false_alarms_are_as_rare_as_it_says(scale: float) -> None:
    """In 200 checks at most 5 % fall below p = 0.05; laws with rare values (scale 4) are no exception."""
    torch.manual_seed(0)
    energy = small(scale)
    below = sum(law_check(energy, exact_samples(energy, 200)).p < 0.05 for _ in range(200))
    assert below <= 20


def test_a_neighbouring_law_is_found_out() -> None:
    torch.manual_seed(0)
    energy, other = small(), small(0.8)
    check = law_check(energy, exact_samples(other, 2000))
    assert not check.follows and str(check).startswith("NOT samples of the law")
    assert law_check(other, exact_samples(other, 2000)).follows


def test_the_same_state_over_and_over_is_found_out() -> None:
    check = law_check(small(), torch.ones(500, 5))
    assert not check.follows and check.distinct == 1


def test_a_law_of_one_state_is_followed_by_it() -> None:
    energy = Ising([[0.0, 0.0], [0.0, 0.0]], field=50.0)
    assert law_check(energy, torch.ones(100, 2)).follows
    assert not law_check(energy, -torch.ones(100, 2)).follows


def test_chains_count_as_their_effective_samples() -> None:
    """The same states are too few as chains that hardly move, and speak against the law as independent draws."""
    torch.manual_seed(0)
    energy = small()
    x, states = exact_samples(energy, 20), []
    for _ in range(200):
        x, _ = Gibbs().sample(energy, x, 1)
        states.append(x)
    chains = torch.stack(states)
    assert law_check(energy, chains).follows
    frozen = exact_samples(energy, 2).expand(200, 2, 5)
    assert law_check(energy, frozen).follows and not law_check(energy, frozen.flatten(0, 1)).follows


def test_a_reference_stands_in_for_the_sum() -> None:
    torch.manual_seed(0)
    energy = small()
    good = exact_samples(energy, 3000)
    assert law_check(energy, exact_samples(energy, 1000), reference=good).follows
    assert not law_check(energy, energy.random(1000), reference=good).follows
    large = Ising.lattice(8, coupling=0.1)
    with pytest.raises(UserError, match="too many"):
        law_check(large, large.random(100))
    assert law_check(large, large.random(100), reference=large.random(100)).count == 100


def test_chains_as_reference_count_as_their_effective_samples() -> None:
    """Chains that hold each state for 50 steps have as many states as draws held once, and no more."""
    torch.manual_seed(0)
    energy = small()
    draws = exact_samples(energy, 150).view(15, 10, 5)
    held, good = draws.repeat_interleave(50, 0), exact_samples(energy, 5000)
    assert law_check(energy, good, reference=held).follows
    assert not law_check(energy, good, reference=held.flatten(0, 1)).follows
    assert not law_check(energy, energy.random(5000), reference=held).follows
    with pytest.raises(UserError, match="at least 30 samples, got 1"):
        law_check(energy, good, reference=good[:1])


def test_bits_of_an_rbm() -> None:
    torch.manual_seed(0)
    energy = RBM(6, 3)
    torch.nn.init.normal_(energy.W)
    assert law_check(energy, exact_samples(energy, 1000)).follows
    assert not law_check(energy, energy.random(1000)).follows


def test_what_cannot_be_checked_is_said() -> None:
    with pytest.raises(UserError, match="at least 30"):
        law_check(small(), torch.ones(10, 5))
    with pytest.raises(UserError, match="is not in"):
        law_check(small(), torch.zeros(100, 5))
    assert small().domain.shape == Spin(5).shape
