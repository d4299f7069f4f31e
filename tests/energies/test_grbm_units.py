"""GRBMs with Gaussian and rectified hidden units, against quadrature and the multivariate normal law."""

from __future__ import annotations

import math
from itertools import pairwise

import pytest
import torch
from helpers_learner import Fake, Z, gradient, make_learner, parameters, z_scores
from helpers_tier import cases
from torch import Tensor
from torch.distributions import MultivariateNormal

from ebmlab.energies import GRBM, Bipartite, Clamped, Energy, Gaussian, bridge, reference, tempered
from ebmlab.energies.hidden_units import Kind
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, reverse_ais
from ebmlab.evaluation.trajectory import Trajectory
from ebmlab.samplers import MALA, BlockGibbs, GibbsLangevin, Sampler
from ebmlab.testing import chi_square_p

KINDS: list[Kind] = ["gaussian", "rectified"]
TIGHT = {"rtol": 1e-10, "atol": 1e-10}
LINE = torch.linspace(-14, 14, 4001, dtype=torch.float64)
BINS = 12


def machine(kind: Kind, num_visible: int = 1, seed: int = 0) -> GRBM:
    """Two hidden units, and W / sigma stretches by 0.8; the seed moves the biases."""
    grbm = GRBM(num_visible, 2, hidden=kind).double()
    values = {"W": [[0.9, -0.5], [0.3, 0.8]], "mu": [0.6, -0.4], "log_var": [-0.5, 0.4]}
    with torch.no_grad():
        for name, value in values.items():
            getattr(grbm, name).copy_(torch.tensor(value, dtype=torch.float64)[:num_visible])
        grbm.b.copy_(torch.tensor([-0.4, 0.7 + 0.2 * seed]))
        grbm.W.mul_(0.8 / torch.linalg.matrix_norm(grbm.W / grbm.variance.sqrt().unsqueeze(1), 2))
    return grbm


def normal_law(grbm: GRBM) -> MultivariateNormal:
    """The law of v with Gaussian hidden units, from the parameters alone."""
    rows = torch.diag((-grbm.log_var).exp())
    precision = rows - rows @ grbm.W @ grbm.W.T @ rows
    mean = torch.linalg.solve(precision, rows @ (grbm.mu + grbm.W @ grbm.b))
    return MultivariateNormal(mean, precision_matrix=precision)


def line_log_z(energy: Energy) -> Tensor:
    """Log Z of an energy of one number by the trapezoid rule."""
    return (-energy(LINE.unsqueeze(1))).logsumexp(0) + (LINE[1] - LINE[0]).log()


def log_z_over_h(grbm: GRBM, kind: Kind) -> Tensor:
    """Log Z by quadrature over h, where v is integrated out: |mu + W h|^2 against |mu|^2, in units of sigma."""
    rectified = kind == "rectified"  # at its end, the rule has an error that falls with the square of the step
    grid = torch.linspace(0 if rectified else -12, 14, 2001 if rectified else 401, dtype=torch.float64)
    weight = torch.full_like(grid, float(grid[1] - grid[0]))
    weight[0] /= 2
    h = torch.cartesian_prod(grid, grid)
    moved = ((grbm.mu + h @ grbm.W.T).square() - grbm.mu.square()) / grbm.variance
    density = moved.sum(1) / 2 + h @ grbm.b - h.square().sum(1) / 2
    width = torch.cartesian_prod(weight, weight).log().sum(1)
    return (density + width).logsumexp(0) + (2 * math.pi * grbm.variance).log().sum() / 2


def line_law(grbm: GRBM) -> tuple[Tensor, Tensor]:
    """Points of the line and the distribution function of v there."""
    density = (-grbm(LINE.unsqueeze(1))).detach().softmax(0)
    up_to = torch.cumulative_trapezoid(density)
    return LINE[1:], up_to / up_to[-1]


def exact_draws(grbm: GRBM, n: int) -> Tensor:
    at, up_to = line_law(grbm)
    right = torch.searchsorted(up_to, torch.rand(n, dtype=torch.float64)).clamp(1, len(at) - 1)
    return torch.lerp(at[right - 1], at[right], torch.rand(n, dtype=torch.float64)).unsqueeze(1)


