"""AIS against sums over all states."""

from __future__ import annotations

import math
from itertools import pairwise
from pathlib import Path
from unittest.mock import Mock

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_grbm import make_grbm
from helpers_tier import cases
from scipy.stats import chisquare
from torch import Tensor

from ebmlab import samplers as s
from ebmlab.datamodules import Digits
from ebmlab.domains import Binary
from ebmlab.energies import (
    GRBM,
    RBM,
    Bernoulli,
    BipartiteBridge,
    Bridge,
    Energy,
    Gaussian,
    Ising,
    ResNet,
    bridge,
    reference,
)
from ebmlab.energies.paths.bridge import Ends
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ, ais, exact_log_z, exact_mean, exact_samples, reverse_ais, saved_chains
from ebmlab.evaluation.ladder import fixed_ladder
from ebmlab.evaluation.population import Population
from ebmlab.io.fingerprint import fingerprint
from ebmlab.learners import ContrastiveDivergence, FromData
from ebmlab.samplers import GibbsLangevin

EXACT = {
    "Gibbs": s.Gibbs(),
    "RandomWalk": s.RandomWalk(1),
    "LocallyBalanced": s.LocallyBalanced(),
    "HammingBall": s.HammingBall(3, 1),
    "GWG": s.GWG(),
    "GWG, 3 flips": s.GWG(3),
    "PAS": s.PathAuxiliary(2),
    "DMALA": s.DMALA(0.4),
    "AB-1st": s.AnyScale("first"),
    "AB-trace": s.AnyScale("trace"),
    "ACS": s.ACS(alpha_max=5.0, alpha_min=0.2, cycle_length=4),
    "RelaxedMALA": s.RelaxedMALA(0.1),
    "BlockGibbs": s.BlockGibbs(),
    "ChromaticGibbs": s.ChromaticGibbs(),
}


def make_rbm(num_visible: int = 8, num_hidden: int = 5) -> RBM:
    torch.manual_seed(3)
    rbm = RBM(num_visible, num_hidden)
    with torch.no_grad():
        for p in rbm.parameters():
            p.normal_(0, 0.8)
    return rbm.requires_grad_(False)


def make_ising() -> Ising:
    return Ising.lattice(4, 0.25, field=0.1)


def make_resnet() -> ResNet:
    torch.manual_seed(1)
    net = ResNet((4, 4), channels=4, base=torch.linspace(0.2, 0.8, 16))
    with torch.no_grad():
        net.linear.weight.mul_(20)
    return net.requires_grad_(False)


def make_cubic() -> Energy:
    return Target(DOMAINS["binary"], "cubic")


def make_potts() -> Energy:
    return Target(DOMAINS["categorical"], "cubic")


ENERGIES = {"RBM": make_rbm, "Ising": make_ising, "ResNet": make_resnet, "cubic": make_cubic, "classes": make_potts}


def z_score(result: LogZ, log_z: float) -> float:
    """Difference of the mean weight and Z, in standard errors."""
    weights = (result.log_weights.flatten() - log_z).exp()
    return float((weights.mean() - 1) / (weights.std() / len(weights) ** 0.5))


GRADIENT = ["GWG", "GWG, 3 flips", "PAS", "DMALA", "AB-1st", "ACS"]
FINITE = ["Gibbs", "RandomWalk", "LocallyBalanced", "HammingBall", *GRADIENT]
PAIRS = [
    *[(name, "RBM") for name in (*FINITE, "AB-trace", "RelaxedMALA", "BlockGibbs")],
    *[(name, "Ising") for name in (*FINITE, "AB-trace", "RelaxedMALA", "ChromaticGibbs")],
    *[(name, "cubic") for name in (*FINITE, "RelaxedMALA")],
    *[(name, "classes") for name in FINITE if name != "RandomWalk"],
    *[(name, "ResNet") for name in ("GWG", "DMALA", "ACS")],
]
# Each sampler on one energy, and each energy with one that takes gradients.
ONCE = {name: max(k for k, pair in enumerate(PAIRS) if pair[0] == name) for name, _ in PAIRS}
FAST = {*ONCE.values(), *(PAIRS.index(("DMALA", e)) for e in ENERGIES if e != "ResNet")}


