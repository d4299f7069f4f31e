"""The kernel of sweeps by single spins: the law of each draw, independent chains, reports; mutants of its text."""

from __future__ import annotations

import ctypes
import math
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from helpers_native import compiled, replace, unchecked
from helpers_tier import cases
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from ebmlab.native import ising_sweeps as module
from ebmlab.native import sweeps
from ebmlab.native.ising_sweeps import HEAT_BATH, kernels, sweep
from ebmlab.native.sweeps import BLOCK, Rows
from ebmlab.testing import chi_square_p

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512"),
    pytest.mark.usefixtures("sampling"),
]
TIES = 0.8
RULES = {"heat bath": HEAT_BATH, "Metropolis": TIES}
every_rule = pytest.mark.parametrize("ties", RULES.values(), ids=RULES)


def rows_of(matrix: Tensor, fields: Tensor, order: Tensor | None = None) -> Rows:
    """The entries of J that are not 0, in an order of the sites."""
    order = torch.arange(len(fields)) if order is None else order
    used = matrix[order] != 0
    degrees = used.sum(1)
    return Rows(order, degrees.cumsum(0) - degrees, used.nonzero()[:, 1], matrix[order][used], fields[order])


def matrix(size: int, couplings: dict[tuple[int, int], float]) -> Tensor:
    found = torch.zeros(size, size)
    for (i, j), value in couplings.items():
        found[i, j] = found[j, i] = value
    return found


def dense(size: int) -> Tensor:
    upper = torch.randn(size, size, generator=torch.Generator().manual_seed(3)).triu(1)
    return (upper + upper.T) * 0.6


MODELS = {
    "degrees 0 to 3": (
        matrix(5, {(0, 1): 0.5, (0, 2): -0.9, (1, 2): -0.3, (0, 3): 0.77}),
        torch.tensor([0.0, 0.3, -0.4, 0, 0.6]),
    ),
    "all pairs": (dense(5), torch.linspace(-0.5, 0.7, 5)),
    "one order of each pair": (dense(4).triu(), torch.linspace(0.6, -0.3, 4)),  # no energy has such rows
    "ties": (matrix(4, {(0, 1): 1.0, (1, 2): -1.0, (2, 3): 1.0, (0, 3): 1.0}), torch.zeros(4)),
    "fields alone": (torch.zeros(3, 3), torch.tensor([0.0, -0.75, 0.5])),
}
models = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS)
Model = tuple[Tensor, Tensor]


def states(size: int) -> Tensor:
    """All of them, `(2^d, d)`; the first spin changes last."""
    return torch.cartesian_prod(*[torch.tensor([-1.0, 1.0])] * size).view(-1, size)


def up(field: Tensor, x: Tensor, beta: float, ties: float) -> Tensor:
    """The probability that a spin x ends up, in float64."""
    z = 2 * beta * field.double()
    if ties < 0:
        return torch.sigmoid(z)
    cost = z * x.double()
    flip = torch.where(cost == 0, ties, (-cost).exp().clamp(max=1))
    return torch.where(x > 0, 1 - flip, flip)


def law(model: Model, start: int, betas: list[float], ties: float) -> Tensor:
    """Of one chain after moves of one site after the other, `(2^d,)`."""
    x = states(len(model[1]))
    found = torch.zeros(len(x), dtype=torch.float64)
    found[start] = 1
    for beta in betas:
        for i in range(x.shape[1]):
            p = up(x @ model[0][i] + model[1][i], x[:, i], beta, ties)
            bit = 1 << (x.shape[1] - 1 - i)
            number = torch.arange(len(x))
            found = (
                torch.zeros_like(found)
                .index_add(0, number | bit, found * p)
                .index_add(0, number & ~bit, found * (1 - p))
            )
    return found


def swept(model: Model, table: Tensor, betas: list[float], ties: float) -> Tensor:
    """The states of chains `(d, B)` by number, after sweeps."""
    assert sweep(table, rows_of(*model), betas=betas, ties=ties) is not None
    return (table > 0).long().T @ (2 ** torch.arange(len(table)).flip(0))


def worst_p(ties: float, names: dict[str, Model] = MODELS) -> float:
    """Of two sweeps of 2^17 chains from one state, over all models."""
    found = []
    for model in names.values():
        size = len(model[1])
        table = states(size)[[2]].T.repeat(1, 2**17)
        counts = torch.bincount(swept(model, table, [0.4, 1.3], ties), minlength=2**size)
        found.append(chi_square_p(counts, law(model, 2, [0.4, 1.3], ties)))
    return min(found)


