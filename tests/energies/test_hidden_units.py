"""Gaussian and rectified hidden units against quadrature, enumeration of visible states, and draws that are cut off."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers_tier import cases
from scipy.stats import chisquare, kstest
from torch import Tensor

from ebmlab.energies import GRBM, RBM, Bipartite, CategoricalRBM, Clamped, bridge, reference, tempered
from ebmlab.energies.hidden_units import GAUSSIAN, RECTIFIED, GaussianUnits, HiddenUnits, Kind
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, exact_mean, exact_samples
from ebmlab.exchange import write
from ebmlab.learners import ContrastiveDivergence, FromNoise
from ebmlab.samplers import BlockGibbs, Gibbs
from ebmlab.testing import assert_gradient

KINDS: list[Kind] = ["gaussian", "rectified"]
UNITS = {"gaussian": GAUSSIAN, "rectified": RECTIFIED}
GRID = torch.linspace(-20, 20, 40_001, dtype=torch.float64)  # of h; 0 is on it


def weights(kind: str) -> Tensor:
    """Of the trapezoid rule on the numbers that a unit may take."""
    width = torch.full_like(GRID, float(GRID[1] - GRID[0]))
    if kind == "rectified":
        width = torch.where(GRID.abs() < 1e-9, width / 2, width.masked_fill(GRID < 0, 0))
    return width


def machine(kind: Kind, classes: bool = False) -> RBM | CategoricalRBM:
    torch.manual_seed(0)
    energy = CategoricalRBM(3, 3, num_hidden=2, hidden=kind) if classes else RBM(5, 2, hidden=kind)
    for p in energy.double().parameters():
        torch.nn.init.normal_(p, std=0.7)
    return energy


@pytest.mark.parametrize("kind", KINDS)
def test_sums_and_means_are_those_of_quadrature(kind: str) -> None:
    inputs = torch.tensor([-9.0, -2.0, -0.3, 0.0, 0.4, 3.0, 8.0], dtype=torch.float64)
    density = (torch.outer(inputs, GRID) - GRID.square() / 2).exp() * weights(kind)
    units = UNITS[kind]
    torch.testing.assert_close(units.log_sum(inputs.unsqueeze(1)), density.sum(1).log(), rtol=0, atol=2e-5)
    torch.testing.assert_close(units.mean(inputs), density @ GRID / density.sum(1), rtol=1e-4, atol=1e-7)
    torch.testing.assert_close(units.potential(GRID.unsqueeze(1)), GRID.square() / 2)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_the_mean_is_the_derivative_of_the_sum_far_out_too(kind: str, dtype: torch.dtype) -> None:
    inputs = torch.tensor([-1000.0, -60.0, -20.0, -5.0, 0.0, 5.0, 60.0], dtype=dtype, requires_grad=True)
    UNITS[kind].log_sum(inputs).backward()
    torch.testing.assert_close(inputs.grad, UNITS[kind].mean(inputs.detach()), rtol=1e-3, atol=1e-6)


def test_the_variance_of_rectified_units_is_the_second_derivative_far_out_too() -> None:
    """1 - m (m - I) with the mean m, and 1 / I^2 - 6 / I^4 + ... far below 0."""
    inputs = torch.tensor([-300.0, -30.0, -3.0, 0.0, 3.0, 29.0, 31.0, 300.0], dtype=torch.float64, requires_grad=True)
    (mean,) = torch.autograd.grad(RECTIFIED.log_sum(inputs), inputs, create_graph=True)
    (variance,) = torch.autograd.grad(mean.sum(), inputs)
    at, m = inputs.detach(), mean.detach()
    torch.testing.assert_close(variance[2:], 1 - m[2:] * (m[2:] - at[2:]))
    torch.testing.assert_close(variance[:2], at[:2] ** -2 - 6 * at[:2] ** -4 + 50 * at[:2] ** -6, rtol=1e-6, atol=0)


def test_a_rectified_unit_that_is_pushed_down_is_almost_exponential() -> None:
    """E[h] = 1/x - 2/x^3 + 10/x^5 - ... at I = -x."""
    x = torch.tensor([30.0, 300.0], dtype=torch.float64)
    torch.testing.assert_close(RECTIFIED.mean(-x), 1 / x - 2 / x**3 + 10 / x**5, rtol=1e-6, atol=0)


@pytest.mark.parametrize("at", [-1.5, 0.0, 2.0])
def test_rectified_draws_are_normal_ones_above_0(at: float) -> None:
    torch.manual_seed(0)
    cut = at + torch.randn(400_000, dtype=torch.float64)
    cut = cut[cut > 0][:20_000]
    drawn = RECTIFIED.sample(torch.full((20_000,), at, dtype=torch.float64))
    assert drawn.min() >= 0 and kstest(drawn.numpy(), cut.numpy()).pvalue > 1e-3


@pytest.mark.parametrize("at", [-7.9, -8.1, -60.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_rectified_draws_far_below_0(at: float, dtype: torch.dtype) -> None:
    """Against the distribution function by quadrature of exp(at h - h^2 / 2)."""
    torch.manual_seed(0)
    grid = torch.linspace(0, 25 / -at, 20_001, dtype=torch.float64)
    up_to = torch.cumulative_trapezoid((at * grid - grid.square() / 2).exp(), grid)
    drawn = RECTIFIED.sample(torch.full((20_000,), at, dtype=dtype)).double()
    place = torch.searchsorted(grid, drawn).clamp(1, len(up_to)) - 1
    assert kstest((up_to / up_to[-1])[place].numpy(), "uniform").pvalue > 1e-3


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_the_energy_integrates_the_joint_energy_over_h(kind: Kind, classes: bool) -> None:
    energy = machine(kind, classes)
    v, near = energy.domain.enumerate().double(), slice(12_000, 28_001, 20)
    coarse, width = GRID[near], weights(kind)[near] * 20
    h = torch.cartesian_prod(coarse, coarse)
    log_width = torch.cartesian_prod(width, width).prod(1).log()
    for state, found in zip(v[:5], energy(v[:5]).detach(), strict=True):
        joint = energy.joint_energy(state.expand(len(h), *state.shape), h).detach()
        assert float(-(log_width - joint).logsumexp(0)) == pytest.approx(float(found), abs=2e-3)


@pytest.mark.parametrize("classes", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_p_of_v_given_h_is_that_of_the_joint_energy(kind: Kind, classes: bool) -> None:
    energy, h = machine(kind, classes), torch.tensor([[0.3, 1.7]], dtype=torch.float64)
    v = energy.domain.enumerate().double()
    law = (-energy.joint_energy(v, h.expand(len(v), -1))).softmax(0)
    expected = (law @ v.flatten(1)).view(1, *v.shape[1:])
    torch.testing.assert_close(energy.mean_visible(h), expected, rtol=1e-10, atol=1e-10)


def test_gaussian_units_make_a_pairwise_model() -> None:
    energy = machine("gaussian")
    assert isinstance(energy, RBM)
    v = energy.domain.enumerate().double()
    pull = v @ energy.W + energy.b_h
    expected = -v @ energy.b_v - pull.square().sum(1) / 2 - math.log(2 * math.pi)
    torch.testing.assert_close(energy(v), expected, rtol=1e-12, atol=1e-12)


class Means(GaussianUnits):
    """Wrong: mean field in place of draws."""

    def sample(self, inputs: Tensor) -> Tensor:
        return self.mean(inputs)


def p_value(energy: Bipartite, x: Tensor, law: Tensor, num_steps: int) -> float:
    """Of the states after some steps, for their law."""
    places = 2 ** torch.arange(x.shape[1] - 1, -1, -1)
    x, _ = BlockGibbs().sample(energy, x, num_steps)
    counts = torch.bincount((x.long() @ places), minlength=len(law))
    return float(chisquare(counts.numpy(), (law * len(x)).numpy()).pvalue)


@pytest.mark.parametrize("kind", KINDS)
def test_block_gibbs_keeps_the_law_and_reaches_it_from_a_bad_start(kind: Kind) -> None:
    energy = machine(kind)
    states = energy.domain.enumerate().double()
    law = (-energy(states)).softmax(0).detach()
    torch.manual_seed(1)
    assert p_value(energy, exact_samples(energy, 200_000), law, 1) > 1e-3
    assert p_value(energy, states[law.argmin()].expand(20_000, -1), law, 60) > 1e-3
    energy.units = Means()
    assert p_value(energy, states[(torch.rand(200_000, 1) > law.cumsum(0)).sum(1)], law, 1) < 1e-6


@cases("sampler", [BlockGibbs(), Gibbs()], fast=[0])
@pytest.mark.parametrize("kind", KINDS)
def test_annealing_finds_log_z(kind: Kind, sampler: BlockGibbs | Gibbs) -> None:
    energy = machine(kind, classes=True)
    exact = float((-energy(energy.domain.enumerate().double()).detach()).logsumexp(0))
    assert float(exact_log_z(energy)) == pytest.approx(exact, rel=1e-12)
    assert ais(energy, sampler, num_chains=2000, num_temperatures=200).log_z == pytest.approx(exact, abs=0.1)


@pytest.mark.parametrize("kind", KINDS)
def test_both_ends_of_the_bridge(kind: Kind) -> None:
    energy = machine(kind)
    v = energy.domain.enumerate().double()
    start = bridge(reference(energy.domain), energy, beta=0.0)
    assert float((-start(v).detach()).logsumexp(0)) == pytest.approx(start.log_z, rel=1e-12)
    torch.testing.assert_close(bridge(reference(energy.domain), energy, beta=1.0)(v), energy(v))
    path, h = bridge(reference(energy.domain), energy, beta=0.3), torch.tensor([[0.4, 1.1]], dtype=torch.float64)
    assert isinstance(path, Bipartite)
    law = (-path.joint_energy(v, h.expand(len(v), -1))).softmax(0)
    torch.testing.assert_close(path.mean_visible(h)[0], law @ v, rtol=1e-10, atol=1e-10)


@pytest.mark.parametrize("density", ["marginal", "joint"])
@pytest.mark.parametrize("kind", KINDS)
def test_contrastive_divergence_at_equilibrium_follows_the_likelihood(kind: Kind, density: str) -> None:
    energy = machine(kind, classes=True)
    x = energy.domain.random(400).double()
    learner = ContrastiveDivergence(energy, Gibbs(block_size=3), start=FromNoise(), density=density)  # type: ignore[arg-type]
    assert_gradient(learner, x)


@pytest.mark.parametrize("kind", KINDS)
def test_clamped_and_tempered_ones(kind: Kind) -> None:
    energy = machine(kind)
    v = energy.domain.enumerate().double()
    torch.testing.assert_close(tempered(energy, 0.5)(v), 0.5 * energy(v))
    given = Clamped(energy, v[5], mask=torch.tensor([True, False, False, True, False]))
    torch.manual_seed(0)
    x, _ = BlockGibbs().sample(given, given.random(20_000), 40)
    assert (x.mean(0) - exact_mean(given)).abs().max() < 0.02


def test_other_kinds_are_refused(tmp_path: object) -> None:
    with pytest.raises(UserError, match='RBM: hidden is "spins", but must be "bits", "gaussian" or "rectified"'):
        RBM(3, 2, hidden="spins")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="holds hidden units that are bits"):
        write(RBM(3, 2, hidden="rectified"), f"{tmp_path}/model.npz")
    assert isinstance(RBM(3, 2).units, HiddenUnits) and RBM(3, 2).has_bits


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated")  # torch's own forward derivatives ask for it
@pytest.mark.parametrize("kind", ["bits", *KINDS])
@pytest.mark.parametrize("make", [RBM, GRBM, CategoricalRBM])
def test_transforms_of_functions_agree_with_autograd(make: type[Bipartite], kind: Kind) -> None:
    """`vmap`, forward derivatives, Hessians and gradients of each state in the parameters."""
    torch.manual_seed(0)
    sizes: dict[str, Any] = {"num_values": 2} if make is CategoricalRBM else {}
    energy = make(3, num_hidden=4, hidden=kind, **sizes).double()
    for p in energy.parameters():
        torch.nn.init.normal_(p, std=2.0)
    x, along = energy.domain.random(5).double(), torch.randn(5, *energy.domain.event_shape).double()

    def one(v: Tensor) -> Tensor:
        return energy(v.unsqueeze(0))[0]

    def with_parameters(parameters: dict[str, Tensor], v: Tensor) -> Tensor:
        found: Tensor = torch.func.functional_call(energy, parameters, (v.unsqueeze(0),))
        return found[0]

    torch.testing.assert_close(torch.func.vmap(one)(x), energy(x))
    _, rise = torch.func.jvp(energy, (x,), (along,))
    torch.testing.assert_close(rise, (energy.gradient(x) * along).flatten(1).sum(1))
    right = torch.stack([torch.autograd.functional.hessian(one, v) for v in x])
    torch.testing.assert_close(torch.func.vmap(torch.func.hessian(one))(x), right)
    parameters = {name: p.detach() for name, p in energy.named_parameters()}
    each = torch.func.vmap(torch.func.grad(with_parameters), in_dims=(None, 0))(parameters, x)
    for name, grad in torch.func.grad(lambda p: torch.func.functional_call(energy, p, (x,)).sum())(parameters).items():
        torch.testing.assert_close(each[name].sum(0), grad)


@pytest.mark.parametrize("axis", [0, 1])
def test_rectified_units_are_mapped_over_any_axis(axis: int) -> None:
    inputs = torch.randn(3, 4).double()
    found = torch.func.vmap(RECTIFIED.log_sum, in_dims=axis)(inputs)
    torch.testing.assert_close(found, RECTIFIED.log_sum(inputs.movedim(axis, 0)))
