"""Adaptive temperatures and resampling: unbiased estimates of Z, and errors that cover it."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from helpers_finite import DOMAINS, Target
from helpers_tier import cases
from torch import Tensor
from torch.nn.functional import softplus

from ebmlab import samplers as s
from ebmlab.energies import RBM, Energy, Ising, bridge, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import LogZ, ais, exact_log_z, exact_samples, reverse_ais, saved_chains, walk
from ebmlab.evaluation.ladder import Ladder, Schedule, fixed_ladder
from ebmlab.evaluation.pilot import next_beta, pilot_ladder
from ebmlab.evaluation.population import Population, conditional_ess, systematic


def make_rbm() -> RBM:
    torch.manual_seed(3)
    rbm = RBM(10, 14)
    with torch.no_grad():
        for p in rbm.parameters():
            p.normal_(0, 0.9)
    return rbm.requires_grad_(False)


CASES: dict[str, tuple[Energy, s.Sampler]] = {
    "4 bits": (Target(DOMAINS["binary"], "cubic"), s.GWG()),
    "RBM": (make_rbm(), s.BlockGibbs()),
    "Ising": (Ising.lattice(4, 0.25, field=0.1), s.DMALA(1.6)),
}


def replicates(result: LogZ) -> tuple[Tensor, Tensor, Tensor]:
    """Log Z, its standard error and the number of families, for each replicate."""
    each = [
        LogZ.of_chains(w.unsqueeze(0), torch.empty(0), families=None if f is None else f.unsqueeze(0))
        for w, f in zip(result.log_weights, result.families, strict=True)
    ]
    columns = zip(*((one.log_z, one.std_error, one.num_families) for one in each), strict=True)
    return tuple(torch.tensor(column, dtype=torch.float64) for column in columns)


def bias(name: str, repeats: int = 1000, **settings: object) -> float:
    """Difference of Z and the mean of estimates with 8 chains each, in standard errors."""
    energy, sampler = CASES[name]
    torch.manual_seed(0)
    result = ais(
        energy,
        sampler,
        num_chains=8,
        num_temperatures=6,
        num_replicates=repeats,
        **{"schedule": "adaptive", "resample": 1.0} | settings,
    )
    log_z, _, families = replicates(result)
    assert families.mean() < 7.7
    ratio = (log_z - float(exact_log_z(energy))).exp()
    return float((ratio.mean() - 1) / (ratio.std() / repeats**0.5))


@cases("name", list(CASES), fast=[0])
@cases("settings", {"adaptive": {}, "linear, 2 moves": {"schedule": "linear", "num_moves": 2}}, fast=("adaptive",))
def test_the_mean_of_z_is_z(name: str, settings: dict[str, object]) -> None:
    """Also with only 8 chains that are resampled at nearly every temperature."""
    assert abs(bias(name, **settings)) < 4


def keeps_the_weights(self: Population, threshold: float) -> Tensor:
    """A mutant: a resampled chain keeps the weight of its parent."""
    log_w = self.log_w.clone()
    index = PLAIN(self, threshold)
    if index is not None:
        self.log_w = log_w[index]
    return index


def forgets_the_mean(self: Population, threshold: float) -> Tensor:
    """A mutant: resampled chains start from weight 1."""
    before = self.log_w.clone()
    index = PLAIN(self, threshold)
    self.log_w = torch.where(self.log_w == before, before, torch.zeros_like(before))
    return index


PLAIN = Population.resample
LINEAR = fixed_ladder("linear", 5).betas


@pytest.mark.slow
@pytest.mark.parametrize("mutant", [keeps_the_weights, forgets_the_mean])
def test_wrong_weights_after_resampling_are_detected(mutant: object, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Population, "resample", mutant)
    assert all(abs(bias(name)) > 6 for name in ("RBM", "Ising"))


def test_parents_drawn_without_regard_to_weights_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    """The mutant draws all parents with equal probability."""
    monkeypatch.setattr("ebmlab.evaluation.population.systematic", lambda w: torch.randint(len(w), (len(w),)))
    assert abs(bias("Ising")) > 6


@pytest.mark.parametrize(
    ("name", "steps", "schedule"), [("4 bits", 4, "adaptive"), ("RBM", 8, "adaptive"), ("Ising", 30, "linear")]
)
def test_the_stated_error_covers_the_truth(name: str, steps: int, schedule: Schedule) -> None:
    """About 95 % of 200 repeats with 100 chains are within two standard errors, which are as large as the spread."""
    energy, sampler = CASES[name]
    torch.manual_seed(1)
    result = ais(
        energy, sampler, num_chains=100, num_temperatures=steps, schedule=schedule, num_replicates=200, resample=0.85
    )
    log_z, error, families = replicates(result)
    assert families.mean() < 99  # chains were resampled
    z = (log_z - float(exact_log_z(energy))) / error
    assert float((z.abs() < 2).double().mean()) > 0.9
    assert 0.6 < float(z.std()) < 1.2
    assert abs(result.log_z - float(exact_log_z(energy))) < 4 * result.std_error


def test_chains_that_share_an_ancestor_count_once() -> None:
    log_w = torch.tensor([[0.0, 0.0, math.log(2.0), 0.0]], dtype=torch.float64)
    families = torch.tensor([[4, 4, 9, 9]])
    result = LogZ.of_chains(log_w, torch.zeros(4, 1), families=families)
    assert result.num_families == 2
    assert result.ess == pytest.approx(1 / (0.4**2 + 0.6**2))
    assert result.max_weight == pytest.approx(0.6)
    variance = 1 - 4 / 3 * (1 - 0.4**2 - 0.6**2)  # as Lee & Whiteley write it
    assert result.std_error == pytest.approx(math.sqrt(variance))
    assert LogZ.of_chains(log_w, torch.zeros(4, 1)).std_error < result.std_error


def test_systematic_children_are_within_one_of_their_mean() -> None:
    torch.manual_seed(0)
    shares = torch.rand(7, dtype=torch.float64)
    shares /= shares.sum()
    children = torch.stack([systematic(shares).bincount(minlength=7) for _ in range(4000)])
    assert ((children - 7 * shares).abs() < 1).all()
    torch.testing.assert_close(children.double().mean(0), 7 * shares, atol=0.04, rtol=0)


def test_chains_of_equal_weight_are_left_alone() -> None:
    chains = Population(torch.zeros(4, 1))
    assert chains.resample(0.9) is chains.resample(1.0) is None and chains.family.tolist() == [0, 1, 2, 3]


def test_every_island_is_resampled_among_its_own_chains_or_left_alone() -> None:
    """The heavy chain of an uneven island gets all places, at the island's mean weight; even islands stay."""
    chains = Population(torch.arange(8.0).unsqueeze(1), islands=[3, 2, 2, 1], first=10)
    rare = -1000.0
    chains.log_w = torch.tensor([rare, 6.0, rare, 5.0, rare, 1.0, 1.5, 9.0], dtype=torch.float64)
    parents = chains.resample(0.7)
    assert parents is not None and parents.tolist() == [1, 1, 1, 3, 3, 5, 6, 7]
    assert chains.x.flatten().tolist() == parents.tolist() == (chains.family - 10).tolist()
    mean = [6 - math.log(3)] * 3 + [5 - math.log(2)] * 2
    assert chains.log_w.tolist() == pytest.approx([*mean, 1.0, 1.5, 9.0])


