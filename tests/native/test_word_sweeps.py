"""The kernel that sweeps chains in words: exact laws, independent chains, every flip counted; mutants of its text."""

from __future__ import annotations

import copy
import itertools
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_native import replace, unchecked
from helpers_spins import MODELS, chi_square_p, exact, ising, metropolis_up
from helpers_tier import cases
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ebmlab.energies import Ising
from ebmlab.native import word_sweeps
from ebmlab.native.word_sweeps import kernel
from ebmlab.samplers import ChromaticGibbs, ChromaticMetropolis
from ebmlab.samplers import multi_spin as coding
from ebmlab.samplers.multi_spin import LARGEST, MultiSpin, multi_spin
from ebmlab.samplers.spin_rules import Rule, heat_bath, metropolis

pytestmark = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")
every_rule = pytest.mark.parametrize("rule", [heat_bath, metropolis])
every_model = pytest.mark.parametrize("energy", MODELS.values(), ids=MODELS)
CHAINS = 4096
SEVEN = ising({(0, i): 0.5 * (-1) ** i for i in range(1, 8)}, [0.0] + 7 * [0.5])  # pulls: the last with code of its own
EIGHT = ising({(0, i): 0.5 * (-1) ** i for i in range(1, 8)}, 8 * [0.5])


def coded(energy: Ising) -> MultiSpin:
    found = multi_spin(energy)
    assert found is not None
    return found


def worst(energy: Ising, rule: Rule, *, states: Tensor | None = None, chains: int = CHAINS) -> float:
    """Of how often each spin becomes +1, from each state: the largest deviation, in standard deviations."""
    x = energy.domain.enumerate().to(energy.dtype) if states is None else states
    deviation = 0.0
    for beta in (0.3, 1.1):
        model = copy.copy(coded(energy))
        for group in model.groups:
            words, sites = model.packed(x.repeat_interleave(chains, 0)), model.order[group.begin : group.end]
            one = copy.copy(model)
            one.groups = [group]
            one.sweeps(words, [beta], rule)
            up = model.unpacked(words, chains * len(x)).view(len(x), chains, -1).gt(0).double().mean(1)[:, sites]
            field = 2 * beta * energy.local_field(x).double()
            p = (torch.sigmoid(field) if rule is heat_bath else metropolis_up(x, field))[:, sites]
            spread = (p * (1 - p) / chains).sqrt() + 1e-9
            deviation = max(deviation, float(((up - p).abs() / spread).max()))
    return deviation


@every_model
@every_rule
def test_every_conditional_is_the_exact_one(energy: Ising, rule: Rule) -> None:
    assert worst(energy, rule) < 5


@every_rule
def test_hubs_have_the_exact_law_at_each_of_their_fields(rule: Rule) -> None:
    """So many neighbours as are allowed, of which none, one, ... and all are up; the same from weights."""
    size = LARGEST + 1
    star = ising({(0, i): 0.125 * (-1.0) ** i for i in range(1, size)}, [0.0] * size)
    up = torch.tril(torch.ones(size, size))[:, torch.randperm(size)].mul(2).sub(1)
    weights = ising({(0, 1): 31 / 8, (0, 2): -20 / 8, (1, 2): 1 / 8}, [11 / 8, 0.0, 0.0])
    assert worst(star, rule, states=torch.cat([up, -up])) < 5.5 and worst(weights, rule) < 5
    assert worst(SEVEN, rule) < 5 and worst(EIGHT, rule) < 5


def numbers(model: MultiSpin, words: Tensor, chains: int) -> Tensor:
    """The states by number, `(chains,)`."""
    bits = model.unpacked(words, chains).gt(0).long()
    return bits @ (2 ** torch.arange(bits.shape[1]).flip(0))


def swept(energy: Ising, x: Tensor, betas: list[float], rule: Rule, chains: int) -> Tensor:
    model = coded(energy)
    words = model.packed(x.expand(chains, -1).contiguous())
    model.sweeps(words, betas, rule)
    return numbers(model, words, chains)


@every_model
@every_rule
def test_two_sweeps_have_the_law_of_sweeps_by_colours(energy: Ising, rule: Rule) -> None:
    betas, states = [0.4, 1.3], energy.domain.enumerate().to(energy.dtype)
    counts = torch.bincount(swept(energy, states[2], betas, rule, 2**17), minlength=len(states))
    assert chi_square_p(counts, exact(energy, 2, betas, rule)) > 1e-3


