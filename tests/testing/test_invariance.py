"""`assert_invariant`: right kernels pass, and each kind of wrong kernel fails with a line that says what is wrong."""

from __future__ import annotations

import pytest
import torch
from helpers_mutants import mutant
from torch import Tensor

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers import ACS, DMALA, AnyScale, DiscreteSVGD, RelaxedMALA
from ebmlab.testing import Rugged, assert_invariant


def stay(energy: Energy, x: Tensor) -> Tensor:
    return x


def half(energy: Energy, x: Tensor) -> Tensor:
    """Gibbs that never touches the last bit."""
    i = torch.randint(2, (len(x), 1))
    y = x.scatter(1, i, 1 - x.gather(1, i))
    return torch.where((torch.rand(len(x)) < torch.sigmoid(energy(x) - energy(y))).unsqueeze(1), y, x)


def hot(energy: Energy, x: Tensor) -> Tensor:
    """Metropolis at a temperature of 1.001."""
    i = torch.randint(3, (len(x), 1))
    y = x.scatter(1, i, 1 - x.gather(1, i))
    return torch.where((torch.rand(len(x)) < ((energy(x) - energy(y)) / 1.001).exp()).unsqueeze(1), y, x)


def test_exact_kernels_pass() -> None:
    found = assert_invariant(DMALA(0.8), Rugged(Spin(3)))
    assert found.exact and found.error < 1e-14 and found.distance < 1e-6 and found.p_value == 1


def test_every_step_of_a_cycle_is_looked_at() -> None:
    """Only the decisions of the second of three steps, whose step size is 0.5, do not ask for the energy."""

    wrong = mutant(ACS, "state.energy - new.energy", "(settings[0] != 0.5) * (state.energy - new.energy)")

    class Sometimes(wrong):  # type: ignore[misc, valid-type]
        pass

    sampler = Sometimes(step_sizes=[0.8, 0.5, 0.3], balances=[0.5, 0.5, 0.5])
    with pytest.raises(AssertionError, match=r"Sometimes on Rugged: one step \(number 1\) changes the probability"):
        assert_invariant(sampler, Rugged(Binary(3)))
    assert assert_invariant(ACS(step_sizes=[0.8, 0.5, 0.3], balances=[0.5, 0.5, 0.5]), Rugged(Binary(3))).exact


def test_a_bias_far_below_the_noise_of_any_simulation_is_found() -> None:
    with pytest.raises(AssertionError, match=r"hot on Rugged: one step \(number 0\) changes .* which is above 1e-06$"):
        assert_invariant(hot, Rugged(Binary(3)))
    assert assert_invariant(hot, Rugged(Binary(3)), tolerance=0.01).error > 1e-5


def test_the_line_says_where_and_by_how_much() -> None:
    """By hand: on two flat bits a kernel that always goes to (1, 1)."""

    def up(energy: Energy, x: Tensor) -> Tensor:
        return torch.ones_like(x)

    with pytest.raises(AssertionError) as error:
        assert_invariant(up, Rugged(Binary(2), scale=0.0))
    line = "up on Rugged: one step (number 0) changes the probability of x = (1, 1) from 0.25 to 1, by 0.75"
    assert str(error.value) == f"{line}, which is above 1e-06"


@pytest.mark.parametrize("kernel", [stay, half])
def test_a_kernel_that_does_not_reach_every_state_fails(kernel: object) -> None:
    with pytest.raises(AssertionError, match=r"from the least likely state, x = .* do not reach the law") as error:
        assert_invariant(kernel, Rugged(Binary(3)))  # type: ignore[arg-type]
    assert "\n" not in str(error.value)


def test_kernels_with_normal_numbers_are_simulated() -> None:
    right = AnyScale(
        "shift", 2.0, balance=0.8, curvature=torch.eye(4).double(), diagonal=torch.full((4,), 0.1).double()
    )
    found = assert_invariant(right, Rugged(Spin(4)), num_chains=50_000)
    assert not found.exact and found.p_value > 1e-4 and 0 < found.error < 0.01


def test_simulation_finds_a_wrong_kernel_and_one_that_stays() -> None:
    def biased(energy: Energy, x: Tensor) -> Tensor:
        y = torch.where(torch.randn(x.shape) > 0.5, 1 - x, x)
        return torch.where((torch.rand(len(x)) < 0.5).unsqueeze(1), y, x)

    def still(energy: Energy, x: Tensor) -> Tensor:
        return torch.where(torch.randn(x.shape) > 99, 1 - x, x)

    with pytest.raises(AssertionError, match=r"biased on Rugged: after one step from 50000 exact draws"):
        assert_invariant(biased, Rugged(Binary(3)), num_chains=50_000)
    with pytest.raises(AssertionError, match=r"still on Rugged: .* within 100 steps"):
        assert_invariant(still, Rugged(Binary(3)), num_chains=50_000)


def test_simulation_leaves_the_stream_of_random_numbers_alone() -> None:
    torch.manual_seed(0)
    assert_invariant(RelaxedMALA(0.3), Rugged(Binary(2)), num_chains=10_000)
    after = torch.rand(1)
    torch.manual_seed(0)
    assert torch.equal(after, torch.rand(1))


def test_chains_that_see_each_other_are_refused() -> None:
    with pytest.raises(UserError, match="the chains of DiscreteSVGD depend on each other"):
        assert_invariant(DiscreteSVGD(0.1), Rugged(Binary(2)))
