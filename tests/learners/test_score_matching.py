"""Score matching against its definition by loops and quadrature, its optimum on a Gaussian, and what it cannot see."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch
from helpers_learner import Linear
from helpers_mutants import mutant
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies import RBM, Energy, RealMLP
from ebmlab.errors import UserError
from ebmlab.learners import DenoisingScoreMatching, ScoreMatching
from ebmlab.learners.denoising_score_matching import denoising_losses
from ebmlab.learners.score_matching import score_losses, sliced_score_losses

D = 3
SIGNS = [torch.tensor(signs, dtype=torch.float64) for signs in itertools.product((-1.0, 1.0), repeat=D)]


class Quadratic(Energy):
    """E(x) = x'Ax / 2 - b'x, A symmetric."""

    def __init__(self, precision: Tensor, shift: Tensor) -> None:
        super().__init__()
        self.domain = Real(len(shift))
        self.a, self.b = nn.Parameter(precision.clone()), nn.Parameter(shift.clone())

    def forward(self, x: Tensor) -> Tensor:
        return ((x @ (self.a + self.a.T) / 2) * x).sum(1) / 2 - x @ self.b


class TwoModes(Energy):
    """Normal laws of a standard deviation at -m and m, the first with weight sigmoid(logit): normalised, on a line."""

    def __init__(self, weight: float, m: float = 4.0, deviation: float = 1.0) -> None:
        super().__init__()
        self.domain = Real(1)
        self.logit = nn.Parameter(torch.tensor(weight, dtype=torch.float64).logit())
        self.m, self.deviation = m, deviation

    def forward(self, x: Tensor) -> Tensor:
        laws = [torch.distributions.Normal(place, self.deviation) for place in (-self.m, self.m)]
        shares = nn.functional.logsigmoid(torch.stack([self.logit, -self.logit]))
        return -torch.stack([share + law.log_prob(x[:, 0]) for share, law in zip(shares, laws, strict=True)]).logsumexp(
            0
        )


def mlp() -> RealMLP:
    torch.manual_seed(0)
    return RealMLP(D, 8, num_layers=2, scale=2.0).double()


def gaussian_data(n: int = 50) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(n, D, dtype=torch.float64) @ torch.randn(D, D, dtype=torch.float64) + torch.arange(D)


def gradients(loss: Tensor, energy: Energy) -> Tensor:
    found = torch.autograd.grad(loss, [*energy.parameters()], allow_unused=True)
    return torch.cat([g.flatten() for g in found if g is not None])


def by_hessians(energy: Energy, x: Tensor) -> Tensor:
    """|dE/dx|^2 / 2 - tr d2E/dx2 of each state, from torch's own Hessians, state by state."""
    losses = []
    for state in x:
        state = state.clone().requires_grad_()
        (grad,) = torch.autograd.grad(energy(state[None])[0], state, create_graph=True)
        hessian = torch.autograd.functional.hessian(lambda s: energy(s[None])[0], state, create_graph=True)
        losses.append(grad.square().sum() / 2 - hessian.trace())
    return torch.stack(losses)


def test_exact_losses_and_their_gradient_are_those_of_the_hessian() -> None:
    energy, x = mlp(), gaussian_data(5)
    expected, found = by_hessians(energy, x), score_losses(energy, x)
    torch.testing.assert_close(found, expected)
    torch.testing.assert_close(gradients(found.mean(), energy), gradients(expected.mean(), energy))


def test_the_mean_over_all_signs_of_the_sliced_loss_is_the_exact_loss() -> None:
    energy, x = mlp(), gaussian_data(5)
    all_signs = [signs.expand_as(x) for signs in SIGNS]
    torch.testing.assert_close(sliced_score_losses(energy, x, all_signs), score_losses(energy, x))
    one = sliced_score_losses(energy, x, [all_signs[1]])
    assert not torch.allclose(one, score_losses(energy, x))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("flat.square().sum(1) / 2 - torch", "flat.square().sum(1) / 2 + torch"),
        ("flat.square().sum(1) / 2", "flat.square().sum(1)"),
        (".flatten(1)[:, i]", ".flatten(1).sum(1)"),
    ],
)
def test_wrong_traces_are_found(old: str, new: str) -> None:
    energy, x = mlp(), gaussian_data(5)
    assert not torch.allclose(mutant(score_losses, old, new)(energy, x), by_hessians(energy, x))


