"""Steps of a few chains in C++: exact laws, reports, rounding, threads, and mutants of the text."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path

import pytest
import torch
from helpers_native import compiled, replace
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import RBM, Energy
from ebmlab.native import few_chains, library
from ebmlab.native.block_gibbs import block_gibbs_steps
from ebmlab.native.dmala import dmala_steps
from ebmlab.native.few_chains import Moved, Weights
from ebmlab.samplers import DMALA, BlockGibbs, Sampler
from ebmlab.testing import ExactLaw, chi_square_p, transition_matrix

MODULES = {"block_gibbs": import_module("ebmlab.native.block_gibbs"), "dmala": import_module("ebmlab.native.dmala")}
pytestmark = pytest.mark.skipif(
    MODULES["dmala"].checked() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512"
)
PASS, FAIL = 1e-4, 1e-6
LAWS = {
    "block Gibbs": (BlockGibbs(), 1.0),
    "block Gibbs, sharp": (BlockGibbs(), 3.0),
    "DMALA": (DMALA(0.5, balance=0.6), 1.0),
    "DMALA, sharp": (DMALA(0.7), 3.0),
    "DMALA, large steps": (DMALA(1e4), 0.7),
    "DMALA, small steps": (DMALA(0.15), 1.0),
    "DMALA, no gradient": (DMALA(1.0, balance=0.0), 1.0),
}
BOTH = pytest.mark.parametrize("sampler", [BlockGibbs(), DMALA(0.4)], ids=["block Gibbs", "DMALA"])


@pytest.fixture(autouse=True)
def in_one_burst(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """However many chains there are."""
    monkeypatch.setattr(few_chains, "BURST", 2**60)
    with torch.no_grad():
        yield


def rbm(visible: int, hidden: int, scale: float) -> RBM:
    torch.manual_seed(1)
    energy = RBM(visible, hidden)
    for parameter in energy.parameters():
        torch.nn.init.normal_(parameter, std=scale)
    return energy


def moved(sampler: Sampler, energy: RBM, x: Tensor, num_steps: int) -> Moved:
    """By the kernel."""
    weights = Weights(energy.W, energy.b_v, energy.b_h)
    if isinstance(sampler, DMALA):
        alpha, beta = float(sampler.step_size), float(sampler.balance)
        found = dmala_steps(weights, x, num_steps, step_size=alpha, balance=beta)
    else:
        found = block_gibbs_steps(weights, x, num_steps)
    assert found is not None
    return found


def p_value(sampler: Sampler, energy: RBM, num_steps: int, seed: int = 2) -> float:
    """That moves from all states follow the exact transition matrix: the least of their p-values times their number."""
    law, matrix = ExactLaw(energy), transition_matrix(sampler, energy).matrix_power(num_steps)
    x = law.states.float().repeat_interleave(20_000, 0)
    torch.manual_seed(seed)
    to = law.number(moved(sampler, energy, x, num_steps).x).view(len(law.states), -1)
    counts = [torch.bincount(row, minlength=len(law.states)) for row in to]
    return min(chi_square_p(*pair) for pair in zip(counts, matrix, strict=True)) * len(counts)


@cases(("sampler", "scale"), LAWS, fast=LAWS)
def test_a_step_follows_the_exact_transition_matrix(sampler: Sampler, scale: float) -> None:
    assert p_value(sampler, rbm(4, 3, scale), 1) > PASS


@cases(("sampler", "scale"), LAWS, fast=["block Gibbs", "DMALA"])
def test_steps_follow_the_powers_of_the_matrix(sampler: Sampler, scale: float) -> None:
    """Each goes on from what the one before has left."""
    assert p_value(sampler, rbm(4, 3, scale), 3) > PASS


@BOTH
def test_exact_draws_of_many_vectors_stay_exact(sampler: Sampler) -> None:
    """Of 36 visible units all but eight have weights 0 and are independent; 35 hidden ones are three vectors."""
    energy, small, count = rbm(36, 35, 0.3), RBM(8, 35), 40_000
    rows = torch.tensor([*range(4), *range(30, 34)])
    free = torch.tensor([i for i in range(36) if i not in rows])
    energy.W[free] = 0
    small.load_state_dict({"W": energy.W[rows], "b_v": energy.b_v[rows], "b_h": energy.b_h})
    law, p = ExactLaw(small), energy.b_v.sigmoid()[free].double()
    x = energy.b_v.sigmoid().expand(count, -1).bernoulli()
    x[:, rows] = law.sample(count).float()
    after = moved(sampler, energy, x, 4).x
    assert law.p_value(after[:, rows]) > PASS
    z = (after[:, free].double().mean(0) - p) / (p * (1 - p) / count).sqrt()
    assert z.square().sum() < 70, "of 28 squares of normal numbers: more has a probability of 2e-5"


@BOTH
def test_chains_are_independent(sampler: Sampler) -> None:
    """Of two that begin alike the joint law is the product, whichever place they have in a group."""
    assert least_p_of_pairs(sampler) > PASS


def least_p_of_pairs(sampler: Sampler) -> float:
    energy, found = rbm(2, 2, 1.0), []
    law, matrix = ExactLaw(energy), transition_matrix(sampler, energy)
    torch.manual_seed(2)
    for start, row in enumerate(matrix):
        to = law.number(moved(sampler, energy, law.states[start].float().expand(64_000, -1), 1).x)
        for apart in (1, 2, 4, 16, 32):
            first, second = to.view(-1, 2, apart).unbind(1)
            counts = torch.bincount((4 * first + second).flatten(), minlength=16)
            found.append(chi_square_p(counts, torch.outer(row, row).flatten()))
    return min(found) * len(found)


@BOTH
@pytest.mark.parametrize("chains", [1, 7, 33, 70])
def test_the_number_of_threads_changes_no_bit(sampler: Sampler, chains: int) -> None:
    energy, before, found = rbm(67, 65, 0.2), torch.get_num_threads(), []
    x = energy.random(chains)
    try:
        for threads in (1, 3):
            torch.set_num_threads(threads)
            torch.manual_seed(5)
            found.append(moved(sampler, energy, x, 20))
    finally:
        torch.set_num_threads(before)
    for one, three in zip(*found, strict=True):
        assert torch.equal(one, three)


@BOTH
def test_steps_are_taken_in_bursts(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python hears signals after each. Each draws a seed, and reports add up."""
    energy, last = rbm(5, 4, 0.5), torch.zeros(3, 5)
    monkeypatch.setattr(few_chains, "BURST", 2 * 3 * (16 * 16 + few_chains.UNIT * 32) + 1)  # two steps
    torch.manual_seed(3)
    whole = moved(sampler, energy, last, 7)
    after = torch.get_rng_state()
    torch.manual_seed(3)
    acceptance, hops = torch.zeros(2, 3).double()
    for steps in (2, 2, 2, 1):
        burst = moved(sampler, energy, last, steps)
        last, acceptance, hops = burst.x, acceptance + burst.acceptance, hops + burst.hops
    assert torch.equal(torch.get_rng_state(), after)
    for one, other in zip(whole, (last, acceptance, hops), strict=True):
        torch.testing.assert_close(one, other, rtol=1e-12, atol=0)


