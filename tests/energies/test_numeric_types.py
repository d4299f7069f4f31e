"""Every energy takes states of any numeric type, and answers in its own floating type as for its own states."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from helpers_energies import ENERGIES, potts, rbm
from helpers_errors import one_line
from helpers_tier import cases
from torch import Tensor

from ebmlab.data.tables import Rows
from ebmlab.domains import Binary, Categorical, Domain, Finite, Real, Spin
from ebmlab.energies import (
    GRBM,
    MLP,
    AtNoise,
    Bernoulli,
    Bipartite,
    Clamped,
    ClassifierMLP,
    Energy,
    Frequencies,
    Gaussian,
    Ising,
    NoisyAutoencoder,
    NoisyMLP,
    NoisyResNet,
    Potts,
    ProductMLP,
    RealMLP,
    Scaled,
    Solved,
    StandardNormal,
    Sum,
    Uniform,
    bridge,
    reference,
    tempered,
)
from ebmlab.energies.hidden_units import Kind
from ebmlab.errors import UserError
from ebmlab.product import Product
from ebmlab.samplers import DMALA, GibbsSweep, Sampler
from ebmlab.studies.targets import BinaryNetPosterior

WHOLE = (torch.bool, torch.uint8, torch.int8, torch.int16, torch.int32, torch.int64)
FLOATS = (torch.float16, torch.bfloat16, torch.float32, torch.float64)


def grbm(hidden: Kind = "bits") -> GRBM:
    machine = GRBM(5, 3, hidden=hidden)
    for p in machine.parameters():
        torch.nn.init.normal_(p)
    return machine


def ising() -> Ising:
    return Ising.barabasi_albert(7, 2, coupling=0.6, field=0.3)


def path(energy: Energy) -> Energy:
    return bridge(reference(energy.domain), energy, beta=0.3)


MORE: dict[str, Callable[[], Energy]] = {
    "RBM": rbm,
    "GRBM": grbm,
    "GRBM, Gaussian": lambda: grbm("gaussian"),
    "Ising": ising,
    "Ising, sparse": lambda: Ising.lattice(20, 0.3, field=0.2),
    "Ising, learnable": lambda: Ising(ising().coupling, 0.3, learn=True),
    "ScalarPotts": potts,
    "BinaryNetPosterior": lambda: BinaryNetPosterior(
        Rows(torch.randn(8, 2), torch.rand(8), torch.randn(8, 2), torch.rand(8)), hidden_dim=2
    ),
    "Uniform": lambda: Uniform(Spin(3)),
    "Bernoulli": lambda: Bernoulli(torch.tensor([0.2, 0.7])),
    "Frequencies": lambda: Frequencies(torch.tensor([[0.2, 0.3, 0.5], [0.1, 0.1, 0.8]])),
    "StandardNormal": lambda: StandardNormal(Real(3)),
    "Gaussian": lambda: Gaussian(torch.zeros(3), torch.eye(3)),
    "Solved": lambda: Solved(ising(), 0.0, samples=Spin(7).random(4)),
    "Bridge to an Ising model": lambda: path(ising()),
    "Bridge to an RBM": lambda: path(rbm()),
    "Bridge to a Potts model": lambda: path(potts()),
    "Tempered RBM": lambda: tempered(rbm(), 0.4),
    "Tempered Ising": lambda: tempered(ising(), 0.4),
    "Clamped GRBM": lambda: Clamped(grbm(), torch.full((5,), 0.5), mask=[True, False, False, True, False]),
    "Scaled sum": lambda: Scaled(Sum([ising(), ising()]), 2.0),
}
ALL = {**ENERGIES, **MORE}
REAL: dict[str, Callable[[], Energy]] = {
    "RealMLP": lambda: RealMLP(3, hidden_dim=4),
    "NoisyMLP": lambda: NoisyMLP(3, hidden_dim=4),
    "AtNoise": lambda: AtNoise(NoisyMLP(3, hidden_dim=4), 0.5),
    "NoisyResNet": lambda: NoisyResNet((1, 8, 8), channels=4),
    "NoisyAutoencoder": lambda: NoisyAutoencoder((1, 8, 8), channels=4),
    "ClassifierMLP": lambda: ClassifierMLP(3, hidden_dim=4, num_classes=2),
    "ProductMLP": lambda: ProductMLP(Product(bits=Binary(2), words=Categorical(2, 3)), hidden_dim=4),
}
DEAR = {"ResNet", "Clamped ResNet"}  # their gradients take seconds; the noisy one is of the same lines
BASES = ("Uniform", "Bernoulli", "Frequencies", "StandardNormal", "Gaussian", "Solved")


def answers(energy: Energy, x: Tensor) -> dict[str, Tensor]:
    """All that an energy says at x."""
    found = {"call": energy(x), "gradient": energy.gradient(x)}
    found["value"], found["grad"] = energy.value_and_grad(x)
    found["evaluated"] = energy.evaluate(x).energy
    if isinstance(energy.domain, Binary | Spin):
        index = torch.zeros(len(x), 2, dtype=torch.int64)
        found["flips"], found["two flips"] = energy.flip_differences(x), energy.flip_differences(x, index)
        found["flip energies"] = energy.flip_energies(x)
    if isinstance(energy.domain, Finite):
        found["neighbours"] = energy.value_differences(x)
    if isinstance(energy, Bipartite):
        h = (torch.arange(energy.num_hidden) % 2).expand(len(x), -1)
        found["logits"], found["joint"] = energy.hidden_given_visible(x), energy.joint_energy(x, h)
    return {name: value.detach() for name, value in found.items()}


def states(energy: Energy, dtype: torch.dtype) -> Tensor:
    """States whose values the type can hold."""
    torch.manual_seed(1)
    x = energy.domain.random(4)
    x = x if isinstance(energy.domain, Finite) else x.round()
    if dtype in (torch.bool, torch.uint8):
        x = torch.ones_like(x) if isinstance(energy.domain, Spin) else x.abs()
    return x.clamp(max=1) if dtype == torch.bool and not isinstance(energy.domain, Spin) else x


@cases("own", [torch.float32, torch.float64], fast=[0])
@cases("name", {name: name for name in ALL if name not in BASES}, fast=ALL.keys() - DEAR)
def test_all_numeric_types_say_the_same(name: str, own: torch.dtype) -> None:
    torch.manual_seed(0)
    energy = ALL[name]().to(own)
    for dtype in (*WHOLE, *FLOATS):
        x = states(energy, dtype)
        given, right = x.to(dtype), x.to(own)
        found = answers(energy, given)
        for what, expected in answers(energy, right).items():
            assert found[what].dtype == own, (what, dtype)
            assert torch.equal(found[what], expected), (what, dtype)


@pytest.mark.parametrize("name", ALL | REAL)
def test_no_states_have_no_energies(name: str) -> None:
    energy = (ALL | REAL)[name]()
    x = energy.random(2)
    found = answers(energy, x[:0])
    for what, right in answers(energy, x).items():
        assert found[what].shape == (0, *right.shape[1:]), what


def test_no_sequences_have_no_conditionals() -> None:
    for pairs in (None, [[0, 1]]):
        energy = Potts(5, 3, pairs=pairs)
        for sites in (None, torch.tensor([1, 3])):
            assert energy.log_conditionals(energy.random(0), sites).shape == (0,)


@pytest.mark.parametrize("name", BASES)
def test_base_laws_take_whole_numbers_and_follow_the_floats_of_a_path(name: str) -> None:
    energy = ALL[name]()
    for dtype in WHOLE:
        x = states(energy, dtype)
        found = answers(energy, x.to(dtype))
        for what, expected in answers(energy, x).items():
            assert found[what].dtype == torch.float32 and torch.equal(found[what], expected), (what, dtype)
    if name != "Solved":
        assert energy(energy.domain.random(3).double()).dtype == torch.float64


def test_numbers_below_one_are_not_rounded_away() -> None:
    energy = Ising([[0.0, 0.5, 0.0], [0.5, 0.0, 0.9], [0.0, 0.9, 0.0]], [0.1, -0.2, 0.3])
    x = torch.tensor([[1, 1, 1], [1, -1, 1]], dtype=torch.int8)
    assert energy(x).tolist() == pytest.approx([-1.6, 0.8])
    assert energy.flip_differences(x)[0].tolist() == pytest.approx([1.2, 2.4, 2.4])


WRONG: list[tuple[Callable[[], Energy], Any, str]] = [
    (ising, torch.randint(2, (3, 7)), "its values must be -1 or +1"),
    (ising, torch.zeros(3, 7, dtype=torch.bool), "its values must be -1 or +1"),
    (rbm, 2 * torch.ones(3, 7, dtype=torch.int8), "its values must be 0 or 1"),
    (rbm, torch.full((3, 7), 255, dtype=torch.uint8), "its values must be 0 or 1"),
    (potts, torch.zeros(3, 5, 3, dtype=torch.int64), "one-hot"),
    (potts, torch.zeros(3, 5, dtype=torch.int64), "have shape"),
    (rbm, torch.zeros(3, 7, dtype=torch.complex64), "are real numbers"),
    (rbm, [[0.0] * 7], "are tensors, got a list"),
]


@pytest.mark.parametrize(("make", "x", "words"), WRONG)
@pytest.mark.parametrize("method", ["__call__", "value_and_grad", "flip_energies", "value_differences"])
def test_other_values_are_refused_in_a_line(make: Callable[[], Energy], x: Any, words: str, method: str) -> None:
    energy = make()
    if method == "flip_energies" and not isinstance(energy.domain, Binary | Spin):
        return
    assert words in one_line(lambda: getattr(energy, method)(x))


@pytest.mark.parametrize("name", ALL)
def test_floats_of_another_shape_are_refused_in_a_line(name: str) -> None:
    """One value or one coordinate too many, axes exchanged or joined, no batch; also where torch would broadcast."""
    energy = ALL[name]()
    event = energy.domain.event_shape
    wrong = [(2, *event[:-1], event[-1] + 1), (2, event[0] + 1, *event[1:]), (2, *event, 1), event[:-1], ()]
    wrong += [(2, *reversed(event)), (2, math.prod(event))] if len(event) == 2 and event[0] != event[1] else []
    for shape in wrong:
        with pytest.raises(UserError) as error:
            energy(torch.zeros(shape, dtype=energy.dtype))
        assert str(error.value).startswith(f"states of {energy.domain} have shape (B, ") and "\n" not in str(
            error.value
        )


@pytest.mark.parametrize("sampler", [DMALA(0.2), GibbsSweep()])
def test_steps_do_not_look_at_shapes(sampler: Sampler, monkeypatch: pytest.MonkeyPatch) -> None:
    """They are looked at once, where a chain starts."""
    energy, seen = Potts(4, 3), []
    require_shape = Domain.require_shape
    monkeypatch.setattr(Domain, "require_shape", lambda domain, x: seen.append(1) or require_shape(domain, x))
    for num_steps in (1, 10):
        sampler.sample(energy, energy.random(2), num_steps)
    assert len(seen) == 2


def test_a_type_that_rounds_the_values_is_refused() -> None:
    from ebmlab.studies.targets import LatticeGaussian

    energy = LatticeGaussian([[1.0]], [0.0], num_values=1000).bfloat16()
    with pytest.raises(UserError, match="bfloat16 rounds"):
        energy(torch.tensor([[257]]))


def test_an_energy_of_a_user_with_a_keyword_of_its_own() -> None:
    class Field(Energy):
        domains = (Spin,)

        def __init__(self) -> None:
            super().__init__()
            self.domain, self.h = Spin(2), torch.nn.Parameter(torch.tensor([0.25, 0.5]))

        def forward(self, s: Tensor) -> Tensor:
            return -s @ self.h

        def value_and_grad(self, s: Tensor) -> tuple[Tensor, Tensor]:  # type: ignore[override]
            return -s @ self.h.detach(), -self.h.detach().expand_as(s)

    x = torch.tensor([[1, -1]], dtype=torch.int8)
    assert Field()(x).item() == 0.25 and Field().value_and_grad(s=x)[0].item() == 0.25  # type: ignore[call-arg]


def test_a_gradient_flows_back_to_states_of_another_type() -> None:
    energy, x = MLP(7).float(), torch.ones(2, 7, dtype=torch.float64, requires_grad=True)
    (slope,) = torch.autograd.grad(energy(x).sum(), x)
    torch.testing.assert_close(slope, energy.gradient(x.detach()).double())


def test_clamped_merges_whole_numbers_without_rounding_what_is_given() -> None:
    clamped = MORE["Clamped GRBM"]()
    assert isinstance(clamped, Clamped)
    assert clamped.merge(torch.tensor([[1, 2, 3]])).tolist() == [[0.5, 1.0, 2.0, 0.5, 3.0]]


def test_mixed_precisions_in_a_sum_keep_the_finer_one() -> None:
    coarse, fine = grbm(), grbm().double()
    both, x = Sum([coarse, fine]), torch.tensor([[0.1, 0.2, 0.3, 0.4, 0.5]], dtype=torch.float64)
    assert both.dtype == torch.float64
    torch.testing.assert_close(both(x) - coarse(x).double(), fine(x), rtol=1e-12, atol=1e-12)
