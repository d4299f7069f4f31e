"""Clamped energies against conditional laws by enumeration, their samplers' matrices, AIS, and mutants."""

from __future__ import annotations

import copy
import io
import math
from functools import reduce

import pytest
import torch
from helpers_blocks import block_bias, block_matrix
from helpers_errors import refused
from helpers_finite import DOMAINS, Exact, Target, bias, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS, ExactGRBM, last_state, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.data.tables import Rows
from ebmlab.domains import Binary, Categorical, Ordinal, Real, Spin
from ebmlab.energies import (
    GRBM,
    RBM,
    Bipartite,
    Clamped,
    ClampedBipartite,
    Energy,
    Gaussian,
    Ising,
    ScalarPotts,
    Scaled,
    Sum,
    tempered,
)
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, exact_log_z, exact_mean
from ebmlab.samplers import DMALA, DULA, GWG, MALA, BlockGibbs, ChromaticGibbs, Gibbs, Sampler
from ebmlab.studies.targets import BinaryNetPosterior

TIGHT = {"rtol": 1e-11, "atol": 1e-11}


def make_rbm(num_visible: int = 5, num_hidden: int = 3) -> RBM:
    rbm, generator = RBM(num_visible, num_hidden).double(), torch.Generator().manual_seed(0)
    with torch.no_grad():
        for p in rbm.parameters():
            p.copy_(torch.randn(p.shape, dtype=torch.float64, generator=generator))
    return rbm.requires_grad_(False)


def make_ising() -> Ising:
    coupling = Ising.barabasi_albert(7, 2, coupling=0.5).coupling.double()
    return Ising(coupling, field=torch.linspace(-0.6, 0.5, 7))


def make_potts() -> ScalarPotts:
    coupling = Ising.barabasi_albert(4, 2, coupling=0.8).coupling.double()
    return ScalarPotts(coupling, torch.randn(4, 3, generator=torch.Generator().manual_seed(0)))


INNER = {
    **{name: lambda domain=domain: Target(domain, "cubic") for name, domain in DOMAINS.items()},
    "two axes": lambda: Target(Spin((2, 2)), "cubic"),
    "two axes of classes": lambda: Target(Categorical((2, 2), 3), "quadratic"),
    "RBM": make_rbm,
    "warm RBM": lambda: tempered(make_rbm(), 0.6),
    "Ising": make_ising,
    "Potts": make_potts,
}


def given(energy: Energy, cls: type[Clamped] = Clamped) -> Clamped:
    """The energy with the coordinates 1, 3, ... given."""
    torch.manual_seed(5)
    mask = torch.arange(energy.domain.size).view(energy.domain.shape) % 2 == 1
    return cls(energy, energy.domain.random(1)[0].double(), mask=mask)


def conditional_law(energy: Energy, clamped: Clamped) -> Tensor:
    """p(x_free | x_given) from the joint law alone, in the order of the free states."""
    exact = Exact(energy)
    flat = energy.domain.flat(exact.states)
    others = [i for i in range(energy.domain.size) if i not in clamped.free.tolist()]
    agree = (flat[:, others] == energy.domain.flat(clamped.given[None])[:, others]).flatten(1).all(1)
    return exact.probabilities[agree] / exact.probabilities[agree].sum()


@pytest.mark.parametrize("name", INNER)
def test_the_law_is_the_conditional_one(name: str) -> None:
    energy = INNER[name]()
    clamped = given(energy)
    assert type(clamped.domain) is type(energy.domain) and clamped.domain.size == len(clamped.free) < energy.domain.size
    torch.testing.assert_close(Exact(clamped).probabilities, conditional_law(energy, clamped), **TIGHT)
    states = clamped.domain.enumerate().double()
    whole = clamped.merge(states)
    energy.domain.validate(whole)
    assert torch.equal(clamped.split(whole), states) and torch.equal(clamped(states), energy(whole))
    assert len(whole.unique(dim=0)) == len(states)


@pytest.mark.parametrize("name", INNER)
def test_of_several_events_each_has_its_law(name: str) -> None:
    energy = INNER[name]()
    torch.manual_seed(6)
    mask = torch.arange(energy.domain.size).view(energy.domain.shape) % 2 == 1
    events = energy.domain.random(3).double()
    several, alone = Clamped(energy, events, mask=mask), [Clamped(energy, event, mask=mask) for event in events]
    x = several.domain.random(12).double()
    parts = list(zip(alone, x.chunk(3), strict=True))
    torch.testing.assert_close(several(x), torch.cat([one(part) for one, part in parts]), **TIGHT)
    torch.testing.assert_close(several.merge(x), torch.cat([one.merge(part) for one, part in parts]))
    gradients = torch.cat([one.value_and_grad(part)[1] for one, part in parts])
    torch.testing.assert_close(several.value_and_grad(x)[1], gradients, **TIGHT)
    index = torch.arange(12)[:, None] % several.domain.size
    ask = "value_differences" if type(energy.domain) in (Ordinal, Categorical) else "flip_differences"
    for where in (None, index):
        found = getattr(several, ask)(x, where)
        wanted = [
            getattr(one, ask)(part, None if where is None else where[4 * i : 4 * i + 4])
            for i, (one, part) in enumerate(parts)
        ]
        torch.testing.assert_close(found, torch.cat(wanted), **TIGHT)
    with pytest.raises(UserError, match=r"an exact sum needs one law, but .* has 3"):
        exact_log_z(several)


