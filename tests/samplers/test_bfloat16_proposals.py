"""Proposals in bfloat16: the law stays that of the energy in float32, however much rounding changes it."""

from __future__ import annotations

import copy
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_finite import invariance_p
from helpers_mutants import mutant
from helpers_trainer import short_fit
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from ebmlab.domains import Binary
from ebmlab.energies import Energy, ResNet
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.numerics.unrounded import read_out
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    DULA,
    GWG,
    AnyScale,
    Bfloat16Proposals,
    Gibbs,
    PathAuxiliary,
    RegularisedLangevin,
    Sampler,
)
from ebmlab.testing import ExactLaw, transition_matrix

pytestmark = pytest.mark.filterwarnings("ignore:The dirpath has changed")
PASS, FAIL = 1e-4, 1e-12
KERNELS = [DMALA(0.5), GWG(), PathAuxiliary(2), AnyScale("first", 0.5), DLMC(0.3), RegularisedLangevin(1.5)]
each_kernel = pytest.mark.parametrize("kernel", KERNELS, ids=lambda kernel: type(kernel).__name__)


class Sine(nn.Module):
    def forward(self, x: Tensor) -> Tensor:
        return x.sin()


class Waves(Energy):
    """A network whose first features are near 200, where numbers of bfloat16 are 1 apart: rounding changes the law."""

    domains = (Binary,)

    def __init__(self, size: int) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.domain = Binary(size)
        self.net = nn.Sequential(nn.Linear(size, 8), Sine(), nn.Linear(8, 1))
        nn.init.normal_(self.net[0].weight)
        nn.init.constant_(self.net[0].bias, 200)
        nn.init.normal_(self.net[2].weight)
        self.requires_grad_(False)

    def forward(self, x: Tensor) -> Tensor:
        return read_out(self.net, x)


class InFloat32(Energy):
    """The same energy for code that works in float64, in which autocast rounds nothing."""

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.domain = energy.domain
        self.of = [energy]  # a list, so that `double()` does not reach it

    def forward(self, x: Tensor) -> Tensor:
        value: Tensor = self.of[0](x.float())
        return value.double()


def test_rounding_changes_this_law() -> None:
    energy = Waves(6)
    x, exact = energy.domain.enumerate(), ExactLaw(energy)
    with torch.autocast("cpu", torch.bfloat16):
        rounded = (-energy(x).double()).softmax(0)
    assert (rounded - exact.probabilities).abs().sum() / 2 > 0.2


@each_kernel
def test_the_law_is_invariant(kernel: Sampler) -> None:
    assert invariance_p(Bfloat16Proposals(kernel, 3), Waves(6), 2) > PASS


@pytest.mark.parametrize(("k", "size"), [(1, 4), (2, 2)])
def test_the_transition_matrix_has_the_law(k: int, size: int) -> None:
    energy = InFloat32(Waves(size))
    pi = ExactLaw(energy).probabilities
    flow = pi.unsqueeze(1) * transition_matrix(Bfloat16Proposals(DMALA(0.5), k), energy)
    torch.testing.assert_close(flow, flow.T, rtol=0, atol=1e-6)  # detailed balance, as far as float32 has digits
    assert (flow.diagonal() < 0.9 * pi).all()


def test_programs_are_refused() -> None:
    """They may round elsewhere than the plain code that makes the first state."""
    energy = Waves(6)
    with pytest.raises(UserError, match="Bfloat16Proposals on Waves cannot be compiled"):
        Bfloat16Proposals(DMALA(0.5), 2).last_states(energy, energy.random(5), 9, compile=True)


def without_decision(kernel: Sampler) -> Any:
    """A kernel that accepts by the energies in bfloat16."""

    def move(energy: Energy, x: Tensor) -> Tensor:
        with torch.autocast("cpu", torch.bfloat16):
            return kernel.sample(energy, x, 3)[0]

    return move


def test_energies_in_bfloat16_are_caught() -> None:
    energy = Waves(6)
    exact = ExactLaw(energy)
    assert exact.p_value(without_decision(DMALA(0.5))(energy, exact.sample(100_000))) < FAIL