@BOTH
def test_hops_are_what_states_say(sampler: Sampler) -> None:
    energy = rbm(67, 65, 0.1)
    x = energy.random(50)
    after = moved(sampler, energy, x, 1)
    assert torch.equal(after.hops, (after.x != x).sum(1).double())
    assert after.hops.count_nonzero() > 0 and after.hops.max() < 67


def test_acceptance_of_dmala_is_that_of_float64() -> None:
    """A chain that has moved has told its proposal, whose probability follows from the paper's formulas."""
    energy, double, alpha = rbm(77, 69, 0.1), RBM(77, 69).double(), 0.2
    double.load_state_dict(energy.state_dict())
    x = moved(BlockGibbs(), energy, energy.random(2000), 5).x
    after = moved(DMALA(alpha), energy, x, 1)
    ratio = log_ratio(double, x.double(), after.x.double(), alpha)
    told = after.hops > 0
    assert told.sum() > 1000 and (ratio[told] < 0).sum() > 100
    assert (after.acceptance - ratio.clamp(max=0).exp())[told].abs().max() < 1e-5


def log_ratio(energy: Energy, x: Tensor, y: Tensor, alpha: float) -> Tensor:
    """Log of p(y) q(x | y) / (p(x) q(y | x)) with balance 1/2 (Zhang et al. 2022, Eq. 2, 3)."""

    def log_q(start: Tensor, end: Tensor) -> Tensor:
        away = torch.stack([-start, 1 - start])
        log_law = (-energy.gradient(start) * away / 2 - away.square() / (2 * alpha)).log_softmax(0)
        return torch.where(end == 1, log_law[1], log_law[0]).sum(1)

    return energy(x) - energy(y) + log_q(y, x) - log_q(x, y)