@every_rule
def test_two_sweeps_have_the_law_of_moves_of_one_site_after_the_other(ties: float) -> None:
    assert worst_p(ties) > 1e-4


@every_rule
@models
@pytest.mark.parametrize("beta", [0.1, 1.0, 7.0])
def test_every_conditional_is_exact(model: Model, ties: float, beta: float) -> None:
    """Each site is the first that is moved, so that its law depends on the start alone."""
    x, num_chains = states(len(model[1])), 2**13
    for i in range(x.shape[1]):
        order = torch.tensor([i, *(j for j in range(x.shape[1]) if j != i)])
        table = x.repeat_interleave(num_chains, 0).T.contiguous()
        assert sweep(table, rows_of(*model, order=order), betas=[beta], ties=ties) is not None
        counts = (table[i] > 0).view(len(x), -1).double().sum(1)
        p = up(x @ model[0][i] + model[1][i], x[:, i], beta, ties)
        error = 5 * (num_chains * p * (1 - p)).sqrt() + 4
        assert bool(((counts - num_chains * p).abs() <= error).all())


@every_rule
@pytest.mark.parametrize("degree", [1, 2, 15, 16, 17, 300])
def test_hubs_add_up_all_their_neighbours(degree: int, ties: float) -> None:
    """The hub's field is between -2 and 2 in chains whose neighbours differ."""
    weights = torch.randn(degree) / math.sqrt(degree)
    couplings = matrix(degree + 1, {(0, j + 1): float(w) for j, w in enumerate(weights)})
    model, start = (couplings, torch.zeros(degree + 1) + 0.2), torch.randint(2, (degree + 1, 50)) * 2.0 - 1
    table = start.repeat(1, 2000)
    assert sweep(table, rows_of(*model), betas=[0.9], ties=ties) is not None
    p = up(start.T.double() @ couplings[0].double() + 0.2, start[0], 0.9, ties)
    counts = (table[0] > 0).view(2000, 50).double().sum(0)
    assert bool(((counts - 2000 * p).abs() < 5 * (2000 * p * (1 - p)).sqrt() + 4).all())


@every_rule
@pytest.mark.parametrize("p", [1e-3, 1e-5, 3e-7])
def test_rare_events_are_as_rare_as_they_must_be(p: float, ties: float) -> None:
    """So are those of one in millions, and nothing happens that is less likely than 2^-32."""
    z = math.log(1 / p - (1 if ties < 0 else 0))
    seen, expected = 0, 2**25 * p
    fields = torch.full((32,), z / 2)
    for _ in range(8):
        table = torch.ones(32, 2**17)
        assert sweep(table, rows_of(torch.zeros(32, 32), fields), betas=[1.0], ties=ties) is not None
        seen += int((table < 0).sum())
    assert abs(seen - expected) < 5 * math.sqrt(expected) + 3
    for far in (12.0, 60.0, math.inf):
        table = torch.ones(32, 2**17)
        assert sweep(table, rows_of(torch.zeros(32, 32), fields * 0 + far), betas=[1.0], ties=ties) is not None
        assert bool((table > 0).all())


