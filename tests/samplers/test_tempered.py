"""Replica exchange: tempered energies by enumeration, chi-square at every rung, mutants, a barrier, tuned ladders."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
import torch
from helpers_batch import alone_and_together
from helpers_finite import DOMAINS, Exact, Target, convergence_distance
from helpers_grbm import FAIL, PASS, make_grbm
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Ordinal, Spin
from ebmlab.energies import GRBM, RBM, Bipartite, Energy, Ising, RealMLP
from ebmlab.energies.paths.tempering import tempered
from ebmlab.errors import UserError
from ebmlab.numerics.noise import bernoulli
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    DULA,
    GWG,
    HMC,
    MALA,
    NUTS,
    AnyScale,
    BlockGibbs,
    ChromaticGibbs,
    DiscreteHAMS,
    Gibbs,
    GibbsLangevin,
    Info,
    Langevin,
    PathAuxiliary,
    Sampler,
    State,
    UnderdampedLangevin,
)
from ebmlab.samplers.tempered import Tempered
from ebmlab.samplers.tuners.swap_rate import SwapRate
from ebmlab.testing import chi_square_p

LADDER = (1.0, 0.6, 0.25)


class TinyRBM(Bipartite):
    """E(v, h) = -v'Wh - a'v - b'h on four visible and three hidden bits, without symmetries, in float64."""

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.num_hidden = Binary(4), 3
        generator = torch.Generator().manual_seed(4)
        self.W = torch.nn.Parameter(1.5 * torch.randn(4, 3, dtype=torch.float64, generator=generator))
        self.a = torch.nn.Parameter(torch.tensor([0.5, -0.3, 0.8, -0.6], dtype=torch.float64))
        self.b = torch.nn.Parameter(torch.tensor([-0.4, 0.7, 0.2], dtype=torch.float64))

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        return -(v @ self.W * h).sum(1) - v @ self.a - h @ self.b

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        return v @ self.W + self.b

    def visible_given_hidden(self, h: Tensor) -> Tensor:
        return h @ self.W.T + self.a

    def sample_visible(self, h: Tensor) -> Tensor:
        return bernoulli(self.visible_given_hidden(h))

    def visible_energy(self, v: Tensor) -> Tensor:
        return -v @ self.a


class ScanGibbs(Sampler):
    """Draws one bit per step from its conditional, in turn, and caches nothing."""

    domains = (Binary,)
    exact = True  # type: ignore[assignment]

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        index = torch.full((len(state.x), 1), state.step % 4)
        flips = bernoulli(-energy.flip_differences(state.x, index))
        x = state.x.scatter_add(1, index, flips * (1 - 2 * state.x.gather(1, index)))
        return State(x=x, step=state.step + 1), Info(x.new_ones(len(x)), energy.domain.hops(x, state.x))


class TwoWells(Energy):
    """Two modes, all spins up and all down, with a barrier between them."""

    def __init__(self, height: float = 20.0) -> None:
        super().__init__()
        self.domain, self.height = Spin(12), height

    def forward(self, x: Tensor) -> Tensor:
        return -self.height * x.mean(1).square()


def smallest_p(sampler: Tempered, energy: Energy, num_steps: int, n: int = 200_000) -> float:
    """The smallest p-value, over all pairs of neighbouring temperatures, that replicas are independent exact draws.

    They start as exact draws at their temperatures.
    """
    torch.manual_seed(0)
    laws = [Exact(tempered(energy, float(beta))) for beta in sampler.betas]
    state = sampler.start(energy, torch.stack([law.sample(n) for law in laws], 1))
    for _ in range(num_steps):
        state, _ = sampler.step(energy, state)
    rungs = state.replicas.x.view(n, len(laws), *state.x.shape[1:])
    assert torch.equal(rungs[:, 0], state.x)
    smallest = 1.0
    for k, (cold, hot) in enumerate(itertools.pairwise(laws)):
        cells = cold.number(rungs[:, k]) * len(hot.states) + hot.number(rungs[:, k + 1])
        pair = torch.outer(cold.probabilities, hot.probabilities).flatten()
        smallest = min(smallest, chi_square_p(torch.bincount(cells, minlength=len(pair)), pair))
    return smallest


