"""GWG: exact transition matrices over every path of draws, chi-square from exact starts, mutants, awkward inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_finite import DOMAINS, KINDS, Exact, Target, invariance_p
from helpers_grbm import FAIL, PASS
from helpers_mutants import mutant
from helpers_paths import alone_and_together, path_bias, path_law_p
from torch import Tensor

from ebmlab.domains import Binary, Finite, Ordinal
from ebmlab.errors import UserError
from ebmlab.samplers import MetropolisSampler
from ebmlab.samplers.gwg import GWG, IndependentMoves
from ebmlab.samplers.proposals import Path

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)


@pytest.mark.parametrize("num_flips", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
@every_domain
def test_the_law_is_invariant(domain: Finite, kind: str, num_flips: int) -> None:
    assert path_bias(GWG(num_flips), Target(domain, kind)) < 1e-10


@every_domain
def test_draws_follow_their_density(domain: Finite) -> None:
    assert path_law_p(GWG(2), Target(domain, "cubic")) > PASS


def law(domain: Finite, x: Tensor) -> IndependentMoves:
    """A law of paths at x, of any density."""
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
    assert torch.equal(there.hops, domain.hops(there.y, x))
    for row in range(50):  # the first draw of a coordinate counts
        expected = index[row].clone()
        for k in reversed(range(5)):
            expected[i[row, k]] = (index[row, i[row, k]] + path.shifts[row, k]) % domain.num_values
        assert torch.equal(domain.to_index(there.y)[row].flatten(), expected)


def test_two_draws_of_a_bit_flip_it_once() -> None:
    draw = law(Binary(2), torch.tensor([[0.0, 1.0]])).follow(Path(torch.tensor([[0, 0]]), torch.tensor([[1, 1]])))
    assert draw.y.tolist() == [[1, 1]] and draw.reverse.shifts.tolist() == [[1, 1]] and draw.hops.tolist() == [1]


STEP_MUTANTS = {
    "no reverse term": ("potential(new) + back - forth", "potential(new)"),
    "stale gradient in the reverse": (
        "there = self.proposal(energy, new)",
        "there = self.proposal(energy, replace(new, grad=state.grad))",
    ),
    "no Metropolis": ("self.potential(state) - self.potential(new) + back - forth", "0 * forth"),
}


@pytest.mark.parametrize("num_flips", [1, 3])
@pytest.mark.parametrize(("old", "new"), STEP_MUTANTS.values(), ids=STEP_MUTANTS)
def test_wrong_decisions_are_caught(old: str, new: str, num_flips: int) -> None:
    wrong = type("Wrong", (GWG,), {"step": mutant(MetropolisSampler, old, new).step})(num_flips)
    assert path_bias(wrong, Target(DOMAINS["binary"], "cubic")) > 1e-3


FIRST = "(move.coordinates.unsqueeze(2) == move.coordinates.unsqueeze(1)).tril(-1).any(2).logical_not()"
PATH_MUTANTS = {
    "the way back repeats the way there": ("torch.where(s == made, -made, s - made)", "s"),
    "a duplicate's density is left out": ("move.gather(self.log_moves)", f"(move.gather(self.log_moves) * {FIRST})"),
}


@pytest.mark.parametrize(("old", "new"), PATH_MUTANTS.values(), ids=PATH_MUTANTS)
def test_wrong_paths_are_caught(old: str, new: str) -> None:
    assert invariance_p(mutant(GWG, old, new)(3), Target(DOMAINS["ordinal"], "cubic")) < FAIL


def test_one_evaluation_a_step(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, calls = Target(DOMAINS["spin"], "cubic"), []
    own = energy.value_and_grad
    monkeypatch.setattr(energy, "value_and_grad", lambda x: calls.append(len(x)) or own(x))
    monkeypatch.setattr(energy, "flip_differences", None)
    _, info = GWG(3).sample(energy, energy.domain.random(7), 5)
    assert calls == [7] * 6 and info.evaluations == 1
    assert (info.hops <= 3).all() and info.hops.max() > 0


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("num_flips", [1, 4])
@every_domain
def test_extreme_energies(domain: Finite, num_flips: int, dtype: torch.dtype) -> None:
    """Downhill from every state, without NaN; sqrt-balanced moves may stick where y's best move is better than x's."""
    energy = Target(domain, "cubic", scale=1e4)
    x = Exact(energy).states.to(dtype)
    torch.manual_seed(0)
    state = GWG(num_flips).init(energy, x)
    for _ in range(40):
        state, info = GWG(num_flips).step(energy, state)
        assert info.acceptance.isfinite().all()
        domain.validate(state.x)
        assert {state.x.dtype, state.energy.dtype, state.grad.dtype, info.acceptance.dtype, info.hops.dtype} == {dtype}
    assert (state.energy <= energy(x)).all() and (state.x != x).any()
    assert torch.equal(state.energy, energy(state.x))


def test_flat_energies_move_always() -> None:
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


def test_nan_energies_are_never_entered() -> None:
    class Walled(Target):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] > 0.5, torch.nan, super().forward(x))

    torch.manual_seed(0)
    x, info = GWG(2).sample(Walled(Binary(4), "cubic"), torch.zeros(100, 4), 30)
    assert (x[:, 0] == 0).all() and info.acceptance.isnan().any() and info.hops.min() > 0


@every_domain
def test_a_chain_does_not_know_its_batch(domain: Finite, monkeypatch: pytest.MonkeyPatch) -> None:
    alone_and_together(GWG(3), Target(domain, "cubic"), monkeypatch)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
def test_same_chain_in_every_autograd_mode(mode: Callable[[], object]) -> None:
    energy, chains = Target(DOMAINS["categorical"], "cubic"), []
    start = energy.domain.random(8)
    for context in (torch.no_grad, mode):
        torch.manual_seed(0)
        with context():
            chains.append(GWG(2).sample(energy, start, 6)[0].clone())
    assert torch.equal(*chains) and not chains[1].requires_grad


def test_coordinates_in_several_axes() -> None:
    """A domain of shape 2x2 is the flat one with its coordinates in rows."""
    flat, square = Target(Binary(4), "cubic"), Target(Binary((2, 2)), "cubic")
    torch.manual_seed(0)
    x, _ = GWG(2).sample(flat, torch.zeros(30, 4), 10)
    torch.manual_seed(0)
    y, _ = GWG(2).sample(square, torch.zeros(30, 2, 2), 10)
    assert torch.equal(x.view(-1, 2, 2), y)


def test_settings_are_checked() -> None:
    with pytest.raises(UserError, match="num_flips is 0"):
        GWG(0)