def independence_p() -> float:
    """Of neighbours in a vector, vectors of a block, blocks, sites and sweeps, in pairs."""
    table = torch.ones(2, 2**18)
    rows = rows_of(torch.zeros(2, 2), torch.tensor([0.3, -0.2]))
    assert sweep(table, rows, betas=[1.0], ties=HEAT_BATH) is not None
    first = (table > 0).long()
    assert sweep(table, rows, betas=[1.0], ties=HEAT_BATH) is not None
    p = torch.sigmoid(2 * rows.fields.double())
    pairs = [
        (first[0], (table[0] > 0).long(), p[0], p[0]),
        (first[0], first[1], p[0], p[1]),
        *((first[0], first[0].roll(shift), p[0], p[0]) for shift in (1, 4, 8, BLOCK // 2, BLOCK, 3 * BLOCK, 2**17)),
    ]
    both = [torch.outer(torch.stack([1 - one, one]), torch.stack([1 - two, two])) for _, _, one, two in pairs]
    counts = [torch.bincount(2 * a + b, minlength=4) for a, b, _, _ in pairs]
    return min(chi_square_p(n, law.flatten()) for n, law in zip(counts, both, strict=True))


def test_chains_sites_and_sweeps_are_independent() -> None:
    assert independence_p() > 1e-4


@every_rule
def test_the_number_of_threads_and_calls_does_not_matter(ties: float) -> None:
    """Threads change no bit. A seed repeats the chains, and another one does not."""
    rows, before, found = rows_of(dense(30), torch.zeros(30)), torch.get_num_threads(), []
    try:
        for threads, seed in ((1, 5), (3, 5), (3, 6)):
            torch.set_num_threads(threads)
            torch.manual_seed(seed)
            table, hops = torch.ones(30, 333), torch.zeros(333)
            assert sweep(table, rows, betas=[0.5] * 20, ties=ties, hops=hops) is not None
            found.append(torch.cat([table, hops.unsqueeze(0)]))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@every_rule
@pytest.mark.parametrize("burst", [2**31, 1])
def test_reports_count_each_change(burst: int, ties: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """In calls of one sweep of a few chains, too: each sweep is compared with the states before it."""
    monkeypatch.setattr(sweeps, "BURST", burst)
    rows, table = rows_of(dense(9), torch.zeros(9)), torch.ones(9, 3 * BLOCK + 5)
    for beta in (0.2, 1.0):
        before, hops = table.clone(), torch.full((table.shape[1],), 100.0)
        total = sweep(table, rows, betas=[beta], ties=ties, hops=hops)
        assert total is not None and bool(total.isfinite().all())
        assert torch.equal(hops - 100, (table != before).sum(0).float())
    strong, table, hops = rows_of(torch.zeros(9, 9), torch.full((9,), 50.0)), -torch.ones(9, 40), torch.zeros(40)
    assert sweep(table, strong, betas=[9.0] * 7, ties=ties, hops=hops) is not None
    assert bool((table == 1).all()) and bool((hops == 9).all())


@every_rule
def test_calls_take_all_sweeps_and_chains(ties: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each sweep at its own temperature, in however many calls."""
    monkeypatch.setattr(sweeps, "BURST", 1)
    model, betas = MODELS["all pairs"], [0.4, 1.3, 0.1]
    table = states(5)[[2]].T.repeat(1, 2**13)
    counts = torch.bincount(swept(model, table, betas, ties), minlength=32)
    assert chi_square_p(counts, law(model, 2, betas, ties)) > 1e-4


@every_rule
def test_fields_that_are_not_finite(ties: float) -> None:
    """Infinite ones are obeyed. Chains whose field is NaN are told, and no others."""
    couplings = matrix(4, {(0, 1): math.inf, (1, 2): math.inf})
    table = torch.tensor([[1.0, 1, -1], [1, 1, 1], [1, -1, 1], [1, 1, 1]]).repeat(1, 20)
    rows = rows_of(couplings, torch.tensor([0.0, 0.0, 0.0, 0.0]), torch.tensor([1, 0, 2, 3]))
    total = sweep(table, rows, betas=[1.0], ties=ties)
    assert total is not None
    assert total.isnan().tolist() == [False, True, True] * 20
    assert bool((table[:3, ::3] == 1).all())
    for value in (math.nan, math.inf - math.inf):
        total = sweep(table, rows_of(torch.zeros(4, 4), torch.tensor([0.0, 0.0, value, 0.0])), betas=[1.0], ties=ties)
        assert total is not None and bool(total.isnan().all())
    assert bool((table.abs() == 1).all())


def test_what_the_kernel_cannot_read_is_left_alone() -> None:
    rows, table = rows_of(dense(4), torch.zeros(4)), torch.ones(4, 50)
    wide = Rows(rows.order, rows.offsets, rows.others, rows.weights.double(), rows.fields)
    beyond = [Rows(rows.order, rows.offsets, rows.others + shift, rows.weights, rows.fields) for shift in (-1, 1)]

    class Own(Tensor):
        pass

    for wrong, given in (
        (table.double(), rows),
        (table.to("meta"), rows),
        (table.T.contiguous().T, rows),
        (table.as_subclass(Own), rows),
        (table, wide),
        *((table, where) for where in beyond),
    ):
        assert sweep(wrong, given, betas=[1.0]) is None
    with FlopCounterMode(display=False):
        assert sweep(table, rows, betas=[1.0]) is None
    assert bool((table == 1).all())


def test_threads_without_chains_take_no_memory() -> None:
    text = (
        "import resource, torch\n"
        "from ebmlab.native.ising_sweeps import kernels, sweep\n"
        "from ebmlab.native.sweeps import Rows\n"
        "assert kernels() is not None\n"
        "order, none = torch.arange(2**17), torch.zeros(0)\n"
        "rows = Rows(order, torch.zeros_like(order), none.long(), none, torch.zeros(2**17))\n"
        "table, peak = torch.ones(2**17, 9), lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "torch.set_num_threads(64)\n"
        "before = peak()\n"
        "assert sweep(table, rows, betas=[1.0]) is not None\n"
        "print(peak() - before)"
    )
    found = subprocess.run([sys.executable, "-c", text], check=True, capture_output=True, text=True)
    assert int(found.stdout) < 2**17  # KiB; the chains' own take 8 MiB, and those of 64 threads 512


def test_a_few_chains_of_many_sites_are_torchs(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = rows_of(dense(4), torch.zeros(4))
    monkeypatch.setattr(module, "LARGE", 3)
    assert sweep(torch.ones(4, 7), rows, betas=[1.0]) is None
    assert sweep(torch.ones(4, 8), rows, betas=[1.0]) is not None


def test_defaults_of_torch_do_not_reach_the_kernel() -> None:
    """Neither its default device nor its default type, in the trial before the first use or later."""
    rows, table = rows_of(torch.zeros(3, 3), torch.full((3,), 90.0)), -torch.ones(3, 40)
    kernels.cache_clear()
    torch.set_default_dtype(torch.float16)
    try:
        with torch.device("meta"):
            assert sweep(table, rows, betas=[1.0]) is not None
    finally:
        torch.set_default_dtype(torch.float32)
    assert bool((table == 1).all())


def exponential(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[Tensor], Tensor]:
    """The kernel's own exp."""
    text = (
        '#include "exponential.hpp"\n'
        'extern "C" void exponentials(float* x, long n) {\n'
        "  for (long i = 0; i < n; i += FLOATS) store(x + i, exponential(load(x + i)));\n}\n"
    )
    made = compiled(text, folder, monkeypatch)

    def call(x: Tensor) -> Tensor:
        out = x.clone()
        made.exponentials(ctypes.c_void_p(out.data_ptr()), ctypes.c_long(len(out)))
        return out

    return call


def test_exp_is_right_to_a_millionth(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exp = exponential(tmp_path, monkeypatch)
    x = torch.cat([-torch.logspace(-30, 1.9395, 2**20), -87 * torch.rand(2**20)]).float()
    assert float((exp(x).double() / x.double().exp() - 1).abs().max()) < 2e-7
    ends = torch.tensor([0.0, -0.0, -math.inf, math.nan, -math.nan, -88.0, -1e30, -1e-45] * 2)
    assert exp(ends)[:8].nan_to_num(7).tolist() == [1, 1, 0, 7, 7, 0, 0, 1]


MUTANTS = {  # what is wrong, whether a few sweeps before the first use show it, and the text
    "against the field": (HEAT_BATH, True, "(bits(z) ^ against)", "(~bits(z) ^ against)"),
    "half the odds": (HEAT_BATH, True, "< UNIT * e;", "< 0.5f * UNIT * e;"),
    "odds for a probability": (HEAT_BATH, True, "* (1.f + e) <", "<"),
    "never uphill": (TIES, True, " | (uniform(random) < UNIT * p)", ""),
    "no ties": (TIES, True, "cost == 0.f ? all(ties) : p", "p"),
    "the first temperature for all": (HEAT_BATH, False, "2 * beta *", "2 * betas.first[0] *"),
    "a neighbour is left out": (
        TIES,
        True,
        "end = rows.end(k); e < end; ++e) {",
        "end = rows.end(k) - 1; e < end; ++e) {",
    ),
    "no field": (TIES, True, "all(rows.fields[k])", "all(0.f)"),
    "neighbours of other chains": (HEAT_BATH, True, "load(other + v * FLOATS)", "load(other)"),
    "blocks alike": (
        None,
        True,
        "moves(rows, rule, betas, own, random, spins);",
        "moves(rows, rule, betas, own, RandomWords(seed, 0), spins);",
    ),
    "sites alike": (
        None,
        False,
        "Floats before = load(own), after = rule(2 * beta * factors[v] * local[v], before, random,",
        "RandomWords again = random;\n"
        "Floats before = load(own), after = rule(2 * beta * factors[v] * local[v], before, again,",
    ),
}


@cases(("ties", "told", "old", "new"), MUTANTS, fast=("odds for a probability", "no ties", "blocks alike"))
def test_a_wrong_kernel_is_seen(
    ties: float | None, told: bool, old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = kernels()
    replace(old, new, tmp_path, monkeypatch, file="ising_sweeps.cpp")
    assert (kernels.__wrapped__() is None) is told
    wrong = unchecked("ising_sweeps", right)
    monkeypatch.setattr(module, "kernels", lambda: wrong)
    assert (independence_p() if ties is None else worst_p(ties)) < 1e-9