CASES: dict[str, tuple[Sampler, Energy, int]] = {
    "DMALA": (DMALA(0.8), Target(DOMAINS["binary"], "quadratic"), 2),
    "GWG on levels": (GWG(), Target(DOMAINS["ordinal"], "quadratic"), 2),
    "Gibbs": (ScanGibbs(), Target(DOMAINS["binary"], "quadratic"), 3),
    "block Gibbs": (BlockGibbs(), TinyRBM(), 3),
    "DMALA on an RBM": (DMALA(0.8), TinyRBM(), 1),
}


@cases(("kernel", "energy", "num_steps"), CASES, fast=("block Gibbs",))
def test_every_rung_keeps_its_law(kernel: Sampler, energy: Energy, num_steps: int) -> None:
    assert smallest_p(Tempered(kernel, LADDER), energy, num_steps) > PASS


@pytest.mark.parametrize("case", ["DMALA", "block Gibbs"])
def test_chains_converge(case: str) -> None:
    kernel, energy, _ = CASES[case]
    sampler = Tempered(kernel, LADDER, swap_every=2)
    assert convergence_distance(sampler, energy, 40, num_chains=3_000) < 0.06
    assert convergence_distance(sampler, energy, 0, num_chains=3_000) > 0.9


MUTANTS = {
    "wrong sign": ("gain = own - other", "gain = other - own"),
    "always swapped": ("metropolis(gain[:, upper] + gain[:, lower])", "metropolis(0 * gain[:, upper])"),
    "one side of the swap": ("gain[:, upper] + gain[:, lower]", "gain[:, upper]"),
    "one decision for all chains": (
        "metropolis(gain[:, upper] + gain[:, lower])",
        "metropolis((gain[:, upper] + gain[:, lower]).mean(0).expand(chains, -1))",
    ),
    "the kernel's caches stay behind": (
        "return self.refresh(energy, state, _chosen(rows, source), known and known.rows(source))",
        "return replace(state, replicas=replace(state.replicas, x=_chosen(rows, source)))",
    ),
    "what is known stays behind": ("known and known.rows(source)", "known"),
    "swaps take one direction": ("source[:, lower] = torch.where(accepted, upper, lower)", "pass"),
}


@cases(("old", "new"), MUTANTS, fast=list(MUTANTS)[:1])
def test_mutants_are_caught(old: str, new: str) -> None:
    wrong = mutant(Tempered, old, new)(DMALA(0.8), LADDER)
    assert smallest_p(wrong, CASES["DMALA"][1], 4, n=50_000) < FAIL


@pytest.mark.slow
def test_block_gibbs_with_swaps_by_the_marginal_energy_is_caught() -> None:
    """At b block Gibbs leaves another law invariant than exp(-b E(v))."""

    class Wrong(Tempered):
        def ladder(self, energy: Energy, rows: Tensor) -> Any:
            right = super().ladder(energy, rows)
            right.energies_at = lambda x, betas, known: betas * energy(x).unsqueeze(1)  # type: ignore[method-assign]
            return right

    assert smallest_p(Wrong(BlockGibbs(), LADDER), TinyRBM(), 6, n=120_000) < FAIL


def test_a_barrier_is_crossed() -> None:
    torch.manual_seed(0)
    start, energy = torch.ones(100, 12), TwoWells()
    plain, _ = GWG().sample(energy, start, 120)
    crossed, _ = Tempered(GWG(), num_temperatures=5).sample(energy, start, 120)
    assert (plain.mean(1) < 0).float().mean() < 0.01
    assert 0.35 < (crossed.mean(1) < 0).float().mean() < 0.65


class Counted(Energy):
    """Counts the states that it evaluates."""

    domains = (Binary,)

    def __init__(self) -> None:
        super().__init__()
        self.domain, self.w, self.rows = Binary(12), torch.nn.Parameter(torch.linspace(-1, 1, 12)), 0

    def forward(self, x: Tensor) -> Tensor:
        self.rows += len(x)
        return x @ self.w + 0.1 * x.sum(1) ** 2


@pytest.mark.parametrize("kernel", [Gibbs(), DMALA(0.2), GWG()], ids=lambda kernel: type(kernel).__name__)
@pytest.mark.parametrize("swap_every", [1, 2])
def test_evaluations_are_those_of_the_energy(kernel: Sampler, swap_every: int) -> None:
    energy, sampler = Counted(), Tempered(kernel, num_temperatures=4, swap_every=swap_every)
    state, reported = sampler.init(energy, energy.domain.random(5)), 0.0
    energy.rows = 0
    for _ in range(10):
        state, info = sampler.step(energy, state)
        reported += info.evaluations
    assert energy.rows / 5 == reported


