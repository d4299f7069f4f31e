"""Energy discrepancy on states of several kinds, against enumeration of finite parts and quadrature of real ones."""

from __future__ import annotations

import pytest
import scipy.stats
import torch
from helpers_errors import refused
from helpers_tier import cases

from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import Energy, ProductMLP, RealMLP
from ebmlab.learners import EnergyDiscrepancy, Exact, RatioMatching, estimators
from ebmlab.learners.perturbations import perturbed
from ebmlab.product import Product

P, SIGMA = 0.2, 0.6
NOISE = {"flip_probability": P, "noise_level": SIGMA}
DOMAIN = Product(bits=Binary(1), kind=Categorical(1, 3), rank=Ordinal(1, 4), place=Real(1))
GRID = torch.linspace(-6, 6, 161, dtype=torch.float64)
STEP = float(GRID[1] - GRID[0])


class Truth(Energy):
    """A law whose real number depends on the class, the bit and the rank, and is not normal."""

    domain = DOMAIN

    def forward(self, x):
        bit, rank, r = x[:, 0], x[:, 4], x[:, 5]
        centre = x[:, 1:4] @ x.new_tensor([-1.3, 0.2, 1.4])
        return (
            (r - centre) ** 2 * (0.8 + 0.7 * bit) / 2
            + r**4 / 40
            + 1.5 * (rank - 1.2) ** 2
            - bit * r * (0.8 + 0.4 * rank)
        )


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def everything():
    """All states of the finite parts, with the real number on a grid, `(24, 161, 6)`."""
    parts = {name: part.enumerate() for name, part in DOMAIN.parts.items() if name != "place"}
    index = torch.cartesian_prod(*(torch.arange(len(part)) for part in parts.values()))
    finite = torch.cat([x[i].flatten(1) for x, i in zip(parts.values(), index.T, strict=True)], 1).double()
    return torch.cat([finite[:, None].expand(-1, len(GRID), -1), GRID[None, :, None].expand(len(finite), -1, -1)], 2)


def law(energy=None):
    """Probabilities of the states of `everything`, `(24, 161)`."""
    states = everything()
    return (-(energy or Truth())(states.flatten(0, 1))).softmax(0).view(states.shape[:2])


def kernel():
    """The law of one perturbation: of the finite parts `(24, 24)`, and of the real number `(161, 161)`, a density."""
    flip = torch.tensor([[1 - P, P], [P, 1 - P]], dtype=torch.float64)
    other = torch.full((3, 3), P / 2, dtype=torch.float64).fill_diagonal_(1 - P)
    step = torch.zeros(4, 4, dtype=torch.float64)
    for i in range(4):
        step[i, min(i + 1, 3)] += P / 2
        step[i, max(i - 1, 0)] += P / 2
        step[i, i] += 1 - P
    normal = torch.distributions.Normal(0.0, SIGMA)
    return torch.kron(torch.kron(flip, other), step), normal.log_prob(GRID[:, None] - GRID).exp()


def contrast(energy):
    """E[E(x)] + E[log of the sum over x' of q(y | x') exp(-E(x'))], x from the truth and y from q, by summing up."""
    states, p, (finite, real) = everything(), law(), kernel()
    energies = energy(states.flatten(0, 1)).view(p.shape)
    potential = (finite @ (-energies).exp() @ real * STEP).log()
    return (p * energies).sum() + ((finite @ p @ real * STEP) * potential).sum()


def draws(n, p):
    x = everything().flatten(0, 1)[torch.multinomial(p.flatten(), n, replacement=True)]
    x[:, 5] += (torch.rand(n, dtype=torch.float64) - 0.5) * STEP
    return x


def estimate(energy, num_samples, n=6_000):
    """The mean loss over exact draws, and its standard error."""
    loss = EnergyDiscrepancy(num_samples, P, noise_level=SIGMA, stabilizer=0.0)
    losses = torch.stack([loss.loss(energy, part).detach() for part in draws(n, law()).split(500)])
    return losses.mean(), losses.std() / len(losses) ** 0.5


def model():
    energy = ProductMLP(DOMAIN, hidden_dim=8, num_layers=1, scale=2.0).double()
    with torch.no_grad():
        for p in energy.parameters():
            p.mul_(2.0)
    return energy


def test_the_perturbation_is_the_symmetric_kernel_of_each_part():
    finite, _ = kernel()
    states, n = everything()[:, 0], 40_000
    assert torch.equal(finite, finite.T)
    for start in (0, 13, 23):
        y = perturbed(DOMAIN, states[start].expand(n, -1), **NOISE)
        DOMAIN.validate(y)
        found = (y[:, None, :5] == states[:, :5]).all(2).double().sum(0)
        possible = finite[start] > 0
        assert found[~possible].sum() == 0
        law = finite[start][possible].double()
        assert scipy.stats.chisquare(found[possible], law / law.sum() * n).pvalue > 1e-4
        moved = (y - states[start])[:, 5]
        assert scipy.stats.kstest(moved, "norm", (0, SIGMA)).pvalue > 1e-4
        assert (torch.corrcoef(torch.stack([moved, y[:, 0]]))[0, 1]).abs() < 4 / n**0.5
    spins = perturbed(Spin(3), -torch.ones(n, 3), **NOISE)
    assert set(spins.unique().tolist()) == {-1.0, 1.0} and abs((spins > 0).float().mean() - P) < 0.01


