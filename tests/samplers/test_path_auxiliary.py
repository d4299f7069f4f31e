"""The path auxiliary sampler: exact transition matrices over every path, chi-square, mutants, awkward inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_finite import DOMAINS, KINDS, Exact, Target, convergence_distance, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_paths import alone_and_together, path_bias, path_law_p

from ebmlab.domains import Binary, Finite, Ordinal
from ebmlab.errors import UserError
from ebmlab.samplers import MetropolisSampler
from ebmlab.samplers.path_auxiliary import DistinctMoves, PathAuxiliary
from ebmlab.samplers.proposals import first_order_moves

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


@pytest.mark.parametrize("max_length", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@every_domain
def test_the_law_is_invariant(domain: Finite, kind: str, max_length: int) -> None:
    assert path_bias(PathAuxiliary(max_length), Target(domain, kind)) < 1e-10


@every_domain
def test_draws_follow_their_density(domain: Finite) -> None:
    assert path_law_p(PathAuxiliary(2), Target(domain, "cubic")) > PASS


@every_domain
def test_exact_draws_stay_exact(domain: Finite) -> None:
    kind = "quadratic" if domain.num_values**domain.size < 16 else "cubic"  # the matrices above have cubic ones
    assert invariance_p(PathAuxiliary(2), Target(domain, kind)) > PASS


@every_domain
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
    assert torch.equal(there.hops, length.double())
    assert torch.equal(reverse.coordinates[:, 0], path.coordinates.gather(1, length.unsqueeze(1) - 1).squeeze(1))


def test_path_lengths_are_uniform_with_the_stated_mean() -> None:
    torch.manual_seed(0)
    path = DistinctMoves(Binary(12), torch.zeros(100_000, 12), torch.zeros(100_000, 12, 1), longest=9).draw()
    assert path.taken is not None and path.coordinates.shape == (100_000, 9)
    counts = torch.bincount(path.taken.sum(1), minlength=10)
    assert counts[0] == 0 and (counts[1:] - 100_000 / 9).abs().max() < 500  # five standard deviations


DECISIONS = {
    "no reverse term": ("potential(new) + back - forth", "potential(new)"),
    "stale gradient in the reverse": (
        "there = self.proposal(energy, new)",
        "there = self.proposal(energy, replace(new, grad=state.grad))",
    ),
    "no Metropolis": ("self.potential(state) - self.potential(new) + back - forth", "0 * forth"),
    "no masks on the way back": (
        "there.log_prob(draw.reverse)",
        "draw.reverse.gather(there.law.log_moves).where(draw.reverse.taken, 0).sum(1)",
    ),
}
DENSITIES = {
    "no masks at all": ("move.gather(self.log_moves) - unvisited", "move.gather(self.log_moves)"),
    "masks one move ahead": ("[:, 1:].flip(1)", "[:, :-1].flip(1)"),
}


@pytest.mark.parametrize(("old", "new"), DECISIONS.values(), ids=DECISIONS)
def test_wrong_decisions_are_caught(old: str, new: str) -> None:
    wrong = type("Wrong", (PathAuxiliary,), {"step": mutant(MetropolisSampler, old, new).step})(2)
    assert path_bias(wrong, Target(DOMAINS["spin"], "cubic")) > 1e-3


@pytest.mark.parametrize(("old", "new"), DENSITIES.values(), ids=DENSITIES)
def test_wrong_densities_are_caught(old: str, new: str) -> None:
    """Without a density of paths there is no matrix: by chi-square."""
    assert invariance_p(mutant(PathAuxiliary, old, new)(2), Target(DOMAINS["spin"], "cubic")) < FAIL


def test_one_evaluation_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, calls = Target(DOMAINS["spin"], "cubic"), []
    own = energy.value_and_grad
    monkeypatch.setattr(energy, "value_and_grad", lambda x: calls.append(len(x)) or own(x))
    monkeypatch.setattr(energy, "flip_differences", None)
    _, info = PathAuxiliary(3).sample(energy, energy.domain.random(7), 5)
    assert calls == [7] * 6 and info.evaluations == 1


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@every_domain
def test_extreme_energies(domain: Finite, dtype: torch.dtype) -> None:
    energy, sampler = Target(domain, "cubic", scale=1e4), PathAuxiliary(3)
    x = Exact(energy).states.to(dtype)
    torch.manual_seed(0)
    state = sampler.init(energy, x)
    for _ in range(40):
        state, info = sampler.step(energy, state)
        assert info.acceptance.isfinite().all()
        domain.validate(state.x)
        assert {state.x.dtype, state.energy.dtype, state.grad.dtype, info.acceptance.dtype, info.hops.dtype} == {dtype}
    assert (state.energy <= energy(x)).all() and (state.x != x).any()
    assert torch.equal(state.energy, energy(state.x))


def test_float32_says_what_float64_says() -> None:
    """Long paths in 300 dimensions: the density of a path in single precision against the naive one in double."""
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
    assert path_bias(PathAuxiliary(5), energy) < 1e-10
    energy.domain = Ordinal(1, 1)
    x, info = PathAuxiliary().sample(energy, torch.zeros(4, 1), 3)
    assert torch.equal(x, torch.zeros(4, 1)) and torch.equal(info.acceptance, torch.ones(4)) and (info.hops == 0).all()


@every_domain
def test_a_chain_does_not_know_its_batch(domain: Finite, monkeypatch: pytest.MonkeyPatch) -> None:
    alone_and_together(PathAuxiliary(2), Target(domain, "cubic"), monkeypatch)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
def test_same_chain_in_every_autograd_mode(mode: Callable[[], object]) -> None:
    energy, chains = Target(DOMAINS["categorical"], "cubic"), []
    start = energy.domain.random(8)
    for context in (torch.no_grad, mode):
        torch.manual_seed(0)
        with context():
            chains.append(PathAuxiliary(2).sample(energy, start, 6)[0].clone())
    assert torch.equal(*chains) and not chains[1].requires_grad


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="max_length is 0"):
        PathAuxiliary(0)