def p_value(grbm: GRBM, kind: Kind, v: Tensor, h: Tensor) -> float:
    """Chi-square test of (v, h_1): both levels, P(v) and P(h_1 | v), are uniform and independent."""
    at, up_to = line_law(grbm)
    level = up_to[torch.searchsorted(at, v[:, 0].contiguous()).clamp(max=len(at) - 1)]
    inputs = ((v * (-grbm.log_var).exp()) @ grbm.W + grbm.b)[:, 0].detach()
    above = torch.special.ndtr(inputs - h[:, 0])  # P(h_1 is larger), of a unit that is not cut off
    given = above if kind == "gaussian" else above / torch.special.ndtr(inputs)
    bins = [(part * BINS).long().clamp(0, BINS - 1) for part in (level, given)]
    counts = torch.bincount(bins[0] * BINS + bins[1], minlength=BINS**2)
    return chi_square_p(counts, torch.ones(BINS**2, dtype=torch.float64))


@pytest.mark.parametrize("num_visible", [1, 2])
def test_gaussian_units_give_the_multivariate_normal_law(num_visible: int) -> None:
    grbm = machine("gaussian", num_visible)
    v = 3 * torch.randn(20, num_visible, generator=torch.Generator().manual_seed(0)).double()
    law = normal_law(grbm)
    log_z = -(grbm(law.mean[None]) + law.log_prob(law.mean))
    torch.testing.assert_close(-grbm(v) - log_z, law.log_prob(v), **TIGHT)
    torch.testing.assert_close(log_z.squeeze(), log_z_over_h(grbm, "gaussian"), **TIGHT)
    if num_visible == 1:
        torch.testing.assert_close(line_log_z(grbm), log_z.squeeze(), **TIGHT)


@pytest.mark.parametrize("num_visible", [1, 2])
def test_rectified_units_have_the_same_log_z_over_v_and_over_h(num_visible: int) -> None:
    grbm = machine("rectified", num_visible)
    over_h = float(log_z_over_h(grbm, "rectified").detach())
    if num_visible == 1:
        assert float(line_log_z(grbm).detach()) == pytest.approx(over_h, abs=1e-5)  # the rule's error at h = 0
        return
    grid = LINE[::10]
    plane = (-grbm(torch.cartesian_prod(grid, grid)).detach()).logsumexp(0) + 2 * (grid[1] - grid[0]).log()
    assert float(plane) == pytest.approx(over_h, abs=1e-5)


@pytest.mark.parametrize("kind", KINDS)
def test_closed_forms_follow_from_the_joint_energy(kind: Kind) -> None:
    """E(v) is the integral over h, its gradient is autograd's, and p(v | h) has its mean and variance."""
    grbm = machine(kind, 2)
    v = 2 * torch.randn(6, 2, generator=torch.Generator().manual_seed(0)).double()
    with torch.inference_mode():
        at = grbm.evaluate(v.clone())
        torch.testing.assert_close((at.energy, at.grad), Energy.value_and_grad(grbm, v.clone()), **TIGHT)
    grid = torch.linspace(0 if kind == "rectified" else -12, 14, 1401, dtype=torch.float64)
    weight = torch.ones_like(grid)
    weight[0] /= 2
    h = torch.cartesian_prod(grid, grid)
    width = torch.cartesian_prod(weight, weight).log().sum(1) + 2 * (grid[1] - grid[0]).log()
    for state, found in zip(v[:3], grbm(v[:3]).detach(), strict=True):
        joint = grbm.joint_energy(state.expand(len(h), 2), h).detach()
        assert float((width - joint).logsumexp(0)) == pytest.approx(-float(found), abs=2e-4)
    some = torch.tensor([[0.3, 1.7]], dtype=torch.float64).expand(6, 2)
    mean, variance = grbm.visible_given_hidden(some)
    rest = grbm.joint_energy(v, some) - ((v - mean).square() / variance).sum(1) / 2
    torch.testing.assert_close(rest, rest[:1].expand(6), **TIGHT)


class Means(type(machine("gaussian").units)):  # type: ignore[misc]
    """Wrong: mean field in place of draws."""

    def sample(self, inputs: Tensor) -> Tensor:
        return self.mean(inputs)


SAMPLERS: list[Sampler] = [BlockGibbs(), GibbsLangevin(0.3, 3, adjust_from=0)]


@pytest.mark.parametrize("sampler", SAMPLERS)
@pytest.mark.parametrize("kind", KINDS)
def test_chains_keep_the_joint_law_and_reach_it_from_a_bad_start(kind: Kind, sampler: Sampler) -> None:
    torch.manual_seed(0)
    grbm = machine(kind).requires_grad_(False)
    for x, num_steps in ((exact_draws(grbm, 100_000), 2), (torch.full((20_000, 1), 6.0).double(), 80)):
        *_, (state, _) = sampler.chain(grbm, x, num_steps)
        assert p_value(grbm, kind, state.x, state.hidden) > 1e-4
    assert p_value(grbm, kind, state.x + 0.1, state.hidden) < 1e-6, "the test has no power"
    wrong = machine(kind).requires_grad_(False)
    wrong.units = Means()
    *_, (state, _) = sampler.chain(wrong, exact_draws(grbm, 100_000), 2)
    assert p_value(grbm, kind, state.x, state.hidden) < 1e-8


