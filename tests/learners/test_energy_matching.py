"""Energy matching: its flow loss by loops, its optimum on shifted noise in closed form, its pairs by enumeration."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from helpers_mutants import mutant
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies import RBM, Energy, RealMLP
from ebmlab.errors import UserError
from ebmlab.learners import EnergyMatching
from ebmlab.learners.energy_matching import FromFlow, flow, matching_losses, paired
from ebmlab.samplers import MALA, ULA


class Shift(Energy):
    """E(x) = -m'x / T: its flow moves every point by m."""

    def __init__(self, move: Tensor, temperature: float) -> None:
        super().__init__()
        self.domain = Real(len(move))
        self.move, self.temperature = nn.Parameter(move), temperature

    def forward(self, x: Tensor) -> Tensor:
        return -(x @ self.move) / self.temperature


def test_losses_and_their_gradient_are_those_by_loops() -> None:
    torch.manual_seed(0)
    energy, (noise, x), time = RealMLP(3, 8).double(), torch.randn(2, 5, 3).double(), torch.rand(5).double()
    found, expected = matching_losses(energy, noise, x, time, 0.3), []
    for k in range(5):
        point = ((1 - time[k]) * noise[k] + time[k] * x[k]).requires_grad_()
        (grad,) = torch.autograd.grad(energy(point[None]).sum(), point, create_graph=True)
        expected.append(sum((0.3 * grad[i] - (noise[k, i] - x[k, i])) ** 2 for i in range(3)))
    torch.testing.assert_close(found, torch.stack(expected))  # type: ignore[arg-type]
    parameters = [*energy.parameters()][:-1]  # the last bias has no part in the gradient
    for ours, exact in zip(
        torch.autograd.grad(found.sum(), parameters),
        torch.autograd.grad(sum(expected), parameters),  # type: ignore[arg-type]
        strict=True,
    ):
        torch.testing.assert_close(ours, exact)


def test_noise_that_is_moved_is_its_optimum_and_the_flow_carries_it_there() -> None:
    move, temperature = torch.tensor([2.0, -1.0]).double(), 0.3
    noise, time = torch.randn(50, 2).double(), torch.rand(50).double()
    energy = Shift(move, temperature)
    assert matching_losses(energy, noise, noise + move, time, temperature).max() < 1e-20
    torch.testing.assert_close(flow(energy, noise, temperature, 7), noise + move)
    for old, new in [
        ("temperature * grad + x - noise", "temperature * grad - x + noise"),
        ("temperature * grad", "grad"),
    ]:
        assert mutant(matching_losses, old, new)(energy, noise, noise + move, time, temperature).min() > 0.1


def test_pairs_have_the_least_sum_of_squares() -> None:
    torch.manual_seed(1)
    noise, x = torch.randn(2, 6, 3)
    found = (paired(noise, x) - x).square().sum()
    least = min(float((noise[list(order)] - x).square().sum()) for order in itertools.permutations(range(6)))
    assert float(found) == pytest.approx(least)


def test_chains_start_at_data_and_where_the_flow_ends() -> None:
    data = torch.randn(6, 2).double() + 100
    starts = FromFlow(0.3, 5).draw(Shift(torch.tensor([50.0, 0.0]).double(), 0.3), 6, data)
    assert torch.equal(starts[:3], data[:3])
    assert (starts[3:, 0] - 50).abs().max() < 6 and starts[3:, 1].abs().max() < 6


class Flat(Energy):
    """No flow: all stays where it begins."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(2)

    def forward(self, x: Tensor) -> Tensor:
        return 0 * x.sum(1)


def test_the_noise_has_its_scale_in_training_and_for_chains(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    learner = EnergyMatching(Flat(), ULA(1e-9), noise_scale=5.0, warm_up=100, num_steps=1)
    for name in ("log", "log_dict"):
        monkeypatch.setattr(learner, name, lambda *_, **__: None)
    for noise in (FromFlow(1.0, 2, noise_scale=5.0).draw(Flat(), 4000), learner.draw(torch.randn(4000, 2))):
        assert noise.std().item() == pytest.approx(5, rel=0.05)
    loss = learner.training_step(torch.zeros(500, 2), 0)  # |0 - noise|^2 of two coordinates
    assert float(loss) == pytest.approx(2 * 25, rel=0.1)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
def test_a_step_in_half_precision(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = EnergyMatching(RealMLP(2, 8), ULA(0.1), num_steps=1, warm_up=0, contrast_weight=1e-9)
    for name in ("log", "log_dict"):
        monkeypatch.setattr(learner, name, lambda *_, **__: None)
    monkeypatch.setattr("ebmlab.learners.energy_matching.normal", torch.ones_like)
    monkeypatch.setattr("ebmlab.learners.energy_matching.uniform", lambda like: torch.full((len(like),), 0.5))
    x = torch.randn(9, 2, generator=torch.Generator().manual_seed(0))
    exact, coarse = (float(learner.to(kind).training_step(x, 0).detach()) for kind in (torch.float64, dtype))
    assert coarse == pytest.approx(exact, rel=0.02)


def test_the_contrast_comes_after_the_warm_up(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, x = EnergyMatching(RealMLP(2, 8), MALA(0.1), warm_up=3, num_steps=2), torch.randn(8, 2)
    for name in ("log", "log_dict"):
        monkeypatch.setattr(learner, name, lambda *_, **__: None)
    for step, contrasted in ((2, False), (3, True)):
        monkeypatch.setattr(EnergyMatching, "global_step", step)
        learner.energies = None
        learner.training_step(x, 0)
        assert (learner.energies is not None) == contrasted


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: EnergyMatching(RBM(4, 3), MALA(0.1)), "EnergyMatching fits energies on Real domains"),
        (lambda: EnergyMatching(RealMLP(2), MALA(0.1), temperature=0.0), "temperature is 0.0"),
        (lambda: EnergyMatching(RealMLP(2), MALA(0.1), num_flow_steps=0), "num_flow_steps is 0"),
        (lambda: EnergyMatching(RealMLP(2), MALA(0.1), contrast_weight=-1.0), "contrast_weight is -1.0"),
        (lambda: EnergyMatching(RealMLP(2), MALA(0.1), warm_up=-1), "warm_up is -1"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
