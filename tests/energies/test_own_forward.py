"""Energies that derive from one with closed forms and have a forward of their own: nothing follows the old one."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.energies import MLP, RBM, Energy, Ising, ScalarPotts
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_mean
from ebmlab.samplers import ChromaticGibbs, Gibbs, SwendsenWang, Wolff
from ebmlab.studies.targets import LatticeGaussian, LogisticPosterior


class Changed(Energy):
    """In front of another energy: twice that energy, and the product of the first two numbers of x."""

    def forward(self, x: Tensor) -> Tensor:
        flat = x.flatten(1)
        return 2 * super().forward(x) + flat[:, 0] * flat[:, 1]


class Spins(Changed, Ising):
    pass


class Classes(Changed, ScalarPotts):
    pass


class Network(Changed, MLP):
    pass


class Rows(Changed, LogisticPosterior):
    pass


class Integers(Changed, LatticeGaussian):
    pass


class Later(Spins):
    """Inherits the forward and what follows it."""


def energies() -> list[Energy]:
    torch.manual_seed(0)
    return [
        Spins.lattice(2, coupling=0.3, field=0.2),
        Later.lattice(2, coupling=0.3, field=0.2),
        Spins(torch.zeros(3, 3), field=0.2, learn=True),
        Classes([[0.0, 0.5], [0.5, 0.0]]),
        Network(3, 8, gain=5.0),
        Rows([[1.0, 2.0, -1.0], [0.0, 1.0, 1.0]], [0, 1]),
        Integers([[2.0, 1.0], [1.0, 2.0]], [1.0, 1.0], num_values=3),
    ]


@pytest.mark.parametrize("k", range(7))
def test_gradients_and_neighbours_follow_the_own_forward(k: int) -> None:
    energy = energies()[k]
    x = energy.domain.enumerate()
    for mine, general in (
        (energy.value_and_grad(x), Energy.value_and_grad(energy, x)),
        (energy.evaluate(x).grad, Energy.value_and_grad(energy, x)[1]),
        (energy.around(x)[0], energy(x)),
        (energy.value_differences(x), Energy.value_differences(energy, x)),
    ):
        torch.testing.assert_close(mine, general)
    y = Gibbs().last_states(energy, energy.random(5000), 40)
    torch.testing.assert_close(y.mean(0).double(), exact_mean(energy), atol=0.05, rtol=0)


@pytest.mark.parametrize("energy", [energies()[0], energies()[3]], ids=["Ising", "Potts"])
def test_samplers_that_read_the_couplings_refuse_them(energy: Energy) -> None:
    with pytest.raises(
        UserError, match="has a forward of its own, so that its couplings do not say which sites interact"
    ):
        ChromaticGibbs().check(energy)
    for sampler in (SwendsenWang(), Wolff()):
        with pytest.raises(UserError, match="is neither, or overrides forward"):
            sampler.check(energy)


def test_hidden_units_need_a_joint_energy_of_the_new_law() -> None:
    with pytest.raises(UserError, match=r"Biased overrides forward, but its hidden units follow the joint_energy"):

        class Biased(RBM):
            def forward(self, x: Tensor) -> Tensor:
                return super().forward(x) + x.sum(1)
