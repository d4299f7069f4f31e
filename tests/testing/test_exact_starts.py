"""`assert_exact_starts`, and the laws of any size of which exact states are known."""

from __future__ import annotations

import math

import pytest
import torch
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import RGCN, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.samplers import ACS, DMALA, DULA
from ebmlab.testing import ExactLaw, Rugged, Tilted, assert_exact_starts, chi_square_p, planted_rbm
from ebmlab.testing.exact_starts import REJECT, signed_rank_z, smallest_bias, smallest_difference, two_sample_z


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(0)


def small() -> tuple[Energy, Tensor]:
    return planted_rbm(60, 30, scale=0.25)[:2]


@pytest.mark.slow
def test_a_planted_state_follows_the_law_of_its_rbm() -> None:
    """By enumeration: over many RBMs, how often each state is drawn minus its probability under that RBM."""
    surplus, variance = torch.zeros(8), torch.zeros(8)
    for _ in range(1000):
        rbm, v, _ = planted_rbm(3, 2, scale=1.2)
        exact = ExactLaw(rbm)
        p = exact.probabilities
        surplus += torch.nn.functional.one_hot(exact.number(v)[0], 8) - p
        variance += p * (1 - p)
    assert (surplus / variance.sqrt()).abs().max() < 4


def test_planted_counts_follow_their_table() -> None:
    """The mean of exp(v'Wh) over weights of standard deviation s is exp(s^2 n_v n_h / 2)."""
    drawn = torch.zeros(12)
    for _ in range(300):
        _, v, h = planted_rbm(3, 2, scale=0.9)
        drawn[int(3 * v.sum() + h.sum())] += 1
    table = [
        math.comb(3, n) * math.comb(2, m) * math.exp(0.81 * (n * m / 2 - 2 * n / 4 - 3 * m / 4))
        for n in range(4)
        for m in range(3)
    ]
    assert chi_square_p(drawn, torch.tensor(table, dtype=torch.float64) / sum(table)) > 1e-3


def test_tilted_bits_follow_their_law() -> None:
    energy = Tilted(RGCN(4, hidden_dim=8, num_layers=2), density=0.3, strength=4.0)
    assert ExactLaw(energy).p_value(energy.sample(20_000)) > 1e-4


def test_tests_of_symmetry_and_of_two_samples_know_a_shift() -> None:
    x, y = torch.randn(2, 400)
    assert 2 * math.exp(-(REJECT**2) / 2) < 1e-4 < 2 * math.exp(-((REJECT - 0.01) ** 2) / 2)
    assert abs(signed_rank_z(x)) < 3 < REJECT < signed_rank_z(x + 0.5)
    assert abs(two_sample_z(x, y)) < 3 < REJECT < two_sample_z(x + 0.6, y)


def test_the_smallest_bias_is_detected_19_times_in_20() -> None:
    """Of 300 sets of 200 normal rises, and of 200 ends and 200 fresh draws, with that bias on top."""
    plain, others = 2 * torch.randn(2, 300, 200)
    bias, difference = smallest_bias(plain.flatten()[:200]), smallest_difference(others[0])
    rejected = [abs(signed_rank_z(row + bias)) > REJECT for row in plain]
    assert 0.92 < sum(rejected) / 300 < 0.99
    rejected = [abs(two_sample_z(row + difference, fresh)) > REJECT for row, fresh in zip(plain, others, strict=True)]
    assert 0.92 < sum(rejected) / 300 < 0.99
    assert smallest_bias(plain[0, :10]) == math.inf, "ten chains can never say anything"


def test_reversible_kernels() -> None:
    found = assert_exact_starts(DMALA(0.4), small)
    assert abs(found.z) < REJECT and abs(found.mean_rise) < found.smallest_bias < 5
    with pytest.raises(AssertionError, match=r"DULA: chains from 200 exact states .* smallest bias") as e:
        assert_exact_starts(DULA(0.4), small)
    assert "\n" not in str(e.value)


def test_a_cycle_is_held_against_fresh_draws() -> None:
    def cycle(cls: type[ACS]) -> ACS:
        return cls(step_sizes=[0.4, 0.3, 0.2, 0.1], balances=[0.7, 0.6, 0.5, 0.5])

    class Accepting(mutant(ACS, "state.energy - new.energy", "0")):  # type: ignore[misc]
        """Its decisions do not ask for the energy."""

    energy = Tilted(RGCN(10, hidden_dim=8, num_layers=2), 0.3)

    def source() -> tuple[Energy, Tensor]:
        return energy, energy.sample(250)

    assert abs(assert_exact_starts(cycle(ACS), source, num_chains=500, reversible=False).z) < REJECT
    with pytest.raises(AssertionError, match=r"Accepting: .* ranks among fresh exact states give z ="):
        assert_exact_starts(cycle(Accepting), source, num_chains=500, num_steps=12, reversible=False)


def test_another_function_than_the_energy() -> None:
    """A kernel that raises the number of ones and hardly the energy."""

    def kernel(energy: Energy, x: Tensor) -> Tensor:
        return torch.where(torch.rand(x.shape) < 0.02, 1.0, x)

    with pytest.raises(AssertionError, match=r"kernel: .* rises by 0.* on average in 4 steps"):
        assert_exact_starts(kernel, small, function=lambda energy, x: x.sum(1) / 60)


def test_sources_that_do_not_fit() -> None:
    with pytest.raises(UserError, match="the source gave no states"):
        assert_exact_starts(DMALA(0.4), lambda: (Ising.lattice(3, 0.1), torch.zeros(0, 9)))
    with pytest.raises(UserError, match=r"Tilted: the network lives on Spin\(9\)"):
        Tilted(Ising.lattice(3, 0.1))
    assert isinstance(Tilted(Rugged(Binary(3)).float()).domain, Binary)