@every_rule
@pytest.mark.parametrize("chains", [50, 100, 200, 500, 1000])
def test_tables_of_every_width_have_the_exact_law(rule: Rule, chains: int) -> None:
    """Of 1, 2, 4, 8 and 16 words, over many calls."""
    energy, betas = MODELS["weights and fields"], [0.4, 1.3]
    states = energy.domain.enumerate().to(energy.dtype)
    found = torch.cat([swept(energy, states[5], betas, rule, chains) for _ in range(2**16 // chains)])
    counts = torch.bincount(found, minlength=len(states))
    assert chi_square_p(counts, exact(energy, 5, betas, rule)) > 1e-3


def least_p(chains: int = 2**17) -> float:
    """Of chains side by side in a word, of the halves of all words, and of a lattice whose parts are far apart."""
    energy, betas = Ising.lattice(2, 0.7, field=0.7), [0.4, 0.8]
    found = swept(energy, energy.domain.enumerate()[2].to(energy.dtype), betas, heat_bath, chains)
    law = exact(energy, 2, betas)
    pairs = torch.outer(law, law).flatten()
    halves = (found[::2], found[1::2]), (found[: chains // 2], found[chains // 2 :])
    least = min(chi_square_p(torch.bincount(16 * a + b, minlength=256), pairs) for a, b in halves)
    return min(least, squares_p(energy, betas, law, pairs))


def squares_p(energy: Ising, betas: list[float], law: Tensor, pairs: Tensor) -> float:
    """256 such lattices in one graph: those side by side, and those in other chunks of a colour."""
    a, b, size = energy.edges().rows, energy.edges().columns, 4
    matrix = torch.zeros(1024, 1024)
    for i in range(256):
        matrix[a + size * i, b + size * i] = energy.edges().values
    model = coded(Ising(matrix, 0.7))
    words = model.packed(energy.domain.enumerate()[2].float().repeat(64, 256))
    words = torch.cat([words] * 8, 1)
    model.sweeps(words, betas, heat_bath)
    bits = model.unpacked(words, 512).gt(0).long().view(512, 256, 4)
    found = bits @ (2 ** torch.arange(4).flip(0))
    least = 1.0
    for one, two in ((found[:, ::2], found[:, 1::2]), (found[:, :128], found[:, 128:])):
        counts = torch.bincount((16 * one + two).flatten(), minlength=256)
        least = min(least, chi_square_p(counts, pairs))
    return least


def test_chains_and_sites_are_independent() -> None:
    assert least_p() > 1e-4


@every_rule
@pytest.mark.parametrize("chains", [1, 70, 130, 500, 520, 1000])
def test_each_flip_is_counted(rule: Rule, chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Over calls of a few sweeps: states after each of them come from the same random numbers."""
    energy = Ising.lattice(22, 0.4, field=0.4)
    model = coded(energy)
    start = model.packed(energy.random(chains))
    states = [model.unpacked(start, chains)]
    for steps in range(1, 5):
        words = start.clone()
        torch.manual_seed(3)
        flips = model.sweeps(words, [1.0] * steps, rule, report=True)
        states.append(model.unpacked(words, chains))
    moved = sum((after != before).sum(1) for before, after in itertools.pairwise(states))
    assert flips is not None and torch.equal(flips[:chains], torch.as_tensor(moved)) and int(flips.sum()) > 0
    monkeypatch.setattr(word_sweeps, "AT_ONCE", words.numel())
    again = start.clone()
    one_by_one = model.sweeps(again, [1.0] * 200, rule, report=True)
    monkeypatch.setattr(word_sweeps, "AT_ONCE", 2**40)
    at_once = model.sweeps(start.clone(), [1.0] * 200, rule, report=True)
    assert one_by_one is not None and at_once is not None
    mean, other = (n[:chains].double().mean() / 200 / 484 for n in (one_by_one, at_once))
    assert abs(float(mean - other)) < 0.1 / chains**0.5
    assert not again[-1].any()


@pytest.mark.parametrize("chains", [60, 130, 2000])
def test_the_number_of_threads_changes_no_bit(chains: int) -> None:
    energy = Ising.lattice(80, 0.4)
    model, found = coded(energy), []
    start = model.packed(energy.random(chains))
    for threads in (1, 3):
        torch.set_num_threads(threads)
        torch.manual_seed(1)
        words = start.clone()
        found.append((words, model.sweeps(words, [0.5, 1.0], metropolis, report=True)))
    assert torch.equal(found[0][0], found[1][0]) and torch.equal(found[0][1], found[1][1])  # type: ignore[arg-type]


@pytest.mark.parametrize("chains", [1, 64, 65, 200, 577])
def test_states_are_packed_and_unpacked(chains: int, monkeypatch: pytest.MonkeyPatch) -> None:
    model, x = coded(Ising.lattice(7, 0.5)), Ising.lattice(7, 0.5).random(chains)
    turned = x.T.contiguous().T
    words = model.packed(x)
    assert torch.equal(model.packed(turned), words)
    back = model.unpacked(words, chains, torch.float32)
    assert torch.equal(back, x) and back.is_contiguous()
    monkeypatch.setattr(coding, "by_kernel", lambda device: False)
    assert torch.equal(model.packed(x), words) and torch.equal(model.unpacked(words, chains, torch.float32), x)


@pytest.mark.parametrize("sampler", [ChromaticGibbs(), ChromaticMetropolis()], ids=["Gibbs", "Metropolis"])
@pytest.mark.parametrize("compile", [False, True])
@pytest.mark.parametrize("chains", [1, 300])
def test_samplers_use_it_with_any_number_of_chains(
    sampler: ChromaticGibbs, compile: bool, chains: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One sweep says what it does: the report is of the states."""
    monkeypatch.setattr(Ising, "conditional", None)
    energy = Ising.lattice(5, 0.25, field=0.5)
    x = energy.random(chains)
    last, info = sampler.sample(energy, x, 1, compile=compile)
    assert torch.equal(info.hops, (last != x).sum(1).float()) and info.evaluations == 1
    shares = torch.ones(chains) if type(sampler) is ChromaticGibbs else info.hops / 25
    torch.testing.assert_close(info.acceptance, shares)
    torch.manual_seed(2)
    last = sampler.last_states(energy, x, 3, compile=compile)
    torch.manual_seed(2)
    assert torch.equal(sampler.sample(energy, x, 3, compile=compile)[0], last) and last.dtype == x.dtype


MUTANTS = {
    "a carry is lost": ("pull = carry;", "pull = Words{};"),
    "signs of couplings": ("^ static_cast<uint64_t>(*masks)", ""),
    "weights all alike": ("for (int b = static_cast<int>(group.bits[i]); b < D; ++b) add(b);", "add(0);"),
    "the field turned round": ("after = upwards ^ below;", "after = ~upwards ^ below;"),
    "spins against the field by chance": ("(below & ~(before ^ along))", "below"),
    "ties as if down": ("total % 2 ? upwards : upwards | (alike[0] & before)", "upwards"),
    "one digit less": ("level < LEVELS && any(open)", "level < 3 && any(open)"),
    "decided digits count": ("below |= open & wanted & ~number;", "below |= wanted & ~number;"),
    "digits turned round": ("(LEVELS - 1 - level)", "level"),
    "thresholds of the first sweep": (
        "if (!s || memcmp(own, own - num_groups * CLASSES, sizeof(uint32_t) * CLASSES))",
        "if (!s)",
    ),
    "one stream for all chunks": ("RandomWords(seed, stream)", "RandomWords(seed, 0)"),
    "streams that start again": ("chunk.random = random;", ""),
}


@cases(
    "name", {name: name for name in MUTANTS}, fast=["a carry is lost", "one digit less", "one stream for all chunks"]
)
def test_a_wrong_law_is_seen(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = kernel()
    replace(*MUTANTS[name], tmp_path, monkeypatch)
    library = unchecked("word_sweeps", right)
    monkeypatch.setattr(word_sweeps, "kernel", lambda: library)
    energy, betas = MODELS["weights and fields"], [0.4, 1.3]
    states = energy.domain.enumerate().to(energy.dtype)
    least = least_p()
    for rule in (heat_bath, metropolis):
        counts = torch.bincount(swept(energy, states[2], betas, rule, 2**14), minlength=len(states))
        least = min(least, chi_square_p(counts, exact(energy, 2, betas, rule)))
    assert least < 1e-6 or max(worst(energy, heat_bath), worst(energy, metropolis)) > 6


def test_a_kernel_that_does_not_follow_the_field_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace("after = upwards ^ below;", "after = ~upwards ^ below;", tmp_path, monkeypatch)
    assert kernel.__wrapped__() is None


def test_no_call_is_without_a_sweep(monkeypatch: pytest.MonkeyPatch) -> None:
    """However large the table is, however many sweeps of a small one there are, or none at all."""
    model, lengths, library = coded(Ising.lattice(5, 0.4)), list[int](), kernel()
    words = model.packed(torch.ones(10, 25))

    class Counted:
        def sweep(self, *args: Any) -> None:
            lengths.append(args[5])
            library.sweep(*args)  # type: ignore[union-attr]

    monkeypatch.setattr(word_sweeps, "kernel", Counted)
    assert model.sweeps(words, [], metropolis, report=True).tolist() == [0] * 64  # type: ignore[union-attr]
    lengths.clear()
    monkeypatch.setattr(word_sweeps, "AT_ONCE", 10)
    model.sweeps(words, [1.0] * 3, metropolis)
    assert lengths == [1, 1, 1]
    lengths.clear()
    monkeypatch.setattr(word_sweeps, "AT_ONCE", 2**12)
    model.sweeps(words, [1.0] * 1000, metropolis)
    assert max(lengths) * len(model.groups) * word_sweeps.CLASSES <= 2**12


def test_modes_of_torch_keep_the_kernel_out() -> None:
    """Tensors of `FakeTensorMode` have no addresses, and those of the kernel's trial would be such."""
    with FakeTensorMode():
        assert not word_sweeps.by_kernel(torch.device("cpu"))
    assert word_sweeps.by_kernel(torch.device("cpu"))
