"""Merging what was computed at new and old states, in new memory and in place."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import Energy, Evaluation
from ebmlab.energies.evaluation import Merge, PerChain
from ebmlab.samplers import DMALA, GWG, MetropolisSampler

ACCEPT = torch.tensor([True, False, True, False])


class Pair(PerChain):
    def __init__(self, first: Tensor, second: Tensor) -> None:
        self.first, self.second = first, second


def rows(value: float) -> Tensor:
    return torch.full((4, 3), value)


def test_where_leaves_both_as_they_are() -> None:
    new, old = Evaluation(torch.ones(4), rows(1.0)), Evaluation(torch.zeros(4), rows(0.0))
    mixed = new.where(ACCEPT, old)
    assert torch.equal(mixed.grad, ACCEPT.float().unsqueeze(1).expand(4, 3))
    assert torch.equal(new.grad, rows(1.0)) and torch.equal(old.grad, rows(0.0))


def test_overwritten_gives_what_where_gives_and_leaves_the_other() -> None:
    new, old = Evaluation(torch.ones(4), rows(1.0)), Evaluation(torch.zeros(4), rows(0.0))
    expected = new.where(ACCEPT, old)
    mixed = new.overwritten(ACCEPT, old)
    assert torch.equal(mixed.energy, expected.energy) and torch.equal(mixed.grad, expected.grad)
    assert mixed.grad is new.grad
    assert torch.equal(old.grad, rows(0.0))


@pytest.mark.parametrize("olds", [(0.0, 0.0), (0.0, 5.0)])
def test_a_tensor_that_two_attributes_share_is_merged_with_each_of_its_partners(olds: tuple[float, float]) -> None:
    shared = rows(1.0)
    new, old = Pair(shared, shared), Pair(rows(olds[0]), rows(olds[1]))
    expected = [torch.where(ACCEPT.unsqueeze(1), rows(1.0), part) for part in (old.first, old.second)]
    mixed = new.overwritten(ACCEPT, old)
    assert torch.equal(mixed.first, expected[0])
    assert torch.equal(mixed.second, expected[1])


def test_memory_that_chains_share_is_not_overwritten() -> None:
    weights = torch.ones(3)
    mixed = Merge(ACCEPT, overwrite=True)(weights.expand(4, 3), rows(0.0))
    assert torch.equal(mixed, ACCEPT.float().unsqueeze(1).expand(4, 3))
    assert torch.equal(weights, torch.ones(3))


class Linear(Energy):
    """Its gradient is one row of memory for all chains."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Binary(3)
        self.register_buffer("weights", torch.tensor([3.0, -2.0, 1.0]))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weights

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self.weights.expand_as(x)


@pytest.mark.parametrize("kernel", [DMALA(0.5), GWG()], ids=["dmala", "gwg"])
def test_steps_change_neither_the_energy_nor_the_states_before(kernel: MetropolisSampler) -> None:
    torch.manual_seed(0)
    energy = Linear()
    states = [(state, state.x.clone()) for state, _ in kernel.chain(energy, energy.random(50), 20)]
    assert torch.equal(energy.weights, torch.tensor([3.0, -2.0, 1.0]))
    assert all(torch.equal(state.x, x) for state, x in states)
