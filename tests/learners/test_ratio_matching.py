"""Ratio matching: estimators against sums over all neighbours, and what they recover from exact data."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest
import torch
from helpers_tier import cases
from helpers_trainer import quiet_trainer
from scipy.stats import chisquare
from torch import Tensor, nn
from torch.utils.data import DataLoader

from ebmlab.domains import Finite, Ordinal
from ebmlab.energies import GRBM, MLP, RBM, Energy, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.learners import (
    EnergyDiscrepancy,
    Estimator,
    Exact,
    GradientGuided,
    RatioMatching,
    UniformSubset,
    estimators,
)
from ebmlab.learners.objectives import LIMIT, Bounded, Exponential
from ebmlab.samplers import GWG, BlockGibbs

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]
FORMS = ["bounded", "exponential"]
F: dict[str, Callable[[Tensor], Tensor]] = {  # of E(x) - E(x_-i)
    "bounded": lambda d: (1 / (1 + (-d).exp())) ** 2,  # Eq. 2: g(p(x) / p(x_-i))^2 with g(u) = 1 / (1 + u)
    "exponential": lambda d: d.exp() ** 2,  # Eq. 3
}


def make_mlp(bits: int = 6, seed: int = 0) -> MLP:
    torch.manual_seed(seed)
    mlp = MLP(bits, hidden_dim=8, num_layers=2).double()
    with torch.no_grad():
        for p in mlp.parameters():
            p.mul_(2.0)  # so that neighbours have different energies
    return mlp


def states(n: int, bits: int = 6) -> Tensor:
    return torch.randint(2, (n, bits), generator=torch.Generator().manual_seed(1)).double()


def grads(loss: Tensor, energy: nn.Module) -> Tensor:
    return torch.cat([g.flatten() for g in torch.autograd.grad(loss, list(energy.parameters()))])


def by_hand(energy: Energy, x: Tensor, form: str) -> Tensor:
    """The mean over x of the sum over all neighbours, each evaluated by itself."""
    total = torch.zeros((), dtype=x.dtype)
    domain = energy.domain
    assert isinstance(domain, Finite)
    for i, shift in itertools.product(range(domain.size), range(1, domain.num_values)):
        index = domain.to_index(x)
        index[:, i] = (index[:, i] + shift) % domain.num_values
        total = total + F[form](energy(x) - energy(domain.from_index(index).to(x))).mean()
    return total


def family() -> Potts:
    torch.manual_seed(5)
    energy = Potts(3, 4).double()
    for p in energy.parameters():
        nn.init.normal_(p)
    return energy


class Waves(Energy):
    """E(x) = sum of a_ij sin((x_i x_j + x_i) / 5) on ordinals, by autograd and enumeration of neighbours alone."""

    domains = (Ordinal,)

    def __init__(self) -> None:
        super().__init__()
        self.domain = Ordinal(3, num_values=4)
        self.a = nn.Parameter(torch.linspace(-0.5, 0.6, 9).double().view(3, 3))

    def forward(self, x: Tensor) -> Tensor:
        return (((x.unsqueeze(1) * x.unsqueeze(2) + x.unsqueeze(2)) / 5).sin() * self.a).sum((1, 2))


MODELS: dict[str, Callable[[], Energy]] = {"bits": make_mlp, "letters": family, "ordinals": Waves}


def data_of(energy: Energy, n: int) -> Tensor:
    torch.manual_seed(1)
    return states(n) if isinstance(energy, MLP) else energy.domain.random(n).double()


@pytest.mark.parametrize("rows", [1, 50, 2**14])
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_exact_is_the_sum_over_all_neighbours(
    model: str, form: str, rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """For all numbers of neighbours that are in memory at a time."""
    monkeypatch.setattr(estimators, "ROWS", rows)
    energy = MODELS[model]()
    x = data_of(energy, 20)
    loss, expected = Exact(form).loss(energy, x), by_hand(energy, x, form)
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(grads(loss, energy), grads(expected, energy))


def estimates(estimator: Estimator, energy: Energy, x: Tensor, n: int = 60, repeats: int = 60) -> Tensor:
    """Loss and gradient of n independent estimates from x `repeats` times, `(n, 1 + parameters)`."""
    torch.manual_seed(2)
    losses = [estimator.loss(energy, torch.cat([x] * repeats)) for _ in range(n)]
    return torch.stack([torch.cat([loss.detach().view(1), grads(loss, energy)]) for loss in losses])


def worst_z(sample: Tensor, expected: Tensor) -> float:
    """The largest difference of a mean from its expected value, in standard errors."""
    scale = sample.std(0) / len(sample) ** 0.5
    informative = scale > 1e-12 * sample.abs().max()
    return float(((sample.mean(0) - expected) / scale)[informative].abs().max())


class WithoutReplacement(GradientGuided):
    """As in the published code: draws without replacement, with the weights of independent draws."""

    def loss(self, energy: Energy, x: Tensor) -> Tensor:
        proposal = self.proposal(energy, x, energy.value_and_grad(x)[1])
        index = proposal.multinomial(self.num_samples, replacement=False)
        weights = 1 / (self.num_samples * proposal.gather(1, index))
        return estimators._mean_of_sums(energy, x, energy.around(x), self.objective, index, weights)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("model", MODELS)
def test_basic_and_uniform_are_unbiased_and_mutants_are_not(model: str, form: str) -> None:
    """Loss and every gradient within 4 standard errors of the exact ones; 130 of them, a false alarm in 1 %."""
    energy = MODELS[model]()
    x = data_of(energy, 12)
    exact = Exact(form).loss(energy, x)
    expected = torch.cat([exact.detach().view(1), grads(exact, energy)])
    assert worst_z(estimates(GradientGuided(3, advanced=False, objective=form), energy, x), expected) < 4
    assert worst_z(estimates(UniformSubset(3, objective=form), energy, x), expected) < 4
    assert worst_z(estimates(GradientGuided(3, advanced=True, objective=form), energy, x), expected) > 8
    assert worst_z(estimates(WithoutReplacement(3, advanced=False, objective=form), energy, x), expected) > 8


@pytest.mark.parametrize("form", FORMS)
def test_advanced_weights_neighbours_by_the_proposal(form: str) -> None:
    """Eq. 11: its expectation is s sum of n(i) f(i), and n has no gradient."""
    energy, x = make_mlp(), states(12)
    estimator = GradientGuided(3, advanced=True, objective=form)
    proposal = estimator.proposal(energy, x, energy.value_and_grad(x)[1])
    loss = 3 * (proposal.detach() * F[form](-energy.flip_differences(x))).sum(1).mean()
    expected = torch.cat([loss.detach().view(1), grads(loss, energy)])
    assert worst_z(estimates(estimator, energy, x), expected) < 4


def test_the_proposal_is_equation_10() -> None:
    energy, x = make_mlp(), states(5)
    _, grad = energy.value_and_grad(x)
    expected = (2 * (2 * x - 1) * grad).softmax(1)
    actual = GradientGuided(objective="exponential").proposal(energy, x, grad)
    torch.testing.assert_close(actual, expected)


@pytest.mark.parametrize("model", ["letters", "ordinals"])
def test_the_proposal_is_the_expansion_at_x(model: str) -> None:
    """By the gradient times y - x of each neighbour y. For a Potts model it is exact, and the loss has no variance."""
    energy = MODELS[model]()
    x, domain = data_of(energy, 5), energy.domain
    assert isinstance(domain, Finite)
    _, grad = energy.value_and_grad(x)
    columns = []
    for i, shift in itertools.product(range(domain.size), range(1, domain.num_values)):
        index = domain.to_index(x)
        index[:, i] = (index[:, i] + shift) % domain.num_values
        columns.append(((x - domain.from_index(index).to(x)) * grad).flatten(1).sum(1))
    estimator = GradientGuided(1, objective="exponential")
    torch.testing.assert_close(estimator.proposal(energy, x, grad), (2 * torch.stack(columns, 1)).softmax(1))
    spread = torch.stack([estimator.loss(energy, x).detach() for _ in range(20)]).std()
    assert bool(spread < 1e-10 * estimator.loss(energy, x)) == (model == "letters")


def test_letters_have_their_minimum_at_the_law_of_the_data() -> None:
    """The bounded form: its slope vanishes at the Potts model that made the data, and at no other."""
    energy = family()
    x = energy.domain.enumerate().double()
    p = (-energy(x)).detach().softmax(0)

    def slope(model: Potts) -> Tensor:
        terms = [w * Exact().loss(model, state) for w, state in zip(p, x.split(1), strict=True)]
        return grads(torch.stack(terms).sum(), model)

    assert slope(energy).abs().max() < 1e-10
    energy.coupling.data.mul_(0.5)
    assert slope(energy).abs().max() > 1e-2, "the test has no power"


@pytest.mark.slow
def test_gradient_guided_varies_less_than_uniform() -> None:
    """On a linear energy the expansion is exact, and the basic form has no variance, the optimum of Fact 1."""
    x = states(12)
    for form in FORMS:
        energy = make_mlp(seed=3)
        guided = estimates(GradientGuided(3, advanced=False, objective=form), energy, x)
        uniform = estimates(UniformSubset(3, objective=form), energy, x)
        assert guided[:, 0].var() < 0.7 * uniform[:, 0].var()
        linear = RBM(6, 1).double()
        with torch.no_grad():
            linear.W.zero_()
            linear.b_v.copy_(torch.linspace(-2, 2, 6))
        assert estimates(GradientGuided(1, advanced=False, objective=form), linear, x, 20, 1)[:, 0].std() < 1e-12


@pytest.fixture(scope="module")
def truth() -> tuple[Ising, Tensor, Tensor]:
    """An asymmetric Ising model of 4 spins, its states and their probabilities."""
    torch.manual_seed(4)
    coupling = torch.randn(4, 4, dtype=torch.float64).triu(1)
    energy = Ising(coupling + coupling.T, torch.randn(4, dtype=torch.float64))
    x = energy.domain.enumerate().double()
    return energy, x, (-energy(x)).softmax(0)


@pytest.mark.parametrize(("form", "scale"), [("bounded", 1.0), ("exponential", 0.25)])
def test_the_minimum_on_exact_data(form: str, scale: float, truth: tuple[Ising, Tensor, Tensor]) -> None:
    """The bounded form has its minimum at the law of the data; the exponential form at the law to the power 1/4."""
    energy, x, p = truth
    model = Ising(scale * energy.coupling, scale * energy.field, learn=True)
    loss = sum(w * Exact(form).loss(model, state) for w, state in zip(p, x.split(1), strict=True))
    assert isinstance(loss, Tensor)
    torch.testing.assert_close(grads(loss, model), torch.zeros(20, dtype=torch.float64), atol=1e-10, rtol=0)
    wrong = Ising(0.9 * scale * energy.coupling, scale * energy.field, learn=True)
    loss = sum(w * Exact(form).loss(wrong, state) for w, state in zip(p, x.split(1), strict=True))
    assert isinstance(loss, Tensor)
    assert grads(loss, wrong).abs().max() > 1e-2, "the test has no power"


def advanced_slope(model: Ising, p: Tensor) -> Tensor:
    """The expected gradient of `GradientGuided(advanced=True, objective="exponential")` on all states, of law p."""
    x = model.domain.enumerate().double()
    proposal = GradientGuided(1, True, objective="exponential").proposal(model, x, model.value_and_grad(x)[1])
    terms = F["exponential"](-model.flip_differences(x))
    return grads(p @ (proposal.detach() * terms).sum(1), model)


def test_the_minimum_of_the_advanced_form(truth: tuple[Ising, Tensor, Tensor]) -> None:
    """A model q is it for data of law p(x), which is q(x)^6 times the sum of q(y)^2 over x's neighbours y.

    Here q is flatter than p^(1/4). On d independent bits near 1/2, q is p to the power 1 / (8 - 4 / d).
    """
    energy, x, q = truth
    model = Ising(energy.coupling, energy.field, learn=True)
    neighbours = (x[:, None] != x[None]).sum(2) == 1
    p = q**6 * (neighbours.double() @ q**2)
    slope = advanced_slope(model, p / p.sum())
    torch.testing.assert_close(slope, torch.zeros(20, dtype=torch.float64), atol=1e-10, rtol=0)
    assert advanced_slope(model, q**4 / (q**4).sum()).abs().max() > 1e-2, "the test has no power"
    quarter = p**0.25 / (p**0.25).sum()
    assert torch.special.entr(q).sum() > torch.special.entr(quarter).sum()

    for d in (3, 6):
        field, free = 0.001 * torch.arange(1, d + 1).double(), torch.zeros(d, d).double()
        independent = Ising(free, field)
        law = (-independent(independent.domain.enumerate().double())).softmax(0)
        powers = (1 / (8 - 4 / d), 1 / 4)
        slopes = [advanced_slope(Ising(free, power * field, learn=True), law)[:d].abs().max() for power in powers]
        assert slopes[0] < 0.02 * slopes[1]


@cases("estimator", [Exact(), GradientGuided(4, False), UniformSubset(4), EnergyDiscrepancy()], fast=[2])
def test_couplings_are_recovered(estimator: Estimator) -> None:
    """4x4 Ising, 20,000 exact samples: couplings to 0.03, where the standard error of a likelihood fit is 0.008."""
    torch.manual_seed(0)
    true = Ising.lattice(4, 0.3)
    everything = true.domain.enumerate()
    x = everything[(-true(everything).double()).softmax(0).multinomial(20_000, replacement=True)]
    model = Ising.learnable(16)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.03)
    for k in range(120):
        optimizer.param_groups[0]["lr"] = 0.03 if k < 80 else 0.004
        optimizer.zero_grad()
        estimator.loss(model, x[torch.randint(len(x), (1000,))]).backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert (model.coupling - true.coupling).square().mean().sqrt() < 0.03


def test_energy_discrepancy_is_the_contrast_of_potentials(truth: tuple[Ising, Tensor, Tensor]) -> None:
    """It is for many samples; at the true law, the slope of the enumerated contrast is 0."""
    energy, x, p = truth
    flip = 0.2
    changed = (x[:, None] != x[None]).sum(2).double()
    q = flip**changed * (1 - flip) ** (4 - changed)  # symmetric: p(y | x) = p(x | y)
    model = Ising(energy.coupling, energy.field, learn=True)
    weights = (-model(x)).exp() @ q
    exact = (p * model(x)).sum() + (p @ q) @ weights.log()
    torch.testing.assert_close(grads(exact, model), torch.zeros(20, dtype=torch.float64), atol=1e-12, rtol=0)
    torch.manual_seed(5)
    index = p.multinomial(20_000, replacement=True)
    estimate = EnergyDiscrepancy(num_samples=100, flip_probability=flip, stabilizer=0.0)
    losses = torch.stack([estimate.loss(model, part).detach() for part in x[index].split(1000)])
    bias = 0.02  # of the logarithm of a mean of 100 terms
    assert (losses.mean() - exact).abs() < 4 * losses.std() / len(losses) ** 0.5 + bias


@pytest.mark.parametrize(
    "estimator",
    [e(objective=form) for e in (Exact, UniformSubset, GradientGuided) for form in FORMS]
    + [GradientGuided(advanced=True, objective=form) for form in FORMS]
    + [EnergyDiscrepancy(4), EnergyDiscrepancy(4, stabilizer=0.0)],
    ids=lambda e: f"{type(e).__name__}",
)
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_extreme_energies_have_finite_gradients_that_reduce_the_loss(estimator: Estimator, dtype: torch.dtype) -> None:
    """Energies of +-1e4, so that data are the worst states or the best. There the bounded form has no slope."""
    saturated = isinstance(getattr(estimator, "objective", None), Bounded)
    for sign in (1.0, -1.0):
        energy = RBM(8, 1).to(dtype)
        with torch.no_grad():
            energy.W.zero_()
            energy.b_v.fill_(-1e4 * sign)
        loss = estimator.loss(energy, torch.ones(4, 8, dtype=dtype))
        slope = grads(loss, energy)
        assert loss.isfinite() and slope.isfinite().all()
        if sign > 0 and not saturated:
            assert slope[8:16].sum() < 0, "a step downhill raises b_v, and with it the data's probability"


def test_nan_is_never_masked() -> None:
    energy = make_mlp()
    with torch.no_grad():
        energy.W.fill_(torch.nan)
    for estimator in (Exact(), Exact("exponential"), UniformSubset(), EnergyDiscrepancy()):
        assert estimator.loss(energy, states(3)).isnan()


def test_it_trains_validates_draws_and_is_rebuilt_from_its_checkpoint(tmp_path: Path) -> None:
    torch.manual_seed(0)
    codes = torch.tensor([[0, 0, 1, 1], [1, 1, 0, 0]]).float()
    loader = DataLoader(codes.repeat(160, 1), batch_size=16)  # type: ignore[arg-type]
    adam = partial(torch.optim.Adam, lr=0.02)
    learner = RatioMatching(MLP(4, 16, num_layers=2), Exact(), sampler=GWG(), num_steps=200, l1=1e-4, optimizer=adam)
    before = Exact().loss(learner.energy, codes).item()
    fit = quiet_trainer(tmp_path, max_epochs=5)
    fit.fit(learner, loader, loader)
    assert fit.callback_metrics["val/loss"] < 0.05 * before
    drawn = learner.draw(torch.randint(2, (200, 4)).float())
    near = (drawn[:, None] - codes).abs().sum(2).min(1).values == 0
    assert near.float().mean() > 0.9
    fit.save_checkpoint(tmp_path / "a.ckpt")
    fresh = RatioMatching(MLP(4, 16, num_layers=2), Exact())
    fresh.load_state_dict(torch.load(tmp_path / "a.ckpt", weights_only=True)["state_dict"])
    torch.testing.assert_close(fresh(codes), learner(codes))
    [metrics] = quiet_trainer(tmp_path).test(learner, loader, verbose=False)
    assert set(metrics) == {"test/loss", "test/energy"}


def test_l1_shrinks_weights_not_biases() -> None:
    energy = RBM(3, 2)
    learner = RatioMatching(energy, l1=0.1)
    penalty = learner.penalty()
    assert isinstance(penalty, Tensor)
    penalty.backward()  # type: ignore[no-untyped-call]
    torch.testing.assert_close(energy.W.grad, 0.1 * energy.W.detach().sign())
    assert energy.b_v.grad is None


def test_the_loss_that_is_trained_holds_the_penalty() -> None:
    energy, x = RBM(3, 2), states(4, 3).float()
    learner = RatioMatching(energy, Exact(), l1=0.1)
    learner.log = lambda *_, **__: None  # type: ignore[method-assign]
    expected = learner.estimator.loss(energy, x) + 0.1 * energy.W.abs().sum()
    torch.testing.assert_close(learner.training_step(x, 0), expected)


def test_the_exponential_is_continued_by_its_tangent() -> None:
    d = torch.tensor([LIMIT - 1e-9, LIMIT + 1e-9, LIMIT + 5], dtype=torch.float64, requires_grad=True)
    value = Exponential()(d) / math.exp(2 * LIMIT)
    (slope,) = torch.autograd.grad(value.sum(), d)
    torch.testing.assert_close(value.detach(), torch.tensor([1.0, 1.0, 11.0], dtype=torch.float64))
    torch.testing.assert_close(slope, torch.full_like(slope, 2.0))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: RatioMatching(GRBM(3, 2)), "states of finite domains, but GRBM lives on Real"),
        (lambda: RatioMatching(MLP(4), sampler=BlockGibbs()), "BlockGibbs needs a bipartite energy"),
        (lambda: RatioMatching(MLP(4), num_steps=0), "num_steps is 0"),
        (lambda: RatioMatching(MLP(4), l1=-1.0), "l1 is -1.0"),
        (lambda: Exact("squared"), 'objective is "squared"'),
        (lambda: GradientGuided(0), "GradientGuided: num_samples is 0"),
        (lambda: UniformSubset(-1), "UniformSubset: num_samples is -1"),
        (lambda: EnergyDiscrepancy(0), "EnergyDiscrepancy: num_samples is 0"),
        (lambda: EnergyDiscrepancy(4, 0.7), "flip_probability is 0.7"),
        (lambda: EnergyDiscrepancy(4, 0.1, stabilizer=-1.0), "stabilizer is -1.0"),
        (lambda: EnergyDiscrepancy(4, 0.1, stabilizer=float("inf")), "stabilizer is inf"),
        (lambda: Ising.learnable(-1), "num_spins is -1"),
    ],
)
def test_wrong_use(make: Callable[[], object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        make()


def test_draws_follow_the_proposal_and_never_hit_a_zero() -> None:
    p = torch.tensor([0.0, 0.5, 0.0, 0.2, 0.3, 0.0], dtype=torch.float64)
    index = estimators._draw(p.expand(2, -1), 50_000)
    for counts in (row.bincount(minlength=6) for row in index):
        assert not counts[p == 0].any()
        assert chisquare(counts[p > 0].numpy(), 50_000 * p[p > 0].numpy()).pvalue > 1e-4
    energy = make_mlp()
    nn.init.constant_(energy.b, float("nan"))
    assert GradientGuided(3).loss(energy, states(4)).isnan()


def test_every_neighbour_is_drawn_in_half_precision() -> None:
    torch.manual_seed(0)
    x = torch.zeros(64, 625, dtype=torch.bfloat16)
    proposal = GradientGuided().proposal(MLP(625, hidden_dim=2).bfloat16(), x, torch.zeros_like(x))
    assert len(estimators._draw(proposal, 1000).unique()) == 625