@cases("sampler", [BlockGibbs(), MALA(0.3), GibbsLangevin(0.3, 3, adjust_from=0)], fast=[0, 2])
@pytest.mark.parametrize("kind", KINDS)
def test_annealing_finds_log_z(kind: Kind, sampler: Sampler) -> None:
    """From N(0, I), down again from exact draws, and from a Gaussian law of another mean and width."""
    torch.manual_seed(0)
    grbm = machine(kind).requires_grad_(False)
    exact = float(line_log_z(grbm))
    found = ais(grbm, sampler, num_chains=4000, num_temperatures=30)
    assert abs(found.log_z - exact) < 4 * found.std_error < 0.2
    back = reverse_ais(grbm, sampler, exact_draws(grbm, 4000), num_temperatures=30)
    assert abs(back.log_z - exact) < 4 * back.std_error < 0.2
    if not isinstance(sampler, GibbsLangevin):
        base = Gaussian(torch.tensor([0.4]).double(), torch.tensor([[1.7]]).double())
        found = ais(grbm, sampler, num_chains=4000, num_temperatures=30, base=base)
        assert abs(found.log_z - exact) < 4 * found.std_error < 0.2


@pytest.mark.parametrize("kind", KINDS)
def test_the_path_mixes_joint_energies(kind: Kind) -> None:
    """The gains of log Z along the path, by quadrature, add up to that of the energy."""
    grbm = machine(kind).requires_grad_(False)
    start = bridge(reference(grbm.domain), grbm, beta=0.0)
    assert isinstance(start, Bipartite)
    assert float(line_log_z(start)) == pytest.approx(start.log_z, abs=1e-9)
    torch.testing.assert_close(bridge(reference(grbm.domain), grbm, beta=1.0)(LINE[:, None]), grbm(LINE[:, None]))
    gains = []
    for low, high in pairwise([0.0, 0.3, 0.6, 1.0]):
        path = bridge(reference(grbm.domain), grbm, beta=low)
        law = (-path(LINE[:, None])).softmax(0)
        gains.append((law.log() + path.increment(LINE[:, None], high)).logsumexp(0))
    assert float(sum(gains)) + start.log_z == pytest.approx(float(line_log_z(grbm)), abs=1e-9)


def exact_gradient(grbm: GRBM, data: Tensor) -> Tensor:
    """Autograd of -log p, with log Z by the trapezoid rule."""
    grads = torch.autograd.grad(grbm(data).mean() + line_log_z(grbm), parameters(grbm))
    return torch.cat([g.flatten() for g in grads])


@pytest.mark.parametrize("kind", KINDS)
def test_the_learners_gradient_is_the_likelihoods(kind: Kind) -> None:
    """With negatives at quantiles of p(v) to rounding; with draws of (v, h) within their errors."""
    torch.manual_seed(0)
    grbm, data = machine(kind), torch.tensor([[-1.5], [0.2], [0.9], [2.0]], dtype=torch.float64)
    expected = exact_gradient(grbm, data)
    at, up_to = line_law(grbm)
    levels = (torch.arange(100_000, dtype=torch.float64) + 0.5) / 100_000
    right = torch.searchsorted(up_to, levels).clamp(1, len(at) - 1)
    share = (levels - up_to[right - 1]) / (up_to[right] - up_to[right - 1])
    quantiles = torch.lerp(at[right - 1], at[right], share).unsqueeze(1)
    learner, _ = make_learner(grbm, Fake(lambda k, x: (quantiles, None)), density="marginal")
    torch.testing.assert_close(gradient(learner, data), expected, rtol=0, atol=1e-3)

    def draw(k: int, x: Tensor) -> tuple[Tensor, Tensor]:
        v = exact_draws(grbm, 10_000)
        return v, grbm.units.sample(grbm.hidden_given_visible(v)).detach()

    learner, _ = make_learner(grbm, Fake(draw), density="joint")
    assert z_scores(learner, lambda: data.repeat(2500, 1), expected).abs().max() < Z