def test_the_sums_of_weights_and_of_their_squares_are_noted() -> None:
    chains = Population(torch.zeros(3, 1))
    chains.note()
    chains.log_w = torch.tensor([1.0, 2.0, 5.0], dtype=torch.float64).log()
    chains.note()
    torch.testing.assert_close(chains.sums.exp(), torch.tensor([[3.0, 3.0], [8.0, 30.0]], dtype=torch.float64))


def test_the_next_temperature_meets_the_target() -> None:
    """The target is met for the chains' weights; with equal weights another temperature would be found."""
    energy = CASES["Ising"][0]
    path = bridge(reference(energy.domain), energy, beta=0.2)
    torch.manual_seed(0)
    x, log_w = energy.domain.random(200), 3 * torch.randn(200, dtype=torch.float64)
    known = path.evaluate(x).known

    def share(beta: float) -> float:
        w = log_w.softmax(0)
        u = ((beta - 0.2) * (path.base(x) - energy(x))).double().exp()
        return float((w @ u) ** 2 / (w @ u**2))

    found = next_beta(path, x, log_w, 0.9, known)
    assert 0.2 < found < 1 and share(found) == pytest.approx(0.9, abs=1e-3)
    mutant = next_beta(path, x, torch.zeros_like(log_w), 0.9, known)
    assert abs(share(mutant) - 0.9) > 0.01
    assert next_beta(path, x, log_w, 1e-9, known) == 1.0


