"""Laws on states of several kinds: base laws, annealing, conditional laws and trained models, by summing up."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
import scipy.stats
import torch
from helpers_errors import refused

from ebmlab.data import mixed
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.datamodules import MixedTable
from ebmlab.domains import Binary, Categorical, Finite, Real
from ebmlab.energies import Clamped, Energy, StandardNormal, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import ais, data_law, log_z
from ebmlab.learners import EnergyDiscrepancy, RatioMatching
from ebmlab.product import Product
from ebmlab.samplers import DMALA, MALA, ULA, Alternate, Gibbs
from ebmlab.trained import TrainedModel

COLUMNS = (3, 0, 2)  # a class, a number and a bit; states hold the number, the bit and the class
DOMAIN = Product.of_columns(COLUMNS)
GRID = torch.linspace(-7, 7, 1401, dtype=torch.float64)
STEP = float(GRID[1] - GRID[0])
SAMPLER = {"numbers": MALA(0.7), "bits": Gibbs(), "classes_3": Gibbs()}


class Kinds(Energy):
    """A law of a class, a bit and a number, which has two modes given some classes and is not normal given any."""

    domain = DOMAIN

    def __init__(self):
        super().__init__()
        self.register_buffer("of_kinds", torch.tensor([[-1.0, 0.0], [0.4, 0.8], [1.5, 0.3]], dtype=torch.float64))

    def forward(self, x):
        r, bit, kind = x[:, 0], x[:, 1], x[:, 2:]
        centre, depth = (kind @ self.of_kinds).unbind(1)
        return (r - centre) ** 2 * (1 + depth) / 2 + r**4 / 30 + depth - bit * (1.1 * r - 0.5) + 0.9 * bit * kind[:, 0]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def everything(domain=DOMAIN):
    """All states of the finite parts, with the only real number on a grid, `(finite, 1401, n)`."""
    finite = [part.enumerate().flatten(1) for part in domain.parts.values() if isinstance(part, Finite)]
    index = itertools.product(*(range(len(x)) for x in finite))
    rows = [torch.cat([part[i] for part, i in zip(finite, row, strict=True)] or [torch.empty(0)]) for row in index]
    rest = torch.stack(rows)
    rest = rest.double()
    grid = GRID[None, :, None].expand(len(rest), -1, -1)
    assert isinstance(next(iter(domain.parts.values())), Real)
    return torch.cat([grid, rest[:, None].expand(-1, len(GRID), -1)], 2)


def exact(energy):
    """log Z, and the probabilities of the states of `everything`."""
    states = everything(energy.domain)
    log_w = -energy(states.flatten(0, 1)).view(states.shape[:2])
    return float(log_w.flatten().logsumexp(0)) + math.log(STEP), log_w.flatten().softmax(0).view_as(log_w)


def draws(energy, n):
    states, (_, p) = everything(energy.domain), exact(energy)
    x = states.flatten(0, 1)[torch.multinomial(p.flatten(), n, replacement=True)]
    x[:, 0] += (torch.rand(n, dtype=torch.float64) - 0.5) * STEP
    return x


def p_value(energy, x):
    """Of a chi-square test of states against the law, by finite state and eighths of the number."""
    states, (_, p) = everything(energy.domain), exact(energy)
    edges = torch.linspace(-2, 2, 7, dtype=torch.float64)
    place = torch.bucketize(GRID, edges)
    expected = torch.zeros(len(states), 8, dtype=torch.float64).index_add(1, place, p) * len(x)
    finite = (x[:, None, 1:] == states[:, 0, 1:]).all(2).long().argmax(1)
    found = torch.zeros_like(expected)
    found.index_put_((finite, torch.bucketize(x[:, 0].contiguous(), edges)), torch.ones(len(x)).double(), True)
    many = expected > 10
    found, expected = (torch.cat([v[many], v[~many].sum()[None]]) for v in (found, expected))
    return scipy.stats.chisquare(found, expected.clamp_min(1e-9), sum_check=False).pvalue


def test_base_laws_by_parts_are_normalised_and_drawn():
    x = DOMAIN.random(500).double()
    x[:, 0] = 0.4 + 0.7 * x[:, 0]
    for base in (reference(DOMAIN), data_law(DOMAIN, x)):
        log_z, _ = exact(base)
        assert abs(log_z - base.log_z) < 1e-4
        drawn = base.sample(20_000).double()
        DOMAIN.validate(drawn)
        assert p_value(base, drawn) > 1e-4
        value, grad = base.value_and_grad(x)
        leaf = x.clone().requires_grad_()
        (auto,) = torch.autograd.grad(base(leaf).sum(), leaf)
        assert torch.allclose(value, base(x)) and torch.allclose(grad, auto)
    assert not isinstance(data_law(DOMAIN, x).named()["numbers"], StandardNormal)


@pytest.mark.slow
def test_annealing_gives_log_z():
    energy = Kinds()
    true, _ = exact(energy)
    x = draws(energy, 400)
    for base in (None, data_law(DOMAIN, x)):
        for schedule in ("linear", "adaptive"):
            found = ais(energy, Alternate(**SAMPLER), num_chains=400, num_temperatures=60, base=base, schedule=schedule)
            assert abs(found.log_z - true) < 4 * found.std_error and 0 < found.std_error < 0.1
            assert found.samples is not None
    both = log_z(energy, Alternate(**SAMPLER), x=x, num_chains=400, num_temperatures=60)
    assert both.trusted and abs(both.log_z - true) < 4 * both.std_error
    with pytest.raises(UserError, match="Alternate is not exact"):
        ais(energy, Alternate(**SAMPLER | {"numbers": ULA(0.1)}), num_chains=10, num_temperatures=2)


CASES = {
    "the number is given": torch.tensor([True, False, False, False, False]),
    "the class is given": DOMAIN.entries("classes_3"),
    "the bit is given": DOMAIN.entries("bits"),
    "bit and class are given": DOMAIN.entries("bits", "classes_3"),
}


@pytest.mark.parametrize("name", [name for name in CASES if name != "the number is given"])
def test_conditional_laws_are_those_of_the_whole(name):
    """Energies, the chains' laws and log Z, which is that of the slice of the whole law."""
    energy, mask, x = Kinds(), CASES[name], torch.tensor([math.nan, 1, 0, 1, 0], dtype=torch.float64)
    clamped = Clamped(energy, x, mask=mask)
    assert str(clamped.domain) == str(DOMAIN.subset(~mask))
    free = everything(clamped.domain).flatten(0, 1)
    whole = clamped.merge(free)
    assert (whole[:, mask] == x[mask]).all() and torch.equal(clamped.split(whole), free)
    assert torch.equal(clamped(free), energy(whole))
    assert torch.allclose(clamped.value_and_grad(free[:9])[1], energy.value_and_grad(whole[:9])[1][:, ~mask])
    true, _ = exact(clamped)
    sampler = Alternate(**SAMPLER).only(clamped.domain.parts)
    found = ais(clamped, sampler, num_chains=300, num_temperatures=40)
    assert abs(found.log_z - true) < 4 * found.std_error < 0.4
    assert p_value(clamped, sampler.last_states(clamped, draws(clamped, 20_000), 2)) > 1e-4
    start = clamped.domain.random(4000).double()
    assert p_value(clamped, start) < 1e-20 < 1e-4 < p_value(clamped, sampler.last_states(clamped, start, 40))


