"""Stein kernels against autodiff, loops and their zero mean under the law; the level and the power of the test."""

from __future__ import annotations

import math

import pytest
import torch
from helpers_errors import refused
from scipy.integrate import quad

from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import MLP, Energy, Ising, Potts, StandardNormal
from ebmlab.evaluation import exact_samples, stein_discrepancy, stein_test
from ebmlab.evaluation.langevin_stein import langevin_stein
from ebmlab.evaluation.stein import stein_matrix


class Quartic(Energy):
    """An asymmetric law on a line: x^4 / 4 - x^2 + x / 2."""

    domain = Real(1)

    def forward(self, x):
        return (x**4 / 4 - x**2 + x / 2).sum(1)


class Steep(Energy):
    """Two real numbers, one of them asymmetric given the other."""

    domain = Real(2)

    def forward(self, x):
        return x[:, 0] ** 2 / 2 + (x[:, 1] - x[:, 0] ** 2) ** 2 + x[:, 1].exp()


def of_table(domain):
    """An energy with a number of its own for each state."""

    class Table(Energy):
        def __init__(self):
            super().__init__()
            self.domain = domain
            self.values_of_states = torch.nn.Parameter(torch.randn(len(domain.enumerate()), dtype=torch.float64))

        def forward(self, x):
            index = self.domain.to_index(x).flatten(1)
            place = torch.tensor([domain.num_values**i for i in range(domain.size)][::-1])
            return self.values_of_states[(index * place).sum(1)]

    return Table()


DOMAINS = [Binary(3), Spin((2, 2)), Ordinal(2, 4), Categorical(3, 3)]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def test_the_langevin_kernel_is_that_of_autodiff():
    x = torch.randn(5, 2, dtype=torch.float64)
    score, h = -Steep().gradient(x), 1.7
    found = langevin_stein(x, score, bandwidth=h)

    def kernel(a, b):
        return (1 + (a - b).square().sum() / h**2) ** -0.5

    for i in range(5):
        for j in range(5):
            a, b = x[i], x[j]
            of_a, of_b = torch.func.grad(kernel, (0, 1))(a, b)
            both = torch.autograd.functional.hessian(lambda z: kernel(z[:2], z[2:]), torch.cat([a, b]))
            mixed = both[:2, 2:].trace()
            expected = score[i] @ score[j] * kernel(a, b) + score[i] @ of_b + score[j] @ of_a + mixed
            assert found[i, j].item() == pytest.approx(expected.item(), rel=1e-9, abs=1e-9)


def test_the_langevin_kernel_vanishes_on_average_over_the_law():
    grid = torch.linspace(-5, 5, 1001, dtype=torch.float64).unsqueeze(1)
    law = (-Quartic()(grid)).softmax(0)
    u = stein_matrix(Quartic(), grid, 0.8)
    assert (u @ law).abs().max() < 1e-10 * u.abs().max()
    assert (u @ (-StandardNormal(Real(1))(grid)).softmax(0)).abs().max() > 0.1


def test_a_moved_normal_law_has_the_discrepancy_of_the_closed_form():
    """Scores of N(0, 1) and N(m, 1) differ by m, so the square is m^2 E k(x, x'), with x - x' of N(0, 2)."""
    m, h = 0.7, 1.3
    mean, _ = quad(lambda z: (1 + 2 * z * z / h**2) ** -0.5 * math.exp(-z * z / 2) / math.sqrt(2 * math.pi), -12, 12)
    draws = [
        stein_discrepancy(StandardNormal(Real(1)), m + torch.randn(200, 1, dtype=torch.float64), bandwidth=h)
        for _ in range(200)
    ]
    found = torch.stack(draws)
    assert abs(found.mean() - m**2 * mean) < 4 * found.std() / 14
    assert found.std() / 14 < 0.02 * m**2 * mean


@pytest.mark.parametrize("domain", DOMAINS, ids=repr)
def test_the_discrete_kernel_is_its_definition_and_vanishes_on_average(domain):
    energy = of_table(domain)
    states = domain.enumerate()
    found = stein_matrix(energy, states, None)
    law, index, size = (-energy(states)).softmax(0).detach(), domain.to_index(states).flatten(1), domain.size
    place = {tuple(row): i for i, row in enumerate(index.tolist())}

    def given_others(i, at):
        """The law of coordinate i, and the one-hot vector of the state's own value."""
        rows = [[*index[at, :i].tolist(), value, *index[at, i + 1 :].tolist()] for value in range(domain.num_values)]
        joint = [float(law[place[tuple(row)]]) for row in rows]
        return [p / sum(joint) - (value == int(index[at, i])) for value, p in enumerate(joint)]

    for a in range(0, len(states), 3):
        for b in range(len(states)):
            expected = 0.0
            for i in range(size):
                apart = sum(int(index[a, j]) != int(index[b, j]) for j in range(size) if j != i)
                both = zip(given_others(i, a), given_others(i, b), strict=True)
                expected += math.exp(-apart / size) * sum(r * s for r, s in both)
            assert found[a, b].item() == pytest.approx(expected, rel=1e-9, abs=1e-9)
    assert (found @ law).abs().max() < 1e-10
    other = torch.randn(len(states), dtype=torch.float64).softmax(0)
    assert other @ found @ other > 1e-3