KEEPING = [DMALA(0.4), DULA(0.1), GWG(), ACS(), AnyScale("first"), DLMC(0.2), DiscreteHAMS(0.2), PathAuxiliary(3)]
ON_REALS = [MALA(0.05), HMC(0.05), NUTS(0.5), UnderdampedLangevin(0.05, adjusted=True)]


@pytest.mark.parametrize("kernel", [*KEEPING, *ON_REALS, BlockGibbs()], ids=str)
def test_what_is_known_after_swaps_is_what_an_evaluation_finds(kernel: Sampler) -> None:
    """Chains of which some have moved, swapped and stayed; nothing is rounded differently."""
    torch.manual_seed(0)
    energy: Energy = Ising.lattice(4, 0.4)
    if not isinstance(energy.domain, kernel.domains):
        energy = GRBM(6, 4) if isinstance(kernel, BlockGibbs) else RealMLP(3, 8)
    sampler = Tempered(kernel, num_temperatures=4)
    state = sampler.init(energy, energy.random(5))
    for _ in range(6):
        state, _ = sampler.step(energy, state)
    replicas, rows = state.replicas, state.replicas.x
    ladder, betas = sampler.ladder(energy, rows), torch.rand(len(rows), 2)
    fresh = kernel.init(ladder, rows)
    with torch.no_grad():
        torch.testing.assert_close(
            ladder.energies_at(rows, betas, known=replicas.known), ladder.energies_at(rows, betas)
        )
    for mine, theirs in zip(replicas.known.tensors(), fresh.known.tensors(), strict=True):
        torch.testing.assert_close(mine, theirs)


def test_swap_rates_and_evaluations() -> None:
    """Two temperatures swap in each round, of three one pair in turn; the rates are those of pairs of exact draws."""
    energy = Target(DOMAINS["binary"], "quadratic")
    torch.manual_seed(0)
    laws = [Exact(tempered(energy, beta)) for beta in LADDER]
    expected = []
    for k in range(2):
        (p, e), (q, f) = ((law.probabilities, energy(law.states)) for law in laws[k : k + 2])
        ratio = (LADDER[k] - LADDER[k + 1]) * (e.unsqueeze(1) - f.unsqueeze(0))
        expected.append(float(p @ ratio.clamp(max=0).exp() @ q))
    sampler = Tempered(DMALA(0.8), LADDER, swap_every=2)
    state = sampler.start(energy, torch.stack([law.sample(5_000) for law in laws], 1))
    evaluations = []
    for _ in range(20):
        state, info = sampler.step(energy, state)
        evaluations.append(info.evaluations)
    assert evaluations == [3, 3] * 10 and state.rounds == 10 and state.step == state.replicas.step == 20
    torch.testing.assert_close(state.swap_rates.double(), torch.tensor(expected).double(), rtol=0, atol=0.02)
    pair = Tempered(DMALA(0.8), LADDER[:2])
    state = pair.start(energy, torch.stack([law.sample(5_000) for law in laws[:2]], 1))
    for _ in range(9):
        state, _ = pair.step(energy, state)
    assert state.rounds == 9 and abs(float(state.swap_rates) - expected[0]) < 0.02


def test_one_temperature_is_the_kernel() -> None:
    energy, start = Target(DOMAINS["spin"], "cubic"), DOMAINS["spin"].random(9)
    chains = []
    for sampler in (DMALA(0.8), Tempered(DMALA(0.8), [1.0])):
        torch.manual_seed(0)
        steps = list(Sampler.chain(sampler, energy, start, 7))  # as `step` makes them
        assert all(info.evaluations == 1 for _, info in steps)
        chains.append([(state.x, info.acceptance, info.hops) for state, info in steps])
    torch.testing.assert_close(*chains, rtol=0, atol=0)