MUTANTS = {
    "the law of the proposal is forgotten": ("self.rounded.energy - self.energy", "-self.energy"),
    "the ratio is upside down": ("new.excess - state.excess", "state.excess - new.excess"),
    "the decision is in bfloat16": ("no_autocast(x.device)", "torch.autocast(x.device.type, torch.bfloat16)"),
    "the kernel goes on where it was refused": (
        "new.where(accepted, state)",
        "RoundedState(**vars(new.where(accepted, state)) | {'rounded': new.rounded})",
    ),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_wrong_decisions_are_caught(old: str, new: str) -> None:
    wrong = mutant(Bfloat16Proposals, old, new)
    assert invariance_p(wrong(DMALA(0.5), 2), Waves(6), 2) < FAIL


def test_a_gradient_in_float32_on_the_way_back_is_caught() -> None:
    ratio = "here.log_ratio(draw, new.proposal)"
    names = {"float32": torch.autocast("cpu", enabled=False)}
    back = "here.log_ratio(draw, float32(start)(energy, draw.y, settings, options).proposal)"
    sampler = Bfloat16Proposals(DMALA(0.5), 2)
    sampler.sampler = mutant(DMALA, ratio, back, **names)(0.5)
    assert invariance_p(sampler, Waves(6), 2) < FAIL


def test_steps_and_evaluations() -> None:
    """A step evaluates the gradient k times in bfloat16, and the energy once in float32."""
    energy, sampler, calls = Waves(4), Bfloat16Proposals(DMALA(0.5), 5), Counter[tuple[bool, bool]]()
    energy.register_forward_pre_hook(
        lambda _, x: calls.update([(torch.is_autocast_enabled("cpu"), x[0].requires_grad)])
    )
    state = sampler.init(energy, energy.random(3))
    calls.clear()
    state, info = sampler.step(energy, state)
    assert calls == {(True, True): 5, (False, False): 1} and info.evaluations == 6
    with torch.autocast("cpu", torch.bfloat16):  # as a trainer at bf16-mixed sets it
        assert torch.equal(sampler.init(energy, state.x).energy, state.energy)


def test_weights_of_convolutions_are_rounded_once() -> None:
    """The numbers are those of autocast, which rounds them in each evaluation, and the energy keeps its own."""
    torch.manual_seed(0)
    energy, sampler = ResNet((8, 8), channels=8), Bfloat16Proposals(DMALA(0.3), 4)
    x, before = energy.random(6), copy.deepcopy(energy.state_dict())
    begin = sampler.init(energy, x)
    torch.manual_seed(1)
    with Counted() as once:
        ours, _ = sampler.step(energy, begin)
    torch.manual_seed(1)
    theirs, kernel = begin.rounded, DMALA(0.3)
    with torch.autocast("cpu", torch.bfloat16), Counted() as each_time:
        for _ in range(4):
            theirs, _ = kernel.step(energy, theirs)
    same = (ours.x == theirs.x).flatten(1).all(1)  # where the proposal was accepted
    assert same.any() and torch.equal(ours.rounded.energy[same], theirs.energy[same])
    assert (once.casts, each_time.casts) == (2 * 19, 4 * 29)  # weight and bias of 19 convolutions; both ways
    assert all(torch.equal(value, before[name]) for name, value in energy.state_dict().items())
    assert all(isinstance(p, nn.Parameter) and p.requires_grad for p in energy.parameters())


def test_float64_is_not_rounded_and_half_precision_is_refused() -> None:
    torch.manual_seed(0)
    sampler, energy = Bfloat16Proposals(DMALA(0.3), 4), ResNet((8, 8), channels=8).double()
    state = sampler.init(energy, energy.random(6))
    state, _ = sampler.step(energy, state)
    torch.testing.assert_close(state.rounded.energy, energy(state.x))
    with pytest.raises(UserError, match=r"ResNet is in torch\.bfloat16: keep its parameters in float32"):
        sampler.sample(energy.bfloat16(), state.x, 2)


class Counted(TorchDispatchMode):
    """Counts the casts of weights and biases of convolutions."""

    def __init__(self) -> None:
        super().__init__()
        self.casts = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
        self.casts += function.__name__ == "_to_copy.default" and isinstance(args[0], nn.Parameter)
        return function(*args, **(kwargs or {}))


class Fenced(Waves):
    """No state whose first bits are 1 1."""

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x).masked_fill(x[:, 0] * x[:, 1] > 0, torch.inf)


def test_forbidden_states_are_left_and_not_entered() -> None:
    energy, sampler = Fenced(4), Bfloat16Proposals(DMALA(0.5), 2)
    assert invariance_p(sampler, energy, 2) > PASS
    left = sampler.sample(energy, torch.ones(500, 4), 60)[0]
    assert ExactLaw(energy).p_value(left) > PASS


def test_nan_is_not_masked() -> None:
    energy = Waves(4)
    energy.net[2].bias.fill_(torch.nan)
    x = energy.random(5)
    y, info = Bfloat16Proposals(DMALA(0.5), 2).sample(energy, x, 3)
    assert torch.equal(x, y) and info.acceptance.isnan().all()


@pytest.mark.parametrize(
    "kernel", [DULA(0.5), ACS(), Gibbs(), Bfloat16Proposals(GWG())], ids=lambda k: type(k).__name__
)
def test_other_kernels_are_refused(kernel: Sampler) -> None:
    with pytest.raises(UserError, match=f"{type(kernel).__name__} is not known to be reversible and exact"):
        Bfloat16Proposals(kernel)


def deep() -> ContrastiveDivergence:
    torch.manual_seed(0)
    sampler, start = Bfloat16Proposals(DMALA(0.2), 2), ReplayBuffer(200, init="mean")
    return ContrastiveDivergence(ResNet((1, 8, 8), channels=8), sampler, start=start, num_steps=2)


def test_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    whole = deep()
    short_fit(whole, tmp_path / "whole", 2)
    resumed = deep()
    short_fit(resumed, tmp_path / "resumed", 2, ckpt_path=str(tmp_path / "whole" / "epoch=0.ckpt"))
    for name, value in whole.state_dict().items():
        assert torch.equal(value, resumed.state_dict()[name]), name
    assert isinstance(whole.start, ReplayBuffer) and isinstance(resumed.start, ReplayBuffer)
    assert whole.start.slots is not None and resumed.start.slots is not None
    assert torch.equal(whole.start.slots, resumed.start.slots)