@cases(("name", "energy_name"), PAIRS, fast=FAST)
def test_weights_are_unbiased(name: str, energy_name: str) -> None:
    """For each exact sampler, even in so few steps that the chains are far from equilibrium."""
    energy, net = ENERGIES[energy_name](), energy_name == "ResNet"
    torch.manual_seed(0)
    result = ais(energy, EXACT[name], num_chains=1000 if net else 4000, num_temperatures=12 if net else 40)
    assert abs(z_score(result, float(exact_log_z(energy)))) < 4
    assert result.std_error < 0.2


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("energy_name", ["RBM", "Ising", "cubic", "classes"])
def test_differences_on_a_bridge_are_those_of_its_own_energy(energy_name: str, beta: float) -> None:
    energy = ENERGIES[energy_name]()
    path, x = bridge(reference(energy.domain), energy, beta=beta), energy.domain.random(5)
    differences = path.value_differences(x)
    torch.testing.assert_close(differences, Energy.value_differences(path, x), rtol=1e-4, atol=1e-4)
    if energy_name != "classes":
        torch.testing.assert_close(path.flip_differences(x), Energy.flip_differences(path, x), rtol=1e-4, atol=1e-4)


class Unadjusted(s.DULA):
    """A mutant: a biased sampler that claims to be exact."""

    exact = True


def test_mutants_are_biased(monkeypatch: pytest.MonkeyPatch) -> None:
    energy = make_ising()
    log_z = float(exact_log_z(energy))
    torch.manual_seed(0)
    assert abs(z_score(ais(energy, Unadjusted(8.0), num_chains=4000, num_temperatures=12), log_z)) > 10
    monkeypatch.setattr(Ends, "each", lambda self, change, other: self)  # keeps the values at y when y is rejected
    assert abs(z_score(ais(energy, s.DMALA(4.0), num_chains=4000, num_temperatures=12), log_z)) > 10


@pytest.fixture(scope="module")
def digits_rbm() -> RBM:
    """12 hidden units, fit to the black-and-white 8x8 digits by 300 steps of CD-1."""
    torch.manual_seed(0)
    data = Digits(binarize=True)
    x = data.to_states(data.raw("train")).flatten(1)
    rbm = RBM(64, 12)
    rbm.set_base(x.mean(0))
    learner = ContrastiveDivergence(rbm, s.BlockGibbs(), start=FromData(), num_steps=1)
    optimizer = torch.optim.Adam(rbm.parameters(), lr=1e-2)
    learner.log = learner.log_dict = lambda *_, **__: None
    for _ in range(300):
        optimizer.zero_grad()
        learner.training_step(x[torch.randint(len(x), (100,))], 0).backward()
        optimizer.step()
    rbm.mean = x.mean(0)
    return rbm.requires_grad_(False)


SAMPLERS = {
    "BlockGibbs": s.BlockGibbs(),
    "GWG": s.GWG(4),
    "DMALA": s.DMALA(0.2),
    "ACS": s.ACS(alpha_max=4.0, alpha_min=0.2, cycle_length=8),
}


@pytest.mark.slow
@cases("name", list(SAMPLERS), fast=[0])
def test_sandwich_around_an_rbm_of_digits(name: str, digits_rbm: RBM) -> None:
    """Forward AIS is within 4 standard errors of the enumerated log Z, and reverse AIS is above it."""
    rbm, sampler = digits_rbm, SAMPLERS[name]
    log_z = float(exact_log_z(rbm))
    torch.manual_seed(1)
    base = Bernoulli(rbm.mean)
    lower = ais(rbm, sampler, num_chains=200, num_temperatures=500, base=base, num_replicates=2)
    upper = reverse_ais(rbm, sampler, exact_samples(rbm, 200), num_temperatures=300, base=base)
    assert abs(lower.log_z - log_z) < 4 * lower.std_error
    assert lower.log_z - 2 * lower.std_error < log_z < upper.log_z + 2 * upper.std_error
    assert lower.std_error < 0.3
    assert len(lower.replicates) == 2
    assert min(lower.replicates) < lower.log_z < max(lower.replicates)


