"""Energies and counts of pairs of values in C++: against float64, in any layout, threads; mutants of its text."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_native import replace, unchecked
from helpers_tier import cases
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ebmlab.energies import Potts
from ebmlab.energies.pairwise import half_matrix, statistics
from ebmlab.energies.pairwise.half_matrix import HalfMatrix
from ebmlab.energies.pairwise.statistics import half_moments, moments
from ebmlab.native import value_pairs
from ebmlab.native.value_pairs import ENOUGH, kernel, values_of

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")

SHAPES = [(1, 60, 40), (7, 41, 21), (64, 33, 2), (65, 24, 4), (500, 23, 21), (2051, 9, 5), (30, 40, 255)]


def family(sites: int, values: int, share: float = 1.0) -> Potts:
    """Asymmetric couplings between a share of the pairs, and fields."""
    pairs = torch.triu_indices(sites, sites, 1).T
    energy = Potts(sites, values, pairs=pairs[torch.rand(len(pairs)) < share].flip(0))
    for p in energy.requires_grad_(False).parameters():
        p.normal_()
    return energy


def states(number: int, energy: Potts) -> Tensor:
    """One-hot states, of which low values are likelier."""
    sites, values = energy.field.shape
    return energy.domain.from_index((torch.rand(number, sites) ** 2 * values).long())


def layouts(x: Tensor) -> list[Tensor]:
    """The same states in memory in other ways."""
    by_site = x.transpose(0, 1).contiguous().transpose(0, 1)
    return [x, by_site, torch.cat([x, x], 2)[:, :, : x.shape[2]], x.repeat_interleave(2, 0)[::2]]


def energies_are_wrong(number: int, sites: int, values: int, share: float = 1.0) -> bool:
    energy = family(sites, values, share)
    x = states(number, energy)
    (i, j), chosen = energy.pairs.T, x.argmax(2)
    couplings = energy.coupling.double()[torch.arange(len(energy.pairs)), chosen[:, i], chosen[:, j]]
    fields = energy.field.double()[torch.arange(sites), chosen]
    right, size = -couplings.sum(1) - fields.sum(1), couplings.abs().sum(1) + fields.abs().sum(1)
    found = [energy(y) for y in layouts(x)]
    return any(bool((e.double() - right).abs().gt(2e-7 * size + 1e-5).any()) for e in found)


def counts_are_wrong(number: int, sites: int, values: int, dtype: torch.dtype = torch.float32) -> bool:
    """Whether sums of all pairs, or of some, are not those of products in float64; with weights and without."""
    energy = family(sites, values, 0.1)
    x, weights = states(number, energy), torch.rand(number)
    for weight in (weights, 0.25):
        factor = weight.double().view(-1, 1, 1) if isinstance(weight, Tensor) else weight
        left, flat = (x * factor).double().flatten(1), x.double().flatten(1)
        two, one = left.T @ flat, left.sum(0)
        for y in (*layouts(x), x.byte(), x.char(), x.bool()):
            found = statistics.Moments.zero((sites, values), torch.zeros((), dtype=dtype))
            found.add(y, weight)
            found.add(y, weight)
            if not (close(found.two.full(), 2 * two) and close(found.one, 2 * one)):
                return True
        contrast = energy.weighted_sum()
        contrast.add(x, weight=weight)
        right = weight if isinstance(weight, Tensor) else weight * torch.ones(number)
        if not close(contrast.number(), (right.double() * energy.double()(x.double())).sum()):
            return True
        energy.float()
    return False


def close(found: Tensor, right: Tensor) -> bool:
    return bool((found.double() - right).abs().le(1e-5 * (1 + right.abs())).all())


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("threads", [1, 3])
def test_energies_are_those_of_the_chosen_couplings(shape: tuple[int, int, int], threads: int) -> None:
    torch.set_num_threads(threads)
    assert not energies_are_wrong(*shape) and not energies_are_wrong(*shape, share=0.1)


@pytest.mark.parametrize("shape", SHAPES[1:6])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_counts_are_products_of_one_hot_states(shape: tuple[int, int, int], dtype: torch.dtype) -> None:
    for threads in (1, 3):
        torch.set_num_threads(threads)
        assert not counts_are_wrong(*shape, dtype)


@pytest.mark.parametrize("make", [lambda: family(30, 21), lambda: family(30, 21, 0.1)])
def test_the_gradient_of_a_sum_is_that_of_autograd(make: object) -> None:
    energy = make().requires_grad_()  # type: ignore[operator]
    x, weights = states(600, energy), torch.randn(600)
    with torch.enable_grad():
        found = torch.autograd.grad(_sum(energy, x, weights), list(energy.parameters()))
        right = torch.autograd.grad((weights * energy(x.requires_grad_())).sum(), list(energy.parameters()))
    for mine, its in zip(found, right, strict=True):
        torch.testing.assert_close(mine, its, atol=1e-4, rtol=1e-4)


def _sum(energy: Potts, x: Tensor, weights: Tensor) -> Tensor:
    contrast = energy.weighted_sum()
    contrast.add(x, weight=weights)
    return contrast.value()


@needs_kernel
def test_the_kernel_is_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's ways are out of reach."""
    monkeypatch.setattr(Potts, "local_field", None)
    monkeypatch.setattr(HalfMatrix, "add", None)
    assert not energies_are_wrong(100, 30, 5) and not energies_are_wrong(100, 30, 5, share=0.1)
    x = states(100, family(30, 5))
    for dtype in (torch.float32, torch.uint8, torch.int8, torch.bool):
        half_moments(x.to(dtype), dtype=torch.float32)
    half_moments(x), moments(x, torch.rand(100), 0.1, dtype=torch.float64)


