"""Properties that only GWG has: paths with repeats, their mutants, flat energies."""

from __future__ import annotations

import pytest
import torch
from helpers_finite import DOMAINS, Target, bias
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal
from ebmlab.errors import UserError
from ebmlab.samplers.gwg import GWG, IndependentMoves
from ebmlab.samplers.proposals import Path

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


def law(domain: Finite, x: Tensor) -> IndependentMoves:
    """A proposal of paths at x with arbitrary probabilities."""
    table = torch.zeros(len(x), domain.size, domain.num_values - 1)
    return IndependentMoves(domain, x, table, num_moves=5)


@every_domain
def test_a_path_is_undone_by_its_reverse(domain: Finite) -> None:
    torch.manual_seed(0)
    n, d = 5_000, domain.size
    index = torch.randint(domain.num_values, (n, d))
    i = torch.randint(d, (n, 5))  # many duplicates
    path = Path(i, torch.randint(1, domain.num_values, (n, 5)))
    x = domain.from_index(index.view(n, *domain.shape))
    there = law(domain, x).follow(path)
    back = law(domain, there.y).follow(there.reverse)
    assert torch.equal(back.y, x) and torch.equal(back.reverse.coordinates, i)
    assert torch.equal(back.reverse.shifts, path.shifts)
    assert (there.reverse.shifts > 0).all(), "a draw back proposes what is there"
    for row in range(50):  # only the first draw of each coordinate is used
        expected = index[row].clone()
        for k in reversed(range(5)):
            expected[i[row, k]] = (index[row, i[row, k]] + path.shifts[row, k]) % domain.num_values
        assert torch.equal(domain.to_index(there.y)[row].flatten(), expected)


def test_two_draws_of_a_bit_flip_it_once() -> None:
    draw = law(Binary(2), torch.tensor([[0.0, 1.0]])).follow(Path(torch.tensor([[0, 0]]), torch.tensor([[1, 1]])))
    assert draw.y.tolist() == [[1, 1]] and draw.reverse.shifts.tolist() == [[1, 1]]


FIRST = "(move.coordinates.unsqueeze(2) == move.coordinates.unsqueeze(1)).tril(-1).any(2).logical_not()"
PATH_MUTANTS = {
    "the way back repeats the way there": ("torch.where(s == made, -made, s - made)", "s"),
    "a duplicate's density is left out": ("move.gather(self.log_moves)", f"(move.gather(self.log_moves) * {FIRST})"),
}


@cases(("old", "new"), PATH_MUTANTS, fast=list(PATH_MUTANTS)[:1])
def test_wrong_paths_are_caught(old: str, new: str) -> None:
    assert bias(mutant(GWG, old, new)(3), Target(DOMAINS["ordinal"], "cubic")) > 1e-3


def test_chains_always_move_on_flat_energies() -> None:
    class Flat(Target):
        def forward(self, x: Tensor) -> Tensor:
            return 0 * x.sum(1)

    _, info = GWG().sample(Flat(Binary(4), "flat"), torch.zeros(1, 4), 10)
    assert info.acceptance.item() == 1 and info.hops.item() == 1


def test_a_domain_of_one_state_stays() -> None:
    energy = Target(Ordinal(3, 3), "quadratic")
    energy.domain = Ordinal(3, 1)
    x, info = GWG(2).sample(energy, torch.zeros(4, 3), 3)
    assert torch.equal(x, torch.zeros(4, 3)) and torch.equal(info.acceptance, torch.ones(4)) and (info.hops == 0).all()


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="num_flips is 0"):
        GWG(0)