def test_a_number_is_given_and_classes_are_drawn():
    energy, r = Kinds(), 0.6
    clamped = Clamped(energy, [r, math.nan, math.nan, math.nan, math.nan], mask=CASES["the number is given"])
    assert str(clamped.domain) == "Product(bits=Binary(1), classes_3=Categorical(1x3))"
    parts = [part.enumerate().flatten(1) for part in clamped.domain.parts.values()]
    states = torch.cat([parts[0].repeat_interleave(3, 0), parts[1].repeat(2, 1)], 1).double()
    law = (-energy(torch.cat([torch.full((6, 1), r).double(), states], 1))).softmax(0)
    x = Alternate(bits=Gibbs(), classes_3=DMALA(0.5)).last_states(clamped, clamped.random(20_000), 30).double()
    counts = (x[:, None] == states).all(2).sum(0)
    assert scipy.stats.chisquare(counts, law * len(x), sum_check=False).pvalue > 1e-4


def test_parts_that_are_half_given():
    """Of two numbers and two classes one of each is given: the rest keeps its order and its energies."""
    domain = Product(place=Real(2), kind=Categorical(2, 3), bits=Binary(2))

    class Sum(Energy):
        def __init__(self):
            super().__init__()
            self.domain = domain

        def forward(self, x):
            return x @ torch.arange(1.0, 11.0).to(x)

    x = domain.random(1)[0]
    mask = torch.tensor([0, 1, 1, 1, 1, 0, 0, 0, 1, 0]).bool()
    clamped = Clamped(Sum(), x, mask=mask)
    assert str(clamped.domain) == "Product(place=Real(1), kind=Categorical(1x3), bits=Binary(1))"
    free = clamped.domain.random(4)
    whole = clamped.merge(free)
    assert torch.equal(whole[:, mask], x[mask].expand(4, -1)) and torch.equal(whole[:, ~mask], free)
    domain.validate(whole)
    again = Clamped(clamped, free[0], mask=clamped.domain.entries("kind", "bits"))
    assert str(again.domain) == "Product(place=Real(1))" and torch.equal(
        clamped.merge(again.merge(free[:1, :1])), whole[:1]
    )
    for wrong, words in (
        ([0, 0, 1, 0, 0, 0, 0, 0, 0, 0], "of a coordinate of kind, Categorical.*some classes are kept"),
        ([1, 1], "mask has shape"),
        ([1] * 10, "gives all 10 coordinates"),
    ):
        with refused(words):
            Clamped(Sum(), x, mask=wrong)
    with pytest.raises(UserError, match="has no part colour"):
        domain.entries("colour")
    with pytest.raises(UserError, match="no kernel for bits"):
        Alternate(place=MALA(0.1)).only(["bits"])


