"""Base laws other than independent bits: densities, conditional laws on the path, and AIS from them by enumeration."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import make_grbm
from helpers_mutants import mutant
from torch import Tensor, nn

from ebmlab.domains import Binary, Categorical, Domain, Real, Spin
from ebmlab.energies import (
    GRBM,
    MLP,
    RBM,
    Base,
    Bernoulli,
    BipartiteBridge,
    Bridge,
    CategoricalRBM,
    Energy,
    Frequencies,
    Gaussian,
    Ising,
    Potts,
    Solved,
    bridge,
    reference,
)
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ, ais, data_law, exact_log_z, exact_samples, mean_field, reverse_ais
from ebmlab.product import Product
from ebmlab.samplers import DMALA, GWG, MALA, BlockGibbs, ChromaticGibbs, Gibbs, GibbsSweep, Sampler

TIGHT = {"rtol": 1e-10, "atol": 1e-10}
MEAN, COVARIANCE = torch.tensor([0.5, -1.0]).double(), torch.tensor([[2.0, 0.9], [0.9, 1.0]]).double()


def wild(energy: Energy, seed: int = 0) -> Energy:
    torch.manual_seed(seed)
    for p in energy.double().parameters():
        nn.init.normal_(p, std=0.8)
    return energy.requires_grad_(False)


def grbm(seed: int) -> GRBM:
    """Near `make_grbm`, with other parameters in each seed."""
    torch.manual_seed(seed)
    made = make_grbm(2)
    with torch.no_grad():
        for p in made.parameters():
            p += 0.3 * torch.randn_like(p)
    return made.requires_grad_(False)


def solved(energy: Energy, n: int = 8000) -> Solved:
    return Solved(energy, float(exact_log_z(energy)), samples=exact_samples(energy, n))


def z_score(result: LogZ, log_z: float) -> float:
    """Difference of the mean weight and Z, in standard errors."""
    weights = (result.log_weights.flatten() - log_z).exp()
    return float((weights.mean() - 1) / (weights.std() / len(weights) ** 0.5))


def test_gaussian_agrees_with_torch() -> None:
    base, x = Gaussian(MEAN, COVARIANCE), 2 * torch.randn(7, 2).double()
    law = torch.distributions.MultivariateNormal(MEAN, COVARIANCE)
    torch.testing.assert_close(-base(x) - base.log_z, law.log_prob(x), **TIGHT)
    energy, grad = base.value_and_grad(x)
    torch.testing.assert_close((energy, grad), Energy.value_and_grad(base, x), **TIGHT)
    torch.manual_seed(0)
    drawn = base.sample(200_000)
    torch.testing.assert_close(drawn.mean(0), MEAN, rtol=0, atol=0.02)
    torch.testing.assert_close(drawn.T.cov(), COVARIANCE, rtol=0, atol=0.03)


def test_gaussian_of_data() -> None:
    x = torch.randn(50, 2, 3).double() * torch.tensor([1.0, 2.0, 0.0]).double() + 1
    base, cov = Gaussian.fit(x, shrinkage=0.3), x.flatten(1).T.cov(correction=0)
    torch.testing.assert_close(base.mean, x.mean(0))
    expected = 0.7 * cov + 0.3 * cov.diagonal().mean() * torch.eye(6).double()
    torch.testing.assert_close(base.root @ base.root.T, expected, **TIGHT)
    assert base.sample(4).shape == (4, 2, 3) and base(x).shape == (50,)
    assert Gaussian.fit(torch.ones(5, 2)).log_z < 5  # data that do not vary


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
def test_visible_units_on_the_way_from_a_gaussian(beta: float) -> None:
    """p(v | h) is the Gaussian at the minimum of E(v, h) with the inverse of its Hessian as the covariance."""
    path = bridge(Gaussian(MEAN, COVARIANCE), grbm(0), beta=beta)
    assert isinstance(path, BipartiteBridge)
    h = torch.tensor([[1.0, 0.0, 1.0]]).double()

    def energy(v: Tensor) -> Tensor:
        return path.joint_energy(v[None], h)[0]

    zero = torch.zeros(2).double()
    precision = torch.autograd.functional.hessian(energy, zero)
    mean = torch.linalg.solve(precision, -torch.autograd.functional.jacobian(energy, zero))
    torch.manual_seed(0)
    drawn = path.sample_visible(h.expand(200_000, -1))
    std = precision.inverse().diagonal().sqrt()
    torch.testing.assert_close((drawn.mean(0) - mean) / std, zero, rtol=0, atol=0.01)
    torch.testing.assert_close(drawn.T.cov(), precision.inverse(), rtol=0, atol=0.03)
    with pytest.raises(UserError, match="are not independent given h"):
        path.visible_given_hidden(h)


@pytest.mark.parametrize("beta", [0.0, 0.4, 1.0])
@pytest.mark.parametrize("real", [False, True])
def test_the_path_between_two_models_is_that_of_their_joint_energies(real: bool, beta: float) -> None:
    first, second = (grbm(0), grbm(1)) if real else (wild(RBM(4, 3), 0), wild(RBM(4, 3), 1))
    path = bridge(solved(first, 10), second, beta=beta)
    assert isinstance(path, BipartiteBridge) and path.log_z == pytest.approx(float(exact_log_z(first)))
    v = torch.randn(6, 2).double() if real else Binary(4).random(6).double()
    every = Binary(3).enumerate().double()
    joint = torch.stack([path.joint_energy(v, h.expand(6, 3)) for h in every], 1)
    mixed = [(1 - beta) * first.joint_energy(v, h) + beta * second.joint_energy(v, h) for h in every.split(1)]
    torch.testing.assert_close(joint, torch.stack(mixed, 1), **TIGHT)
    torch.testing.assert_close(path(v), -(-joint).logsumexp(1), **TIGHT)
    p = (-joint).softmax(1) @ every
    logits, known = path.hidden_logits(v)
    torch.testing.assert_close(torch.sigmoid(logits), p, **TIGHT)
    torch.testing.assert_close(torch.sigmoid(path.hidden_given_visible(v)), p, **TIGHT)
    increment, beta_0 = path.increment(v, 0.7, known), path(v)
    path.beta = 0.7
    torch.testing.assert_close(increment, beta_0 - path(v), **TIGHT)
    path.beta = beta
    h = every[5:6]
    law = path.visible_given_hidden(h)
    if isinstance(law, Tensor):
        states = Binary(4).enumerate().double()
        weights = (-path.joint_energy(states, h.expand(16, 3))).softmax(0)
        torch.testing.assert_close(torch.sigmoid(law)[0], weights @ states, **TIGHT)
    else:
        mean = law[0][0].clone().requires_grad_()
        at_mean = path.joint_energy(mean[None], h)[0]
        (slope,) = torch.autograd.grad(at_mean, mean)
        torch.testing.assert_close(slope, torch.zeros(2).double(), **TIGHT)
        away = path.joint_energy((mean + law[1].sqrt())[None], h)[0]
        torch.testing.assert_close(away - at_mean, torch.tensor(1.0).double(), **TIGHT)  # 1/2 for each of two


CASES: dict[str, tuple[Energy, Base, list[Sampler]]] = {
    "Gaussian": (grbm(0), Gaussian(MEAN, COVARIANCE), [BlockGibbs(), MALA(0.3)]),
    "RBM": (wild(RBM(6, 4), 1), solved(wild(RBM(6, 4), 0)), [BlockGibbs(), DMALA(0.4), GWG()]),
    "RBM of another size": (wild(RBM(6, 4), 1), solved(wild(RBM(6, 2), 0)), [DMALA(0.4), GWG()]),
    "RBM after another energy": (wild(RBM(6, 4), 1), solved(wild(MLP(6, 3), 0)), [DMALA(0.4), Gibbs()]),
    "GRBM": (grbm(1), solved(grbm(0)), [BlockGibbs(), MALA(0.3)]),
    "Ising": (Ising.lattice(3, 0.4, field=0.1), solved(Ising.lattice(3, 0.3)), [Gibbs(), DMALA(0.4)]),
    "mean field": (wild(RBM(6, 4), 1), mean_field(wild(RBM(6, 4), 1)), [BlockGibbs(), GWG()]),
}
PAIRS = [(name, i) for name, (_, _, samplers) in CASES.items() for i in range(len(samplers))]


@pytest.mark.parametrize(("name", "number"), PAIRS)
def test_weights_are_unbiased(name: str, number: int) -> None:
    energy, base, samplers = CASES[name]
    torch.manual_seed(0)
    result = ais(energy, samplers[number], num_chains=8000, num_temperatures=6, base=base)
    assert abs(z_score(result, float(exact_log_z(energy)))) < 4 and result.std_error < 0.1
    upper = reverse_ais(energy, samplers[number], exact_samples(energy, 4000), num_temperatures=6, base=base)
    assert abs(z_score(upper, -float(exact_log_z(energy)))) < 4


MUTANTS = {
    "hidden units counted twice": ("return self.base.log_z if self._solved else self.base", "return self.base"),
    "the base's hidden units are left out": ("logits if ends.base_logits is None else", "logits if True else"),
    "the base's precision is not annealed": ("self._mix(values, torch.ones_like(values))", "torch.ones_like(values)"),
    "the base's mean is not annealed": (
        "self.base.precision.to(mean) @ self.base.mean.to(mean).flatten()",
        "0 * mean[0]",
    ),
}


@pytest.mark.parametrize("name", MUTANTS)
def test_mutants_are_caught(name: str) -> None:
    energy, base, _ = CASES["Gaussian" if "annealed" in name else "RBM"]
    wrong = mutant(BipartiteBridge, *MUTANTS[name])
    torch.manual_seed(0)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ebmlab.evaluation.annealing.bridge", wrong)
        result = ais(energy, BlockGibbs(), num_chains=8000, num_temperatures=6, base=base)
    assert abs(z_score(result, float(exact_log_z(energy)))) > 8


def test_one_estimate_goes_on_from_another() -> None:
    """Z of the second model is unbiased, though the first estimate has few chains with unequal weights."""
    first, second = wild(RBM(6, 4), 0), wild(RBM(6, 4), 1)
    log_z = float(exact_log_z(second))
    torch.manual_seed(0)
    right, wrong = [], []
    for _ in range(100):
        x = first.domain.random(50).double()
        start = LogZ.of_chains((64.0 * (-first(x)).exp()).log().unsqueeze(0), x)  # importance weights of uniform states
        right.append(
            ais(second, BlockGibbs(), num_chains=50, num_temperatures=3, base=start.as_base(first)).log_z - log_z
        )
        wrong.append(
            ais(
                second, BlockGibbs(), num_chains=50, num_temperatures=3, base=Solved(first, start.log_z, samples=x)
            ).log_z
            - log_z
        )
    ratios = torch.tensor([right, wrong]).exp()
    z = (ratios.mean(1) - 1) / (ratios.std(1) / ratios.shape[1] ** 0.5)
    assert z[0].abs() < 4 and z[1].abs() > 8


def test_closer_base_laws_have_smaller_errors() -> None:
    torch.manual_seed(0)
    model = grbm(0)
    x = 0.3 * exact_samples(model, 500)
    with torch.no_grad():  # the same law in narrower coordinates
        model.W *= 0.3
        model.mu *= 0.3
        model.log_var += 2 * torch.tensor(0.3).log()
    bases = data_law(model.domain, x), reference(model.domain)
    assert isinstance(bases[0], Gaussian)
    errors = [ais(model, BlockGibbs(), num_chains=2000, num_temperatures=10, base=base).std_error for base in bases]
    assert 2 * errors[0] < errors[1]
    rbm = wild(RBM(6, 4), 1)
    errors = [
        ais(rbm, BlockGibbs(), num_chains=4000, num_temperatures=5, base=base).std_error
        for base in (mean_field(rbm), reference(rbm.domain))
    ]
    assert errors[0] < errors[1]


def test_mean_field_solves_its_equations() -> None:
    rbm = wild(RBM(6, 4))
    m = mean_field(rbm).logits.sigmoid()
    torch.testing.assert_close(m, torch.sigmoid(rbm.b_v + torch.sigmoid(rbm.b_h + m @ rbm.W) @ rbm.W.T))


def test_the_law_of_data() -> None:
    assert isinstance(data_law(Binary(3), torch.ones(5, 3)), Bernoulli)
    assert type(data_law(Spin(3), torch.ones(5, 3))) is type(reference(Spin(3)))
    assert type(data_law(Real(2001), torch.ones(5, 2001))) is type(reference(Real(2001)))


def test_errors() -> None:
    with pytest.raises(UserError, match="the covariance is not positive definite"):
        Gaussian(torch.zeros(2), torch.ones(2, 2))
    with pytest.raises(UserError, match=r"the mean has 3 numbers, but the covariance shape \(2, 2\)"):
        Gaussian(torch.zeros(3), torch.eye(2))
    with pytest.raises(UserError, match="shrinkage is 0, but must be above 0"):
        Gaussian.fit(torch.zeros(3, 2), shrinkage=0)
    with pytest.raises(UserError, match="20 chains need as many samples to start from, but there are 10"):
        ais(wild(RBM(4, 3)), BlockGibbs(), num_chains=20, num_temperatures=5, base=solved(wild(RBM(4, 3)), 10))
    with pytest.raises(UserError, match="mean_field gives means of bits, but Ising"):
        mean_field(Ising.lattice(3, 0.2))
    path = bridge(solved(Ising.lattice(4, 0.3), 10), Ising.lattice(4, 0.2))
    with pytest.raises(UserError, match="has no colours"):  # the base may have other neighbours
        ChromaticGibbs().check(path)
    other = bridge(solved(wild(RBM(4, 2)), 10), wild(RBM(4, 3)))
    assert type(other) is Bridge
    with pytest.raises(UserError, match="BlockGibbs needs a bipartite energy"):
        BlockGibbs().check(other)
    backward = reverse_ais(wild(RBM(4, 3)), BlockGibbs(), exact_samples(wild(RBM(4, 3)), 5), num_temperatures=3)
    with pytest.raises(UserError, match="as_base needs all forward chains"):
        backward.as_base(wild(RBM(4, 3)))


def frequencies() -> Frequencies:
    torch.manual_seed(4)
    return Frequencies(torch.rand(3, 3).double().softmax(-1))


def test_frequencies_are_a_law_of_independent_categories() -> None:
    base = frequencies()
    states, given = base.domain.enumerate().double(), torch.tensor([0.2, 0.3, 0.5], dtype=torch.float64)
    law = (-base(states)).exp()
    torch.testing.assert_close(law.sum(), torch.tensor(1.0).double(), **TIGHT)
    assert abs(base.log_z) < 1e-12 and abs(float(exact_log_z(base))) < 1e-12
    torch.testing.assert_close(torch.einsum("n,nij->ij", law, states).log(), base.logits, **TIGHT)
    one = Frequencies(given.view(1, 3)).logits.exp()
    torch.testing.assert_close(one, (0.99 * given + 0.01 / 3).view(1, 3), **TIGHT)
    index = torch.tensor([[2, 0]]).expand(len(states), 2)
    for where in (None, index):
        found, expected = base.value_differences(states, where), Energy.value_differences(base, states, where)
        torch.testing.assert_close(found, expected, **TIGHT)
    sites = torch.tensor([1, 2])
    torch.testing.assert_close(base.conditional(states, sites)[5], base.logits[sites], **TIGHT)
    assert Frequencies(torch.tensor([[1.0, 0.0]])).logits.isfinite().all()


def test_frequencies_draw_from_their_law() -> None:
    base = frequencies()
    law = (-base(base.domain.enumerate().double())).exp()
    n = 20_000
    index = (base.domain.to_index(base.sample(n)) * torch.tensor([9, 3, 1])).sum(1)
    counts = torch.bincount(index, minlength=27)
    states = (base.domain.to_index(base.domain.enumerate()) * torch.tensor([9, 3, 1])).sum(1)
    expected = n * law[states.argsort()]
    assert float(((counts - expected) ** 2 / expected).sum()) < 55  # chi-square with 26 degrees: 0.1 %


@pytest.mark.parametrize("wrong", [torch.tensor([[0.5, 0.6]]), torch.tensor([[-0.5, 1.5]]), torch.tensor([0.5, 0.5])])
def test_what_are_no_frequencies_is_refused(wrong: Tensor) -> None:
    with pytest.raises(UserError, match="Frequencies: "):
        Frequencies(wrong)


@pytest.mark.parametrize("hidden", [0, 2])
def test_ais_from_frequencies_finds_log_z(hidden: int) -> None:
    domain = Categorical(4, 3)
    energy = wild(CategoricalRBM(4, 3, num_hidden=hidden) if hidden else Potts(4, 3), seed=1)
    base = data_law(domain, exact_samples(energy, 300))
    assert isinstance(base, Frequencies)
    sampler: Sampler = BlockGibbs() if hidden else GibbsSweep()
    exact = float(exact_log_z(energy))
    result = ais(energy, sampler, base=base, num_chains=500, num_temperatures=20)
    assert abs(z_score(result, exact)) < 4
    back = reverse_ais(energy, sampler, exact_samples(energy, 500), base=base, num_temperatures=20)
    assert abs(back.log_z - exact) < 0.2


@pytest.mark.parametrize("domain", [Binary(3), Categorical(3, 4), Real(3), Product.of_columns([3, 2, 0, 0])], ids=str)
def test_the_law_of_weighted_data_is_that_of_repeated_data(domain: Domain) -> None:
    x, times = domain.random(20), torch.arange(20) % 4
    counted, once = data_law(domain, x, weights=times / times.float().mean()), data_law(domain, x[times > 0])
    again = data_law(domain, x.repeat_interleave(times, 0))
    at = domain.random(50)
    torch.testing.assert_close(counted(at) + counted.log_z, again(at) + again.log_z, rtol=1e-4, atol=1e-4)
    assert not torch.allclose(counted(at) + counted.log_z, once(at) + once.log_z, atol=1e-2)