@pytest.mark.parametrize("beta", [0.3, torch.tensor([0.2, 0.9, 0.5, 1.0])], ids=["one", "each"])
@pytest.mark.parametrize("name", DOMAINS)
def test_tempered_energy(name: str, beta: float | Tensor) -> None:
    domain = DOMAINS[name]
    energy, x = Target(domain, "cubic"), domain.random(4).double()
    warm, b = tempered(energy, beta), torch.as_tensor(beta).double()
    torch.testing.assert_close(warm(x), b * energy(x))
    value, grad = warm.value_and_grad(x)
    torch.testing.assert_close(value, b * energy(x))
    torch.testing.assert_close(grad.flatten(1), (b * energy.value_and_grad(x)[1].flatten(1).T).T)
    neighbours = energy.value_differences(x)
    torch.testing.assert_close(warm.value_differences(x).flatten(1), (b * neighbours.flatten(1).T).T)
    torch.testing.assert_close(Energy.value_differences(warm, x), warm.value_differences(x))  # a chain's rows in turn
    if name in ("binary", "spin"):
        index = torch.tensor([[0, 2]] * 4)
        torch.testing.assert_close(warm.flip_differences(x, index), Energy.flip_differences(warm, x, index))
    assert warm.domain is domain and warm.step_unit() == 1.0


@pytest.mark.parametrize("beta", [0.3, torch.tensor([0.2, 0.9, 0.5, 1.0])], ids=["one", "each"])
def test_tempered_bipartite_energy_by_enumeration(beta: float | Tensor) -> None:
    rbm, b = TinyRBM(), torch.as_tensor(beta).double().expand(4)
    warm, v, hidden = tempered(rbm, beta), Binary(4).random(4).double(), Binary(3).enumerate().double()
    assert isinstance(warm, Bipartite) and warm.num_hidden == 3

    def free(v: Tensor, b: Tensor) -> Tensor:
        joint = torch.stack([rbm.joint_energy(v, h.expand(4, 3)) for h in hidden], 1)
        return -(-b.unsqueeze(1) * joint).logsumexp(1)

    torch.testing.assert_close(warm(v), free(v, b))
    torch.testing.assert_close(warm.marginal_energy(v, warm.hidden_given_visible(v), temperature=2.0), free(v, b / 2))
    torch.testing.assert_close(
        warm.energies_at(v, torch.stack([b, b / 3], 1)), torch.stack([free(v, b), free(v, b / 3)], 1)
    )
    h = hidden[[1, 6, 3, 0]]
    torch.testing.assert_close(warm.joint_energy(v, h), b * rbm.joint_energy(v, h))
    torch.testing.assert_close(warm.visible_given_hidden(h), b.unsqueeze(1) * rbm.visible_given_hidden(h))
    torch.testing.assert_close(warm.mean_visible(h), torch.sigmoid(b.unsqueeze(1) * rbm.visible_given_hidden(h)))
    flipped = v.clone()
    flipped[:, 1] = 1 - flipped[:, 1]
    torch.testing.assert_close(warm.flip_differences(v)[:, 1], free(flipped, b) - free(v, b))
    v.requires_grad_()
    (grad,) = torch.autograd.grad(free(v, b).sum(), v)
    torch.testing.assert_close(warm.value_and_grad(v.detach())[1], grad)


def test_tempered_gaussian_visible_units() -> None:
    """The Gaussian p(v | h) at b: same mean, variance over b; and its log-density is -b E(v, h) up to a constant."""
    grbm, b = make_grbm(2), torch.tensor([0.4, 0.9], dtype=torch.float64)
    warm, h = tempered(grbm, b), torch.tensor([[1.0, 0, 1], [0, 1, 1]], dtype=torch.float64)
    mean, variance = warm.visible_given_hidden(h)
    torch.testing.assert_close(variance, grbm.variance / b.unsqueeze(1))
    v, w = torch.randn(2, 2, dtype=torch.float64), torch.randn(2, 2, dtype=torch.float64)
    density = [-((x - mean).square() / variance).sum(1) / 2 for x in (v, w)]
    torch.testing.assert_close(density[0] - density[1], warm.joint_energy(w, h) - warm.joint_energy(v, h))
    torch.manual_seed(0)
    draws = tempered(grbm, b).sample_visible(h.repeat_interleave(50_000, 0)).view(2, 50_000, 2)
    torch.testing.assert_close(draws.var(1), variance, rtol=0.05, atol=0)
    assert torch.equal(warm.mean_visible(h), mean)
    Tempered(BlockGibbs(), LADDER).sample(grbm, v, 3)
    Tempered(Langevin(0.1, adjust_from=0), LADDER).sample(grbm, v, 3)