def model():
    """A model of rows (class, number, bit), whose number was standardised."""
    learner = RatioMatching(Kinds(), EnergyDiscrepancy(4), sampler=Alternate(**SAMPLER))
    form = Preprocessing((3,), mean=(0.0, 170.0, 0.0), std=(1.0, 10.0, 1.0), classes=COLUMNS)
    return TrainedModel(learner, form)


@pytest.mark.slow
def test_a_trained_model_scores_rows():
    """Log-likelihoods are those of the raw rows, whose number has a unit ten times as small."""
    found, (true, _) = model(), exact(Kinds())
    x = draws(Kinds(), 500)
    rows = found.preprocessing.to_raw(x)
    likelihood = found.log_likelihood(rows, 300, num_temperatures=60)
    assert likelihood.trusted
    expected = -Kinds()(x) - true - math.log(10)
    assert (likelihood.values - expected).abs().max() < 4 * likelihood.std_error + 1e-3
    assert torch.allclose(torch.as_tensor(found.energy(rows)), Kinds()(x), atol=1e-4)


def test_a_trained_model_completes_rows():
    found = model()
    rows = np.array([[1.0, np.nan, 0.0], [2.0, np.nan, 1.0]])
    completed = found.complete(rows, [True, False, True], num_samples=2000, num_steps=30)
    assert completed.shape == (2, 2000, 3)
    assert (completed[..., [0, 2]] == rows[:, None, [0, 2]]).all()
    for row, numbers in zip(rows, completed[..., 1], strict=True):
        state = mixed.to_states(torch.tensor(row[None]).nan_to_num(0), COLUMNS)[0]
        clamped = Clamped(Kinds(), state.double(), mask=DOMAIN.entries("bits", "classes_3"))
        _, p = exact(clamped)
        cdf = np.interp((np.sort(numbers) - 170) / 10, GRID.numpy(), p.flatten().cumsum(0).numpy())
        assert scipy.stats.kstest(cdf, "uniform").pvalue > 1e-4
    classes = found.complete(torch.tensor([[0.0, 176.0, 0.0]]), [False, True, False], num_samples=50, num_steps=20)
    Product.of_columns(COLUMNS).validate(mixed.to_states(found.preprocessing.scaled(classes[0]), COLUMNS))
    assert set(classes[0, :, 0].tolist()) <= {0.0, 1.0, 2.0} and (classes[0, :, 1] == 176.0).all()
    with pytest.raises(UserError, match="mask has shape"):
        found.complete(rows, [True] * 5)


def test_the_law_of_the_made_up_table_is_normalised():
    data = MixedTable(20_000)
    domain = Product.of_columns((3, 2, 0, 0))
    axis = torch.linspace(-5, 5, 201, dtype=torch.float64)
    step = float(axis[1] - axis[0])
    place = torch.cartesian_prod(axis, axis)
    total, shares = 0.0, []
    for kind in torch.eye(3, dtype=torch.float64):
        for mark in (0.0, 1.0):
            rest = torch.cat([torch.tensor([mark], dtype=torch.float64), kind])
            density = data.log_density(torch.cat([place, rest.expand(len(place), -1)], 1)).exp()
            shares.append(density.sum() * step**2)
            total += float(shares[-1])
    assert abs(total - 1) < 1e-6
    x = data.states("train")
    domain.validate(x)
    rows = data.raw("train")
    found = torch.bincount((rows[:, 0] * 2 + rows[:, 1]).long(), minlength=6)
    assert scipy.stats.chisquare(found, torch.stack(shares) * len(x), sum_check=False).pvalue > 1e-4
    entropy = -data.log_density(x.double())
    fresh = -data.log_density(data.sample(20_000).double())
    assert abs(entropy.mean() - fresh.mean()) < 4 * (entropy.std() / 100)


def test_the_made_up_table_has_the_stated_law():
    """At the middle of each kind, and of the mark there."""
    data, covariances = MixedTable(100), (0.0225, 0.0256, 0.0441)  # their determinants
    middles, shares = ((-1.5, -0.5), (1.5, -1.0), (0.5, 1.5)), (0.5, 0.3, 0.2)
    for kind, (length, width) in enumerate(middles):
        x = torch.zeros(2, 6, dtype=torch.float64)
        x[:, 0], x[:, 1], x[1, 2], x[:, 3 + kind] = length, width, 1.0, 1.0
        without, with_mark = data.log_density(x).tolist()
        assert with_mark - without == pytest.approx(3 * length * width)
        density = shares[kind] / (2 * math.pi * math.sqrt(covariances[kind]))
        assert math.exp(without) + math.exp(with_mark) == pytest.approx(density)