class Counted(s.Gibbs):
    steps = 0

    def step(self, energy, state):
        type(self).steps += 1
        return super().step(energy, state)


def test_a_pilot_leaves_the_random_numbers_alone_and_keeps_to_its_budget() -> None:
    energy = CASES["Ising"][0]
    path, sampler = bridge(reference(energy.domain), energy), Counted()
    torch.manual_seed(0)
    before = torch.get_rng_state()
    first = pilot_ladder(path, sampler, 50, 12)
    assert Counted.steps <= 12
    assert torch.equal(before, torch.get_rng_state())
    torch.manual_seed(1)
    assert pilot_ladder(path, sampler, 50, 12) == first
    assert first.betas[0] == 0 and first.betas[-1] == 1 and first.betas == sorted(set(first.betas))


def test_steps_of_a_pilot_have_the_stated_length() -> None:
    """The root of -log of the share, 0.1, doubles whenever half of the rest is used.

    For n bits of field b on the path exp(b beta x), the logarithm of the mean of exp(k b d x) is n (g(beta + k d) -
    g(beta)), with g(beta) = log(1 + exp(b beta)).
    """
    betas = [0.0]

    class Seen(s.BlockGibbs):
        def init(self, energy, *given):
            betas.append(energy.beta)
            return super().init(energy, *given)

    rbm = RBM(40, 2).requires_grad_(False)
    for p in rbm.parameters():
        p.zero_()
    rbm.b_v.fill_(12.0)
    pilot_ladder(bridge(reference(rbm.domain), rbm), Seen(), 1000, 16)
    at = torch.tensor(betas[:15], dtype=torch.float64)
    old, new = at[:-1], at[1:]
    squares = 40 * (softplus(12 * (2 * new - old)) + softplus(12 * old) - 2 * softplus(12 * new))
    assert squares.tolist() == pytest.approx([0.01] * 8 + [0.04] * 4 + [0.16] * 2, rel=0.3)
    assert len(betas) <= 17 and betas[-1] == 1


def test_temperatures_are_dense_where_the_law_changes() -> None:
    """Independent bits with bias 12 freeze near beta = 0, so that the law changes fastest there."""
    rbm = RBM(40, 2).requires_grad_(False)
    for p in rbm.parameters():
        p.zero_()
    rbm.b_v.fill_(12.0)
    betas = pilot_ladder(bridge(reference(rbm.domain), rbm), s.BlockGibbs(), 100, 60).betas
    assert sum(b < 0.5 for b in betas) > 48
    torch.manual_seed(0)
    adaptive, linear = (
        ais(rbm, s.BlockGibbs(), num_chains=200, num_temperatures=60, schedule=name) for name in ("adaptive", "linear")
    )
    assert adaptive.std_error < 0.7 * linear.std_error


