"""What reports add up in one pass over memory: as float64 has it, within its memory; mutants of the text."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import pytest
import torch
from helpers_native import replace
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import GRBM, RBM, CategoricalRBM, Energy
from ebmlab.native import library, moves
from ebmlab.native.moves import Moves, kernel
from ebmlab.samplers import BlockGibbs, Sampler, columns, tally
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.columns import Columns
from ebmlab.samplers.state import Info, State

pytestmark = pytest.mark.usefixtures("sampling")
needs_kernel = pytest.mark.skipif(kernel() is None, reason="needs a C++ compiler, Linux, and AVX2 or AVX-512")


def adding(sums: Tensor) -> Moves:
    found = moves.moves(sums, sums)
    assert found is not None
    return found


@needs_kernel
@pytest.mark.parametrize("threads", [1, 3])
@pytest.mark.parametrize("event", [(1,), (15,), (16,), (3, 11), (784,)], ids=str)
def test_sums_are_those_of_float64(event: tuple[int, ...], threads: int) -> None:
    chains, before = 1003, torch.get_num_threads()
    old, new = torch.randn(2, chains, *event)
    new = torch.where(torch.rand_like(new) < 0.5, new, old)
    sums = torch.rand(4, chains)
    distances, lengths, changes, nan = (adding(row) for row in sums)
    start, flat = sums.double(), (new.double() - old.double()).flatten(1)
    law = torch.where(torch.rand(chains, 1) < 0.1, torch.nan, new.flatten(1))
    law[:, :-1] = new.flatten(1)[:, :-1]
    law[:, 0] += torch.tensor([torch.inf, -torch.inf]).repeat(chains)[:chains] if len(flat[0]) > 1 else 0
    torch.set_num_threads(threads)
    try:
        measure = lengths.lengths_of((new - old).flatten(1).T.contiguous())
        for _ in range(2):
            measure()
            assert distances.add_distances(new, old) and changes.add_changes(new, old) and nan.add_nan(law)
    finally:
        torch.set_num_threads(before)
    length = 2 * flat.square().sum(1).sqrt()
    known = [length, length, 2.0 * (flat != 0).sum(1), torch.where(law.isnan().any(1), torch.nan, 0.0)]
    for ours, exact, first in zip(sums, known, start, strict=True):
        torch.testing.assert_close(ours.double(), first + exact, rtol=1e-6, atol=1e-6, equal_nan=True)


@needs_kernel
def test_nothing_beyond_the_chains_is_read_or_written() -> None:
    """They lie between numbers that are NaN, which any arithmetic would keep, and which stay as they are."""
    wide = torch.full((4, 300), torch.nan)
    new, old, columns, sums = wide
    for t in (new, old, columns):
        t[100:193] = 1.0
    sums[100:103] = 0.0
    rows = [t[100:193].view(3, 31) for t in (new, old)]
    found = adding(sums[100:103])
    assert found.add_distances(*rows) and found.add_changes(*rows) and found.add_nan(rows[0])
    found.lengths_of(columns[100:193].view(31, 3))()
    torch.testing.assert_close(sums[100:103], torch.full((3,), 31.0).sqrt())
    assert sums[:100].isnan().all() and sums[103:].isnan().all()


@needs_kernel
def test_what_does_not_fit_is_left_to_torch() -> None:
    found, x = adding(torch.zeros(4)), torch.zeros(4, 20)
    assert not found.add_changes(x.double(), x.double())
    assert not found.add_changes(x[:3], x[:3])
    assert not found.add_changes(x, x[:, :10])
    assert not found.add_changes(x, torch.zeros(20, 4).T)
    assert not found.add_changes(torch.zeros(4, 40)[:, ::2], x)
    assert found.add_changes(x, x)
    assert not found.add_changes(x + 1, torch.zeros(20, 4).T), "the state before is not the one that was looked at"
    assert not found.add_nan(x[:2]) and not found.add_distances(x, x.to("meta"))
    for wrong in (torch.zeros(20, 3), torch.zeros(4, 20).T, torch.zeros(20, 4).double()):
        with pytest.raises(ValueError, match="Moves"):
            found.lengths_of(wrong)
    with pytest.raises(ValueError, match="Moves"):
        adding(torch.zeros(4, 2))
    seen = []
    torch.vmap(lambda row: seen.append(moves.moves(row, row)) or row)(x)  # type: ignore[func-returns-value]
    assert seen == [None] and moves.moves(x.double(), x[0]) is None


REPORTS: dict[str, tuple[Sampler, Energy]] = {
    "bits": (BlockGibbs(), RBM(30, 3)),
    "numbers": (BlockGibbs(), GRBM(30, 3)),
    "letters": (BlockGibbs(), CategoricalRBM(10, 3, num_hidden=4)),
}


@pytest.mark.parametrize("name", REPORTS)
def test_reports_are_those_of_a_loop(name: str) -> None:
    sampler, energy = REPORTS[name]
    x = energy.random(1500)
    torch.manual_seed(1)
    chain = [x, *(state.x for state, _ in sampler.chain(energy, x, 7))]
    hops = torch.stack([energy.domain.hops(a, b) for a, b in pairwise(chain)])
    torch.manual_seed(1)
    last, info = sampler.sample(energy, x, 7)
    assert torch.equal(last, chain[-1])
    torch.testing.assert_close(info.hops, hops.mean(0), rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(info.acceptance, torch.ones(1500))


@pytest.mark.parametrize("kernel", [True, False])
def test_columns_add_up_their_moves(monkeypatch: pytest.MonkeyPatch, kernel: bool) -> None:
    """With and without the kernel, of more steps than are measured at once."""
    if not kernel:
        monkeypatch.setattr(columns, "moves", lambda *_: None)
    moved, hops = torch.randn(11, 3, 5000), torch.zeros(5000)
    walk = Columns(x := torch.randn(5000, 3), hops)
    for move in moved:
        walk.next_move().copy_(move)
        walk.move()
    torch.testing.assert_close(walk.last(), x + moved.sum(0).T, rtol=1e-5, atol=1e-5)
    torch.testing.assert_close(hops, moved.norm(dim=1).sum(0), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("kernel", [True, False])
def test_a_law_that_is_nan_in_one_step_is_told_of_its_chain_alone(
    monkeypatch: pytest.MonkeyPatch, kernel: bool
) -> None:
    if not kernel:
        monkeypatch.setattr(tally, "moves", lambda *_: None)
    domain, laws = Binary(20), torch.randn(3, 1000, 5)
    laws[1, 7, 2], laws[:, 9, 0] = torch.nan, torch.inf
    x = domain.random(1000)
    reports = [(State(x=x), Info(Sure(x, law), Moved(domain, x, x))) for law in laws]
    acceptance = tally.tallied(domain, x, reports)[1].acceptance
    assert acceptance.isnan().nonzero().flatten().tolist() == [7]
    assert acceptance.nansum() == 3 * 999


MUTANTS = {
    "the end is left out": ("if (k < n) take", "if (k < 0) take"),
    "squares": (
        "squares += moved * moved;\n  });\n  return std::sqrt(sum(squares))",
        "squares += moved;\n  });\n  return sum(squares)",
    ),
    "half of the changes": ("found -= read(now) != read(before)", "found -= read(now) < read(before)"),
    "one vector of NaN": ("found |= v != v", "found = v != v"),
    "rows for columns": ("load(moves + k * chains + b)", "load(moves + b * size + k)"),
    "chains that are left": (
        "int64_t b = chains / FLOATS * FLOATS; b < chains; ++b",
        "int64_t b = chains; b < chains; ++b",
    ),
    "a sum that is overwritten": ("store(sum + b, load(sum + b) + root(squares))", "store(sum + b, root(squares))"),
}


@needs_kernel
@cases(("old", "new"), MUTANTS, fast=("half of the changes",))
def test_mutants_are_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, old: str, new: str) -> None:
    """By the check before the first use."""
    replace(old, new, tmp_path, monkeypatch, file="moves.cpp")
    assert library.compiled(library.FOLDER / "moves.cpp") is not None
    assert kernel.__wrapped__() is None
