"""The search for a preconditioner: which scales it finds, and that they help."""

from __future__ import annotations

import pytest
import torch
from helpers_finite import Quadratic, bias
from torch import Tensor

from ebmlab.domains import Ordinal
from ebmlab.energies import Ising, ResNet, ScalarPotts
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, AnyScale
from ebmlab.samplers.tuners import Preconditioner, TargetAcceptance
from ebmlab.samplers.tuners.any_scale_search import DIAGONALS
from ebmlab.studies.study import Contender, Study
from ebmlab.studies.targets import LatticeGaussian

W = -torch.tensor([[4.0, 0.2, -0.1], [0.2, 0.5, 0.1], [-0.1, 0.1, 0.1]], dtype=torch.float64)


@pytest.mark.slow
@pytest.mark.parametrize("rule", DIAGONALS)
def test_scales_are_those_of_the_curvature(rule: str) -> None:
    torch.manual_seed(0)
    domain = Ordinal(3, 6)
    energy, x = Quadratic(domain, W, 2.0), domain.random(100)
    sampler = DMALA(0.1, precondition=[1.0, 1.0, 7.0])  # an earlier one does not matter
    tuned, last = Preconditioner(rule).tune(sampler, energy, x, 450)
    D = DIAGONALS[rule](W)
    assert isinstance(tuned, DMALA) and tuned.options.precondition is not None
    torch.testing.assert_close(tuned.options.precondition.double(), D.mean() / D, rtol=1e-2, atol=1e-2)
    assert sampler.options.precondition is not None and sampler.options.precondition[2] == 7  # unchanged
    assert tuned.sample(energy, last, 100)[1].acceptance.mean() == pytest.approx(0.574, abs=0.05)
    assert bias(tuned, energy) < 1e-6


@pytest.mark.slow
def test_wide_coordinates_take_longer_steps_at_the_same_acceptance() -> None:
    torch.manual_seed(0)
    energy = LatticeGaussian.sparse(size=16, condition=50.0)
    x, jumps = energy.domain.random(200), []
    for tuner in (TargetAcceptance(), Preconditioner()):
        sampler, y = tuner.tune(DMALA(1.0), energy, x, 600)
        state, squares = sampler.init(energy, y), torch.zeros(16)
        for _ in range(100):
            before = state.x
            state, _ = sampler.step(energy, state)
            squares += (state.x - before).square().mean(0)
        jumps.append(squares / 100)
    assert (jumps[1].max() > 2 * jumps[0].max()) and (jumps[1].mean() > 1.5 * jumps[0].mean())


@pytest.mark.parametrize("rule", DIAGONALS)
def test_spins_without_curvature_have_one_scale(rule: str) -> None:
    torch.manual_seed(0)
    energy = Ising(torch.zeros(4, 4), torch.tensor([0.1, 0.2, 0.3, 0.4]))
    tuned, _ = Preconditioner(rule).tune(DMALA(0.5), energy, energy.domain.random(20), 60)
    torch.testing.assert_close(tuned.options.precondition, torch.ones(4), rtol=1e-3, atol=1e-3)


def test_a_coordinate_without_curvature_gets_a_finite_scale() -> None:
    torch.manual_seed(0)
    energy = Quadratic(Ordinal(2, 5), -torch.diag(torch.tensor([1.0, 0.0], dtype=torch.float64)), 2.0)
    tuned, _ = Preconditioner().tune(DMALA(0.5), energy, energy.domain.random(50), 300)
    scale = tuned.options.precondition
    assert float(scale[1] / scale[0]) == pytest.approx(1000, rel=1e-2)


@pytest.mark.slow
def test_the_rate_is_the_one_asked_for_and_scales_have_the_domains_shape() -> None:
    torch.manual_seed(0)
    energy = LatticeGaussian.sparse(size=16, condition=50.0)
    tuned, last = Preconditioner(rate=0.3).tune(DMALA(0.1), energy, energy.domain.random(100), 600)
    assert tuned.sample(energy, last, 100)[1].acceptance.mean() == pytest.approx(0.3, abs=0.05)
    images = ResNet((4, 4), channels=2)
    tuned, last = Preconditioner().tune(DMALA(0.1), images, images.domain.random(20), 30)
    assert tuned.options.precondition.shape == (4, 4)


def test_a_study_is_refused_before_its_first_sampler_runs() -> None:
    contender = Contender(DMALA(0.1), Preconditioner(), tune_steps=30)
    with pytest.raises(UserError, match=r"samplers\.A on targets\.potts: Preconditioner: its scales are of numbers"):
        Study({"potts": ScalarPotts([[0.0, 0.1], [0.1, 0.0]])}, {"A": contender}).check()


def test_gradients_that_are_not_finite_are_an_error_of_one_line() -> None:
    class Cliff(Ising):
        def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
            value, grad = super().value_and_grad(x)
            return value, grad.masked_fill(x[:, :1] > 0, torch.nan)

    torch.manual_seed(0)
    energy = Cliff(torch.zeros(4, 4))
    with pytest.raises(UserError, match="the curvature needs finite gradients"):
        Preconditioner().tune(DMALA(0.5), energy, energy.domain.random(20), 60)


def test_user_errors() -> None:
    energy = Ising.lattice(2, 0.1)
    x = energy.domain.random(5)
    with pytest.raises(UserError, match='rule is "mean", but must be "shift", "max" or "trace"'):
        Preconditioner("mean")
    with pytest.raises(UserError, match="rate is 1"):
        Preconditioner(rate=1)
    with pytest.raises(UserError, match="tunes DMALA, not AnyScale"):
        Preconditioner().tune(AnyScale(), energy, x, 30)
    with pytest.raises(UserError, match="differences of stochastic gradients are mostly noise"):
        Preconditioner().tune(DMALA(0.1, stochastic=True), energy, x, 30)
    with pytest.raises(UserError, match="num_steps is 2, but its three parts take at least 3"):
        Preconditioner().tune(DMALA(0.1), energy, x, 2)
    potts = ScalarPotts([[0.0, 0.1], [0.1, 0.0]])
    with pytest.raises(UserError, match="its scales are of numbers, but ScalarPotts lives on"):
        Preconditioner().tune(DMALA(0.1), potts, potts.domain.random(5), 30)
