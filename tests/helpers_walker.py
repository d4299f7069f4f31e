"""A sampler that moves by a known function of its settings, and targets for tests of tuners."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from ebmlab.domains import Binary, Ordinal
from ebmlab.energies import Energy
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State


class Bernoulli(Energy):
    """Independent coordinates, p(x_i = 1) = sigmoid(logits_i)."""

    def __init__(self, logits: Tensor) -> None:
        super().__init__()
        self.domain, self.logits = Binary(len(logits)), logits

    def forward(self, x: Tensor) -> Tensor:
        return -x @ self.logits

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), -self.logits.expand_as(x)


class Walker(Sampler):
    """Moves by a known function of its settings, and records the settings of each step."""

    domains = (Ordinal,)
    step_size: Tensor
    balance: Tensor

    def __init__(self, length: Any, step_size: float = 1.0, balance: float = 0.5, acceptance: float = 1.0) -> None:
        super().__init__()
        self.register_buffer("step_size", torch.tensor(step_size), persistent=False)
        self.register_buffer("balance", torch.tensor(balance), persistent=False)
        self.length, self.acceptance, self.log = length, acceptance, []

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        return State(x=x)

    def step(self, energy: Energy, state: Any) -> tuple[State, Info]:
        settings = float(self.step_size), float(self.balance)
        self.log.append(settings)
        ones = state.x.new_ones(len(state.x))
        return replace(state, x=state.x + self.length(*settings)), Info(self.acceptance * ones, ones)


class Nothing(Energy):
    domain = Ordinal(1, 2)
