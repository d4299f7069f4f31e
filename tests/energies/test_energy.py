"""The base class: autograd in x, flip energies, and the average that learners differentiate."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ebmlab.domains import Binary, Categorical, Domain, Finite, Ordinal, Real, Spin
from ebmlab.energies import RBM, Bernoulli, Energy
from ebmlab.errors import UserError


class Cubic(Energy):
    """A cubic energy without symmetries, with one parameter that it does not use."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain
        generator = torch.Generator().manual_seed(0)
        size = domain.random(1).numel()
        self.a, self.b = (nn.Parameter(torch.randn(size, dtype=torch.float64, generator=generator)) for _ in range(2))
        self.unused = nn.Parameter(torch.ones(2, dtype=torch.float64))
        self.frozen = nn.Parameter(torch.tensor(0.7, dtype=torch.float64), requires_grad=False)

    def forward(self, x: Tensor) -> Tensor:
        x = x.flatten(1)
        return x @ self.a + (x**3) @ self.b / 3 + self.frozen * x[:, 0] * x[:, 1] * x[:, 2] + (x @ self.b).square()


@pytest.mark.parametrize("inference", [False, True])
def test_value_and_grad_by_autograd(inference: bool) -> None:
    energy = Cubic(Real((2, 2)))
    x = torch.randn(5, 2, 2, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(inference):
        value, grad = energy.value_and_grad(x.clone())
        at = energy.evaluate(x.clone())
    flat = x.flatten(1)
    quadratic = 2 * (flat @ energy.b)[:, None] * energy.b
    others = torch.stack([flat[:, 1] * flat[:, 2], flat[:, 0] * flat[:, 2], flat[:, 0] * flat[:, 1], 0 * flat[:, 0]], 1)
    expected = energy.a + flat**2 * energy.b + quadratic + energy.frozen * others
    torch.testing.assert_close(grad, expected.view_as(x).detach(), rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(value, energy(x).detach(), rtol=0, atol=0)
    assert torch.equal(at.grad, grad) and torch.equal(at.energy, value) and at.logits is None
    assert not value.requires_grad and not grad.requires_grad
    assert [p.requires_grad for p in energy.parameters()] == [True, True, True, False], "requires_grad not put back"
    assert all(p.grad is None for p in energy.parameters())


def test_a_gradient_enters_no_context_that_it_does_not_need(monkeypatch: pytest.MonkeyPatch) -> None:
    energy, entered = Cubic(Real(4)), []
    x = torch.randn(5, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    expected = energy.gradient(x)
    real = torch.inference_mode.__enter__
    monkeypatch.setattr(torch.inference_mode, "__enter__", lambda self: (entered.append(self.mode), real(self))[1])
    assert torch.equal(energy.gradient(x), expected) and entered == []
    with torch.inference_mode():
        made_here = x.clone()
        for there in (x, made_here):
            assert torch.equal(energy.gradient(there), expected) and entered.pop() is False
    entered.clear()
    assert torch.equal(energy.gradient(made_here), expected) and entered == []


def test_value_and_grad_puts_requires_grad_back_after_an_error() -> None:
    energy = Cubic(Real(4))
    with pytest.raises(UserError, match="have shape"):
        energy.value_and_grad(torch.zeros(2, 9, dtype=torch.float64))
    assert [p.requires_grad for p in energy.parameters()] == [True, True, True, False]


@pytest.mark.parametrize("domain", [Binary(4), Spin(4), Binary((2, 2)), Spin((2, 2))], ids=str)
def test_flip_energies_match_the_enumerated_neighbours(domain: Binary | Spin) -> None:
    energy = Cubic(domain)
    states = domain.enumerate().double()
    table = {tuple(domain.to_index(s[None]).flatten().tolist()): energy(s[None])[0] for s in states}
    everything = energy.flip_energies(states)
    for s, row in zip(states, everything, strict=True):
        bits = domain.to_index(s[None]).flatten().tolist()
        for i in range(4):
            neighbour = (*bits[:i], 1 - bits[i], *bits[i + 1 :])
            torch.testing.assert_close(row[i], table[neighbour], rtol=1e-12, atol=1e-12)
    index = torch.tensor([[3, 0]]).expand(len(states), 2)
    torch.testing.assert_close(energy.flip_energies(states, index), everything[:, [3, 0]], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("domain", [Real(4), Ordinal(4, 3)], ids=str)
def test_flip_energies_refuses_other_domains(domain: Domain) -> None:
    with pytest.raises(UserError, match=r"Binary or Spin domain, Cubic lives on"):
        Cubic(domain).flip_energies(torch.zeros(1, 4, dtype=torch.float64))


@pytest.mark.parametrize("inference", [False, True])
def test_weighted_sum_has_the_value_and_gradient_of_the_mean(inference: bool) -> None:
    energy = Cubic(Real(4))
    torch.manual_seed(0)
    batches = [torch.randn(n, 4, dtype=torch.float64) for n in (3, 1, 7)]
    total = energy.weighted_sum()
    for x in batches:
        with torch.inference_mode(inference):
            total.add(x.clone(), weight=1 / 11)
    value = total.value()
    expected = energy(torch.cat(batches)).mean()
    torch.testing.assert_close(value, expected, rtol=1e-12, atol=1e-12)
    used = [energy.a, energy.b]
    actual = torch.autograd.grad(value, used)
    torch.testing.assert_close(actual, torch.autograd.grad(expected, used), rtol=1e-12, atol=1e-12)
    with pytest.raises(TypeError, match="no hidden units"):
        total.add(batches[0], torch.zeros(3, 2))


def test_weighted_sum_of_data_and_negatives_changes_no_gradient_before_backward() -> None:
    energy = Cubic(Real(4))
    data, model = torch.ones(2, 4, dtype=torch.float64), torch.zeros(2, 4, dtype=torch.float64)
    total = energy.weighted_sum()
    total.add(data, weight=1 / 2)
    total.add(model, weight=-1 / 2)
    assert energy.a.grad is None
    total.value().backward()
    torch.testing.assert_close(energy.a.grad, torch.ones(4, dtype=torch.float64))


def test_neighbours_of_independent_bits() -> None:
    base = Bernoulli(torch.tensor([0.1, 0.5, 0.7]))
    x = base.domain.enumerate()
    torch.testing.assert_close(base.flip_differences(x), Energy.flip_differences(base, x))
    index = torch.tensor([[2, 0]]).expand(len(x), -1)
    torch.testing.assert_close(base.flip_differences(x, index), Energy.flip_differences(base, x, index))


def test_neighbours_need_a_finite_domain() -> None:
    energy = Cubic(Real(3))
    for method in (energy.flip_differences, energy.value_differences):
        with pytest.raises(UserError, match=r"lives on Real\(3\)"):
            method(torch.zeros(1, 3, dtype=torch.float64))


@pytest.mark.parametrize("domain", [Ordinal(2, 1), Categorical(2, 1)], ids=str)
def test_a_domain_of_one_value_has_no_neighbours(domain: Finite) -> None:
    class Flat(Energy):
        def __init__(self) -> None:
            super().__init__()
            self.domain = domain

        def forward(self, x: Tensor) -> Tensor:
            return x.reshape(len(x), -1).sum(1)  # which torch cannot reshape where there are no states

    assert Flat().value_differences(domain.random(3)).tolist() == [[[0.0], [0.0]]] * 3


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_random_states_have_the_dtype_of_the_energy(dtype: torch.dtype) -> None:
    assert RBM(3, 2).to(dtype).random(4).dtype == dtype