@pytest.mark.parametrize("name", ["GWG", "DMALA", "ACS"])
@pytest.mark.parametrize("energy_name", ["Ising", pytest.param("ResNet", marks=pytest.mark.slow)])
def test_sandwich(name: str, energy_name: str) -> None:
    energy = ENERGIES[energy_name]()
    log_z, n = float(exact_log_z(energy)), 100
    torch.manual_seed(1)
    lower = ais(energy, SAMPLERS[name], num_chains=n, num_temperatures=100)
    upper = reverse_ais(energy, SAMPLERS[name], exact_samples(energy, n), num_temperatures=100)
    assert abs(lower.log_z - log_z) < 4 * lower.std_error
    assert abs(upper.log_z - log_z) < 4 * upper.std_error
    assert lower.log_z - 2 * lower.std_error < log_z < upper.log_z + 2 * upper.std_error


@pytest.mark.parametrize("sampler", [s.BlockGibbs(), GibbsLangevin(0.3, 4, adjust_from=0)], ids=["Gibbs", "Langevin"])
def test_gaussian_visible_units(sampler: s.Sampler) -> None:
    """A GRBM, annealed from N(0, I) along the joint energy, against the sum over h."""
    grbm = make_grbm(2)
    torch.manual_seed(0)
    result = ais(grbm, sampler, num_chains=4000, num_temperatures=20)
    assert abs(z_score(result, float(exact_log_z(grbm)))) < 4
    upper = reverse_ais(grbm, sampler, exact_samples(grbm, 4000), num_temperatures=20)
    assert abs(z_score(upper, -float(exact_log_z(grbm)))) < 4


def test_samples_of_the_last_temperature_follow_the_law() -> None:
    """The mean of x with weights w is that of the law, for a path of any length."""
    rbm = make_rbm()
    torch.manual_seed(0)
    result = ais(rbm, s.BlockGibbs(), num_chains=20_000, num_temperatures=8)
    weights = result.log_weights.flatten().softmax(0)
    mean = weights @ result.samples.double()
    error = (weights.square() @ (result.samples.double() - mean).square()).sqrt()
    assert ((mean - exact_mean(rbm)).abs() < 4.5 * error).all()


def test_exact_samples_are_exact() -> None:
    for energy in (make_rbm(5, 4), make_cubic()):
        torch.manual_seed(0)
        states = energy.domain.enumerate()
        expected = (-energy(states)).double().softmax(0)
        x = exact_samples(energy, 50_000, batch_size=4)
        number = (x.unsqueeze(1) == states).all(2).byte().argmax(1)
        counts = number.bincount(minlength=len(states))
        assert chisquare(counts.numpy(), len(x) * expected.numpy()).pvalue > 1e-4


class Counted(Energy):
    """Counts evaluations of another energy."""

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.energy, self.domain, self.evaluations = energy, energy.domain, 0

    def forward(self, x: Tensor) -> Tensor:
        self.evaluations += 1
        return self.energy(x)


@cases("name", ["GWG", "DMALA", "ACS", "PAS", "AB-1st"], fast=[0, 1])
def test_a_temperature_costs_one_evaluation(name: str) -> None:
    energy = Counted(make_resnet())
    ais(energy, EXACT[name], num_chains=5, num_temperatures=30)
    assert energy.evaluations == 30 + 2  # plus one for the first increment and one for the first state


