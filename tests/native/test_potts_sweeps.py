"""The kernel of sweeps of Potts models: the law of each draw, independent chains, reports; mutants of its text."""

from __future__ import annotations

import math
from pathlib import Path

import pytest
import torch
from helpers_native import replace, unchecked
from helpers_tier import cases
from torch import Tensor

from ebmlab.native import potts_sweeps as module
from ebmlab.native import sweeps
from ebmlab.native.potts_sweeps import VALUES, kernels, sweep
from ebmlab.native.sweeps import BLOCK, Rows
from ebmlab.testing import chi_square_p

pytestmark = [
    pytest.mark.skipif(kernels() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512"),
    pytest.mark.usefixtures("sampling"),
]
Model = tuple[Tensor, Tensor]


def model(size: int, values: int, seed: int = 5) -> Model:
    """J `(d, d)` in which some couplings are 0, and h `(d, K)`."""
    generator = torch.Generator().manual_seed(seed)
    upper = torch.randn(size, size, generator=generator).triu(1) * (torch.rand(size, size, generator=generator) < 0.8)
    return upper + upper.T, 0.7 * torch.randn(size, values, generator=generator)


MODELS = {f"{size} sites, {values} values": model(size, values) for size, values in [(4, 2), (4, 3), (3, 5), (1, 4)]}
one_order = (MODELS["4 sites, 3 values"][0].triu(), MODELS["4 sites, 3 values"][1])  # no energy has such rows
MODELS["one order of each pair"] = one_order
models = pytest.mark.parametrize("given", MODELS.values(), ids=MODELS)


def rows_of(given: Model, order: Tensor | None = None) -> Rows:
    matrix, fields = given
    order = torch.arange(len(fields)) if order is None else order
    used = matrix[order] != 0
    degrees = used.sum(1)
    return Rows(order, degrees.cumsum(0) - degrees, used.nonzero()[:, 1], matrix[order][used], fields[order])


def states(given: Model) -> Tensor:
    """All of them by value, `(K^d, d)`; the first site changes last."""
    size, values = given[1].shape
    return torch.cartesian_prod(*[torch.arange(values)] * size).view(-1, size)


def conditional(given: Model, x: Tensor, i: int, beta: float) -> Tensor:
    """Of site i given the others, `(N, K)`, in float64."""
    matrix, fields = (part.double() for part in given)
    one_hot = torch.eye(fields.shape[1], dtype=torch.float64)[x]
    return (beta * (torch.einsum("j,njk->nk", matrix[i], one_hot) + fields[i])).softmax(1)


def law(given: Model, start: int, betas: list[float]) -> Tensor:
    """Of one chain after draws of one site after the other, `(K^d,)`."""
    x, values = states(given), given[1].shape[1]
    found = torch.zeros(len(x), dtype=torch.float64)
    found[start] = 1
    for beta in betas:
        for i in range(x.shape[1]):
            p, unit = conditional(given, x, i, beta), values ** (x.shape[1] - 1 - i)
            rest = torch.arange(len(x)) - x[:, i] * unit
            moved = torch.zeros_like(found)
            for a in range(values):
                moved.index_add_(0, rest + a * unit, found * p[:, a])
            found = moved
    return found


def table_of(given: Model, x: Tensor) -> Tensor:
    """One-hot vectors `(d, B, K)` of states by value `(B, d)`."""
    return torch.eye(given[1].shape[1])[x.T].contiguous()


def number(table: Tensor) -> Tensor:
    """Of the states of a table, as `states` numbers them."""
    size, _, values = table.shape
    assert bool((table.sum(2) == 1).all()) and bool(((table == 0) | (table == 1)).all())
    return table.argmax(2).T @ (values ** torch.arange(size).flip(0))


def worst_p() -> float:
    """Of two sweeps of 2^16 chains from one state, over all models."""
    found = []
    for given in MODELS.values():
        table = table_of(given, states(given)[[1]].repeat(2**16, 1))
        assert sweep(table, rows_of(given), betas=[0.4, 1.3]) is not None
        found.append(
            chi_square_p(torch.bincount(number(table), minlength=len(states(given))), law(given, 1, [0.4, 1.3]))
        )
    return min(found)


def test_two_sweeps_have_the_law_of_draws_of_one_site_after_the_other() -> None:
    assert worst_p() > 1e-4


@models
@pytest.mark.parametrize("beta", [0.2, 1.0, 6.0])
def test_every_conditional_is_exact(given: Model, beta: float) -> None:
    """Each site is the first that is moved, so that its law depends on the start alone."""
    x, num_chains, size = states(given), 2**12, len(given[1])
    for i in range(size):
        table = table_of(given, x.repeat_interleave(num_chains, 0))
        order = torch.tensor([i, *(j for j in range(size) if j != i)])
        assert sweep(table, rows_of(given, order), betas=[beta]) is not None
        counts, p = table[i].view(len(x), num_chains, -1).double().sum(1), conditional(given, x, i, beta)
        assert bool(((counts - num_chains * p).abs() <= 5 * (num_chains * p * (1 - p)).sqrt() + 4).all())


def test_values_without_weight_are_never_drawn() -> None:
    """The first one, the last one, those between, and all but one."""
    fields = torch.zeros(5, 4)
    for i, none in enumerate(([0], [3], [1, 2], [0, 1, 2], [1, 2, 3])):
        fields[i, none] = -math.inf
    table = table_of((torch.zeros(5, 5), fields), torch.zeros(2**18, 5, dtype=torch.long))
    total = sweep(table, rows_of((torch.zeros(5, 5), fields)), betas=[1.0])
    assert total is not None and bool(total.isfinite().all())
    assert torch.equal(table.sum(1) > 0, fields.isfinite())
    assert chi_square_p(table[0].sum(0)[1:], torch.ones(3)) > 1e-4


def test_rare_values_are_as_rare_as_they_must_be() -> None:
    given = (torch.zeros(8, 8), torch.tensor([[math.log(1e-5), 0.0, math.log(2e-5)]]).expand(8, 3).contiguous())
    table = table_of(given, torch.ones(2**19, 8, dtype=torch.long))
    assert sweep(table, rows_of(given), betas=[1.0]) is not None
    assert chi_square_p(table.sum((0, 1)), given[1][0].double().exp()) > 1e-4


def independence_p() -> float:
    """Of neighbours in a vector, blocks, sites and sweeps, in pairs."""
    given = (torch.zeros(2, 2), torch.tensor([[0.3, -0.2, 0.0], [0.1, 0.0, 0.4]]))
    table, p = table_of(given, torch.zeros(2**17, 2, dtype=torch.long)), given[1].double().softmax(1)
    runs = []
    for _ in range(2):
        assert sweep(table, rows_of(given), betas=[1.0]) is not None
        runs.append(table.argmax(2))
    first, second = runs
    pairs = [(first[0], second[0], p[0]), (first[0], first[1], p[1])]
    pairs += [(first[0], first[0].roll(shift), p[0]) for shift in (1, 4, 8, BLOCK // 2, BLOCK, 2**16)]
    counts = [torch.bincount(3 * a + b, minlength=9) for a, b, _ in pairs]
    return min(chi_square_p(n, torch.outer(p[0], q).flatten()) for n, (_, _, q) in zip(counts, pairs, strict=True))


def test_chains_sites_and_sweeps_are_independent() -> None:
    assert independence_p() > 1e-4


def test_the_number_of_threads_does_not_matter() -> None:
    given, before, found = model(20, 3), torch.get_num_threads(), []
    try:
        for threads, seed in ((1, 5), (3, 5), (3, 6)):
            torch.set_num_threads(threads)
            torch.manual_seed(seed)
            table, hops = table_of(given, torch.zeros(123, 20, dtype=torch.long)), torch.zeros(123)
            assert sweep(table, rows_of(given), betas=[0.5] * 20, hops=hops) is not None
            found.append(torch.cat([table.flatten(), hops]))
    finally:
        torch.set_num_threads(before)
    assert torch.equal(found[0], found[1]) and not torch.equal(found[0], found[2])


@pytest.mark.parametrize("burst", [2**31, 1])
def test_reports_count_each_change(burst: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """In calls of one sweep of a few chains, too: each sweep is compared with the states before it."""
    monkeypatch.setattr(sweeps, "BURST", burst)
    given = model(9, 3)
    table = table_of(given, torch.zeros(BLOCK + 5, 9, dtype=torch.long))
    for beta in (0.2, 1.0):
        before, hops = table.clone(), torch.full((BLOCK + 5,), 100.0)
        total = sweep(table, rows_of(given), betas=[beta], hops=hops)
        assert total is not None and bool(total.isfinite().all())
        assert torch.equal(hops - 100, (table != before).any(2).sum(0).float())
    strong, hops = (torch.zeros(9, 9), torch.tensor([[0.0, 0, 90]]).expand(9, 3).contiguous()), torch.zeros(40)
    table = table_of(strong, torch.zeros(40, 9, dtype=torch.long))
    assert sweep(table, rows_of(strong), betas=[9.0] * 7, hops=hops) is not None
    assert bool((table.argmax(2) == 2).all()) and bool((hops == 9).all())


def test_laws_that_are_not_valid_are_told() -> None:
    """NaN, an infinite highest logit, and none that is finite; of the chains alone that meet them."""
    matrix = torch.zeros(3, 3)
    matrix[0, 1] = math.nan
    given = (matrix, torch.zeros(3, 3))
    for field in (math.nan, math.inf):
        wrong = given[1].clone()
        wrong[2, 1] = field
        table = table_of(given, torch.zeros(40, 3, dtype=torch.long))
        total = sweep(table, rows_of((torch.zeros(3, 3), wrong)), betas=[1.0])
        assert total is not None and bool(total.isnan().all())
    matrix[0, 1] = math.inf
    fields = torch.zeros(3, 3)
    fields[0, 2] = -math.inf
    x = torch.tensor([[0, 2, 0], [0, 1, 0]]).repeat(20, 1)
    total = sweep(table := table_of(given, x), rows_of((-matrix, fields)), betas=[1.0])
    assert total is not None and bool(total.isfinite().all()), "-inf + -inf is no fault"
    total = sweep(table_of(given, x), rows_of((matrix, fields)), betas=[1.0])
    assert total is not None and bool(total.isnan().all())
    number(table)


def test_what_the_kernel_cannot_read_is_left_alone() -> None:
    given = model(4, 3)
    rows, table = rows_of(given), table_of(given, torch.zeros(50, 4, dtype=torch.long))
    many = torch.zeros(4, 50, VALUES + 1)
    turned = Rows(rows.order, rows.offsets, rows.others, rows.weights, rows.fields.T.contiguous().T)
    for wrong, what in ((table.double(), rows), (many, rows), (table.transpose(0, 1), rows), (table, turned)):
        assert sweep(wrong, what, betas=[1.0]) is None
    most = torch.zeros(4, 50, VALUES)
    most[..., 0] = 1
    assert sweep(most, rows_of((given[0], torch.zeros(4, VALUES))), betas=[1.0]) is not None
    assert len(most.argmax(2).unique()) > VALUES / 2


MUTANTS = {
    "no field": ("all(rows.fields[k * count + a])", "all(0.f)"),
    "a neighbour is left out": (
        "end = rows.end(k); e < end; ++e)\n",
        "end = rows.end(k) - 1; e < end; ++e)\n",
    ),
    "all neighbours": ("== a ? all(rows.weights[e])", ">= 0 ? all(rows.weights[e])"),
    "no temperature": ("beta * factors * local", "local"),
    "the first one twice as likely": ("Ints value{};", "Ints value{}; level -= 0.5f * z[0];"),
    "one too many": ("a + 1 < count; ++a) value", "a + 2 < count; ++a) value"),
}


@cases(("old", "new"), MUTANTS, fast=("a neighbour is left out",))
def test_a_wrong_kernel_is_seen(old: str, new: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    right = kernels()
    replace(old, new, tmp_path, monkeypatch)
    assert kernels.__wrapped__() is None, "a few sweeps before the first use show it"
    wrong = unchecked("potts_sweeps", right)
    monkeypatch.setattr(module, "kernels", lambda: wrong)
    assert worst_p() < 1e-9
