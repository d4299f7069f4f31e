"""Local fields and energies of Ising models in C++: against float64, in any layout, odd graphs, threads; mutants."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from helpers_native import replace
from helpers_tier import cases
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from ebmlab.energies import Ising
from ebmlab.energies.pairwise.pairwise import Pairwise
from ebmlab.graphs import Edges
from ebmlab.native.local_fields import FEW, LARGE, kernel, local_fields

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")


def sparse(num_spins: int, num_edges: int) -> Ising:
    """Spins joined at random by asymmetric numbers, most of them with few neighbours and some with none."""
    pairs = torch.randint(num_spins // 2, (2, num_edges))
    pairs = torch.unique(pairs[:, pairs[0] < pairs[1]], dim=1)
    both = torch.cat([pairs, pairs.flip(0)], 1)
    order = (both[0] * num_spins + both[1]).argsort()
    values = torch.randn(pairs.shape[1]).repeat(2)
    energy = Ising(Edges(num_spins, both[0][order], both[1][order], values[order]), torch.randn(num_spins))
    assert energy.sparse
    return energy


def right(energy: Ising, x: Tensor) -> tuple[Tensor, Tensor]:
    J, h = energy.coupling.double(), energy.field.double()
    fields = x.double() @ J + h
    return -0.5 * (x.double() * (fields + h)).sum(1), fields


def close(energy: Ising, x: Tensor) -> bool:
    """Whether energies and fields are as exact as float32 numbers can be, however they are asked for."""
    energies, fields = right(energy, x)
    size = (x.double().abs() @ energy.coupling.double().abs() + energy.field.double().abs()) * x.abs()
    value, grad = energy.value_and_grad(x)
    total, local = energy.around(x)
    sums = all(bool((e.double() - energies).abs().le(1e-6 * size.sum(1)).all()) for e in (value, total, energy(x)))
    return sums and all(torch.allclose(f.double(), fields, atol=1e-5) for f in (-grad, local, energy.local_field(x)))


@pytest.mark.parametrize("chains", [1, 3, 8, 16, 17, 100])
@pytest.mark.parametrize("by_site", [False, True])
@pytest.mark.parametrize("threads", [1, 3])
def test_fields_and_energies_are_exact(chains: int, by_site: bool, threads: int) -> None:
    torch.set_num_threads(threads)
    for spins in (90, 513, 1001):
        energy, x = sparse(spins, spins), torch.randn(chains, spins)
        assert close(energy, x.T.contiguous().T if by_site else x)


@needs_kernel
def test_the_kernel_is_what_computes(monkeypatch: pytest.MonkeyPatch) -> None:
    """torch's way is out of reach. Rows may lie apart, and fields lie as the states do."""
    monkeypatch.setattr(Pairwise, "local_field", None)
    energy = sparse(300, 300)
    for x in (torch.randn(10, 300), torch.randn(20, 300)[::2], torch.randn(10, 400)[:, 50:350], torch.randn(300, 10).T):
        assert close(energy, x)
        assert (energy.local_field(x).stride(0) == 1) == (x.stride(0) == 1)


def test_states_of_any_layout_and_number_are_taken() -> None:
    energy = sparse(300, 300)
    for x in (torch.randn(10, 600)[:, ::2], torch.randn(300).expand(10, -1), torch.randn(1, 300), torch.randn(0, 300)):
        assert close(energy, x)


def test_a_lattice_has_the_energies_of_its_bonds() -> None:
    """Of an asymmetric state, counted bond by bond; all numbers are whole, so that nothing is rounded."""
    x = torch.randint(2, (50, 20, 20)).mul(2).sub(1).float()
    bonds = (x * x.roll(1, 1)).sum((1, 2)) + (x * x.roll(1, 2)).sum((1, 2))
    field = torch.arange(400.0) % 7 - 2
    energy = Ising.lattice(20, 1.0, field=field)
    assert torch.equal(energy(x.flatten(1)), -bonds - x.flatten(1) @ field)