@pytest.mark.parametrize("case", ["DMALA", "block Gibbs"])
def test_a_chain_does_not_depend_on_its_batch(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernel, energy, _ = CASES[case]
    torch.manual_seed(5)
    alone_and_together(Tempered(kernel, LADDER), energy, energy.domain.random(16).double(), monkeypatch)


@pytest.mark.parametrize("case", ["DMALA", "block Gibbs", "DMALA on an RBM"])
def test_same_chain_in_every_autograd_mode(case: str) -> None:
    kernel, energy, _ = CASES[case]
    chains, start = [], Binary(4).random(8).double()
    for mode in (torch.no_grad, torch.inference_mode, torch.enable_grad):
        torch.manual_seed(0)
        with mode():
            chains.append(Tempered(kernel, LADDER).sample(energy, start, 6)[0].clone())
        assert torch.equal(chains[0], chains[-1]) and not chains[-1].requires_grad


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("chains", [1, 16])
def test_extreme_energies_and_dtypes(dtype: torch.dtype, chains: int) -> None:
    energy = Target(DOMAINS["binary"], "cubic", scale=1e4)
    x = Exact(energy).states[-chains:].to(dtype)
    torch.manual_seed(0)
    for state, info in Tempered(GWG(), LADDER).chain(energy, x, 20):
        assert info.acceptance.isfinite().all() and state.swap_rates.isfinite().all()
        assert {state.x.dtype, info.acceptance.dtype, info.hops.dtype, state.replicas.x.dtype} == {dtype}
    assert (energy(state.x) <= energy(x)).all() and (state.x != x).any()


def test_a_domain_of_one_state_stays() -> None:
    energy = Target(Ordinal(3, 3), "quadratic")
    energy.domain = Ordinal(3, 1)
    for kernel in (GWG(), DMALA(0.5)):
        x, info = Tempered(kernel, LADDER).sample(energy, torch.zeros(4, 3), 4)
        assert torch.equal(x, torch.zeros(4, 3)) and torch.equal(info.acceptance, torch.ones(4))


def test_the_ladder_and_what_is_refused() -> None:
    ladder = Tempered(GWG()).betas
    torch.testing.assert_close(ladder[1:] / ladder[:-1], torch.full((7,), 10 ** (-1 / 7)))
    assert ladder[0] == 1 and not Tempered(GWG()).state_dict()
    assert Tempered(GWG()).converges and not Tempered(DULA(0.1)).converges
    for betas in ([], [0.9, 0.5], [1.0, 1.0], [1.0, 0.0], [1.0, float("nan")]):
        with pytest.raises(UserError, match="must start at 1 and fall"):
            Tempered(GWG(), betas)
    with pytest.raises(UserError, match="swap_every is 0"):
        Tempered(GWG(), swap_every=0)
    with pytest.raises(UserError, match=r"BlockGibbs needs a bipartite energy .* but Rugged has none"):
        Tempered(BlockGibbs()).check(Target(DOMAINS["binary"], "cubic"))
    with pytest.raises(UserError, match="GibbsLangevin needs Gaussian"):  # the tempered energy is not a GRBM
        Tempered(GibbsLangevin(0.1)).check(make_grbm(2))


@pytest.mark.slow
def test_the_tuned_ladder_swaps_at_the_target_rate() -> None:
    torch.manual_seed(0)
    energy, first = TwoWells(), [1.0, 0.98, 0.3]
    sampler, tuner = Tempered(GWG(), first), SwapRate(0.4)
    x, _ = sampler.sample(energy, torch.ones(100, 12), 50)
    tuned, x = tuner.tune(sampler, energy, x, 200)
    assert isinstance(tuned, Tempered) and sampler.betas.tolist() == pytest.approx(first)
    assert tuned.betas[0] == 1 and (tuned.betas.diff() < 0).all() and (tuned.betas > 0).all()
    rates = []
    for ladder in (sampler, tuned):
        state = ladder.init(energy, x)
        for _ in range(100):
            state, _ = ladder.step(energy, state)
        rates.append(state.swap_rates)
    assert (rates[0] - 0.4).abs().max() > 0.3 and (rates[1] - 0.4).abs().max() < 0.1


def test_the_tuner_takes_all_steps_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    taken, step = [0], Tempered.step

    def counted(self: Tempered, energy: Energy, state: Any) -> Any:
        taken[0] += 1
        return step(self, energy, state)

    monkeypatch.setattr(Tempered, "step", counted)
    SwapRate().tune(Tempered(GWG(), [1.0, 0.5]), TwoWells(), torch.ones(4, 12), 7)
    assert taken == [7]


def test_a_flat_energy_keeps_all_temperatures_positive() -> None:
    for sampler in (Tempered(GWG(), [1.0, 0.5]), Tempered(GWG(), num_temperatures=6)):
        tuned, _ = SwapRate().tune(sampler, TwoWells(0.0), torch.ones(4, 12), 60)
        assert isinstance(tuned, Tempered) and (tuned.betas > 0).all() and (tuned.betas.diff() < 0).all()


def test_no_gap_is_wider_than_20_over_their_number() -> None:
    """Swaps of a flat energy are all accepted, so that a round widens each gap by exp(0.766)."""
    tuned, _ = SwapRate().tune(
        Tempered(GWG(), [1.0, math.exp(-9.9), math.exp(-14)]), TwoWells(0.0), torch.ones(4, 12), 2
    )
    assert isinstance(tuned, Tempered) and (-tuned.betas.log()).tolist() == pytest.approx(
        [0, 10, 10 + 4.1 * math.exp(0.766)]
    )


def test_the_tuner_names_what_it_cannot_tune() -> None:
    with pytest.raises(UserError, match="GWG has none"):
        SwapRate().check(GWG())
    with pytest.raises(UserError, match="at least two"):
        SwapRate().check(Tempered(GWG(), [1.0]))
    with pytest.raises(UserError, match="target is 1"):
        SwapRate(1)


def test_tempered_energies_keep_colours_and_minibatches() -> None:
    """Kernels that need them can be tempered too."""
    torch.manual_seed(0)
    energy = Ising.lattice(4, 0.2)
    x, info = Tempered(ChromaticGibbs(), num_temperatures=3).sample(energy, energy.domain.random(20), 10)
    energy.domain.validate(x)
    assert float(info.hops.mean()) > 1
    with pytest.raises(UserError, match="ChromaticGibbs"):
        Tempered(ChromaticGibbs()).check(RBM(4, 2))


def test_first_steps_are_not_exact_and_it_says_so() -> None:
    assert not Tempered(DMALA(0.5)).exact and Tempered(DMALA(0.5)).converges
    assert Tempered(DMALA(0.5), betas=[1.0]).exact and not Tempered(DULA(0.5)).converges


def test_closed_gradient_of_a_tempered_rbm() -> None:
    torch.manual_seed(0)
    rbm = RBM(6, 5).double()
    hot = tempered(rbm, torch.linspace(1, 0.2, 4, dtype=torch.float64))
    x = rbm.domain.random(4).double()
    value, grad = hot.value_and_grad(x)
    expected_value, expected = Energy.value_and_grad(hot, x)
    torch.testing.assert_close(value, expected_value)
    torch.testing.assert_close(grad, expected)


def test_many_neighbours_of_an_rbm_keep_their_own_temperatures() -> None:
    """400 chains of 8 replicas have more neighbours than are evaluated at a time."""
    torch.manual_seed(0)
    rbm = RBM(6, 3)
    x, _ = Tempered(Gibbs(), num_temperatures=8).sample(rbm, rbm.domain.random(400), 2)
    assert x.shape == (400, 6)


@pytest.mark.slow
def test_the_ladder_grows_and_shrinks_until_it_reaches_the_hottest_beta() -> None:
    torch.manual_seed(0)
    energy, x = TwoWells(), torch.ones(100, 12)
    tuner = SwapRate(0.4, hottest=0.1)
    lengths = []
    for first in ([1.0, 0.5], [1.0, *torch.linspace(0.9, 0.001, 12).tolist()]):
        tuned, x = tuner.tune(Tempered(GWG(), first), energy, x, 400)
        assert isinstance(tuned, Tempered) and tuned.betas[-1] <= 0.12 and tuned.betas[-2] > 0.08
        assert (tuned.betas.diff() < 0).all()
        lengths.append(len(tuned.betas))
        state = tuned.init(energy, x)
        for _ in range(100):
            state, _ = tuned.step(energy, state)
        assert (state.swap_rates - 0.4).abs().max() < 0.2
    assert lengths[0] > 2 and lengths[1] < 13 and abs(lengths[0] - lengths[1]) <= 1
    with pytest.raises(UserError, match="hottest 1"):
        SwapRate(hottest=1.0)
