"""Instances: random graphs, spin glasses on a lattice, and frustrated loops around a planted ground state."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass

import numpy as np
import torch
from torch import Tensor

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.exchange.foreign import spins
from ebmlab.graphs import Edges, lattice_edges
from ebmlab.settings import require_count


def erdos_renyi(num_nodes: int, probability: float, *, seed: int = 0) -> Edges:
    """A graph each of whose pairs is an edge of weight 1 with a probability (Gilbert, 1959).

    Gaps between edges are geometric (Batagelj & Brandes, 2005), so that time and memory grow with the edges.

    Raises:
        UserError: there is no node, or the probability is not from 0 to 1.

    Example:
        >>> erdos_renyi(4, 1.0).columns.tolist()
        [1, 2, 3, 0, 2, 3, 0, 1, 3, 0, 1, 2]
    """
    require_count("erdos_renyi", num_nodes=num_nodes)
    if not 0 <= probability <= 1:
        raise UserError(f"erdos_renyi: probability is {probability}, but must be from 0 to 1")
    generator, pairs, chosen = np.random.default_rng(seed), num_nodes * (num_nodes - 1) // 2, [np.array([-1])]
    while probability and chosen[-1][-1] < pairs:
        gaps = generator.geometric(probability, int(pairs * probability) + 100)
        chosen.append(chosen[-1][-1] + gaps.cumsum())
    k = np.concatenate(chosen[1:]) if chosen[1:] else chosen[0][:0]
    k = k[k < pairs]  # pair k = j (j - 1) / 2 + i, with i < j
    j = ((1 + np.sqrt(1.0 + 8.0 * k)) / 2).astype(np.int64)
    j -= j * (j - 1) // 2 > k  # the root was rounded up
    j += (j + 1) * j // 2 <= k
    return Edges.joining(num_nodes, torch.from_numpy(k - j * (j - 1) // 2), torch.from_numpy(j), 1.0)


def plus_minus_j(side: int, *, seed: int = 0) -> Ising:
    """The +-J spin glass on a periodic square lattice: each coupling is +1 or -1 by a fair coin (Toulouse, 1977).

    Example:
        >>> plus_minus_j(4).domain
        Spin(16)
    """
    edges = lattice_edges(side, 1.0)
    once = edges.rows < edges.columns
    signs = 2 * np.random.default_rng(seed).integers(2, size=int(once.sum())) - 1
    return spins(edges.rows[once].numpy(), edges.columns[once].numpy(), signs, np.zeros(edges.size))


@dataclass(frozen=True)
class Planted:
    """A spin glass whose ground state is known.

    Attributes:
        energy: E.
        state: a ground state, `(d,)`.
        ground: its energy, which no state is below.

    Example:
        >>> planted = frustrated_loops(4, num_loops=1)
        >>> -planted.ground == len(planted.energy.edges().values) / 2 - 2
        True
    """

    energy: Ising
    state: Tensor
    _: KW_ONLY
    ground: float


def frustrated_loops(side: int, num_loops: int, *, shortest: int = 6, seed: int = 0) -> Planted:
    """A sum of frustrated loops on a periodic square lattice, around a planted state (Hen et al. 2015, Sec. II).

    Each loop is what a random walk closes when it first meets itself. The planted state satisfies all edges of a loop
    but one, drawn at random; no state satisfies them all. It is hence a ground state of every loop, and of their sum.

    Args:
        side: of the lattice, at least 3.
        num_loops: how many; couplings add up, and may cancel.
        shortest: shorter loops are dropped.
        seed: of loops and state.

    Raises:
        UserError: the lattice is too small for loops of that length.

    Example:
        >>> planted = frustrated_loops(4, num_loops=10)
        >>> planted.energy(planted.state.unsqueeze(0)).item() == planted.ground
        True
    """
    require_count("frustrated_loops", num_loops=num_loops)
    if side < 3 or not 4 <= shortest <= side**2 // 2:
        raise UserError(
            f"frustrated_loops: loops of {shortest} edges and more need a larger lattice than {side} x {side}"
        )
    generator, size = np.random.default_rng(seed), side * side
    state = 2 * generator.integers(2, size=size) - 1
    rows: list[int] = []
    columns: list[int] = []
    values: list[int] = []
    ground = 0
    while num_loops:
        loop = _loop(side, generator)
        if len(loop) < shortest:
            continue
        num_loops -= 1
        ground -= len(loop) - 2
        broken = int(generator.integers(len(loop)))
        for k, (a, b) in enumerate(zip(loop, [*loop[1:], loop[0]], strict=True)):
            rows.append(a)
            columns.append(b)
            values.append(int(state[a] * state[b]) * (-1 if k == broken else 1))
    energy = spins(rows, columns, values, np.zeros(size))
    return Planted(energy, torch.from_numpy(state).to(energy.dtype), ground=float(ground))


def _loop(side: int, generator: np.random.Generator) -> list[int]:
    """The sites of the loop that a random walk without immediate returns closes first."""
    walk, at = [int(generator.integers(side * side))], {}
    at[walk[0]] = 0
    while True:
        row, column = divmod(walk[-1], side)
        steps = [((row + 1) % side, column), ((row - 1) % side, column)]
        steps += [(row, (column + 1) % side), (row, (column - 1) % side)]
        sites = [r * side + c for r, c in steps]
        site = int(generator.choice([s for s in sites if len(walk) < 2 or s != walk[-2]]))
        if site in at:
            return walk[at[site] :]
        at[site] = len(walk)
        walk.append(site)