@pytest.mark.slow
def test_the_loss_is_the_contrast_of_potentials():
    """For many samples; a kernel that perturbs once, or leaves a part alone, is far off."""
    for energy in (Truth(), model()):
        loss, error = estimate(energy, 200)
        assert abs(loss - contrast(energy).detach()) < 4 * error + 0.02  # the bias of 200 terms


@cases("left_alone", ["bits", "kind", "rank", "place"], fast=[0, 3])
def test_a_part_without_noise_is_caught(left_alone, monkeypatch):
    def partly(domain, x, **noise):
        parts = DOMAIN.split(perturbed(DOMAIN, x, **noise))
        return DOMAIN.join(parts | {left_alone: DOMAIN.split(x)[left_alone]})

    monkeypatch.setattr(estimators, "perturbed", partly)
    loss, error = estimate(Truth(), 200)
    assert abs(loss - contrast(Truth())) > 6 * error + 0.02


@pytest.mark.slow
def test_the_contrast_is_least_at_the_truth():
    """Its slope vanishes there by summing up, and the estimate's by drawing, in a family that holds the truth."""

    class Family(Energy):
        domain = DOMAIN

        def __init__(self):
            super().__init__()
            self.shift = torch.nn.Parameter(torch.zeros(4, dtype=torch.float64))

        def forward(self, x):
            bit, rank, r = x[:, 0], x[:, 4], x[:, 5]
            features = torch.stack([bit, x[:, 2] * r, rank, r * rank], 1)
            return Truth()(x) + features @ self.shift

    family = Family()
    (exact,) = torch.autograd.grad(contrast(family), family.shift)
    assert exact.abs().max() < 1e-5  # the grid ends
    loss = EnergyDiscrepancy(200, P, noise_level=SIGMA, stabilizer=0.0)
    slopes = []
    for x in draws(6_000, law()).split(200):
        slopes.append(torch.autograd.grad(loss.loss(family, x), family.shift)[0])
    slopes = torch.stack(slopes)
    assert (slopes.mean(0).abs() < 4.5 * slopes.std(0) / len(slopes) ** 0.5 + 4e-3).all()


@pytest.mark.slow
def test_a_mixed_law_is_learnt_and_drawn():
    """300 steps on exact draws: the divergence from the truth, by summing up, falls to a few hundredths of a nat."""
    truth, p = Truth(), law()
    learner = RatioMatching(ProductMLP(DOMAIN, hidden_dim=32, num_layers=2, scale=3.0), EnergyDiscrepancy(16, P))
    optimizer = torch.optim.Adam(learner.parameters(), lr=1e-2)
    x = draws(20_000, p).float()

    def divergence():
        with torch.no_grad():
            q = law(lambda x: learner.energy(x.float()).double())
        return float((p * (p / q).log()).sum())

    before = divergence()
    for k in range(300):
        optimizer.param_groups[0]["lr"] = 1e-2 if k < 200 else 1e-3
        optimizer.zero_grad()
        learner.estimator.loss(learner.energy, x[torch.randint(len(x), (200,))]).backward()
        optimizer.step()
    assert before > 0.5 and divergence() < 0.06, (before, divergence())
    drawn = learner.draw(learner.energy.random(500), 40).double()
    DOMAIN.validate(drawn)
    mean, near = (everything().flatten(0, 1) * p.flatten()[:, None]).sum(0), drawn.mean(0)
    assert (mean - near).abs().max() < 0.25
    assert truth(drawn).mean() - (p.flatten() * truth(everything().flatten(0, 1))).sum() < 0.25


def test_real_numbers_alone_have_noise_too():
    """One class of a Gaussian: E = (x - m)^2 / 2 at the right m has the lowest loss."""

    class Shifted(Energy):
        domain = Real(1)

        def __init__(self, mean):
            super().__init__()
            self.mean = mean

        def forward(self, x):
            return (x[:, 0] - self.mean) ** 2 / 2

    x, loss = 0.7 + torch.randn(4000, 1), EnergyDiscrepancy(64, noise_level=1.0)
    losses = [float(loss.loss(Shifted(m), x)) for m in (0.2, 0.7, 1.2)]
    assert losses[1] < min(losses[0], losses[2])


def test_wrong_use_is_one_line():
    for make, words in (
        (lambda: EnergyDiscrepancy(noise_level=0.0), "noise_level is 0.0, but must be positive"),
        (
            lambda: RatioMatching(RealMLP(2), Exact()),
            "the estimator Exact compares states of finite domains, but RealMLP lives on Real",
        ),
        (lambda: RatioMatching(ProductMLP(DOMAIN)), "GradientGuided compares states of finite domains"),
    ):
        with refused(words):
            make()
