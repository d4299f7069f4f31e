"""The contract of samplers of finite domains. A new sampler without a case fails the first test."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_batch import alone_and_together, repeats_itself
from helpers_cases import CASES, EXACT, PAIRS, STRUCTURED, mostly
from helpers_errors import refused
from helpers_finite import DOMAINS, MOSTLY_CUBIC, Target
from torch import Tensor

import ebmlab.samplers
from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Real, Spin
from ebmlab.energies import Energy, Ising, ScalarPotts
from ebmlab.errors import UserError
from ebmlab.product import Product
from ebmlab.samplers import (
    DMALA,
    DULA,
    AnyScale,
    BlockGibbs,
    ChromaticGibbs,
    ChromaticMetropolis,
    EnergyState,
    Gibbs,
    HammingBall,
    LocallyBalanced,
    MetropolisSampler,
    RelaxedMALA,
    Sampler,
)
from ebmlab.testing import assert_invariant


def test_every_finite_sampler_has_a_case() -> None:
    public = {getattr(ebmlab.samplers, name) for name in ebmlab.samplers.__all__}
    finite = {
        c
        for c in public
        if isinstance(c, type) and issubclass(c, Sampler) and c.domains and not {Real, Product} >= set(c.domains)
    }
    assert finite - {MetropolisSampler} == {type(CASES[c].make(DOMAINS[d])) for c, d in PAIRS} | STRUCTURED.keys()


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_exact_says_whether_the_law_is_invariant(name: str, domain: str) -> None:
    assert CASES[name].make(DOMAINS[domain]).exact is CASES[name].exact


@MOSTLY_CUBIC
@mostly("ordinal", pairs=EXACT)
def test_the_law_is_invariant_and_reached(name: str, domain: str, kind: Any) -> None:
    """By exact transition matrices; kernels that draw normal numbers by one step from 100,000 exact draws."""
    found = assert_invariant(CASES[name].make(DOMAINS[domain]), Target(DOMAINS[domain], kind), num_chains=100_000)
    assert found.exact is CASES[name].enumerable


@pytest.mark.parametrize(("name", "domain"), [p for p in PAIRS if not CASES[p[0]].exact and CASES[p[0]].enumerable])
def test_biased_samplers_fail(name: str, domain: str) -> None:
    with pytest.raises(AssertionError, match="changes the probability of"):
        assert_invariant(CASES[name].make(DOMAINS[domain]), Target(DOMAINS[domain], "cubic"))


@pytest.mark.parametrize(("name", "domain"), [p for p in PAIRS if CASES[p[0]].gradients is not None])
def test_cost_of_a_step(name: str, domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []
    own = Target.value_and_grad
    monkeypatch.setattr(Target, "value_and_grad", lambda self, x: (calls.append(len(x)), own(self, x))[1])
    case, target = CASES[name], Target(DOMAINS[domain], "cubic")
    sampler = case.make(DOMAINS[domain])
    state = sampler.init(target, DOMAINS[domain].random(8).double())
    for _ in range(4):
        calls.clear()
        state, info = sampler.step(target, state)
        assert calls == [8] * (case.gradients or 0) and info.evaluations == case.gradients


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_a_step_leaves_its_state_as_it_was_and_repeats_itself(name: str, domain: str) -> None:
    target, sampler = Target(DOMAINS[domain], "cubic"), CASES[name].make(DOMAINS[domain])
    state = sampler.init(target, DOMAINS[domain].random(8).double(), 5)
    for _ in range(3):
        repeats_itself(sampler, target, state)
        state, _ = sampler.step(target, state)


COUNTED = {
    "Gibbs-1": Gibbs(),
    "Gibbs-2": Gibbs(2),
    "ball of radius 1": HammingBall(2, 1),
    "ball of radius 2": HammingBall(2, 2),
    "LocallyBalanced": LocallyBalanced(),
}


@pytest.mark.parametrize("sampler", COUNTED.values(), ids=COUNTED)
@pytest.mark.parametrize("domain", DOMAINS.values(), ids=DOMAINS)
def test_each_state_whose_energy_a_step_needs_is_one_evaluation(
    sampler: Sampler, domain: Finite, monkeypatch: pytest.MonkeyPatch
) -> None:
    """None is evaluated twice."""
    seen: list[Tensor] = []
    own = Target.forward
    monkeypatch.setattr(Target, "forward", lambda self, x: (seen.extend(x), own(self, x))[1])
    target = Target(domain, "cubic")
    state, _ = sampler.step(target, sampler.init(target, domain.random(1).double()))
    for _ in range(5):
        seen.clear()
        state, info = sampler.step(target, state)
        assert len(torch.stack(seen).unique(dim=0)) == len(seen) == info.evaluations


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_cached_values_belong_to_x(name: str, domain: str) -> None:
    """After accepted and rejected steps a kept proposal or energy equals the one computed from x."""
    space, target = DOMAINS[domain], Target(DOMAINS[domain], "cubic")
    sampler = CASES[name].make(space)
    state: Any = sampler.init(target, space.random(40).double())
    if not isinstance(state, EnergyState) or name in ("DULA", "DiscreteSVGD"):
        return
    torch.manual_seed(0)
    state = sampler.init(target, space.random(40).double())
    before = state.x
    for _ in range(5):
        before = state.x
        state, _ = sampler.step(target, state)
    moved = (state.x != before).flatten(1).any(1)
    assert 0 < moved.sum() < 40 and state.step == 5
    torch.testing.assert_close(state.energy, target(state.x))
    if state.proposal is not None:
        anew = sampler.init(target, state.x).proposal or sampler.proposal(target, state)  # type: ignore[attr-defined]
        kept, anew = vars(state.proposal), vars(anew)
        assert kept.keys() == anew.keys() and any(isinstance(value, Tensor) for value in kept.values())
        for key, value in kept.items():
            torch.testing.assert_close(value, anew[key]) if isinstance(value, Tensor) else None


@pytest.mark.parametrize("dtype", [torch.float32, pytest.param(torch.float64, marks=pytest.mark.slow)])
@mostly("spin")
def test_extreme_energies_and_one_chain(name: str, domain: str, dtype: torch.dtype) -> None:
    """Energies of 1e4 give no NaN, and kernels whose moves need no way back go downhill.

    Others may stand still there: where a gradient points back uphill more steeply than the move is worth, the reverse
    proposal is hopeless, and the move is rejected or never proposed. docs/samplers.md says so.
    """
    space = DOMAINS[domain]
    for kind in ("cubic", "flat"):
        target = Target(space, kind, scale=1e4)
        torch.manual_seed(0)
        x = space.random(1).to(dtype)
        last, info = CASES[name].make(space).sample(target, x, 40)
        space.validate(last)
        if name.startswith(("Gibbs", "HammingBall", "RandomWalk", "LB barker", "LB min")):
            assert (target(last) <= target(x)).all()
        assert last.dtype == dtype and info.acceptance.isfinite().all() and info.hops.isfinite().all()


@mostly("categorical")
def test_chains_move_where_gradients_are_zero(name: str, domain: str) -> None:
    space = DOMAINS[domain]
    torch.manual_seed(0)
    _, info = CASES[name].make(space).sample(Target(space, "flat", scale=0.0), space.random(50), 40)
    assert info.acceptance.isfinite().all()
    assert name == "DiscreteSVGD" or info.hops.min() > 0


@pytest.mark.parametrize("name", [c for c in CASES if "ordinal" in CASES[c].domains])
def test_one_state_domains(name: str) -> None:
    space = Ordinal(2, 1)
    if name.startswith("AB-") or "precondition" in name:
        sampler = CASES[name].make(space)
    else:
        sampler = CASES[name].make(Ordinal(2, 3))
    last, info = sampler.sample(Target(space, "cubic"), space.random(3).double(), 3)
    assert not last.any() and not info.hops.any() and info.acceptance.isfinite().all()


@mostly("ordinal")
def test_same_chain_in_inference_mode(name: str, domain: str) -> None:
    space, target, chains = DOMAINS[domain], Target(DOMAINS[domain], "cubic"), []
    x = space.random(6).double()
    for mode in (torch.no_grad, torch.inference_mode):
        torch.manual_seed(0)
        with mode():
            chains.append(CASES[name].make(space).sample(target, x, 5)[0].clone())
    assert torch.equal(*chains)


@mostly("categorical", pairs=[p for p in PAIRS if p[0] != "DiscreteSVGD"])
def test_a_chain_does_not_depend_on_its_batch(name: str, domain: str, monkeypatch: pytest.MonkeyPatch) -> None:
    torch.manual_seed(0)
    start = DOMAINS[domain].random(8).double()
    alone_and_together(CASES[name].make(DOMAINS[domain]), Target(DOMAINS[domain], "cubic"), start, monkeypatch)


@pytest.mark.parametrize(("name", "domain"), PAIRS)
def test_settings_do_not_change_and_are_not_saved(name: str, domain: str) -> None:
    space = DOMAINS[domain]
    sampler = CASES[name].make(space)
    before = {k: v.clone() for k, v in sampler.named_buffers()}
    x = space.random(4).double()
    kept = x.clone()
    _, info = sampler.sample(Target(space, "cubic"), x, 3)
    assert torch.equal(x, kept), "the start was changed in place"
    assert all(torch.equal(v, before[k]) for k, v in sampler.named_buffers())
    assert not sampler.state_dict()
    assert not any(isinstance(m, Energy) for m in sampler.modules()), "a sampler holds no model"
    assert info.acceptance.shape == info.hops.shape == (4,)


@pytest.mark.parametrize("make", STRUCTURED.values(), ids=lambda make: type(make()[0]).__name__)
def test_structured_samplers_run(make: Callable[[], tuple[Sampler, Energy]]) -> None:
    sampler, energy = make()
    torch.manual_seed(0)
    x, info = sampler.sample(energy, energy.domain.random(50), 20)
    energy.domain.validate(x)
    flipped = info.hops / energy.domain.size  # Metropolis accepts flips; the others draw values
    expected = flipped if isinstance(sampler, ChromaticMetropolis) else torch.ones(50)
    assert info.hops.min() > 0
    torch.testing.assert_close(info.acceptance, expected)


@pytest.mark.parametrize(
    ("sampler", "energy", "message"),
    [
        (
            DMALA(0.1),
            Target(Binary(4), "cubic"),
            r"state number 1, counted from 0, is not in Binary\(4\): its values must be 0 or 1",
        ),
        (RelaxedMALA(0.1), Target(Categorical(4, 3), "cubic"), r"RelaxedMALA samples Binary or Spin domains"),
        (DMALA(0.1, window=1), Target(Spin(4), "cubic"), r"DMALA: a window needs an Ordinal domain"),
        (ChromaticGibbs(), Target(Spin(4), "cubic"), r"ChromaticGibbs .*Ising.*Potts"),
        (BlockGibbs(), Ising.lattice(2, 0.1), r"BlockGibbs needs a bipartite energy"),
        (AnyScale("trace"), ScalarPotts.lattice(2, 3, coupling=0.5), r"AnyScale"),
        (DULA(0.1, stochastic=True), Target(Spin(4), "cubic"), r"stochastic gradients need an energy"),
        (Gibbs(20), Target(Ordinal(40, 5), "cubic"), r"block_size"),
    ],
    ids=lambda v: type(v).__name__ if isinstance(v, Sampler) else None,
)
def test_one_clear_line(sampler: Sampler, energy: Energy, message: str) -> None:
    x = energy.domain.random(2)
    x[1] = 7.0
    with refused(message):
        sampler.sample(energy, x, 1)


def test_a_wrong_shape_is_named() -> None:
    with pytest.raises(UserError, match=r"have shape \(B, 4\), got \(2, 3\)"):
        DMALA(0.1).sample(Target(Binary(4), "cubic"), torch.zeros(2, 3), 1)
