"""The energy of noisy images: its formula term by term, what it sees, and its samples down the noise levels."""

from __future__ import annotations

import math

import pytest
import torch
from scipy.stats import kstest
from torch import Tensor, nn
from torch.nn.functional import conv2d, linear, silu

from ebmlab.domains import Real
from ebmlab.energies import NoisyEnergy, NoisyResNet
from ebmlab.errors import UserError
from ebmlab.learners import DenoisingScoreMatching, DiffusionRecovery
from ebmlab.learners import denoising_score_matching as module
from ebmlab.samplers import MALA


@pytest.fixture(autouse=True)
def _seed() -> None:
    torch.manual_seed(0)


def energy() -> NoisyResNet:
    return NoisyResNet((3, 6, 5), 4, num_halvings=2, scale=1.7, unit=0.8, finest=0.2, lowest=0.3).double()


def test_the_energy_is_its_formula() -> None:
    """Each layer is written out from the parameters."""
    net, x, sigma = energy(), torch.randn(4, 3, 6, 5).double(), torch.tensor([0.0, 0.3, 1.0, 4.0]).double()
    p = dict(net.named_parameters())
    s = (0.8**2 + sigma**2).sqrt()
    angles = (sigma / 0.8 + 1 / 50).log()[:, None] * torch.tensor([0.5, 1.0, 1.5, 2.0]).double()
    level = torch.cat([angles.sin(), angles.cos()], 1)
    h = conv2d(x / s[:, None, None, None], p["entrance.weight"], p["entrance.bias"], padding=1)
    for k in range(3):
        ab = linear(level, p[f"blocks.{k}.level.weight"], p[f"blocks.{k}.level.bias"])[:, :, None, None]
        a, b = ab[:, : h.shape[1]], ab[:, h.shape[1] :]
        inner = conv2d(silu(h), p[f"blocks.{k}.first.weight"], p[f"blocks.{k}.first.bias"], padding=1)
        inner = inner + a * inner + b
        h = h + conv2d(silu(inner), p[f"blocks.{k}.second.weight"], p[f"blocks.{k}.second.bias"], padding=1)
        if k < 2:
            h = conv2d(h, p[f"halvings.{k}.weight"], p[f"halvings.{k}.bias"], stride=2, padding=1)
    assert h.shape[1:] == (16, 2, 2)
    f = silu(h).sum((2, 3)) @ p["linear.weight"][0] + p["linear.bias"]
    expected = s * f / (sigma + 0.2) + x.square().sum((1, 2, 3)) / (2 * (1.7**2 + sigma**2))
    assert torch.allclose(net.noisy(x, sigma), expected)
    assert torch.allclose(net(x), net.noisy(x, torch.full((4,), 0.3).double()))
    assert torch.allclose(net.at(sigma)(x), expected)


def test_z_is_finite_and_every_parameter_learns() -> None:
    net, x = energy(), torch.randn(2, 3, 6, 5).double()
    assert (net(1e4 * x) > 1e6).all()
    loss = DenoisingScoreMatching(net, noise_levels=[0.3, 1.0]).losses(torch.randn(8, 3, 6, 5).double()).mean()
    loss.backward()  # type: ignore[no-untyped-call]
    silent = [name for name, p in net.named_parameters() if p.grad is None or not p.grad.any()]
    assert silent == ["linear.bias"]  # a constant


@pytest.mark.parametrize("learner", [DenoisingScoreMatching, DiffusionRecovery])
def test_both_learners_of_noise_levels_take_images(learner: type[DenoisingScoreMatching]) -> None:
    net = NoisyResNet((3, 4, 4), 4, num_halvings=1, lowest=0.3 if learner is DenoisingScoreMatching else 0.0)
    fitted = learner(net, MALA(0.1), noise_levels=[0.3, 1.0], num_steps=2)
    fitted.log = fitted.log_dict = lambda *_, **__: None  # type: ignore[method-assign]
    before = [p.clone() for p in net.parameters()]
    optimizer = torch.optim.Adam(net.parameters(), lr=0.01)
    fitted.training_step(torch.randn(6, 3, 4, 4), 0).backward()  # type: ignore[no-untyped-call]
    optimizer.step()
    assert sum(not torch.equal(a, b) for a, b in zip(before, net.parameters(), strict=True)) >= len(before) - 1
    assert fitted.draw(torch.randn(5, 3, 4, 4)).isfinite().all()


class TwoModes(NoisyEnergy):
    """Normal laws at -6 and 6 of deviation 1/2 with weights 0.8 and 0.2, plus noise: the truth at each level."""

    lowest = 0.5

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(1)
        self.weights = nn.Parameter(torch.tensor([0.8, 0.2], dtype=torch.float64))

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        variance = (0.25 + sigma.square()).unsqueeze(1)
        away = x - x.new_tensor([-6.0, 6.0])
        return -(self.weights.log() - away.square() / (2 * variance) - variance.log() / 2).logsumexp(1)


def cdf(x: Tensor) -> Tensor:
    """Of the law at the lowest level."""
    normal = torch.distributions.Normal(0.0, math.sqrt(0.5))
    return 0.8 * normal.cdf(x + 6) + 0.2 * normal.cdf(x - 6)


def test_samples_come_down_the_levels_to_the_right_weights() -> None:
    """Chains at the lowest level alone keep the weights of the noise where they begin, which are 1/2."""
    levels = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
    learner = DenoisingScoreMatching(TwoModes(), MALA(0.8), noise_levels=levels, num_steps=25)
    start = torch.randn(4000, 1, dtype=torch.float64)
    states = [*learner.trajectory(start)]
    assert len(states) == 25 * len(levels)
    assert kstest(cdf(states[-1][:, 0]).detach(), "uniform").pvalue > 1e-4
    alone = learner.sampler.last_states(learner.energy, start, 150)
    assert kstest(cdf(alone[:, 0]).detach(), "uniform").pvalue < 1e-20


def test_a_walk_in_the_wrong_unit_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module.InUnits, "forward", lambda self, z: self.law(z))
    learner = DenoisingScoreMatching(TwoModes(), MALA(0.8), noise_levels=[0.5, 1.0, 2.0, 4.0, 8.0, 16.0], num_steps=25)
    x = learner.draw(torch.randn(4000, 1, dtype=torch.float64))
    assert kstest(cdf(x[:, 0]).detach(), "uniform").pvalue < 1e-20


def test_levels_below_the_lowest_are_not_visited() -> None:
    learner = DenoisingScoreMatching(TwoModes(), MALA(0.8), noise_levels=[0.1, 0.5, 2.0], num_steps=3)
    assert len([*learner.trajectory(torch.randn(4, 1, dtype=torch.float64))]) == 6


def test_wrong_use_is_one_line() -> None:
    for make, words in (
        (lambda: NoisyResNet((8, 8)), r"shape is \(8, 8\), but must be \(colours, height, width\)"),
        (lambda: NoisyResNet((3, 8, 8), 0), "channels is 0"),
        (lambda: NoisyResNet((3, 8, 8), finest=0.0), "finest is 0.0"),
    ):
        with pytest.raises(UserError, match=words):
            make()
