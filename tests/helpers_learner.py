"""Learners without a trainer, samplers that say what they draw, and the likelihood's gradient in closed form."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from helpers_grbm import ExactGRBM
from helpers_trainer import quiet_trainer
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies import GRBM, Energy
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import BipartiteState, Info, Sampler, State

Z = 4.5  # standard errors from 40 batches (t, 39 degrees of freedom): a false alarm once in 1,000 for 13 parameters


class Fake(Sampler):
    """Makes the state after step k = 1, 2, ... from k and the start x; remembers the starts."""

    domains = (Real,)

    def __init__(self, make: Callable[[int, Tensor], tuple[Tensor, Tensor | None]]) -> None:
        super().__init__()
        self.make = make
        self.starts: list[Tensor] = []

    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: Any = None) -> State:
        self.starts.append(x)
        return State(x=x)

    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        k = state.step + 1
        x, hidden = self.make(k, self.starts[-1])
        logits = energy.hidden_given_visible(x).detach() if isinstance(energy, GRBM) else None
        state = BipartiteState(x=x, step=k, logits=logits, hidden=hidden)
        return state, Info(x.new_ones(len(x)), x.new_zeros(len(x)))


class Linear(Energy):
    """E(x) = a x, whose gradient in a is the mean of the states that are averaged."""

    def __init__(self) -> None:
        super().__init__()
        self.domain = Real(1)
        self.a = nn.Parameter(torch.tensor(2.0, dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.a * x[:, 0]


def make_learner(energy: Energy, sampler: Sampler, **settings: Any) -> tuple[ContrastiveDivergence, dict[str, float]]:
    """A learner without a trainer, and what it logged last."""
    learner = ContrastiveDivergence(energy, sampler, **settings)
    logged: dict[str, float] = {}
    learner.log = lambda name, value, **_: logged.update({name: float(value)})  # type: ignore[method-assign]
    learner.log_dict = lambda values, **_: logged.update({k: float(v) for k, v in values.items()})  # type: ignore
    return learner, logged


def parameters(grbm: GRBM) -> list[nn.Parameter]:
    return [grbm.W, grbm.b, grbm.mu, grbm.log_var]


def gradient(learner: ContrastiveDivergence, batch: Tensor) -> Tensor:
    """All parameters' gradients of one training step, flat."""
    grads = torch.autograd.grad(learner.training_step(batch, 0), parameters(learner.energy))  # type: ignore[arg-type]
    return torch.cat([g.flatten() for g in grads])


def likelihood_gradient(grbm: GRBM, data: Tensor) -> Tensor:
    """Autograd of the mean of -log p(v) = E(v) + log Z, with log Z of the mixture in closed form."""
    v, variance = data, grbm.log_var.exp()
    energy = -(ExactGRBM(grbm).h @ (grbm.W.T @ (v / variance).T + grbm.b[:, None])).logsumexp(0)
    energy = energy + ((v - grbm.mu).square() / variance).sum(1) / 2
    grads = torch.autograd.grad(energy.mean() + ExactGRBM(grbm).log_z, parameters(grbm))
    return torch.cat([g.flatten() for g in grads])


def z_scores(learner: ContrastiveDivergence, batches: Callable[[], Tensor], expected: Tensor | float) -> Tensor:
    """Difference of the mean gradient over 40 batches and the expected one, in standard errors."""
    grads = torch.stack([gradient(learner, batches()) for _ in range(40)])
    return (grads.mean(0) - expected) / (grads.std(0) / len(grads) ** 0.5)


def tiny_trainer(folder: Path, **settings: Any) -> pl.Trainer:
    return quiet_trainer(folder, max_steps=3, log_every_n_steps=1, **settings)