def test_with_nothing_given_it_is_the_inner_energy() -> None:
    rbm = make_rbm()
    clamped, x = Clamped(rbm, [math.nan] * 5, mask=[False] * 5), Exact(rbm).states
    assert torch.equal(clamped(x), rbm(x)) and torch.equal(clamped.merge(x), x)
    ends = Clamped(rbm, [math.nan, 1, math.nan, 0, math.nan], mask=[False, True, False, True, False])
    assert ends.merge(torch.tensor([[1.0, 0, 1]])).tolist() == [[1, 1, 0, 0, 1]]
    assert ends.split(torch.tensor([[1.0, 9, 2, 9, 3]])).tolist() == [[1, 2, 3]]


def test_masks_of_categorical_events() -> None:
    potts = make_potts()
    x = potts.domain.from_index(torch.tensor([[2, 0, 1, 1]]))[0]
    short, long = torch.tensor([1, 0, 0, 1]), torch.tensor([[1], [0], [0], [1]]).expand(4, 3)
    free = potts.domain.random(6)[:, :2]
    wholes = [Clamped(potts, x, mask=mask).merge(free) for mask in (short, long.bool())]
    assert torch.equal(*wholes) and potts.domain.to_index(wholes[0])[:, [0, 3]].tolist() == [[2, 1]] * 6


def test_a_clamped_rbm_is_bipartite() -> None:
    rbm, h = make_rbm(), Binary(3).enumerate().double()
    clamped = given(rbm)
    assert isinstance(clamped, Bipartite) and isinstance(clamped, ClampedBipartite) and clamped.num_hidden == 3
    v = Exact(clamped).states
    joint = torch.stack([-rbm.joint_energy(clamped.merge(v), row.expand(len(v), 3)) for row in h], 1)
    torch.testing.assert_close(torch.sigmoid(clamped.hidden_given_visible(v)), joint.softmax(1) @ h, **TIGHT)
    torch.testing.assert_close(clamped.mean_visible(h), joint.softmax(0).T @ v, **TIGHT)
    torch.testing.assert_close(clamped.joint_energy(v, h[[5]].expand(len(v), 3)), -joint[:, 5], **TIGHT)
    logits = clamped.hidden_given_visible(v)
    torch.testing.assert_close(clamped.marginal_energy(v, logits, temperature=2.0), -(joint / 2).logsumexp(1), **TIGHT)
    assert type(given(make_ising())) is Clamped and not isinstance(given(make_ising()), Bipartite)


@pytest.mark.parametrize("sampler", [BlockGibbs(), DMALA(0.6), GWG(), Gibbs(2)], ids=lambda s: type(s).__name__)
def test_samplers_leave_the_law_of_a_clamped_rbm_invariant_and_reach_it(sampler: Sampler) -> None:
    assert invariance_p(sampler, given(make_rbm()), num_chains=50_000) > PASS
    assert convergence_distance(sampler, given(make_rbm()), 40, num_chains=10_000) < 0.03


@pytest.mark.parametrize("name", [name for name in INNER if "RBM" not in name])
def test_transition_matrices(name: str) -> None:
    clamped = given(INNER[name]())
    assert bias(DMALA(0.8), clamped) < 1e-6
    assert block_bias(Gibbs(), clamped, at=1) < 1e-12


@pytest.mark.parametrize("make", [make_ising, make_potts, lambda: Scaled(make_ising(), 1.7)])
def test_chromatic_gibbs_sweeps_the_free_sites(make: type[Ising]) -> None:
    clamped = given(make())
    assert sorted(torch.cat(clamped.colours).tolist()) == list(range(clamped.domain.size))
    assert clamped.colours is clamped.colours and all(len(sites) for sites in clamped.colours)
    sweep, pi = block_matrix(ChromaticGibbs(), clamped), Exact(clamped).probabilities
    single = [block_matrix(Gibbs(), clamped, at=int(i)) for sites in clamped.colours for i in sites]
    torch.testing.assert_close(sweep, reduce(torch.matmul, single), rtol=1e-9, atol=1e-14)
    assert float((pi @ sweep - pi).abs().max()) < 1e-12


