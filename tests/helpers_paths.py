"""Exact transition matrices of samplers that propose along a path, by enumerating every path from every state."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from helpers_finite import Exact
from helpers_grbm import chi_square_p
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.samplers import Sampler
from ebmlab.samplers.gwg import GWG
from ebmlab.samplers.path_auxiliary import PathAuxiliary
from ebmlab.samplers.proposals import Path


def forced(law: Any, path: Path) -> Any:
    """Within it proposals of the kind of `law` draw the given path."""
    return mock.patch.object(type(law), "draw", lambda self: path)


def paths(sampler: Sampler, domain: Finite, n: int) -> Iterator[tuple[Path, float]]:
    """Yields every path, repeated for n chains, with the probability of its length."""
    d, shifts = domain.size, range(1, domain.num_values)
    if isinstance(sampler, GWG):
        single = list(itertools.product(range(d), shifts))
        for moves in itertools.product(single, repeat=sampler.num_flips):
            yield Path(*(torch.tensor(part).expand(n, -1) for part in zip(*moves, strict=True))), 1.0
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
                s = torch.tensor([*shift, *[1] * d][:listed]).expand(n, -1)
                yield Path(i, s, taken), 1 / longest


def path_bias(sampler: Sampler, energy: Energy) -> float:
    """max |pi P - pi|, P built from the sampler's own path density and the acceptance of its own `step`."""
    exact = Exact(energy)
    n = len(exact.states)
    matrix = torch.zeros(n, n, dtype=torch.float64)
    mass = torch.zeros(n, dtype=torch.float64)
    state = sampler.init(energy, exact.states)
    law: Any = state.proposal
    for path, share in paths(sampler, exact.domain, n):
        draw = law.follow(path)
        with forced(law, path):
            _, info = sampler.step(energy, state)
        probability = share * draw.log_prob.exp()
        matrix[torch.arange(n), exact.number(draw.y)] += probability * info.acceptance
        mass += probability
    torch.testing.assert_close(mass, torch.ones_like(mass), rtol=1e-10, atol=0)  # each path is counted once
    stay = torch.arange(n)
    matrix[stay, stay] += 1 - matrix.sum(1)
    return float((exact.probabilities @ matrix - exact.probabilities).abs().max())


def path_law_p(sampler: Sampler, energy: Energy, n: int = 200_000, seed: int = 0) -> float:
    """Smallest p-value, over some starts, that paths are drawn from their density."""
    torch.manual_seed(seed)
    exact = Exact(energy)
    smallest = 1.0
    for start in exact.states[:: max(1, len(exact.states) // 3)]:
        law: Any = sampler.init(energy, start.unsqueeze(0)).proposal
        probabilities: dict[int, float] = {}
        for path, share in paths(sampler, exact.domain, 1):
            code = int(code_of(path))
            probabilities[code] = probabilities.get(code, 0.0) + share * float(law.log_prob(path).exp())
        codes = torch.tensor(sorted(probabilities))
        many: Any = sampler.init(energy, start.expand(n, *start.shape)).proposal
        drawn = code_of(many.draw())
        cells = torch.searchsorted(codes, drawn).clamp(max=len(codes) - 1)
        assert torch.equal(codes[cells], drawn), "a path that cannot be"
        density = torch.tensor([probabilities[int(code)] for code in codes], dtype=torch.float64)
        smallest = min(smallest, chi_square_p(torch.bincount(cells, minlength=len(codes)), density))
    return smallest


def code_of(path: Path) -> Tensor:
    """A number that identifies each chain's path, `(B,)`: its moves in order, as far as they are taken."""
    moves = 1 + 9 * path.coordinates + path.shifts
    moves = moves if path.taken is None else moves * path.taken
    return (moves * 100 ** torch.arange(moves.shape[1])).sum(1)
