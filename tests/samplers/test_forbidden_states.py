"""States of infinite energy: kernels, composed energies and estimators of log Z have the right law around them."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import Energy, Mixture, bridge, reference
from ebmlab.evaluation import ais, exact_log_z, exchange_log_z
from ebmlab.evaluation.trajectory import Trajectory
from ebmlab.samplers import DMALA, ChromaticGibbs, Gibbs, HammingBall, Sampler, TrajectoryTempered


class Four(Energy):
    """Any energies of the states of two bits, 00, 01, 10, 11 in the order of `Binary.enumerate`."""

    domains = (Binary,)

    def __init__(self, *energies: float) -> None:
        super().__init__()
        self.domain = Binary(2)
        self.register_buffer("energies", torch.tensor(energies))

    def forward(self, x: Tensor) -> Tensor:
        return self.energies[(x[:, 0] * 2 + x[:, 1]).long()]  # type: ignore[index]


class AtMostTwo(Energy):
    """No state of five bits with more than two ones."""

    domains = (Binary,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Binary(5)

    def forward(self, x: Tensor) -> Tensor:
        ones = x.sum(1)
        return torch.where(ones > 2, torch.inf, -0.3 * ones)


def law(energy: Energy, sampler: Sampler, x: Tensor, steps: int) -> Tensor:
    """Shares of the four states among chains."""
    y, info = sampler.sample(energy, x, steps)
    assert info.acceptance.isfinite().all()
    return (y[:, 0] * 2 + y[:, 1]).long().bincount(minlength=4) / len(y)


def test_a_mixture_has_differences_where_one_part_forbids_x() -> None:
    mixture = Mixture([Four(torch.inf, 0, 1, 2), Four(0, 0, 0, 0)])
    x = mixture.domain.enumerate()
    torch.testing.assert_close(mixture.flip_differences(x), Energy.flip_differences(mixture, x))
    torch.testing.assert_close(mixture.value_differences(x), Energy.value_differences(mixture, x))


def test_a_ball_around_a_forbidden_centre() -> None:
    torch.manual_seed(0)
    energy = Four(torch.inf, 0, math.log(3), torch.inf)
    found = law(energy, HammingBall(2, 1), torch.tensor([[0.0, 1.0]]).repeat(4000, 1), 20)
    assert torch.allclose(found, torch.tensor([0, 0.75, 0.25, 0]), atol=0.03)


def test_gibbs_leaves_a_forbidden_start() -> None:
    torch.manual_seed(0)
    energy = Four(torch.inf, 0, 0, 0)
    y = Gibbs().last_states(energy, torch.zeros(4000, 2), 50)
    assert torch.allclose((y[:, 0] * 2 + y[:, 1]).long().bincount() / 4000, torch.tensor([0, 1, 1, 1]) / 3, atol=0.03)


def test_sites_may_be_certain_in_both_directions() -> None:
    """One bit is pinned to 1 and another to 0: log-odds of opposite infinities, whose sum is no number."""

    class Pinned(Energy):
        domains = (Binary,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.colours = Binary(3), [torch.arange(3)]

        def forward(self, x: Tensor) -> Tensor:
            return torch.where((x[:, 0] == 1) & (x[:, 1] == 0), -x[:, 2], torch.inf)

        def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
            return torch.tensor([torch.inf, -torch.inf, 1.0])[sites].expand(len(x), -1)

    torch.manual_seed(0)
    x, info = ChromaticGibbs().sample(Pinned(), torch.tensor([[1.0, 0.0, 0.0]]).repeat(4000, 1), 5)
    assert (info.acceptance == 1).all()
    assert torch.allclose(x.mean(0), torch.tensor([1.0, 0.0, math.e / (1 + math.e)]), atol=0.03)


@pytest.mark.parametrize("kernel", [Gibbs, lambda: DMALA(0.3)])
def test_annealing_adapts_around_what_is_forbidden(kernel: Callable[[], Sampler]) -> None:
    torch.manual_seed(0)
    energy = AtMostTwo()
    result = ais(energy, kernel(), num_chains=2000, num_temperatures=200, schedule="adaptive")
    assert result.log_z == pytest.approx(float(exact_log_z(energy)), abs=5 * result.std_error)
    assert result.std_error < 0.1


def test_replicas_are_exchanged_around_what_is_forbidden() -> None:
    torch.manual_seed(0)
    energy = AtMostTwo()
    result = exchange_log_z(
        energy, TrajectoryTempered(Gibbs(), []), base=reference(energy.domain), x=torch.zeros(100, 5), num_steps=100
    )
    assert result.log_z == pytest.approx(float(exact_log_z(energy)), abs=max(0.02, 5 * result.std_error))


def test_a_bridge_that_has_not_left_its_base_knows_no_infinity() -> None:
    path = bridge(reference(Binary(5)), AtMostTwo(), beta=0.0)
    assert torch.equal(path(torch.ones(1, 5)), path.base(torch.ones(1, 5)))


@pytest.mark.slow
def test_walls_stay_where_they_are_along_a_training() -> None:
    torch.manual_seed(0)

    class Walled(Energy):
        domains = (Binary,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.bias = Binary(2), torch.nn.Parameter(torch.zeros(2))
            self.register_buffer("walls", torch.tensor([0.0, 0.0, 0.0, torch.inf]))

        def forward(self, x: Tensor) -> Tensor:
            return self.walls[(x[:, 0] * 2 + x[:, 1]).long()] - x @ self.bias  # type: ignore[index]

    energy = Walled()
    trajectory = Trajectory(energy, Gibbs(), reference(energy.domain), num_chains=500)
    energy.bias.data += 1.0
    trajectory.follow(20)
    assert torch.equal(trajectory.state_dict()["at"][1], energy.walls)
    assert trajectory.log_z == pytest.approx(float(exact_log_z(energy)), abs=0.1)
    energy.walls[:] = torch.tensor([0.0, 1.0, torch.inf, 2.0])
    trajectory.follow(20)
    assert torch.equal(trajectory.state_dict()["at"][1], energy.walls)
