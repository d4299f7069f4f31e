"""Noise contrast against its definition by loops, its optimum by quadrature, and log Z against quadrature."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import pytorch_lightning as pl
import torch
from helpers_mutants import mutant
from helpers_trainer import quiet_trainer
from torch import Tensor

from ebmlab.datamodules import Digits, Shapes2D
from ebmlab.domains import Real
from ebmlab.energies import RBM, Energy, Gaussian, RealMLP, StandardNormal
from ebmlab.errors import UserError
from ebmlab.evaluation import plane_integral
from ebmlab.learners import ConditionalNoiseContrast, NoiseContrast
from ebmlab.learners.conditional_noise_contrast import paired_losses
from ebmlab.learners.noise_contrast import FittedGaussian

pytestmark = [
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
    pytest.mark.filterwarnings("ignore:The number of training batches"),
]


class Line(Energy):
    """E(x) = a x^4 + b x^2 + c x on a line: neither symmetric nor quadratic."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(1)
        self.abc = torch.nn.Parameter(torch.tensor([0.05, -0.4, 0.3], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return (self.abc * torch.cat([x**4, x**2, x], 1)).sum(1)


class First(pl.Callback):
    """Notes log Z before the first step."""

    log_z = math.nan

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        First.log_z = pl_module.log_z.item()  # type: ignore[operator, union-attr]


GRID = torch.linspace(-8, 8, 1601, dtype=torch.float64).unsqueeze(1)
WIDTH = 16 / 1600


def law_and_log_z() -> tuple[Tensor, float]:
    """The law of `Line` as weights of the grid's points, and its log Z, by quadrature."""
    energies = Line()(GRID).detach()
    log_z = float((-energies).logsumexp(0)) + math.log(WIDTH)
    return (-energies - log_z).exp() * WIDTH, log_z


def wide_noise() -> Gaussian:
    return Gaussian(torch.tensor([0.5], dtype=torch.float64), torch.tensor([[4.0]], dtype=torch.float64))


def test_losses_are_those_of_the_classifier_by_loops() -> None:
    """-log h(x) - sum over noise of log(1 - h(y)), h = p / (p + nu p_n), from densities that are written out."""
    learner, ratio = NoiseContrast(Line(), noise=wide_noise(), ratio=3), 3
    learner.log_z.data = torch.tensor(1.7, dtype=torch.float64)
    x = torch.randn(5, 1, dtype=torch.float64)
    torch.manual_seed(4)
    found = learner.losses(x)
    torch.manual_seed(4)
    y = wide_noise().sample(ratio * len(x)).view(ratio, len(x), 1)
    normal = torch.distributions.Normal(0.5, 2.0)

    def h(point: Tensor) -> Tensor:
        p = (-learner.energy(point[None])[0] - 1.7).exp()
        return p / (p + ratio * normal.log_prob(point[0]).exp())

    for k in range(len(x)):
        expected = -h(x[k]).log() - torch.stack([(1 - h(y[j, k])).log() for j in range(ratio)]).sum()
        torch.testing.assert_close(found[k], expected)


def expected_gradient(cls: Any, log_z: float, ratio: int = 2) -> Tensor:
    """The gradient of the expected loss in E's parameters and log Z, at the data's own energy, by quadrature."""
    learner = cls(Line(), noise=wide_noise(), ratio=ratio)
    learner.log_z.data = torch.tensor(log_z, dtype=torch.float64)
    data = law_and_log_z()[0]
    noise = (-wide_noise()(GRID) - wide_noise().log_z).exp() * WIDTH
    odds = learner.log_odds(GRID)
    loss = (data * torch.nn.functional.softplus(-odds)).sum()
    loss = loss + ratio * (noise * torch.nn.functional.softplus(odds)).sum()
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [learner.energy.abc, learner.log_z])])


def test_its_optimum_is_the_density_of_the_data_with_its_log_z() -> None:
    log_z = law_and_log_z()[1]
    assert expected_gradient(NoiseContrast, log_z).abs().max() < 1e-9
    assert expected_gradient(NoiseContrast, log_z + 0.2)[3].abs() > 0.01
    for old, new in [
        ("- math.log(self.ratio)", "+ math.log(self.ratio)"),
        ("-self.noise(x) - self", "self.noise(x) - self"),
    ]:
        assert expected_gradient(mutant(NoiseContrast, old, new), log_z).abs().max() > 0.01