def test_step_sizes_follow_the_path_and_stay_the_users(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, sampler = Ising.lattice(4, 0.5), s.DMALA(0.4)
    ladder = pilot_ladder(bridge(reference(energy.domain), energy), sampler, 100, 100)
    assert float(sampler.step_size) == pytest.approx(0.4)
    assert ladder.scales is not None and len(ladder.scales) == 101
    torch.manual_seed(0)
    tuned = s.DMALA(0.4 * ladder.scales[-1])
    _, info = tuned.sample(energy, exact_samples(energy, 400), 5)
    assert 0.4 < float(info.acceptance.mean()) < 0.75  # with the user's step size it is higher
    seen = []
    plain = s.DMALA.chain
    monkeypatch.setattr(s.DMALA, "chain", lambda self, *a: seen.append(float(self.step_size)) or plain(self, *a))
    ais(energy, sampler, num_chains=10, num_temperatures=100, schedule=ladder)
    assert seen == pytest.approx([0.4 * scale for scale in ladder.scales[1:]])


def test_reverse_ais_takes_the_same_temperatures() -> None:
    energy, sampler = CASES["Ising"]
    torch.manual_seed(0)
    lower = ais(energy, sampler, num_chains=200, num_temperatures=60, schedule="adaptive", resample=0.5)
    upper = reverse_ais(energy, sampler, exact_samples(energy, 200), schedule=lower.ladder)
    log_z = float(exact_log_z(energy))
    assert abs(lower.log_z - log_z) < 4 * lower.std_error and abs(upper.log_z - log_z) < 4 * upper.std_error
    assert upper.ladder == lower.ladder


def test_an_interrupted_call_keeps_its_families(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    energy, sampler = CASES["Ising"]
    settings = {"schedule": "adaptive", "resample": 0.9, "num_moves": 2, "num_replicates": 3}
    torch.manual_seed(0)
    whole = ais(energy, sampler, num_chains=20, num_temperatures=12, **settings)
    monkeypatch.setattr(saved_chains, "EVERY", -1.0)
    calls = []

    def stop() -> None:
        calls.append(1)
        if len(calls) == 8:
            raise InterruptedError

    torch.manual_seed(0)
    with pytest.raises(InterruptedError):
        ais(energy, sampler, num_chains=20, num_temperatures=12, saved=tmp_path / "ais.pt", check=stop, **settings)
    torch.manual_seed(5)  # the saved random state replaces this one
    again = ais(energy, sampler, num_chains=20, num_temperatures=12, saved=tmp_path / "ais.pt", check=stop, **settings)
    assert len(calls) == 8 + 12 - 7
    assert torch.equal(again.log_weights, whole.log_weights) and torch.equal(again.families, whole.families)


def test_equal_laws_and_nan_end() -> None:
    flat = RBM(4, 3).requires_grad_(False)
    for p in flat.parameters():
        p.zero_()
    result = ais(flat, s.BlockGibbs(), num_chains=10, num_temperatures=5, schedule="adaptive", resample=0.5)
    assert result.log_z == pytest.approx(7 * math.log(2)) and result.ladder.betas == pytest.approx(LINEAR)
    flat.b_h[0] = float("nan")
    assert math.isnan(
        ais(flat, s.BlockGibbs(), num_chains=10, num_temperatures=5, schedule="adaptive", resample=0.5).log_z
    )


def test_resampled_chains_keep_what_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Known values are taken from the parents' rows: computing them again changes nothing."""
    energy, sampler = CASES["Ising"]
    torch.manual_seed(0)
    quick = ais(energy, sampler, num_chains=50, num_temperatures=12, resample=0.9)
    monkeypatch.setattr(walk, "rows", lambda known, index: known if index is None else None)
    torch.manual_seed(0)
    plain = ais(energy, sampler, num_chains=50, num_temperatures=12, resample=0.9)
    torch.testing.assert_close(quick.log_weights, plain.log_weights)
    monkeypatch.setattr(walk, "rows", lambda known, index: known)  # a mutant: keeps the rows of other chains
    torch.manual_seed(0)
    assert not torch.allclose(
        ais(energy, sampler, num_chains=50, num_temperatures=12, resample=0.9).log_weights, plain.log_weights
    )


def test_wrong_settings_are_refused() -> None:
    energy, sampler = CASES["Ising"]
    with pytest.raises(UserError, match="resample is 2"):
        ais(energy, sampler, resample=2)
    with pytest.raises(UserError, match="num_moves is 0"):
        ais(energy, sampler, num_moves=0)
    assert ais(energy, sampler, num_chains=5, num_temperatures=3, schedule=Ladder([0.0, 0.5, 1.0])).families is None


def test_a_share_of_chains_that_is_not_a_number_says_so() -> None:
    assert math.isnan(conditional_ess(torch.zeros(3), torch.tensor([0.0, torch.nan, 0.0])))