def rejections(energy, draws, **options):
    """How many of the sets of states are rejected at the level 0.05."""
    return sum(stein_test(energy, x, num_bootstraps=200, **options).p_value <= 0.05 for x in draws)


def test_the_test_keeps_its_level_on_the_right_law_and_rejects_a_wrong_one():
    """200 tests at the level 0.05: 10 +- 3.1 rejections."""
    normal, bits = StandardNormal(Real(2)), MLP(6, hidden_dim=8, gain=5.0)
    real = torch.randn(200, 100, 2).unbind()
    assert 2 <= rejections(normal, real) <= 22
    assert 2 <= rejections(bits, exact_samples(bits, 20000).view(200, 100, 6).unbind()) <= 22
    assert rejections(normal, torch.randn(20, 100, 2).mul(1.5).unbind()) >= 17
    biased = (torch.rand(20, 100, 6) < 0.7).float()
    assert rejections(bits, biased.unbind()) >= 17


def peaked(domain):
    """A law of couplings so strong that some states are 10,000 times as likely as others."""
    energy = Potts(3, 4) if domain == "classes" else Ising([[0.0, 0.6, -0.5], [0.6, 0.0, 0.7], [-0.5, 0.7, 0.0]], 0.9)
    with torch.no_grad():
        for p in energy.parameters():
            p.normal_()
    return energy


@pytest.mark.parametrize("domain", ["classes", "spins"])
def test_the_test_keeps_its_level_on_peaked_laws(domain):
    """300 tests at the level 0.05: 15 +- 3.8 rejections."""
    energy = peaked(domain)
    draws = exact_samples(energy, 30000).view(300, 100, *energy.domain.event_shape)
    assert 4 <= rejections(energy, draws.unbind()) <= 29
    wrong = energy.domain.random(20 * 100).view(20, 100, *energy.domain.event_shape)
    assert rejections(energy, wrong.unbind()) == 20


def test_draws_that_see_no_rare_state_are_not_rejected():
    """Two spins that agree but in 1 of 1,000 draws: 100 draws change in 0.2 coordinates, and mostly show nothing."""
    energy = Ising([[0.0, 3.5], [3.5, 0.0]])
    draws = exact_samples(energy, 20000).view(200, 100, 2)
    assert rejections(energy, draws.unbind()) <= 10
    assert stein_test(energy, energy.domain.random(100)).p_value < 0.01


def test_correlated_samples_keep_their_level_with_slow_signs():
    """An autoregression of time 19: independent signs reject the right law mostly, slow ones hardly."""
    chains = [torch.randn(100, 1)]
    for _ in range(299):
        chains.append(0.9 * chains[-1] + (1 - 0.81) ** 0.5 * torch.randn(100, 1))
    draws = torch.stack(chains, 1).unbind()
    normal = StandardNormal(Real(1))
    assert rejections(normal, draws) > 30
    assert rejections(normal, draws, change=1 / (4 * 19)) <= 12


def test_what_cannot_be_is_one_line():
    normal = StandardNormal(Real(2))
    x = torch.randn(5, 2)
    broken = x.clone()
    broken[3, 0] = torch.nan
    for call, words in (
        (lambda: stein_discrepancy(normal, broken), "1 of 5 states are not finite"),
        (lambda: stein_discrepancy(normal, x[:1]), "2 or more samples, got 1"),
        (lambda: stein_discrepancy(normal, x[:, :1]), "states of Real"),
        (lambda: stein_discrepancy(normal, 0 * x), "give a bandwidth"),
        (lambda: stein_discrepancy(normal, x, bandwidth=0.0), "must be positive"),
        (lambda: stein_discrepancy(MLP(2), x.round().abs().clamp(max=1), bandwidth=1.0), "no bandwidth"),
        (lambda: stein_test(normal, x, change=0.7), "at most 0.5"),
        (lambda: stein_test(normal, x, num_bootstraps=0), "at least 1"),
        (lambda: stein_discrepancy(Steep(), x + 1000), "gradient of its energy is not finite .* at 5 of 5"),
    ):
        with refused(words):
            call()


def test_a_large_offset_costs_what_float32_costs_the_gradient():
    """States at 1e4 with a spread of 1, in float32: the kernel is that of float64 to 1e-6."""
    x = 1e4 + torch.randn(100, 2)
    score = -(x - 1e4)
    moved = langevin_stein(x.double() - 1e4, score.double(), bandwidth=1.0)
    assert torch.allclose(langevin_stein(x.double(), score.double(), bandwidth=1.0), moved, rtol=1e-9, atol=1e-9)