@pytest.mark.parametrize("name", ["BlockGibbs", "GWG", "DMALA"])
def test_both_products_of_an_rbm_are_computed_once_per_temperature(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    rbm, calls = make_rbm(), {}
    for product in ("hidden_given_visible", "visible_given_hidden"):
        plain = getattr(RBM, product)
        calls[product] = counted = Mock(side_effect=plain.__get__(rbm))
        monkeypatch.setattr(RBM, product, lambda self, x, counted=counted: counted(x))
    ais(rbm, EXACT[name], num_chains=5, num_temperatures=30)
    assert all(30 <= counted.call_count <= 30 + 2 for counted in calls.values())


def test_reusing_known_values_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for energy in (make_resnet(), make_rbm()):
        torch.manual_seed(0)
        quick = ais(energy, s.DMALA(0.4), num_chains=50, num_temperatures=40)
        with monkeypatch.context() as m:
            for cls in (Bridge, BipartiteBridge):
                m.setattr(cls, "evaluate", lambda self, x, known=None, own=cls.evaluate: own(self, x))
                m.setattr(cls, "increment", lambda self, x, beta, known=None, own=cls.increment: own(self, x, beta))
            torch.manual_seed(0)
            plain = ais(energy, s.DMALA(0.4), num_chains=50, num_temperatures=40)
        torch.testing.assert_close(quick.log_weights, plain.log_weights, rtol=0, atol=1e-4)
        assert torch.equal(quick.samples, plain.samples)


@pytest.mark.parametrize("energy_name", ["RBM", "Ising", "ResNet"])
def test_known_values_of_a_bridge_hold_at_every_beta_and_are_merged_chain_by_chain(energy_name: str) -> None:
    energy = ENERGIES[energy_name]()
    torch.manual_seed(0)
    base = Bernoulli(torch.linspace(0.1, 0.9, 8)) if energy_name == "RBM" else reference(energy.domain)
    path, x, y = Bridge(base, energy, beta=0.1), energy.domain.random(6), energy.domain.random(6)
    at_x, at_y = path.evaluate(x).known, path.evaluate(y).known
    accept = torch.rand(6) < 0.5
    z = torch.where(accept.view(-1, *[1] * (x.dim() - 1)), y, x)
    at_z = at_y.where(accept, at_x)
    for beta in (0.1, 0.4, 1.0):
        torch.testing.assert_close(path.increment(z, beta, at_z), path.increment(z, beta))
        path.beta = beta
        known, anew = path.evaluate(z, at_z), path.evaluate(z)
        torch.testing.assert_close((known.energy, known.grad), (anew.energy, anew.grad))


@pytest.mark.parametrize("beta", [0.1, 0.5, 0.9, 1.0])
def test_states_of_infinite_energy_stay_so_on_the_way(beta: float) -> None:
    class Forbidden(Ising):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x).masked_fill(x[:, 0] > 0, math.inf)

    energy = Forbidden(torch.zeros(3, 3))
    x = energy.domain.enumerate()
    values = Bridge(reference(energy.domain), energy, beta=beta)(x)
    assert torch.equal(values == math.inf, x[:, 0] > 0) and not values.isnan().any()


def test_known_values_of_the_joint_path_hold_at_every_beta() -> None:
    path = bridge(Bernoulli(torch.linspace(0.1, 0.9, 8)), make_rbm(), beta=0.1)
    x = path.domain.random(6)
    _, known = path.hidden_logits(x)
    for beta in (0.1, 0.4, 1.0):
        torch.testing.assert_close(path.increment(x, beta, known), path.increment(x, beta))
        path.beta = beta
        logits, again = path.hidden_logits(x, known)
        torch.testing.assert_close(logits, path.hidden_given_visible(x))
        assert again is known


def test_the_ends_of_a_bridge_are_the_two_laws() -> None:
    rbm, base = make_rbm(), Bernoulli(torch.linspace(0.1, 0.9, 8))
    x = rbm.domain.enumerate()
    torch.testing.assert_close(bridge(base, rbm, beta=1.0)(x), rbm(x))
    torch.testing.assert_close(bridge(base, rbm, beta=0.0)(x), base(x) - 5 * math.log(2))
    assert float(exact_log_z(base)) == pytest.approx(base.log_z, abs=1e-4)
    for beta in (0.0, 0.3, 1.0):
        path = bridge(base, rbm, beta=beta)
        assert isinstance(path, BipartiteBridge)
        h = torch.rand(len(x), 5).round()
        mixed = (1 - beta) * base(x) + beta * rbm.joint_energy(x, h)
        torch.testing.assert_close(path.joint_energy(x, h), mixed)