def test_the_learner_draws_signs_and_is_unbiased() -> None:
    energy, x = mlp(), gaussian_data(4)
    learner, exact = ScoreMatching(energy, num_directions=4), score_losses(energy, x).detach()
    torch.manual_seed(2)
    losses = torch.stack([learner.losses(x).detach() for _ in range(500)])
    z = (losses.mean(0) - exact) / (losses.std(0) / len(losses) ** 0.5)
    assert z.abs().max() < 4.5 and losses.std(0).min() > 0
    assert torch.equal(ScoreMatching(energy, form="exact").losses(x).detach(), exact)


def test_the_optimum_on_gaussian_data_is_their_own_mean_and_covariance() -> None:
    x = gaussian_data()
    covariance = torch.cov(x.T, correction=0)
    best = Quadratic(covariance.inverse(), covariance.inverse() @ x.mean(0))
    for losses in (score_losses(best, x), sliced_score_losses(best, x, [signs.expand_as(x) for signs in SIGNS])):
        assert gradients(losses.mean(), best).abs().max() < 1e-9
        assert losses.mean().item() == pytest.approx(-float(covariance.inverse().trace()) / 2)


def test_denoising_losses_are_vincents_times_the_variance() -> None:
    energy, x, noise = mlp(), gaussian_data(4), torch.randn(4, D, dtype=torch.float64)
    sigma = torch.tensor([0.1, 0.5, 1.0, 2.0], dtype=torch.float64)
    found = denoising_losses(energy, x, noise, sigma)
    for k, s in enumerate(sigma):
        noisy = x[k] + s * noise[k]
        vincent = (-energy.gradient(noisy[None])[0] - (x[k] - noisy) / s**2).square().sum() / 2
        assert found[k].item() == pytest.approx((s**2 * vincent).item())


def blurred_losses(losses: Any, energy: Energy, x: Tensor, sigma: float) -> Tensor:
    """The mean over all noise of denoising losses of points on a line, by Gauss and Hermite's rule."""
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(60))
    points, noise = x.repeat_interleave(60, 0), nodes.repeat(len(x)).unsqueeze(1)
    found = losses(energy, points, noise, torch.full((len(points),), sigma, dtype=torch.float64))
    return (found.view(len(x), 60) * weights).sum(1) / math.sqrt(2 * math.pi)


def test_its_gradient_is_that_of_score_matching_on_the_blurred_data() -> None:
    """Vincent's theorem (2011): both losses differ by a constant."""
    torch.manual_seed(3)
    energy, x, sigma = RealMLP(1, 8, num_layers=2).double(), torch.tensor([[-1.0], [0.3]]).double(), 0.7
    nodes, weights = (torch.from_numpy(part) for part in np.polynomial.hermite_e.hermegauss(60))
    blurred = (x + sigma * nodes).flatten().unsqueeze(1)
    share = weights.repeat(2) / weights.sum() / 2
    exact = gradients(sigma**2 * (share * score_losses(energy, blurred)).sum(), energy)
    torch.testing.assert_close(gradients(blurred_losses(denoising_losses, energy, x, sigma).mean(), energy), exact)
    wrong = mutant(denoising_losses, "sigma * grad - noise", "grad - noise")
    assert not torch.allclose(gradients(blurred_losses(wrong, energy, x, sigma).mean(), energy), exact)


def test_the_optimum_of_one_level_is_the_blurred_gaussian() -> None:
    x, sigma = torch.tensor([[-1.0], [0.5], [2.0]]).double(), 0.7  # among quadratic energies, whatever the data's law
    variance, mean = float(x.var(correction=0)) + sigma**2, float(x.mean())
    best = Quadratic(torch.eye(1).double() / variance, torch.ones(1).double() * mean / variance)
    found = gradients(blurred_losses(denoising_losses, best, x, sigma).mean(), best)
    other = Quadratic(torch.tensor([[1 / sigma**2]]).double(), torch.tensor([mean / sigma**2]).double())
    assert found.abs().max() < 1e-9
    assert gradients(blurred_losses(denoising_losses, other, x, sigma).mean(), other).abs().max() > 1e-3


class Levels(Energy):
    """The mixture of normal laws about 0 of several deviations, with learnt weights."""

    def __init__(self, deviations: Tensor, weights: Tensor) -> None:
        super().__init__()
        self.domain = Real(1)
        self.deviations, self.logits = deviations, nn.Parameter(weights.log())

    def forward(self, x: Tensor) -> Tensor:
        terms = self.logits.log_softmax(0) - self.deviations.log() - (x / self.deviations).square() / 2
        return -terms.logsumexp(1)