def test_exact_sums_and_ais_of_a_clamped_rbm() -> None:
    """Log Z of the free coordinates by hand, by sums over either layer, and by AIS within its error."""
    rbm = make_rbm(10, 4)
    clamped = given(rbm)
    log_z = float((-rbm(clamped.merge(Binary(5).enumerate().double()))).logsumexp(0))
    assert float(exact_log_z(clamped)) == pytest.approx(log_z, abs=1e-10)
    torch.testing.assert_close(exact_mean(clamped), Exact(clamped).mean(), **TIGHT)
    for sampler in (BlockGibbs(), DMALA(0.4)):
        torch.manual_seed(0)
        result = ais(clamped, sampler, num_chains=2000, num_temperatures=100)
        assert result.samples.dtype == torch.float64 and 0 < result.std_error < 0.05
        assert abs(result.log_z - log_z) < 4 * result.std_error
    torch.manual_seed(0)
    other = given(make_potts())
    result = ais(other, ChromaticGibbs(), num_chains=2000, num_temperatures=50)
    assert abs(result.log_z - float(exact_log_z(other))) < 4 * result.std_error < 0.2


def conditional_grbm(grbm: GRBM, v: float) -> ExactGRBM:
    """The law of (v_0, h) given v_1 = v, which is a Gaussian mixture too."""
    exact = ExactGRBM(grbm)
    log_density = torch.distributions.Normal(exact.means[:, 1], exact.std[1]).log_prob(torch.tensor(v))
    log_weights = exact.weights.log() + log_density
    exact.log_z = exact.log_z.detach() + log_weights.logsumexp(0)
    exact.weights = log_weights.softmax(0)
    exact.means, exact.std = exact.means[:, :1], exact.std[:1]
    exact.edges = exact._edges(40)
    return exact


@cases("sampler", {"BlockGibbs": BlockGibbs(), "MALA": MALA(0.9)}, fast=("BlockGibbs",))
def test_a_clamped_grbm(sampler: Sampler) -> None:
    grbm = make_grbm(2).requires_grad_(False)
    clamped, exact = Clamped(grbm, [math.nan, 1.3], mask=[False, True]), conditional_grbm(grbm, 1.3)
    assert isinstance(clamped.domain, Real) and float(exact_log_z(clamped)) == pytest.approx(float(exact.log_z))
    torch.testing.assert_close(exact_mean(clamped), exact.mean())
    assert clamped.step_unit() == grbm.step_unit()
    torch.manual_seed(0)
    start, _ = exact.sample(100_000)
    state = last_state(sampler, clamped, start, 3)
    assert exact.p_value(state.x, state.hidden) > PASS
    assert exact.p_value(last_state(sampler, clamped, torch.full((100_000, 1), 6.0).double(), 60).x) > PASS
    result = ais(clamped, sampler, num_chains=2000, num_temperatures=100)
    assert abs(result.log_z - float(exact.log_z)) < 4 * result.std_error < 0.2
    value, grad = clamped.value_and_grad(start[:50])
    torch.testing.assert_close((value, grad), Energy.value_and_grad(clamped, start[:50]), **TIGHT)