def test_states_that_are_not_one_hot_are_left_to_torch() -> None:
    """E is linear in each site's vector; NaN stays, in its own state alone."""
    energy = family(30, 5)
    x = states(40, energy)
    assert x.numel() >= ENOUGH
    for site, vector in ((0, [0.5, 0.5, 0, 0, 0]), (29, [0.0] * 5), (7, [0, 1, 0, 0, 1]), (3, [0, 0, 2.0, 0, 0])):
        y = x.clone()
        y[39, site] = torch.tensor(vector)
        corners = torch.stack([torch.where(torch.arange(5) == a, 1.0, 0.0) for a in range(5)])
        z = y[39].expand(5, -1, -1).clone()
        z[:, site] = corners
        linear, alone = energy(z.double().float()), y[39].clone()
        alone[site] = 0
        free = energy(alone.expand(40, -1, -1))[0]
        right = free + (torch.tensor(vector) * (linear - free)).sum()
        assert energy(y)[39].sub(right).abs() < 1e-3 and values_of(y) is None
    x[3, 4, 2] = torch.nan
    assert energy(x).isnan().nonzero().flatten().tolist() == [3] and half_moments(x).one.isnan().any()


def test_threads_change_no_bit() -> None:
    energy, found = family(30, 21), []
    x, weights = states(5000, energy), torch.rand(5000)
    for threads in (1, 3):
        torch.set_num_threads(threads)
        found.append((energy(x), *moments(x, weights), *moments(x)))
    assert all(map(torch.equal, *found))


def test_sums_of_many_weights_keep_their_digits() -> None:
    """Of 100,000 weights that are no whole numbers, of states that are all alike."""
    x = states(1, family(8, 3)).byte().expand(100_000, -1, -1)
    one, two = moments(x, torch.full((len(x),), 0.1), dtype=torch.float32)
    assert one.max().sub(1).abs() < 1e-5 and two.max().sub(1).abs() < 1e-5


def test_autograd_and_modes_of_torch_keep_the_kernel_out() -> None:
    energy = family(30, 5)
    x = states(40, energy)
    with torch.enable_grad():
        y = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(energy(y).sum(), y)
    torch.testing.assert_close(grad, energy.value_and_grad(x)[1])
    torch.testing.assert_close(torch.func.vmap(energy)(x.view(2, 20, 30, 5)), energy(x).view(2, 20))
    fresh = Potts(30, 5).requires_grad_(False)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert fresh(torch.empty(40, 30, 5)).shape == (40,)


def test_pairs_of_a_stranger_read_no_other_memory() -> None:
    """torch says that there are no such sites."""
    energy = family(30, 5, 0.1)
    energy.pairs[3, 1] = 30
    with pytest.raises(IndexError):
        energy(states(40, energy))
    with pytest.raises(IndexError):
        energy.weighted_sum().add(states(40, energy))