def test_the_optimum_of_several_levels_is_their_mixture_by_variances() -> None:
    sigmas, data = torch.tensor([0.5, 2.0]).double(), torch.zeros(1, 1).double()

    def gradient(weights: Tensor) -> float:
        energy = Levels(sigmas, weights)
        nodes = torch.linspace(-9, 9, 4001, dtype=torch.float64)
        total = torch.zeros((), dtype=torch.float64)
        for sigma in sigmas:
            law = torch.distributions.Normal(0.0, 1.0).log_prob(nodes).exp() * (nodes[1] - nodes[0])
            points = data.expand(len(nodes), 1)
            total = total + (law * denoising_losses(energy, points, nodes.unsqueeze(1), sigma.expand(len(nodes)))).sum()
        return float(gradients(total, energy).abs().max())

    assert gradient(sigmas.square()) < 1e-9
    assert gradient(torch.ones(2).double()) > 1e-3


def fisher(sigma: float) -> tuple[float, float]:
    """Nats of likelihood, and half the mean squared distance of scores, that weights 1/2 lose where 0.8 is right."""
    x = torch.linspace(-24, 24, 20001, dtype=torch.float64).unsqueeze(1)
    truth, wrong = (TwoModes(weight, deviation=math.hypot(1.0, sigma)) for weight in (0.8, 0.5))
    (a, grad_a), (b, grad_b) = truth.value_and_grad(x), wrong.value_and_grad(x)
    law = (-a).exp() * (x[1] - x[0])
    return (law * (b - a)).sum().item(), (law * (grad_a - grad_b).square()[:, 0]).sum().item() / 2


def test_it_is_blind_to_the_weights_of_separated_modes() -> None:
    """The numbers of the docs: modes 8 standard deviations apart. Noise of half the distance sees the weights."""
    nats, distance = fisher(0.0)
    assert nats == pytest.approx(0.193, abs=5e-4) and distance == pytest.approx(0.000165, abs=1e-6)
    assert 16 * fisher(4.0)[1] == pytest.approx(0.0574, abs=1e-4)  # times sigma^2: DenoisingScoreMatching's loss
    x = torch.linspace(-12, 12, 8001, dtype=torch.float64).unsqueeze(1)
    law = (-TwoModes(0.8)(x)).exp().detach() * (x[1] - x[0])
    half = TwoModes(0.5)
    pulls = [float(gradients((law * losses).sum(), half)) for losses in (score_losses(half, x), half(x))]
    assert abs(pulls[1]) == pytest.approx(0.3, abs=1e-3) and abs(pulls[0]) < 5e-4  # of the logit: J, and likelihood


class Kinked(Energy):
    """A network with ReLU, whose second derivative in x vanishes."""

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.net = Real(2), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x).squeeze(1)


@pytest.mark.parametrize("form", ["exact", "sliced"])
def test_energies_without_second_derivatives_are_refused(form: Any) -> None:
    x = torch.randn(5, 1, dtype=torch.float64)
    with pytest.raises(UserError, match="ScoreMatching: Linear has no second derivative in x"):
        ScoreMatching(Linear(), form=form).losses(x)
    with pytest.raises(UserError, match=r"Kinked has ReLU, whose second derivative is 0: take nn\.SiLU"):
        ScoreMatching(Kinked(), form=form)
    assert DenoisingScoreMatching(Kinked()).losses(torch.randn(5, 2)).shape == (5,)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ScoreMatching(RBM(4, 3)), "ScoreMatching fits energies on Real domains, but RBM lives on Binary"),
        (lambda: ScoreMatching(mlp(), form="both"), 'form is "both"'),  # type: ignore[arg-type]
        (lambda: ScoreMatching(mlp(), num_directions=0), "num_directions is 0"),
        (lambda: DenoisingScoreMatching(RBM(4, 3)), "DenoisingScoreMatching fits energies on Real domains"),
        (lambda: DenoisingScoreMatching(mlp(), noise_levels=[]), "noise_levels is empty"),
        (lambda: DenoisingScoreMatching(mlp(), noise_levels=[0.1, -1.0]), "noise_levels holds other numbers"),
        (lambda: DenoisingScoreMatching(mlp(), noise_levels=0.0), "noise_levels holds other numbers"),
    ],
)
def test_what_does_not_fit_is_refused(make: Any, message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()