@pytest.mark.parametrize("given_h", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_the_weighted_sum_is_that_of_joint_energies(kind: Kind, given_h: bool) -> None:
    torch.manual_seed(0)
    grbm, v, weight = machine(kind, 2), torch.randn(9, 2).double(), torch.rand(9).double()
    h = torch.rand(9, 2).double() if given_h else grbm.units.mean(grbm.hidden_given_visible(v)).detach()
    total = grbm.weighted_sum()
    for rows in (slice(0, 4), slice(4, 9)):
        total.add(v[rows], h[rows] if given_h else None, weight=weight[rows])
    expected = (weight * grbm.joint_energy(v, h)).sum()
    torch.testing.assert_close(total.value(), expected, **TIGHT)
    reference = expected if given_h else (weight * grbm(v)).sum()
    ours = torch.autograd.grad(total.value(), parameters(grbm))
    torch.testing.assert_close(ours, torch.autograd.grad(reference, parameters(grbm)), **TIGHT)


def with_weights(kind: Kind, weights: list[list[float]]) -> GRBM:
    grbm = GRBM(len(weights), len(weights[0]), hidden=kind)
    grbm.W.data = torch.tensor(weights)
    return grbm.requires_grad_(False)


IMPROPER = [
    ("gaussian", [[1.01]]),
    ("gaussian", [[0.8, 0.8]]),
    ("gaussian", [[0.9, -0.9]]),
    ("rectified", [[1.01, -0.5]]),
    ("rectified", [[0.8, 0.8]]),
    ("rectified", [[0.9, 0.6], [0.1, 0.5]]),
]
PROPER = [
    ("gaussian", [[0.99]]),
    ("gaussian", [[0.7, 0.7]]),
    ("rectified", [[0.9, -0.9]]),  # never both above 0
    ("rectified", [[-0.9, 0.4, 0.4]]),
    ("bits", [[3.0, 3.0]]),
]


@pytest.mark.parametrize(("kind", "weights"), IMPROPER)
def test_a_law_without_log_z_is_refused(kind: Kind, weights: list[list[float]]) -> None:
    """By samplers, annealing and exact sums, alone, tempered and clamped; E does fall along some direction."""
    grbm = with_weights(kind, weights)
    angles = torch.linspace(0, 2 * math.pi, 721)
    circle = torch.stack([angles.cos(), angles.sin()], 1)[:, : len(weights)]
    assert grbm(1e4 * circle).min() < 0
    x = grbm.random(4)
    line = "GRBM: exp.-E. has no finite integral, because the weights of its hidden units"
    for attempt in (
        lambda: BlockGibbs().sample(grbm, x, 3),
        lambda: MALA(0.1).last_states(tempered(grbm, 0.5), x, 3),
        lambda: ais(grbm, BlockGibbs(), num_chains=4, num_temperatures=3),
        lambda: make_learner(grbm, BlockGibbs())[0].draw(x, num_steps=2),
    ):
        with pytest.raises(UserError, match=line):
            attempt()
    if len(weights) == 2:
        with pytest.raises(UserError, match=line):
            MALA(0.1).sample(Clamped(grbm, torch.zeros(2), mask=[True, False]), x[:, :1], 3)


def test_log_z_along_a_training_is_refused_where_the_law_is_lost() -> None:
    torch.manual_seed(0)
    grbm = machine("gaussian").requires_grad_(False)
    found = Trajectory(grbm, BlockGibbs(), reference(grbm.domain), num_chains=500)
    assert found.log_z == pytest.approx(float(line_log_z(grbm)), abs=0.2)
    grbm.W.mul_(1.3)
    found.follow()
    with pytest.raises(UserError, match="has no finite integral"):
        _ = found.log_z


@pytest.mark.parametrize(("kind", "weights"), PROPER)
def test_a_law_with_log_z_is_not_refused(kind: Kind, weights: list[list[float]]) -> None:
    grbm = with_weights(kind, weights)
    x, _ = BlockGibbs().sample(grbm, grbm.random(50), 50)
    assert x.isfinite().all()


@pytest.mark.parametrize("kind", KINDS)
def test_first_weights_make_a_law_at_any_size(kind: Kind) -> None:
    torch.manual_seed(0)
    for size in ((2, 1), (200, 30), (30, 200), (100, 100)):
        grbm = GRBM(*size, hidden=kind)
        grbm.check_law()
        assert 0.1 < torch.linalg.matrix_norm(grbm.W, 2) < 0.9


def test_what_needs_bits_says_so() -> None:
    grbm = machine("rectified")
    with pytest.raises(UserError, match=r"GibbsLangevin: a temperature of 2\.0 needs hidden units that are bits, but"):
        GibbsLangevin(0.1, temperature=2.0).sample(grbm, grbm.random(2), 1)
    with pytest.raises(UserError, match="exact sums need a finite domain or hidden units that are bits, and GRBM li"):
        exact_log_z(grbm)
    with pytest.raises(UserError, match='GRBM: hidden is "spins", but must be "bits", "gaussian" or "rectified"'):
        GRBM(3, 2, hidden="spins")  # type: ignore[arg-type]
