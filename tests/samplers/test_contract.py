"""The contract of all samplers. A new sampler without an entry in SAMPLERS fails the first test."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_batch import alone_and_together, repeats_itself
from helpers_errors import refused
from helpers_grbm import Banana, last_state, make_grbm
from torch import Tensor

import ebmlab.samplers
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.samplers import (
    HMC,
    MALA,
    NUTS,
    ULA,
    BlockGibbs,
    Cosine,
    GibbsLangevin,
    Langevin,
    Sampler,
    UnderdampedLangevin,
)

SAMPLERS: list[tuple[Sampler, bool]] = [  # a sampler, and whether it is exact
    (BlockGibbs(), True),
    (ULA(0.3), False),
    (MALA(0.9), True),
    (Langevin(0.9, adjust_from=0), True),
    (HMC(1.3, num_leapfrog=1), True),
    (NUTS(1.3, max_depth=1), True),
    (UnderdampedLangevin(0.9, friction=1.0), False),
    (UnderdampedLangevin(0.9, friction=1.0, adjusted=True), True),
    (Langevin(0.9, adjust_from=2, schedule=Cosine(), temperature=1.5), False),
    (GibbsLangevin(0.3), False),
    (GibbsLangevin(0.5, num_inner_steps=2, adjust_from=0), True),
    (GibbsLangevin(0.5, num_inner_steps=2, adjust_from=2, temperature=1.5), False),
]


def name(value: object) -> str | None:
    return type(value).__name__ if isinstance(value, Sampler) else None


every_sampler = pytest.mark.parametrize("sampler", [s for s, _ in SAMPLERS], ids=name)


def start(n: int = 64) -> Tensor:
    return 2 * torch.randn(n, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))


class Counting(GRBM):
    """A GRBM that counts the calls of its methods."""

    counts: Counter[str]

    def __getattribute__(self, name: str) -> Any:
        if name in ("evaluate", "hidden_given_visible", "forward", "value_and_grad"):
            self.counts[name] += 1
        return super().__getattribute__(name)


def test_every_sampler_has_an_entry() -> None:
    public = {getattr(ebmlab.samplers, name) for name in ebmlab.samplers.__all__}
    samplers = {c for c in public if isinstance(c, type) and issubclass(c, Sampler) and Real in c.domains}
    assert samplers == {type(s) for s, _ in SAMPLERS}
    assert all(any(exact for s, exact in SAMPLERS if type(s) is c) for c in samplers - {ULA})


@pytest.mark.parametrize(("sampler", "exact"), SAMPLERS, ids=name)
def test_exact_says_whether_the_law_is_invariant(sampler: Sampler, exact: bool) -> None:
    assert sampler.exact is exact


@every_sampler
def test_one_evaluation_a_step(sampler: Sampler) -> None:
    grbm = make_grbm(2)
    grbm.__class__ = Counting
    grbm.counts = Counter()
    state = sampler.init(grbm, start(), 5)
    for k in range(5):
        grbm.counts.clear()
        state, info = sampler.step(grbm, state)
        assert state.step == k + 1 and info.evaluations == 1
        assert grbm.counts["hidden_given_visible"] == 1 and grbm.counts["evaluate"] <= 1, "within evaluate, or alone"
        assert grbm.counts["forward"] == grbm.counts["value_and_grad"] == 0


def test_one_evaluation_a_step_on_any_energy() -> None:
    target = Banana(2)
    calls = []
    target.register_forward_pre_hook(lambda *_: calls.append(1))
    state = Langevin(0.1, adjust_from=0).init(target, start())
    for k in range(5):
        assert len(calls) == k + 1
        state, _ = Langevin(0.1, adjust_from=0).step(target, state)


@every_sampler
def test_sample_repeats_step_and_averages_info(sampler: Sampler) -> None:
    grbm, x = make_grbm(2), start()
    torch.manual_seed(1)
    last, mean = sampler.sample(grbm, x, 6)
    assert torch.equal(x, start()), "the start was changed in place"
    torch.manual_seed(1)
    state = sampler.init(grbm, x, 6)
    acceptance, hops = [], []
    for _ in range(6):
        before = state.x.clone()
        state, info = sampler.step(grbm, state)
        assert torch.equal(info.hops > 0, (state.x != before).any(1))
        torch.testing.assert_close(info.hops, (state.x - before).norm(dim=1), rtol=1e-12, atol=1e-14)
        assert info.acceptance.shape == info.hops.shape == (64,)
        assert ((info.acceptance >= 0) & (info.acceptance <= 1)).all()
        acceptance.append(info.acceptance)
        hops.append(info.hops)
    assert torch.equal(last, state.x) and not last.requires_grad
    torch.testing.assert_close(mean.acceptance, torch.stack(acceptance).mean(0), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(mean.hops, torch.stack(hops).mean(0), rtol=1e-12, atol=1e-12)
    assert mean.evaluations == pytest.approx(1.0)


@every_sampler
def test_a_step_leaves_its_state_as_it_was_and_repeats_itself(sampler: Sampler) -> None:
    grbm = make_grbm(2)
    state = sampler.init(grbm, start(), 5)
    for _ in range(3):
        repeats_itself(sampler, grbm, state)
        state, _ = sampler.step(grbm, state)


@every_sampler
def test_no_steps_return_the_start(sampler: Sampler) -> None:
    x, info = sampler.sample(make_grbm(2), start(), 0)
    assert torch.equal(x, start()) and info.evaluations == 0


@every_sampler
def test_cached_parts_belong_to_x(sampler: Sampler) -> None:
    """After accepted and rejected steps every cached tensor equals the one computed from x and h."""
    torch.manual_seed(0)
    grbm = make_grbm(2)
    temperature = getattr(sampler, "temperature", 1.0)
    state = last_state(sampler, grbm, start(), 6)
    at = grbm.evaluate(state.x)
    assert state.logits is not None
    torch.testing.assert_close(state.logits, at.logits, rtol=1e-12, atol=1e-12)
    if state.hidden is not None and hasattr(state, "mean"):
        mean = grbm.visible_given_hidden(state.hidden)[0].detach()
        torch.testing.assert_close(state.mean, mean, rtol=1e-12, atol=1e-12)
    if hasattr(state, "grad"):
        torch.testing.assert_close((state.energy, state.grad), (at.energy, at.grad), rtol=1e-12, atol=1e-12)
    elif getattr(state, "energy", None) is not None:
        energy = grbm.marginal_energy(state.x, at.logits, temperature=temperature).detach()
        torch.testing.assert_close(state.energy, energy, rtol=1e-12, atol=1e-12)


@every_sampler
@pytest.mark.parametrize("mode", [torch.inference_mode, torch.no_grad, torch.enable_grad])
def test_same_chain_in_every_autograd_mode(sampler: Sampler, mode: Callable[[], Any]) -> None:
    chains = []
    for context in (torch.no_grad, mode):
        torch.manual_seed(0)
        with context():
            chains.append(sampler.sample(make_grbm(2), start(), 4)[0].clone())
    assert torch.equal(*chains) and not chains[1].requires_grad


def test_langevin_by_autograd_works_in_inference_mode() -> None:
    chains = []
    for mode in (torch.no_grad, torch.inference_mode):
        torch.manual_seed(0)
        with mode():
            chains.append(Langevin(0.1, adjust_from=0).sample(Banana(2), start(), 4)[0].clone())
    assert torch.equal(*chains) and not torch.equal(chains[0], start())


@every_sampler
def test_a_chain_does_not_depend_on_its_batch(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    alone_and_together(sampler, make_grbm(2), start(), monkeypatch, others=50 * start())


@every_sampler
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_dtype_follows_the_input(sampler: Sampler, dtype: torch.dtype) -> None:
    grbm, x = make_grbm(2).to(dtype), start().to(dtype)
    torch.manual_seed(0)
    for state, info in sampler.chain(grbm, x, 3):
        tensors = [v for v in vars(state).values() if isinstance(v, Tensor) and v.dim() > 0]
        assert {t.dtype for t in [*tensors, info.acceptance, info.hops]} == {dtype}


@every_sampler
def test_settings_are_buffers_and_do_not_change(sampler: Sampler) -> None:
    before = copy.deepcopy(dict(sampler.named_buffers()))
    assert ("step_size" in before) == hasattr(sampler, "step_size")
    assert not sampler.state_dict()  # not saved: on resume the config's values are used
    assert not list(sampler.parameters())
    sampler.sample(make_grbm(2), start(), 3)
    assert all(torch.equal(v, before[k]) for k, v in sampler.named_buffers())
    assert not any(isinstance(m, Energy) for m in sampler.modules()), "a sampler holds no model"


@pytest.mark.parametrize("sampler", [s for s, _ in SAMPLERS if getattr(s, "adjust_from", None) == 0], ids=name)
def test_a_proposal_of_infinite_or_nan_energy_is_not_accepted(sampler: Sampler) -> None:
    """Samplers with a Metropolis decision reject it."""

    class Walled(GRBM):
        bad = float("nan")

        def marginal_energy(self, v: Tensor, logits: Tensor, temperature: float | Tensor = 1.0) -> Tensor:
            return torch.where(v[:, 0] > 0.5, self.bad, super().marginal_energy(v, logits, temperature=temperature))

    grbm = make_grbm(2)
    grbm.__class__ = Walled
    for Walled.bad in (float("nan"), float("inf")):
        torch.manual_seed(0)
        x, info = sampler.sample(grbm, -start().abs(), 30)
        assert (x[:, 0] <= 0.5).all() and info.hops.min() > 0
        assert info.acceptance.isnan().any() == (Walled.bad != Walled.bad)


class Toy(Energy):
    """An energy without hidden units."""

    def __init__(self, domain: Real | Binary) -> None:
        super().__init__()
        self.domain = domain

    def forward(self, x: Tensor) -> Tensor:
        return x.square().sum(1)


class BinaryToy(Bipartite, Toy):
    """An energy of binary visible and hidden units."""


@pytest.mark.parametrize(
    ("sampler", "energy", "message"),
    [
        (GibbsLangevin(0.1), Toy(Real(2)), r"GibbsLangevin needs a bipartite energy .* but Toy has none"),
        (BlockGibbs(), Toy(Real(2)), r"BlockGibbs needs a bipartite energy .* but Toy has none"),
        (GibbsLangevin(0.1), BinaryToy(Binary(2)), r"GibbsLangevin needs Gaussian visible .* not a BinaryToy"),
        (Langevin(0.1), Toy(Binary(2)), r"Langevin samples Real domains, but Toy lives on Binary\(2\)"),
    ],
)
def test_check_names_what_does_not_fit(sampler: Sampler, energy: Energy, message: str) -> None:
    with refused(message):
        sampler.check(energy)
    with pytest.raises(UserError):
        sampler.sample(energy, torch.zeros(1, 2), 1)


def test_check_passes_what_fits() -> None:
    for sampler, _ in SAMPLERS:
        sampler.check(make_grbm(2))
    Langevin(0.1).check(Toy(Real(2)))


def test_step_sizes_are_in_the_energys_unit_whatever_the_batch() -> None:
    """A step size of 0.1 is 0.1 mean variances on a GRBM, and 0.1 on an energy without a unit, for 1 chain and 64."""
    grbm, sampler = make_grbm(2), Langevin(0.1)
    unit = grbm.log_var.detach().exp().mean().item()
    for n in (1, 64):
        assert sampler.init(grbm, start(n)).step_size == pytest.approx(0.1 * unit)
        assert sampler.init(Toy(Real(2)), start(n)).step_size == pytest.approx(0.1)