def test_inputs_do_not_drift(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Those that DMALA has kept for 20,000 steps are W'x: float64 adds and subtracts such numbers without rounding."""
    text = (
        (library.FOLDER / "dmala.cpp").read_text()
        + """
        extern "C" void kept(const Rbm& rbm, const float* still, int64_t steps, float* x, double* inputs) {
          Chain chain(rbm, x, RandomWords(7, 0));
          for (int64_t step = 0; step <= steps; ++step) {
            average(rbm, chain);
            for (int64_t i = 0; i < rbm.visible; i += FLOATS) multiply(rbm, i, {&chain.means[0]}, {&chain.field[0]});
            guide(rbm, {still, 1}, chain);
            if (step)
              decide(rbm, chain);
            else
              std::swap(chain.here, chain.there);
            if (step < steps) propose(rbm, chain);
          }
          std::copy(&chain.here.bits[0], &chain.here.bits[0] + rbm.visible, x);
          std::copy(&chain.here.inputs[0], &chain.here.inputs[0] + rbm.hidden, inputs);
        }
    """
    )
    made, energy = compiled(text, tmp_path, monkeypatch), rbm(64, 48, 0.2)
    x, inputs, still = energy.random(1), torch.zeros(48).double(), torch.full((64,), -1.0)
    start = x.clone()
    sizes = (ctypes.c_int64(64), ctypes.c_int64(48))
    parts = (ctypes.c_int64 * 5)(*(p.data_ptr() for p in (energy.W, energy.b_v, energy.b_h)), *(n.value for n in sizes))
    made.kept(parts, *pointers(still), ctypes.c_int64(20_000), *pointers(x, inputs))
    assert 5 < (x != start).sum() < 60
    exact = x[0].double() @ energy.W.double() + energy.b_h.double()
    torch.testing.assert_close(inputs, exact, rtol=1e-13, atol=1e-13)


def test_functions_are_right_to_a_millionth(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    text = """
        #include "logistic.hpp"
        extern "C" void values(const float* x, float* means, float* sums, int64_t count) {
          for (int64_t i = 0; i < count; i += FLOATS) {
            store(means + i, sigmoid(load(x + i)));
            store(sums + i, softplus(load(x + i)));
          }
        }
    """
    odd = torch.tensor(
        [0.0, -0.0, 1e-30, -1e-30, 1e30, -1e30, 87.5, -88.5, torch.inf, -torch.inf, torch.nan, -torch.nan]
    )
    x = torch.cat([odd, torch.linspace(-87, 90, 160_000 - len(odd))])
    means, sums = torch.zeros(2, len(x))
    compiled(text, tmp_path, monkeypatch).values(*pointers(x, means, sums), ctypes.c_int64(len(x)))
    exact = x.double().sigmoid(), torch.logaddexp(x.double(), torch.zeros_like(x).double())
    for found, expected in zip((means, sums), exact, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-37, equal_nan=True)


def test_coins_have_their_odds_at_both_ends(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The less likely value comes up for random words below its probability, to 31 digits. What is certain happens."""
    text = """
        #include "logistic.hpp"
        extern "C" void drawn(const float* logits, const float* words, float* bits, int64_t count) {
          for (int64_t i = 0; i < count; i += FLOATS)
            store(bits + i, coins(load(logits + i), reinterpret_cast<Words>(load(words + i))));
        }
    """
    logits = torch.linspace(-21, 21, 4096)
    rare = 2.0**31 * (-logits.double().abs()).sigmoid()
    library, bits = compiled(text, tmp_path, monkeypatch), torch.zeros(4096)

    def draw(logits: Tensor, word: Tensor) -> Tensor:
        words = (2 * word.long()).clamp(0, 2**32 - 1)
        words = words.where(words < 2**31, words - 2**32).int()
        library.drawn(*pointers(logits, words, bits), ctypes.c_int64(4096))
        return bits

    likely = (logits > 0).float()
    assert torch.equal(draw(logits, (rare * (1 + 1e-6) + 1).floor()), likely)
    assert torch.equal(draw(logits, (rare * (1 - 1e-6) - 1).floor())[rare > 2], (1 - likely)[rare > 2])
    certain = torch.where(logits > 0, 1000.0, -1000.0)
    for word in (0, 2**31 - 1):
        assert torch.equal(draw(certain, torch.full_like(rare, word)), likely)


def pointers(*tensors: Tensor) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(t.data_ptr()) for t in tensors]


MUTANTS = {
    "no rows": ("block_gibbs", "  add_rows(rbm, first, chain);\n}", "}"),
    "inputs are not begun anew": ("block_gibbs", "store(&chain.inputs[j], load(rbm.hidden_bias + j));", ""),
    "no bias": ("block_gibbs", "rbm.visible_bias[first + i + r] + sum", "sum"),
    "odds": ("block_gibbs", "* 0x1p31f ?", "* 0x1.1p31f ?"),
    "free energies": ("dmala", "there.free - here.free", "here.free - there.free"),
    "normalisers": ("dmala", "+ here.normaliser - there.normaliser", ""),
    "no way back": ("dmala", "ratio += double(there.logits[i]) - here.logits[i];", ""),
    "visible bias": ("dmala", "ratio += double(rbm.visible_bias[i]) * (there.bits[i] - here.bits[i]);", ""),
    "all are accepted": ("dmala", "* 0x1p-53 < probability", "* 0x1p-53 < 1"),
    "inputs of x": ("dmala", "add_row(rbm, i, there.bits[i] - here.bits[i], there);", ";"),
    "softplus": ("dmala", "(x > 0.f ? x : Floats{}) + 2.f", "2.f"),
    "slope": ("dmala", "proposals.slope * rise", "0.9f * proposals.slope * rise"),
}


@cases(("name", "old", "new"), MUTANTS, fast=["no rows", "no way back"])
def test_a_wrong_kernel_is_noticed(
    name: str, old: str, new: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    wrong(name, old, new, tmp_path, monkeypatch)
    sampler, energy = (BlockGibbs() if name == "block_gibbs" else DMALA(0.7)), rbm(4, 3, 1.0)
    assert min(p_value(sampler, energy, steps) for steps in (1, 2)) < FAIL


@cases("name", ["block_gibbs", "dmala"], fast=[0])
def test_chains_of_one_stream_are_noticed(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    wrong(name, "+ 4 * WORDS * stream *", "+ 0 * stream *", tmp_path, monkeypatch)
    assert least_p_of_pairs(BlockGibbs() if name == "block_gibbs" else DMALA(0.4)) < FAIL


def wrong(name: str, old: str, new: str, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Has a mutant make the steps, whose own check is left out."""
    own = MODULES[name]
    settings = own.checked().argtypes[2:-3]
    with monkeypatch.context() as patch:
        replace(old, new, folder, patch)
        found = few_chains.kernel(name, lambda steps: True, *settings)
    assert found is not None
    monkeypatch.setattr(own, "checked", lambda: found)


@cases("name", ["block_gibbs", "dmala"], fast=[1])
def test_a_kernel_whose_steps_come_out_wrong_is_not_used(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Bits are drawn the other way round."""
    check = MODULES[name].checked.__wrapped__
    assert check() is not None
    replace("1.f - likely : likely", "likely : 1.f - likely", tmp_path, monkeypatch)
    assert check() is None


def test_sums_that_would_lose_small_terms_are_torchs() -> None:
    """A unit whose weight is 1e17 is on and off again: the hidden unit's bias still counts then."""
    energy = rbm(1, 1, 1.0)
    for parameter, value in zip((energy.W, energy.b_v, energy.b_h), (1e17, -1e17, 5.0), strict=True):
        parameter.fill_(value)
    last = DMALA(1e4, balance=0.0).last_states(energy, torch.zeros(48, 1), 1500)
    assert float(last.mean()) < 0.1  # it is 1 / (1 + exp(5))


def test_parameters_that_do_not_fit_are_not_read() -> None:
    x, weight = torch.zeros(2, 3), torch.zeros(3, 2)
    for bias, hidden_bias in ((torch.zeros(1), torch.zeros(2)), (torch.zeros(3), torch.zeros(1))):
        assert block_gibbs_steps(Weights(weight, bias, hidden_bias), x, 8) is None
    weights = Weights(weight, torch.zeros(3), torch.zeros(2))
    assert block_gibbs_steps(weights, x[:, :2], 8) is None
    assert block_gibbs_steps(weights, x[:0], 8) is None
    assert dmala_steps(weights, x[:0], 8, step_size=0.2, balance=0.5) is None