def test_the_optimum_of_the_conditional_form_is_the_density_of_the_data() -> None:
    law, points = law_and_log_z()[0][::8] * 8, GRID[::8]
    n = len(points)
    x, y = points.repeat_interleave(n, 0), points.repeat(n, 1)
    move = torch.distributions.Normal(x, 0.7).log_prob(y)[:, 0].exp() * 8 * WIDTH
    share = law.repeat_interleave(n) * move

    def pull(losses: Any, energy: Line) -> float:
        (grad,) = torch.autograd.grad((share * losses(energy, x, y)).sum(), energy.abc)
        return float(grad.abs().max())

    other = Line()
    other.abc.data[1] += 0.1
    assert pull(paired_losses, Line()) < 1e-9 < 1e-2 < pull(paired_losses, other)
    assert pull(mutant(paired_losses, "energy(x) - energy(y)", "energy(y) - energy(x)"), Line()) > 1e-2
    assert pull(mutant(paired_losses, "energy(x) - energy(y)", "2 * (energy(x) - energy(y))"), Line()) > 1e-2


def test_the_conditional_learner_pairs_each_sample_with_its_own_copies() -> None:
    learner, x = ConditionalNoiseContrast(Line(), scale=0.7, ratio=3), torch.randn(4, 1, dtype=torch.float64)
    torch.manual_seed(5)
    found = learner.losses(x)
    torch.manual_seed(5)
    y = x + 0.7 * torch.randn(12, 1, dtype=torch.float64).view(3, 4, 1)
    for k in range(len(x)):
        ratios = (learner.energy(y[:, k]) - learner.energy(x[k][None])).exp()
        torch.testing.assert_close(found[k], -2 * (ratios / (1 + ratios)).log().mean())


def test_the_fitted_noise_is_the_gaussian_of_the_data() -> None:
    torch.manual_seed(6)
    x = torch.randn(400, 2, 3) * torch.arange(1.0, 4.0) + 1
    noise, law = FittedGaussian(Real((2, 3))), Gaussian.fit(x)
    assert noise(x[:3]).tolist() == pytest.approx(StandardNormal(Real((2, 3)))(x[:3]).tolist(), rel=1e-5)
    noise.fit_(x)
    assert noise.log_z == pytest.approx(law.log_z, rel=1e-5)
    torch.testing.assert_close(noise(x[:5]), law(x[:5]), rtol=1e-4, atol=1e-4)
    drawn = noise.sample(100_000).flatten(1)
    torch.testing.assert_close(torch.cov(drawn.T), torch.cov(law.sample(100_000).flatten(1).T), rtol=0.05, atol=0.1)


def test_images_of_an_energy_on_flat_numbers_are_fitted_flat(tmp_path: Path) -> None:
    learner, data = NoiseContrast(RealMLP(64, 4)), Digits(batch_size=200)
    quiet_trainer(tmp_path, max_steps=1).fit(learner, data)
    expected = Gaussian.fit(data.states("train").flatten(1))
    assert isinstance(learner.noise, FittedGaussian)
    torch.testing.assert_close((learner.noise.mean, learner.noise.root), (expected.mean, expected.root))


def test_log_z_is_that_of_quadrature_before_and_after_training(tmp_path: Path) -> None:
    """It is first estimated from the noise. Set off by one nat, it is learnt all the same."""
    torch.manual_seed(0)
    data = Shapes2D("8gaussians", num_samples=4000, batch_size=400)
    learner = NoiseContrast(RealMLP(2, 32, num_layers=2), ratio=4, optimizer=partial(torch.optim.Adam, lr=2e-2))
    first = plane_integral(learner.energy, 20.0).log_z
    quiet_trainer(tmp_path, max_steps=1, limit_val_batches=0, callbacks=[First()]).fit(learner, data)
    assert First.log_z == pytest.approx(first, abs=0.1)
    learner.log_z.data.fill_(first - 1)
    trainer = quiet_trainer(tmp_path, max_epochs=25, callbacks=[First()], check_val_every_n_epoch=25)
    trainer.fit(learner, data)
    last = plane_integral(learner.energy, 20.0).log_z
    assert First.log_z == pytest.approx(first - 1) and learner.log_z.item() == pytest.approx(last, abs=0.15)
    found = float(trainer.callback_metrics["val/log_likelihood"])
    exact = -learner.energy(data.states("val")).mean().item() - last
    assert found == pytest.approx(exact, abs=0.15) and found > -4.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: NoiseContrast(RBM(4, 3)), "NoiseContrast fits energies on Real domains, but RBM lives on Binary"),
        (lambda: NoiseContrast(RealMLP(2), ratio=0), "ratio is 0"),
        (
            lambda: NoiseContrast(RealMLP(2), noise=StandardNormal(Real(3))),
            r"the noise lives on Real\(3\), but RealMLP on Real\(2\): give noise on the energy's domain",
        ),
        (lambda: ConditionalNoiseContrast(RealMLP(2), scale=0.0), "scale is 0.0"),
        (lambda: ConditionalNoiseContrast(RealMLP(2), ratio=1.5), "ratio is 1.5"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