@pytest.mark.parametrize("beta", [0.0, 0.3, 1.0])
def test_the_conditional_law_on_a_bridge_to_a_grbm_is_that_of_its_joint_energy(beta: float) -> None:
    """On a grid of v, the normalised exp(-E(v, h)) is the Gaussian of the given mean and variance."""
    grbm = make_grbm(1).requires_grad_(False)
    path = bridge(reference(grbm.domain), grbm, beta=beta)
    v = torch.linspace(-9, 9, 4001, dtype=torch.float64).unsqueeze(1)
    for h in ([0.0, 0.0, 0.0], [1.0, 0.0, 1.0]):
        hidden = torch.tensor(h, dtype=torch.float64).expand(len(v), -1)
        law = (-path.joint_energy(v, hidden)).softmax(0)
        mean, variance = path.visible_given_hidden(hidden[:1])
        assert float(law @ v[:, 0]) == pytest.approx(float(mean), abs=1e-6)
        assert float(law @ (v[:, 0] - mean[0]).square()) == pytest.approx(float(variance), abs=1e-6)


def test_schedules() -> None:
    assert fixed_ladder("linear", 4).betas == [0, 0.25, 0.5, 0.75, 1]
    slow = fixed_ladder("sigmoid", 10).betas
    assert slow[0] == 0 and slow[-1] == 1 and slow[5] == pytest.approx(0.5)
    assert slow[1] < 0.1 and all(a < b for a, b in pairwise(slow))


