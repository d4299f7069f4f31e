"""Proposals along a path of single-coordinate moves, all drawn from the one gradient where the path starts."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.sampler import GradientState, Info, Sampler


class Path(NamedTuple):
    """Moves in the order in which they were drawn; move k sets coordinate i_k to the value v_k.

    Attributes:
        coordinates: i of the flattened domain shape, `(B, K)`.
        values: v in index form, `(B, K)`.
        taken: which moves are made, `(B, K)`, bool: the first few; None for all.
    """

    coordinates: Tensor
    values: Tensor
    taken: Tensor | None = None

    def gather(self, log_moves: Tensor) -> Tensor:
        """The entries `(B, K)` of a table over moves `(B, d, num_values)`."""
        return log_moves.flatten(1).gather(1, self.coordinates * log_moves.shape[-1] + self.values)


def log_moves(domain: Finite, x: Tensor, grad: Tensor) -> Tensor:
    """The locally balanced law of one move, from a first-order look at all of them (Grathwohl et al. 2021, Alg. 1).

    With y the state after the move (i, v), softmax of -grad E(x) . (y - x) / 2 over every i and every v but x_i.

    Args:
        domain: where x lives.
        x: states, `(B, *event)`.
        grad: dE/dx there, `(B, *event)`.

    Returns:
        Log-probabilities `(B, d, num_values)`; minus infinity at x_i.
    """
    x, grad = domain.flat(x), domain.flat(grad)
    if isinstance(domain, Categorical):
        here = x > 0.5
        gain = (grad * x).sum(-1, keepdim=True) - grad
    else:
        values = domain.from_index(torch.arange(domain.num_values, device=x.device)).to(x)
        here = values == x.unsqueeze(-1)
        gain = -grad.unsqueeze(-1) * (values - x.unsqueeze(-1))
    logits = (gain / 2).masked_fill(here, -torch.inf)
    return logits.flatten(1).log_softmax(1).view_as(logits)


class PathSampler(Sampler):
    """Draws a path from x to y and accepts it by the probability of the reverse path from y to x.

    (x, path) -> (y, reverse path) is its own inverse, so that accepting with
    min(1, p(y) q(reverse | y) / (p(x) q(path | x))) leaves p(x) q(path | x), and hence p(x), invariant. A kernel says
    how a path is drawn, how likely it is, and what its reverse is. A step costs one energy-and-gradient evaluation,
    at y.
    """

    domains = (Binary, Spin, Ordinal, Categorical)

    @property
    def exact(self) -> bool:
        return True

    def draw(self, log_moves: Tensor) -> Path:
        """A path, given the law of one move at its start, `(B, d, num_values)`."""
        raise NotImplementedError

    def log_path(self, log_moves: Tensor, path: Path) -> Tensor:
        """Log q(path | x), `(B,)`, up to what the path and its reverse have in common."""
        raise NotImplementedError

    def follow(self, index: Tensor, path: Path) -> tuple[Tensor, Path]:
        """Where the path leads from x in index form `(B, d)`, in index form too, and the path back."""
        raise NotImplementedError

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None) -> GradientState:
        value, grad = energy.value_and_grad(x)
        return GradientState(x=x, energy=value, grad=grad)

    @torch.no_grad()
    def step(self, energy: Energy, state: GradientState) -> tuple[GradientState, Info]:
        domain, x, k = energy.domain, state.x, state.step + 1
        assert isinstance(domain, Finite)
        if domain.num_values == 1:  # no move exists
            return replace(state, step=k), Info(x.new_ones(len(x)), x.new_zeros(len(x)), 0.0)
        at_x = log_moves(domain, x, state.grad)
        path = self.draw(at_x)
        index, reverse = self.follow(domain.to_index(x).flatten(1), path)
        y = domain.from_index(index.view(-1, *domain.shape)).to(x)
        energy_y, grad_y = energy.value_and_grad(y)
        at_y = log_moves(domain, y, grad_y)
        forth, back = self.log_path(at_x, path), self.log_path(at_y, reverse)
        accepted, probability = metropolis(state.energy - energy_y + back - forth)
        new = GradientState(x=y, energy=energy_y, grad=grad_y, step=k).where(accepted, state)
        return new, Info(probability, domain.hops(new.x, x))
