"""Exact transition matrices of samplers that propose along a path: every path from every state, one by one."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from helpers_finite import Exact
from helpers_grbm import chi_square_p
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.samplers import Sampler
from ebmlab.samplers.gwg import GWG
from ebmlab.samplers.path_auxiliary import PathAuxiliary
from ebmlab.samplers.paths import Path, PathSampler, log_moves


def paths(sampler: PathSampler, domain: Finite, index: Tensor) -> Iterator[tuple[Path, float]]:
    """Every path from each state `(N, d)` in index form, as N paths at a time, with the probability of its length."""
    n, d = index.shape
    shifts = range(1, domain.num_values)
    if isinstance(sampler, GWG):
        single = list(itertools.product(range(d), shifts))
        for moves in itertools.product(single, repeat=sampler.num_flips):
            i = torch.tensor([i for i, _ in moves]).expand(n, -1)
            yield Path(i, (index.gather(1, i) + torch.tensor([s for _, s in moves])) % domain.num_values), 1.0
        return
    assert isinstance(sampler, PathAuxiliary)
    longest = 2 * sampler.max_length - 1
    listed = min(longest, d)
    for length in range(1, longest + 1):
        taken = (torch.arange(listed) < length).expand(n, -1)
        for order in itertools.permutations(range(d), min(length, d)):
            rest = [i for i in range(d) if i not in order]
            i = torch.tensor([*order, *rest][:listed]).expand(n, -1)
            for shift in itertools.product(shifts, repeat=min(length, d)):
                s = torch.tensor([*shift, *[1] * d][:listed])
                yield Path(i, (index.gather(1, i) + s) % domain.num_values, taken), 1 / longest


def path_bias(sampler: PathSampler, energy: Energy) -> float:
    """max |pi P - pi|, P built from the sampler's own path density and the acceptance of its own `step`."""
    exact = Exact(energy)
    n = len(exact.states)
    domain = exact.domain
    matrix = torch.zeros(n, n, dtype=torch.float64)
    mass = torch.zeros(n, dtype=torch.float64)
    state = sampler.init(energy, exact.states)
    table = log_moves(domain, state.x, state.grad)
    index = domain.to_index(exact.states).flatten(1)
    own = sampler.draw
    for path, share in paths(sampler, domain, index):
        probability = share * sampler.log_path(table, path).exp()
        sampler.draw = lambda _, path=path: path  # type: ignore[method-assign]
        _, info = sampler.step(energy, state)
        y, _ = sampler.follow(index, path)
        matrix[torch.arange(n), exact.number(domain.from_index(y.view(-1, *domain.shape)))] += (
            probability * info.acceptance
        )
        mass += probability
    sampler.draw = own  # type: ignore[method-assign]
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-10, atol=0)  # every path was counted once
    stay = torch.arange(n)
    matrix[stay, stay] += 1 - matrix.sum(1)
    return float((exact.probabilities @ matrix - exact.probabilities).abs().max())


def path_law_p(sampler: PathSampler, energy: Energy, n: int = 200_000, seed: int = 0) -> float:
    """Smallest p-value, over some starts, that `draw` draws what `log_path` says."""
    torch.manual_seed(seed)
    exact = Exact(energy)
    domain = exact.domain
    smallest = 1.0
    for start in exact.states[:: max(1, len(exact.states) // 3)]:
        one = start.unsqueeze(0)
        table = log_moves(domain, one, energy.value_and_grad(one)[1])
        index = domain.to_index(one).flatten(1)
        law: dict[int, float] = {}
        for path, share in paths(sampler, domain, index):
            code = int(code_of(path))
            law[code] = law.get(code, 0.0) + share * float(sampler.log_path(table, path).exp())
        codes = torch.tensor(sorted(law))
        drawn = code_of(sampler.draw(table.expand(n, -1, -1)))
        cells = torch.searchsorted(codes, drawn).clamp(max=len(codes) - 1)
        assert torch.equal(codes[cells], drawn), "a path that cannot be"
        density = torch.tensor([law[int(code)] for code in codes], dtype=torch.float64)
        smallest = min(smallest, chi_square_p(torch.bincount(cells, minlength=len(codes)), density))
    return smallest


def code_of(path: Path) -> Tensor:
    """A number for each chain's path, `(B,)`: its moves in order, without those that are not taken."""
    moves = 1 + 9 * path.coordinates + path.values
    moves = moves if path.taken is None else moves * path.taken
    return (moves * 100 ** torch.arange(moves.shape[1])).sum(1)


def alone_and_together(sampler: Sampler, energy: Energy, monkeypatch: pytest.MonkeyPatch, num_steps: int = 8) -> None:
    """Asserts that with the same noise chains 0 and 11 of 16 move as they do alone, to whatever the others are set.

    A kernel may run several rows a chain, chain by chain: noise for n * B rows is n rows of each chain's.
    """
    noise: dict[str, Any] = {"calls": 0, "rows": slice(None), "chains": 16}

    def rand_like(x: Tensor) -> Tensor:
        generator = torch.Generator().manual_seed(noise["calls"])
        noise["calls"] += 1
        each = len(x) // noise["chains"]
        draws = torch.rand(16, each, *x.shape[1:], dtype=x.dtype, generator=generator)[noise["rows"]]
        return draws.flatten(0, 1)

    monkeypatch.setattr(torch, "rand_like", rand_like)

    def run(rows: slice, x: Tensor) -> Tensor:
        x = x[rows]
        noise.update(calls=0, rows=rows, chains=len(x))
        states = [state.x for state, _ in sampler.chain(energy, x, num_steps)]
        assert noise["calls"] >= num_steps
        return torch.stack(states)

    assert isinstance(energy.domain, Finite)
    generator = torch.Generator().manual_seed(5)
    states = energy.domain.enumerate().double()
    start = states[torch.randint(len(states), (16,), generator=generator)]
    together = run(slice(None), start)
    assert (together[-1] != start).flatten(1).any(1).sum() > 4
    for i in (0, 11):
        assert torch.equal(together[:, i : i + 1], run(slice(i, i + 1), start))
    start[1:] = states[torch.randint(len(states), (15,), generator=generator)]
    assert torch.equal(together[:, :1], run(slice(None), start)[:, :1])