def test_saved_pairs_may_have_any_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Four pairs of which the first and the last have one site, and the others another one, are told apart."""
    monkeypatch.setattr(half_matrix, "ROWS", 10)  # so that sums have several blocks
    energy, other = family(8, 5), Potts(8, 5).requires_grad_(False)
    order = torch.randperm(len(energy.pairs))
    other.load_state_dict({**energy.state_dict(), "pairs": energy.pairs[order], "coupling": energy.coupling[order]})
    x = states(500, energy)
    torch.testing.assert_close(other(x), energy(x), rtol=1e-5, atol=1e-5)
    with torch.enable_grad():
        total = _sum(other.requires_grad_(), x, torch.ones(500))
        (gradient,) = torch.autograd.grad(total, other.coupling)
    torch.testing.assert_close(total, energy(x).sum(), rtol=1e-4, atol=1e-2)
    i, j = other.pairs.T
    torch.testing.assert_close(gradient, -(x.transpose(0, 1)[i].mT @ x.transpose(0, 1)[j]), rtol=0, atol=1e-3)


@pytest.mark.parametrize("share", [0.1, 1.0])
@pytest.mark.parametrize("shape", [(499,), (501,), (0,), (500, 1)])
def test_weights_of_other_states_are_refused(shape: tuple[int, ...], share: float) -> None:
    energy = family(30, 5, share)
    with pytest.raises(RuntimeError, match=r"expand"):
        energy.weighted_sum().add(states(500, energy), weight=torch.ones(shape))


def test_one_weight_is_that_of_all_states() -> None:
    energy = family(30, 5, 0.1)
    x, right = states(500, energy), energy.weighted_sum()
    right.add(x, weight=0.5)
    for weight in (torch.tensor(0.5), torch.tensor([0.5])):
        found = energy.weighted_sum()
        found.add(x, weight=weight)
        torch.testing.assert_close(found.value(), right.value())


def test_states_of_fewer_sites_read_no_other_memory() -> None:
    energy = family(30, 5, 0.1)
    with pytest.raises(IndexError):
        energy.weighted_sum().add(states(500, energy)[:, :1])


class Doubled(Potts):
    def local_field(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        return 2 * super().local_field(x, sites) - (self.field if sites is None else self.field[sites])


def test_a_subclass_with_another_law_keeps_it() -> None:
    energy = Doubled(30, 5)
    for p in energy.requires_grad_(False).parameters():
        p.normal_()
    x = states(40, energy)
    torch.testing.assert_close(energy(x), energy.value_and_grad(x)[0])


MUTANTS = {
    "numbers that are no ones": ("ones != 1 ||", ""),
    "numbers beside the one": (" || zeros != number - 1", ""),
    "the last states are not read": ("std::min(READ, states - begin)", "states - begin < READ ? 0 : READ"),
    "states by the wrong step": ("(begin + n) * by_state", "(begin + n) * sites * number"),
    "sites by the wrong step": ("+ i * by_site;\n          int32_t zeros", "+ i * number;\n          int32_t zeros"),
    "the first table alone": ("row[k * size + columns", "row[columns"),
    "fields of the first states": ("own.site(i)[n]];", "values[i * states + n]];"),
    "couplings twice": ("std::fill(part.begin(), part.end(), 0.0f);", ""),
    "rows of the last site": (
        "if (pairs[p].first != last) values.rows(last = pairs[p].first, few ? width : values.number, rows.data());",
        "if (last < 0) values.rows(last = pairs[p].first, few ? width : values.number, rows.data());",
    ),
    "few states by whole rows": ("few ? width : values.number", "values.number"),
    "tables are not emptied": ("std::fill(tables.begin(), tables.end(), Entry{});", ""),
    "three tables": ("t < TABLES; ++t) sum +=", "t < TABLES - 1; ++t) sum +="),
    "states behind the last four": ("for (; n < values.states; ++n) take(", "for (; false; ++n) take("),
    "weights of one": ("return weights[n];", "return weights[0];"),
    "whole weights": ("count<double>(values, pairs, num_pairs, [=]", "count<int32_t>(values, pairs, num_pairs, [=]"),
    "no factor": ("static_cast<Number>(factor * sum)", "static_cast<Number>(sum)"),
    "no factor of few states": ("static_cast<Number>(factor * weight(n))", "static_cast<Number>(weight(n))"),
    "sums take the place of those before": ("table[a * width + b] +=", "table[a * width + b] ="),
}


@needs_kernel
@cases("name", {name: name for name in MUTANTS}, fast=["the first table alone", "no factor"])
def test_a_wrong_kernel_is_seen(name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    right = kernel()
    replace(*MUTANTS[name], tmp_path, monkeypatch, file="value_pairs.cpp")
    library = unchecked("value_pairs", right)
    monkeypatch.setattr(value_pairs, "kernel", lambda: library)
    shapes = [(7, 41, 21), (501, 23, 21), (2051, 9, 5)]
    wrong = any(energies_are_wrong(*shape) or counts_are_wrong(*shape) for shape in shapes)
    assert wrong or not_refused()


def not_refused() -> bool:
    """Whether states that are not one-hot are read as if they were."""
    x = states(100, family(30, 5))
    for vector in ([1.0, 0, 0, 1, 0], [1, 0, 0, 0.5, 0], [0, 0, 2, 0, 0]):
        x[50, 7] = torch.tensor(vector)
        if values_of(x) is not None:
            return True
    return False


@needs_kernel
def test_a_kernel_that_is_wrong_is_not_used(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    replace("TABLES = 4;", "TABLES = 2;", tmp_path, monkeypatch, file="value_pairs.cpp")  # has the same results
    assert kernel.__wrapped__() is not None
    monkeypatch.undo()
    replace("return weights[n];", "return weights[0];", tmp_path, monkeypatch, file="value_pairs.cpp")
    assert kernel.__wrapped__() is None
