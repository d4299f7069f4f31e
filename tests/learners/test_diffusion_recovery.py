"""Diffusion recovery: its gradient by quadrature, its optimum on a Gaussian in closed form, and its samples."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_mutants import mutant
from helpers_trainer import quiet_trainer
from torch import Tensor, nn

from ebmlab.datamodules import Shapes2D
from ebmlab.domains import Real
from ebmlab.energies import Energy, NoisyEnergy, NoisyMLP, RealMLP
from ebmlab.errors import UserError
from ebmlab.learners import DenoisingScoreMatching, DiffusionRecovery
from ebmlab.learners.diffusion_recovery import Recovery
from ebmlab.samplers import MALA, Info, Sampler, State

Z = torch.linspace(-9, 9, 91, dtype=torch.float64)


class FromGrid(Sampler):
    """Independent draws from an energy on a line, chain by chain, from its values on a grid."""

    domains, exact = (Real,), True

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        n = len(state.x)
        with torch.no_grad():
            values = torch.stack([energy(z.expand(n, 1)) for z in Z], 1)
        cells = torch.multinomial((-values).softmax(1), 1)
        x = Z[cells] + (Z[1] - Z[0]) * (torch.rand_like(state.x) - 0.5)
        return State(x=x, step=state.step + 1), Info(x.new_ones(n), x.new_zeros(n))


class Normal(NoisyEnergy):
    """The normal law with mean m and variance v, plus noise: the truth of data that are normal."""

    def __init__(self, mean: float, variance: float) -> None:
        super().__init__()
        self.domain = Real(1)
        self.mean = nn.Parameter(torch.tensor(mean, dtype=torch.float64))
        self.variance = nn.Parameter(torch.tensor(variance, dtype=torch.float64))

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        return (x[:, 0] - self.mean).square() / (2 * (self.variance + sigma.square()))


class Seen(Normal):
    """Remembers the states and noise levels that it is asked about."""

    def __init__(self) -> None:
        super().__init__(0.0, 1.0)
        self.asked: list[tuple[Tensor, Tensor]] = []

    def noisy(self, x: Tensor, sigma: Tensor) -> Tensor:
        self.asked.append((x[:, 0], sigma))
        return super().noisy(x, sigma)


class Stays(Sampler):
    """Moves nothing, and remembers the laws that it is given."""

    domains, exact = (Real,), True

    def __init__(self) -> None:
        super().__init__()
        self.laws: list[Any] = []

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        self.laws.append(energy)
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        return State(x=state.x, step=state.step + 1), Info(state.x.new_ones(len(state.x)), state.x.new_zeros(1))


def gradients(loss: Tensor, energy: Energy) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, [*energy.parameters()])])


def quiet(learner: Any) -> Any:
    learner.log = learner.log_dict = lambda *_, **__: None
    return learner


def z_scores(learner: Any, x: Tensor, expected: Tensor, steps: int) -> Tensor:
    found = torch.stack([gradients(learner.training_step(x, 0), learner.energy) for _ in range(steps)])
    return (found.mean(0) - expected) / (found.std(0) / steps**0.5 + 1e-12)


def recovery_loss(energy: NoisyEnergy, x: Tensor, levels: list[float]) -> Tensor:
    """The expected -log p(x_t | x') of points x on a line over levels and noise, all by quadrature."""
    nodes = torch.linspace(-4.5, 4.5, 37, dtype=torch.float64)
    law = torch.exp(-nodes.square() / 2)
    law = law / law.sum()
    total = x.new_zeros(())
    for low, high in pairwise(levels):
        step = math.sqrt(high**2 - low**2)
        for point in x:
            before = (point + low * nodes)[:, None].expand(37, 37)
            after = before + step * nodes
            y = after.flatten()[:, None] + step * Z
            energies = energy.noisy(y.reshape(-1, 1), y.new_full((y.numel(),), low)).view(y.shape) + Z.square() / 2
            log_z = (-energies).logsumexp(1).view(37, 37)
            flat = before.reshape(-1, 1)
            data = energy.noisy(flat, flat.new_full((len(flat),), low)).view(37, 37)
            total = total + (law[:, None] * law * (data + log_z)).sum()
    return total / (len(levels) - 1) / len(x)


def test_its_gradient_is_that_of_the_recovery_likelihood() -> None:
    torch.manual_seed(0)
    energy, x, levels = NoisyMLP(1, 4, num_layers=1).double(), torch.tensor([[-1.0], [0.7]]).double(), [0.4, 1.5]
    expected = gradients(recovery_loss(energy, x, [0.0, *levels]), energy)
    batch = x.repeat(40, 1)
    assert (
        z_scores(quiet(DiffusionRecovery(energy, FromGrid(), noise_levels=levels, num_steps=1)), batch, expected, 30)
        .abs()
        .max()
        < 4.5
    )


def test_noise_has_the_width_of_each_level_and_of_the_way_to_the_next() -> None:
    """Both are normal, independent of each other, and added; the mean of the data stays."""
    torch.manual_seed(5)
    n = 100_000
    learner = quiet(DiffusionRecovery(energy := Seen(), walker := Stays(), noise_levels=[0.4, 1.5], num_steps=1))
    levels = torch.tensor([0.0, *learner.noise_levels], dtype=torch.float64)
    learner.training_step(torch.full((n, 1), 3.0, dtype=torch.float64), 0)
    (before, sigma), (law,) = energy.asked[0], walker.laws
    assert torch.equal(law.sigma, sigma) and set(sigma.tolist()) == {0.0, float(levels[1])}
    for low, high in pairwise(levels):
        at = sigma == low
        assert float(at.double().mean()) == pytest.approx(0.5, abs=0.01)
        width = (high**2 - low**2).sqrt()
        assert torch.allclose(law.step.flatten()[at], width)
        parts = {"to here": (before[at] - 3) / low if low else None, "next": (law.after[at, 0] - before[at]) / width}
        for z in (part for part in parts.values() if part is not None):
            moments = z.mean(), z.square().mean(), z.pow(3).mean(), z.pow(4).mean()
            torch.testing.assert_close(torch.stack(moments), levels.new_tensor([0, 1, 0, 3]), atol=0.2, rtol=0)
            torch.testing.assert_close(torch.stack(moments[:2]), levels.new_tensor([0, 1]), atol=0.03, rtol=0)
        if low:
            assert abs(float((parts["to here"] * parts["next"]).mean())) < 0.03
        else:
            assert (before[at] == 3).all()


def test_samples_start_from_noise_of_the_last_level_and_come_down_all() -> None:
    learner = DiffusionRecovery(Normal(0.0, 1.0), walker := Stays(), noise_levels=[0.3, 0.5, 1.3], num_steps=2)
    x = torch.randn(4, 1).double()
    assert len([*learner.walk(x, 2)]) == 6
    torch.testing.assert_close([float(law.step) for law in walker.laws], [1.2, 0.4, 0.3])
    assert [float(law.sigma[0]) for law in walker.laws] == pytest.approx([0.5, 0.3, 0.0])
    for law in walker.laws:
        torch.testing.assert_close(law.after, 1.3 * x)


def test_the_energy_of_a_law_is_the_value_beside_its_gradient() -> None:
    torch.manual_seed(6)
    x, sigma = torch.randn(5, 3).double(), torch.full((5,), 0.3, dtype=torch.float64)
    law, z = Recovery(NoisyMLP(3, 8).double(), x, sigma, 2 * sigma), torch.randn(5, 3).double().requires_grad_()
    value, grad = law.value_and_grad(z)
    torch.testing.assert_close(value, law(z))
    torch.testing.assert_close(grad, torch.autograd.grad(law(z).sum(), z)[0])


def test_the_loss_counts_weights_of_samples_and_parameters() -> None:
    """A sample of weight 0 does not count; `l1` adds to the loss."""
    x = torch.tensor([[0.5], [70.0]], dtype=torch.float64)

    def loss(energy: NoisyEnergy, weights: list[float], l1: float = 0.0) -> float:
        torch.manual_seed(7)
        learner = quiet(DiffusionRecovery(energy, Stays(), noise_levels=[0.5], num_steps=1, l1=l1))
        learner.weights = lambda batch: torch.tensor(weights, dtype=torch.float64)
        return float(learner.training_step(x, 0).detach())

    truth, mlp = Normal(0.5, 1.3), NoisyMLP(1, 4).double()
    assert abs(loss(truth, [2.0, 0.0])) < 5 < abs(loss(truth, [1.0, 1.0])) and DiffusionRecovery.takes_weights
    size = sum(float(p.detach().abs().sum()) for p in mlp.parameters() if p.dim() > 1)
    assert loss(mlp, [1.0, 1.0], 0.1) == pytest.approx(loss(mlp, [1.0, 1.0]) + 0.1 * size)


@pytest.mark.slow
def test_the_optimum_on_normal_data_is_their_mean_and_variance_at_all_levels() -> None:
    torch.manual_seed(1)
    x = torch.randn(100, 1, dtype=torch.float64)
    x = 0.5 + (x - x.mean()) / x.std(correction=0) * 1.3**0.5

    def pull(cls: Any, variance: float) -> float:
        learner = quiet(cls(Normal(0.5, variance), FromGrid(), noise_levels=[0.5, 2.0], num_steps=1))
        return float(z_scores(learner, x, torch.zeros(2), 40).abs().max())

    assert pull(DiffusionRecovery, 1.3) < 4.5 < 6 < pull(DiffusionRecovery, 3.0)
    for old, new in [("self.step * z", "z"), ("normal(x), sigma, step", "normal(x), above, step")]:
        assert pull(mutant(DiffusionRecovery, old, new), 1.3) > 6


def test_samples_come_down_the_levels() -> None:
    """From the true energies of normal data the samples have their mean and variance."""
    torch.manual_seed(2)
    learner = DiffusionRecovery(Normal(0.5, 1.3), MALA(0.3), noise_levels=[0.5, 1.0, 2.0, 4.0, 8.0], num_steps=20)
    x = learner.draw(torch.randn(20_000, 1).double())
    assert float(x.mean()) == pytest.approx(0.5, abs=0.05) and float(x.var()) == pytest.approx(1.3, abs=0.08)
    assert len([*learner.trajectory(torch.randn(3, 1).double(), num_steps=4)]) == 20


def test_the_energy_at_a_level_shares_its_parameters_and_has_the_gradient_of_noisy() -> None:
    torch.manual_seed(3)
    energy, x = NoisyMLP(2, 8, lowest=0.3).double(), torch.randn(5, 2).double()
    sigma = torch.full((5,), 0.3, dtype=torch.float64)
    for same in (energy(x), energy.at(0.3)(x), energy.at(sigma)(x)):
        assert torch.equal(same, energy.noisy(x, sigma))
    assert not torch.allclose(energy.at(0.31)(x), energy(x), rtol=1e-6)
    assert [id(p) for p in energy.at(0.1).parameters()] == [id(p) for p in energy.parameters()]
    torch.testing.assert_close(energy.at(0.3).gradient(x), energy.gradient(x))
    law = Recovery(energy, x, sigma, 2 * sigma)
    z = torch.randn(5, 2).double()
    torch.testing.assert_close(law(z), energy.noisy(x + 0.6 * z, sigma) + z.square().sum(1) / 2)


def test_denoising_trains_an_energy_at_its_noise_levels() -> None:
    """For normal data the loss of each level has its optimum at the variance of data plus noise."""
    torch.manual_seed(4)
    x = torch.randn(4000, 1, dtype=torch.float64)
    x = 0.5 + (x - x.mean()) / x.std(correction=0) * 1.3**0.5
    truth = Normal(0.5, 1.3)
    truth.lowest = 0.5
    learner = quiet(DenoisingScoreMatching(truth, noise_levels=[0.5, 2.0]))
    assert z_scores(learner, x, torch.zeros(2), 60).abs().max() < 4.5
    other = Normal(0.5, 1.6)
    other.lowest = 0.5
    assert (
        z_scores(quiet(DenoisingScoreMatching(other, noise_levels=[0.5, 2.0])), x, torch.zeros(2), 60).abs().max() > 6
    )


def test_any_of_the_noise_levels_may_be_the_lowest() -> None:
    for level in (0.1, 0.3):
        DenoisingScoreMatching(NoisyMLP(2, lowest=level), noise_levels=[0.1, 0.3])


def test_a_trainer_fits_it_and_logs(tmp_path: Path) -> None:
    learner = DiffusionRecovery(NoisyMLP(2, 16), noise_levels=[0.5, 2.0], num_steps=5)
    trainer = quiet_trainer(tmp_path, max_steps=10, log_every_n_steps=1, limit_val_batches=1)
    trainer.fit(learner, Shapes2D(num_samples=500, batch_size=50))
    logged = {name: float(value) for name, value in trainer.callback_metrics.items()}
    assert {"train/energy_gap", "sampler/acceptance", "val/energy"} <= set(logged)
    gap = logged["train/energy_negative"] - logged["train/energy_data"]
    assert logged["train/energy_gap"] == pytest.approx(gap, abs=1e-5) and 0 < logged["sampler/acceptance"] <= 1


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: DiffusionRecovery(RealMLP(2)), "RealMLP takes no noise level: take NoisyMLP"),  # type: ignore[arg-type]
        (lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[1.0, 0.5]), "but must rise"),
        (lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[]), "but must rise"),
        (lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[0.5, 0.5]), "but must rise"),
        (lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[0.5, 1.0, 0.7]), "but must rise"),
        (
            lambda: DiffusionRecovery(NoisyMLP(2), noise_levels=[-1.0, 0.5]),
            "noise_levels holds other numbers|must rise",
        ),
        (lambda: DiffusionRecovery(NoisyMLP(2, lowest=0.1)), "the energy's lowest is 0.1, but must be 0"),
        (
            lambda: DenoisingScoreMatching(NoisyMLP(2), noise_levels=[0.1, 1.0]),
            "lowest = 0, which is none of noise_levels: set lowest to 0.1",
        ),
        (lambda: NoisyMLP(2, unit=0.0), "unit is 0.0"),
        (lambda: NoisyMLP(2, lowest=-1.0), "lowest is -1.0"),
        (lambda: NoisyMLP(0), "num_coordinates is 0"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