def test_an_interrupted_call_is_continued(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its weights are equal bit for bit; the file of another model is neither read nor deleted."""
    file, energy, sampler = tmp_path / "ais.pt", make_resnet(), s.ACS(alpha_max=5.0, alpha_min=0.2, cycle_length=4)
    torch.manual_seed(0)
    whole = ais(energy, sampler, num_chains=20, num_temperatures=30)
    monkeypatch.setattr(saved_chains, "EVERY", -1.0)

    class Stop(Exception): ...

    class Bomb(s.ACS):
        def step(self, energy, state):
            if state.step == 17:
                raise Stop
            return super().step(energy, state)

    Bomb.__name__ = "ACS"
    torch.manual_seed(0)
    with pytest.raises(Stop):
        ais(energy, Bomb(alpha_max=5.0, alpha_min=0.2, cycle_length=4), num_chains=20, num_temperatures=30, saved=file)
    torch.manual_seed(5)  # the saved random state replaces this one
    again = ais(energy, sampler, num_chains=20, num_temperatures=30, saved=file)
    assert torch.equal(again.log_weights, whole.log_weights)
    assert torch.equal(again.samples, whole.samples)
    assert again.path is not None and whole.path is not None and torch.equal(again.path, whole.path)
    assert not list(tmp_path.iterdir())
    with pytest.raises(Stop):
        ais(energy, Bomb(alpha_max=5.0, alpha_min=0.2, cycle_length=4), num_chains=20, num_temperatures=30, saved=file)
    other = make_resnet()
    other.linear.bias.add_(1)
    torch.manual_seed(0)
    moved = ais(other, sampler, num_chains=20, num_temperatures=30, saved=file)
    assert moved.log_z == pytest.approx(whole.log_z + 1, abs=1e-3)
    assert len(list(tmp_path.iterdir())) == 1


def test_saved_chains_are_used_only_with_the_same_settings() -> None:
    def key(sampler: s.Sampler, count: int = 20) -> str:
        return fingerprint(make_ising(), sampler, settings=([0.0, 1.0], count))

    assert key(s.GWG(1)) == key(s.GWG(1)) != key(s.GWG(7))
    assert key(s.DMALA(0.1)) != key(s.DMALA(0.2))
    assert key(s.GWG(), 20) != key(s.GWG(), 30)


def test_a_file_of_other_chains_is_left_alone(tmp_path: Path) -> None:
    chains = Population(torch.zeros(3, 16))
    store = saved_chains.SavedChains(tmp_path / "a.pt", make_ising(), s.GWG(), 1, chains)
    saved_chains.save({"key": "another", "x": torch.ones(3, 16), "passed": 7}, store._path)
    assert store.load() == 0 and not chains.x.any()


def test_wrong_use_is_refused() -> None:
    ising = make_ising()
    with pytest.raises(UserError, match="DULA is not exact"):
        ais(ising, s.DULA(0.2))
    with pytest.raises(UserError, match="bipartite"):
        ais(ising, s.BlockGibbs())
    with pytest.raises(UserError, match="base lives on"):
        ais(ising, s.GWG(), base=Bernoulli(torch.full((16,), 0.5)))
    with pytest.raises(UserError, match="schedule"):
        ais(ising, s.GWG(), schedule="geometric")
    with pytest.raises(UserError, match="at least 1"):
        ais(ising, s.GWG(), num_temperatures=0)
    with pytest.raises(UserError, match="too many"):
        exact_log_z(RBM(100, 30))
    with pytest.raises(UserError, match="shape"):
        reverse_ais(ising, s.GWG(), torch.ones(3, 5))


def test_nan_is_not_masked() -> None:
    rbm = make_rbm()
    rbm.b_h[0] = float("nan")
    assert math.isnan(ais(rbm, s.BlockGibbs(), num_chains=10, num_temperatures=5).log_z)


def test_the_effective_chains_along_the_path() -> None:
    """They begin at all chains, end at those of the result, and fall where resampling has not yet lifted them."""
    torch.manual_seed(0)
    energy = make_ising()
    result = ais(energy, s.Gibbs(), num_chains=100, num_temperatures=30)
    assert result.path is not None and result.ladder is not None
    beta, ess = result.path.T
    assert beta.tolist() == result.ladder.betas[1:]
    assert ess[0] > 95 and float(ess[-1]) == pytest.approx(result.ess) and (ess.diff() < 1).all()
    kept = ais(energy, s.Gibbs(), num_chains=100, num_temperatures=300, resample=0.9)
    assert kept.path is not None and len(kept.path) == 200 and kept.path[-1, 0] == 1 and kept.path[:, 1].min() > 70
    back = reverse_ais(energy, s.Gibbs(), exact_samples(energy, 50), num_temperatures=30)
    assert back.path is not None and float(back.path[-1, 1]) == pytest.approx(back.ess) and back.path[-1, 0] == 0


def test_samplers_without_gradients_need_none_for_an_adaptive_ladder() -> None:
    """An energy that looks its values up in a table has no gradient in x."""

    class Table(Energy):
        domains = (Binary,)

        def __init__(self) -> None:
            super().__init__()
            self.domain = Binary(4)
            self.register_buffer("values", torch.randn(16, generator=torch.Generator().manual_seed(0)))

        def forward(self, x: Tensor) -> Tensor:
            return self.values[(x.long() * torch.tensor([8, 4, 2, 1])).sum(1)]

    torch.manual_seed(0)
    energy = Table()
    result = ais(energy, s.Gibbs(), num_chains=1000, num_temperatures=10, schedule="adaptive")
    assert abs(z_score(result, float(exact_log_z(energy)))) < 4


def test_a_sampler_of_the_energy_alone_is_refused_by_the_right_sentence() -> None:
    with pytest.raises(UserError, match="GibbsLangevin samples GRBM, but not the laws between it and Gaussian, thr"):
        ais(
            GRBM(4, 3),
            GibbsLangevin(0.1, 2, adjust_from=0),
            num_chains=4,
            num_temperatures=3,
            base=Gaussian(torch.zeros(4), torch.eye(4)),
        )
    with pytest.raises(UserError, match="needs Gaussian visible units"):
        ais(RBM(4, 3), GibbsLangevin(0.1, 2, adjust_from=0), num_chains=4, num_temperatures=3)


def test_a_pilot_seeds_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "manual_seed_all", lambda seed: pytest.fail("the seeds of GPUs have changed"))
    ais(make_ising(), s.GWG(), num_chains=50, num_temperatures=10, schedule="adaptive")
