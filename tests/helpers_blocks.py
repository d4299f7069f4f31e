"""Exact transition matrices of samplers that redraw blocks, from every outcome of every random choice of a step."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any
from unittest import mock

import torch
from helpers_finite import Exact
from torch import Tensor

from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.samplers import Sampler, blocks, chromatic_gibbs, gibbs, hamming_ball


class Table(Energy):
    """Another energy and its gradient in tables by state: fast for the many chains of a chi-square test."""

    def __init__(self, energy: Energy) -> None:
        super().__init__()
        self.domain, self._exact = energy.domain, Exact(energy)
        self._values, self._grads = energy.value_and_grad(self._exact.states)

    def forward(self, x: Tensor) -> Tensor:
        return self._values[self._exact.number(x)].to(x.dtype)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        return self(x), self._grads[self._exact.number(x)].to(x.dtype)


class Sum(Energy):
    """E(x) = the sum of x, on any domain."""

    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain

    def forward(self, x: Tensor) -> Tensor:
        return x.flatten(1).sum(1)


class Odometer:
    """Runs a function once for each combination of its random choices."""

    def outcomes(self, run: Callable[[], Tensor]) -> Iterator[tuple[Tensor, Tensor]]:
        """Yields each result with its probability `(B,)`."""
        self.script: list[int] = []
        while True:
            self.made: list[tuple[int, int]] = []
            self.weight = torch.ones(1, dtype=torch.float64)
            yield run(), self.weight
            while self.made and self.made[-1][0] == self.made[-1][1] - 1:
                self.made.pop()
            if not self.made:
                return
            self.script = [i for i, _ in self.made]
            self.script[-1] += 1

    def choose(self, probabilities: Tensor) -> int:
        """The next choice of this run, the same for all rows, given the probabilities of all choices, `(B or 1, N)`."""
        i = self.script[len(self.made)] if len(self.made) < len(self.script) else 0
        self.made.append((i, probabilities.shape[1]))
        self.weight = self.weight * probabilities[:, i]
        return i

    def draw(self, energies: Tensor) -> Tensor:
        sites = (-energies).softmax(-1).view(len(energies), -1, energies.shape[-1])
        chosen = torch.tensor([self.choose(p) for p in sites.unbind(1)])
        return chosen.expand(len(energies), -1).reshape(energies.shape[:-1])

    def draw_sites(self, logits: Tensor) -> Tensor:
        logits = logits if logits.dim() == 3 else torch.stack([torch.zeros_like(logits), logits], -1)
        return self.draw(-logits.transpose(0, 1)).T

    def random_block(self, domain: Any, x: Tensor, width: int) -> Tensor:
        blocks = torch.tensor(list(itertools.combinations(range(domain.size), width)))
        return blocks[self.choose(_uniform(len(blocks)))].expand(len(x), -1)

    def uniform_index(self, like: Tensor, n: int) -> Tensor:
        return torch.full(like.shape, self.choose(_uniform(n)))


def _uniform(n: int) -> Tensor:
    return torch.full((1, n), 1 / n, dtype=torch.float64)


def block_matrix(sampler: Sampler, energy: Energy, at: int = 0) -> Tensor:
    """P `(N, N)` of step number `at`, from the sampler's own code with its random draws enumerated."""
    exact, odometer = Exact(energy), Odometer()
    rows = torch.arange(len(exact.states))
    matrix = torch.zeros(len(rows), len(rows), dtype=torch.float64)
    state = sampler.init(energy, exact.states)
    state.step = at
    if isinstance(state, gibbs.GibbsState):
        state.first = 0
    with ExitStack() as patches:
        for module in (blocks, chromatic_gibbs, gibbs, hamming_ball):
            for name in ("draw", "draw_sites", "random_block", "uniform_index"):
                if hasattr(module, name):
                    patches.enter_context(mock.patch.object(module, name, getattr(odometer, name)))
        for x, weight in odometer.outcomes(lambda: sampler.step(energy, state)[0].x):
            matrix.index_put_((rows, exact.number(x)), weight.expand(len(rows)), accumulate=True)
    torch.testing.assert_close(matrix.sum(1), torch.ones(len(rows), dtype=torch.float64))
    return matrix


def block_bias(sampler: Sampler, energy: Energy, at: int = 0) -> float:
    """max |pi P - pi|: 0 for an exact kernel."""
    pi = Exact(energy).probabilities
    return float((pi @ block_matrix(sampler, energy, at) - pi).abs().max())
