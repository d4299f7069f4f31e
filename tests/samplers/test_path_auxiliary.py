"""Properties that only the path auxiliary sampler has: paths without repeats, their densities, mutants."""

from __future__ import annotations

import pytest
import torch
from helpers_finite import DOMAINS, MOSTLY_TWO_DOMAINS, Target, bias, convergence_distance
from helpers_mutants import mutant

from ebmlab.domains import Binary, Finite, Ordinal
from ebmlab.errors import UserError
from ebmlab.samplers.path_auxiliary import DistinctMoves, PathAuxiliary
from ebmlab.samplers.proposals import first_order_moves

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


@MOSTLY_TWO_DOMAINS
def test_chains_converge(domain: Finite) -> None:
    energy = Target(domain, "cubic")
    assert convergence_distance(PathAuxiliary(2), energy, 50, num_chains=3_000) < 0.06
    assert convergence_distance(PathAuxiliary(), energy, 0, num_chains=3_000) > 0.9


@every_domain
def test_a_path_is_undone_by_its_reverse(domain: Finite) -> None:
    torch.manual_seed(0)
    energy, x = Target(domain, "cubic", scale=0.2), domain.random(3_000).double()
    law = DistinctMoves(domain, x, first_order_moves(domain, x, energy.value_and_grad(x)[1]), longest=3)
    path = law.draw()
    there = law.follow(path)
    returned = DistinctMoves(domain, there.y, law.log_moves, 3).follow(there.reverse)
    reverse, again = there.reverse, returned.reverse
    assert torch.equal(returned.y, x)
    assert path.taken is not None and again.taken is not None
    for one, two in zip(path, again, strict=True):
        assert one is not None and two is not None and torch.equal(one, two)
    length = path.taken.sum(1)
    assert torch.equal(domain.hops(there.y, x), length.double()), "every move of a path goes somewhere else"
    assert torch.equal(reverse.coordinates[:, 0], path.coordinates.gather(1, length.unsqueeze(1) - 1).squeeze(1))


def test_path_lengths_are_uniform_with_the_stated_mean() -> None:
    torch.manual_seed(0)
    path = DistinctMoves(Binary(12), torch.zeros(100_000, 12), torch.zeros(100_000, 12, 1), longest=9).draw()
    assert path.taken is not None and path.coordinates.shape == (100_000, 9)
    counts = torch.bincount(path.taken.sum(1), minlength=10)
    assert counts[0] == 0 and (counts[1:] - 100_000 / 9).abs().max() < 500  # five standard deviations


DENSITIES = {
    "no masks at all": ("move.gather(self.log_moves) - unvisited", "move.gather(self.log_moves)"),
    "masks one move ahead": ("[:, 1:].flip(1)", "[:, :-1].flip(1)"),
}


@pytest.mark.slow
def test_a_reverse_density_with_repeats_is_caught() -> None:
    law = "state.proposal.log_ratio(draw, new.proposal)"
    free = "draw.reverse.gather(new.proposal.log_moves).where(draw.reverse.taken, 0).sum(1) - draw.log_prob"
    assert bias(mutant(PathAuxiliary, law, free)(2), Target(DOMAINS["spin"], "cubic")) > 1e-3


@pytest.mark.slow
@pytest.mark.parametrize(("old", "new"), DENSITIES.values(), ids=DENSITIES)
def test_wrong_densities_are_caught(old: str, new: str) -> None:
    assert bias(mutant(PathAuxiliary, old, new)(2), Target(DOMAINS["spin"], "cubic")) > 1e-3


def test_float32_densities_agree_with_float64() -> None:
    """Densities of long paths in 300 dimensions in single precision agree with the plain formula in double."""
    torch.manual_seed(0)
    x = torch.zeros(50, 300)
    table = first_order_moves(Binary(300), x, 4 * torch.randn(50, 300))
    law = DistinctMoves(Binary(300), x, table, longest=39)
    path = law.draw()
    assert path.taken is not None
    expected = torch.zeros(50, dtype=torch.float64)
    for row in range(50):
        weights = table[row, :, 0].double().exp()
        for i in path.coordinates[row, path.taken[row]]:
            expected[row] += (weights[i] / weights.sum()).log()
            weights[i] = 0
    torch.testing.assert_close(law.log_prob(path).double(), expected, rtol=1e-5, atol=1e-4)


def test_one_coordinate_and_one_state() -> None:
    energy = Target(Binary(1), "quadratic")
    assert bias(PathAuxiliary(5), energy) < 1e-10
    energy.domain = Ordinal(1, 1)
    x, info = PathAuxiliary().sample(energy, torch.zeros(4, 1), 3)
    assert torch.equal(x, torch.zeros(4, 1)) and torch.equal(info.acceptance, torch.ones(4)) and (info.hops == 0).all()


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="max_length is 0"):
        PathAuxiliary(0)