MUTANTS = {
    "free and given change places": ("(~is_given).nonzero()", "is_given.nonzero()"),
    "the whole event's hidden units, the free ones' field": (
        "return self.split(law)",
        "return law[:, : len(self.free)]",
    ),
    "the gradient of the first coordinates": (
        "return value, self.split(grad)",
        "return value, grad[:, : len(self.free)]",
    ),
    "numbers of free sites taken for the whole's": ("is None else self.free[index]", "is None else index"),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_fail(name: str) -> None:
    rbm = make_rbm(6)
    wrong = given(rbm, mutant(Clamped, *MUTANTS[name]))
    right = given(rbm)
    x, index = Exact(right).states, torch.tensor([[2, 0]]).expand(8, 2)
    laws = Exact(wrong).probabilities, conditional_law(rbm, right)
    grads = wrong.value_and_grad(x)[1], Energy.value_and_grad(right, x)[1]
    flips = wrong.flip_differences(x, index), Energy.flip_differences(right, x, index)
    same = [torch.allclose(*pair) for pair in (laws, grads, flips)]
    assert not all(same) or invariance_p(BlockGibbs(), wrong, num_chains=50_000) < FAIL


def test_colours_of_the_whole_fail() -> None:
    wrong = given(
        make_ising(), mutant(Clamped, "[sites[sites >= 0] for sites in own]", "[torch.cat(own)[torch.cat(own) >= 0]]")
    )
    pi = Exact(wrong).probabilities
    assert float((pi @ block_matrix(ChromaticGibbs(), wrong) - pi).abs().max()) > 1e-3


def test_minibatches_are_clamped_too() -> None:
    features, targets = torch.randn(30, 2, generator=torch.Generator().manual_seed(0)), torch.ones(30)
    inner = BinaryNetPosterior(Rows(features, targets), 3, batch_size=5)
    clamped = given(inner)
    x = clamped.domain.random(4)
    part = clamped.minibatch()
    assert isinstance(part, Clamped) and len(part.energy.targets) == 5
    assert torch.equal(part.merge(x), clamped.merge(x))
    DULA(0.1, stochastic=True).sample(clamped, x, 2)
    assert not hasattr(given(make_ising()), "minibatch")


def test_checkpoints_hold_the_inner_energy_and_not_the_given_coordinates() -> None:
    rbm = make_rbm()
    clamped = given(rbm)
    assert clamped.energy is rbm and set(clamped.state_dict()) == {"energy.W", "energy.b_v", "energy.b_h"}
    x, before = Exact(clamped).states, clamped(Exact(clamped).states)
    twin = copy.deepcopy(clamped)
    file = io.BytesIO()
    torch.save(clamped.state_dict(), file)
    with torch.no_grad():
        rbm.W.mul_(2)
    assert not torch.equal(clamped(x), before) and torch.equal(twin(x), before) and type(twin) is ClampedBipartite
    file.seek(0)
    clamped.load_state_dict(torch.load(file, weights_only=True))
    assert torch.equal(clamped(x), before)
    single = clamped.float()
    assert single.dtype == torch.float32 and single.given.dtype == torch.float32 and single.free.dtype == torch.int64
    assert single(x.float()).dtype == torch.float32 and single.to("meta").free.device.type == "meta"


def test_parameters_can_be_learnt_through_it() -> None:
    rbm = make_rbm().requires_grad_(True)
    clamped = given(rbm)
    x = Exact(clamped).states
    ours = torch.autograd.grad(clamped(x).sum(), list(rbm.parameters()))
    torch.testing.assert_close(ours, torch.autograd.grad(rbm(clamped.merge(x)).sum(), list(rbm.parameters())))
    hidden = torch.sigmoid(clamped.hidden_given_visible(x)).detach()
    for total, h in ((clamped.weighted_sum(), None), (clamped.weighted_sum(), hidden)):
        total.add(x, h)
        torch.testing.assert_close(torch.autograd.grad(total.value(), list(rbm.parameters())), ours)
    with torch.inference_mode():
        assert clamped.value_and_grad(x)[1].shape == x.shape


@pytest.mark.parametrize(
    ("energy", "x", "mask", "message"),
    [
        (make_rbm(), [0.0] * 5, [True] * 5, r"gives all 5 coordinates of Binary\(5\); none is free"),
        (make_rbm(), [0.0] * 4, [True] * 4 + [False], r"x has shape \(4,\); one state of Binary\(5\) has \(5,\)"),
        (make_rbm(), [0.0] * 5, [True] * 4, r"mask has shape \(4,\); coordinates of Binary\(5\) have \(5,\)"),
        (make_rbm(), [0.5] * 5, [True] * 4 + [False], r"the given coordinates of x are not a state .* 0 or 1"),
        (make_rbm(), [math.nan] * 5, [True] * 4 + [False], "the given coordinates of x are not a state .* not finite"),
        (make_rbm(), [0] * 5, [2] * 5, r"mask must hold True \(given\) and False \(free\) alone"),
        (make_rbm(), "xy", [True] * 4 + [False], r"x holds texts; they must be real numbers"),
        (make_rbm(), [0] * 5, [[True], [True, False]], r"mask is no array of numbers: its rows have different"),
        (make_potts(), torch.eye(3)[[0, 1, 2, 0]], torch.eye(4, 3), r"gives some classes of a coordinate of Categ"),
        (Sum([Target(Ordinal(2, 3), "cubic")]), [5, 0], [True, False], r"integers 0 to 2"),
    ],
)
def test_one_clear_line(energy: Energy, x: object, mask: object, message: str) -> None:
    with refused(message):
        Clamped(energy, x, mask=mask)  # type: ignore[arg-type]


def test_annealing_a_clamped_grbm_from_a_gaussian() -> None:
    torch.manual_seed(0)
    grbm = GRBM(5, 3)
    with torch.no_grad():
        grbm.W.mul_(3)
        grbm.log_var.copy_(torch.linspace(-1, 1, 5))
    clamped = Clamped(grbm, torch.ones(5), mask=[True, True, False, False, False])
    root = torch.randn(3, 3)
    base = Gaussian(0.3 * torch.randn(3), root @ root.T + 0.3 * torch.eye(3))
    found = ais(clamped, BlockGibbs(), num_chains=400, num_temperatures=200, base=base)
    assert found.log_z == pytest.approx(float(exact_log_z(clamped)), abs=5 * found.std_error)
