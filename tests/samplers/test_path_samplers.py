"""Properties that GWG and the path auxiliary sampler share: exact matrices, mutants, hard inputs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from helpers_batch import alone_and_together
from helpers_finite import DOMAINS, MOSTLY_TWO_DOMAINS, Exact, Target, bias
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary, Finite
from ebmlab.samplers import GWG, PathAuxiliary

Make = type[GWG] | type[PathAuxiliary]

every_domain = pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
both = pytest.mark.parametrize("make", [GWG, PathAuxiliary])


@pytest.mark.parametrize("length", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@MOSTLY_TWO_DOMAINS
@both
def test_the_law_is_invariant(make: Make, domain: Finite, length: int) -> None:
    """On the hardest kind of target; tests/samplers/test_finite_contract.py has the others."""
    assert bias(make(length), Target(domain, "cubic")) < 1e-10


RATIO = "state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)"
DECISIONS = {
    "no reverse term": (RATIO, "state.energy - new.energy"),
    "stale gradient in the reverse": (
        RATIO,
        "state.energy - new.energy + state.proposal.log_ratio(draw, at_y_with(energy.value_and_grad(state.x)[1]))",
    ),
    "no Metropolis": (RATIO, "0 * new.energy"),
}
STALE = {
    GWG: "at_y_with = lambda grad: type(state.proposal)(energy.domain, new.x, "
    "first_order_moves(energy.domain, new.x, grad), *([num_flips] if num_flips > 1 else []))",
    PathAuxiliary: "at_y_with = lambda grad: DistinctMoves(energy.domain, new.x, "
    "first_order_moves(energy.domain, new.x, grad), longest)",
}


@cases(("make", "length", "domain"), [(GWG, 1, "binary"), (GWG, 3, "binary"), (PathAuxiliary, 2, "spin")], fast=[0])
@pytest.mark.parametrize(("old", "new"), DECISIONS.values(), ids=DECISIONS)
def test_wrong_decisions_are_caught(make: Make, length: int, domain: str, old: str, new: str) -> None:
    line = f"log_ratio = {RATIO}"
    wrong = mutant(make, line, f"{STALE[make]}; {line.replace(old, new)}")(length)
    assert bias(wrong, Target(DOMAINS[domain], "cubic")) > 1e-3


@pytest.mark.parametrize(("make", "most"), [(GWG, 3), (PathAuxiliary, 5)])
def test_one_evaluation_a_step(make: Make, most: int, monkeypatch: pytest.MonkeyPatch) -> None:
    energy, calls = Target(DOMAINS["spin"], "cubic"), []
    own = energy.value_and_grad
    monkeypatch.setattr(energy, "value_and_grad", lambda x: calls.append(len(x)) or own(x))
    monkeypatch.setattr(energy, "flip_differences", None)
    _, info = make(3).sample(energy, energy.domain.random(7), 5)
    assert calls == [7] * 6 and info.evaluations == 1
    assert (info.hops <= most).all() and info.hops.max() > 0


@cases("dtype", [torch.float32, torch.float64], fast=[0])
@pytest.mark.parametrize(("make", "length"), [(GWG, 1), (GWG, 4), (PathAuxiliary, 3)])
@MOSTLY_TWO_DOMAINS
def test_extreme_energies(domain: Finite, make: Make, length: int, dtype: torch.dtype) -> None:
    """Chains go downhill without NaN; sqrt-balanced moves may be rejected where y has a steeper descent than x."""
    energy, sampler = Target(domain, "cubic", scale=1e4), make(length)
    x = Exact(energy).states.to(dtype)
    torch.manual_seed(0)
    state = sampler.init(energy, x)
    for _ in range(40):
        state, info = sampler.step(energy, state)
        assert info.acceptance.isfinite().all()
        domain.validate(state.x)
        assert {state.x.dtype, state.energy.dtype, info.acceptance.dtype, info.hops.dtype} == {dtype}
    assert (state.energy <= energy(x)).all() and (state.x != x).any()
    assert torch.equal(state.energy, energy(state.x))


@both
def test_nan_energies_are_never_entered(make: Make) -> None:
    class Walled(Target):
        def forward(self, x: Tensor) -> Tensor:
            return torch.where(x[:, 0] > 0.5, torch.nan, super().forward(x))

    torch.manual_seed(0)
    x, info = make(2).sample(Walled(Binary(4), "cubic"), torch.zeros(100, 4), 30)
    assert (x[:, 0] == 0).all() and info.acceptance.isnan().any() and info.hops.min() > 0


@pytest.mark.parametrize(("make", "length"), [(GWG, 3), (PathAuxiliary, 2)])
@every_domain
def test_a_chain_does_not_depend_on_its_batch(
    domain: Finite, make: Make, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    torch.manual_seed(5)
    alone_and_together(make(length), Target(domain, "cubic"), domain.random(16).double(), monkeypatch)


@pytest.mark.parametrize("mode", [torch.inference_mode, torch.enable_grad])
@both
def test_same_chain_in_every_autograd_mode(make: Make, mode: Callable[[], object]) -> None:
    energy, chains = Target(DOMAINS["categorical"], "cubic"), []
    start = energy.domain.random(8)
    for context in (torch.no_grad, mode):
        torch.manual_seed(0)
        with context():
            chains.append(make(2).sample(energy, start, 6)[0].clone())
    assert torch.equal(*chains) and not chains[1].requires_grad


@both
def test_coordinates_in_several_axes(make: Make) -> None:
    """A domain of shape 2x2 is the flat one with its coordinates in rows."""
    flat, square = Target(Binary(4), "cubic"), Target(Binary((2, 2)), "cubic")
    torch.manual_seed(0)
    x, _ = make(2).sample(flat, torch.zeros(30, 4), 10)
    torch.manual_seed(0)
    y, _ = make(2).sample(square, torch.zeros(30, 2, 2), 10)
    assert torch.equal(x.view(-1, 2, 2), y)