def test_energies_of_many_sites_keep_their_digits() -> None:
    """Sums of a million terms of one sign, of which none is a whole number."""
    energy, x = Ising.lattice(1000, 0.1, field=0.3), torch.ones(FEW, 10**6)
    assert energy(x).sub(-0.5e6).abs().max() < 10


def test_numbers_that_are_not_finite_stay() -> None:
    energy = Ising.lattice(20, 0.3)
    x = torch.ones(40, 400)
    x[3, 7], x[5, 399] = torch.nan, torch.inf
    value, grad = energy.value_and_grad(x)
    assert value.isnan().nonzero().flatten().tolist() == [3] and value[5] == -torch.inf
    assert grad.isnan().any(1).nonzero().flatten().tolist() == [3] and grad[5].isinf().sum() == 4


def test_threads_change_no_bit() -> None:
    energy, x = sparse(500, 700), torch.randn(100, 500)
    torch.set_num_threads(1)
    one = energy.value_and_grad(x)
    torch.set_num_threads(3)
    assert all(map(torch.equal, one, energy.value_and_grad(x)))


@pytest.mark.filterwarnings("ignore:There is a performance drop")  # torch's sums of neighbours
def test_autograd_and_modes_of_torch_keep_the_kernel_out() -> None:
    energy, x = Ising.lattice(20, 0.3), torch.randn(10, 400)
    with torch.enable_grad():
        y = x.clone().requires_grad_()
        (grad,) = torch.autograd.grad(energy(y).sum(), y)
    assert torch.allclose(grad, energy.value_and_grad(x)[1], atol=1e-5)
    assert torch.allclose(torch.func.vmap(energy)(x.view(2, 5, 400)), energy(x).view(2, 5), atol=1e-4)
    with FakeTensorMode(allow_non_fake_inputs=True):
        assert energy(torch.empty(10, 400)).shape == (10,)


@needs_kernel
def test_lists_that_lead_nowhere_are_not_followed() -> None:
    energy, x = Ising.lattice(20, 0.3), torch.ones(10, 400)
    lists = energy.neighbours
    assert local_fields(x, lists.offsets, lists.sites, lists.weights, field=energy.field)
    for offsets, sites in [(lists.offsets + 5, lists.sites), (lists.offsets - 1, lists.sites)] + [
        (lists.offsets, lists.sites + step) for step in (1, -1)
    ]:
        assert local_fields(x, offsets, sites, lists.weights, field=energy.field) is None
    assert local_fields(x, lists.offsets, lists.sites, lists.weights[1:], field=energy.field) is None
    assert local_fields(x[:, 1:], lists.offsets, lists.sites, lists.weights, field=energy.field) is None


@needs_kernel
def test_few_chains_of_many_sites_are_torchs() -> None:
    """Vectors that are mostly empty would take many times the memory of the states."""
    field, none = torch.zeros(LARGE + 1), torch.zeros(0, dtype=torch.int64)
    offsets, x = torch.zeros(len(field), dtype=torch.int64), torch.ones(FEW, len(field))
    assert local_fields(x, offsets, none, torch.zeros(0), field=field, keep=False)
    assert local_fields(x[1:], offsets, none, torch.zeros(0), field=field, keep=False) is None


@cases(
    ("old", "new"),
    [
        ("first + PART, rows.sites", "first + PART, rows.sites - 1"),
        ("(local[v] + rows.fields[k])", "local[v]"),
        ("other = spins + rows.others[e] * WIDTH", "other = spins + rows.others[rows.offsets[k]] * WIDTH"),
        ("-0.5f * total[v]", "0.5f * total[v]"),
        ("{out + b * out_by_chain,", "{out,"),
        ("total[v] += part[v]", "total[v] = part[v]"),
    ],
    fast=[1, 4],
)
@needs_kernel
def test_mutants_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    replace(old, new, tmp_path, monkeypatch)
    assert kernel.__wrapped__() is None
