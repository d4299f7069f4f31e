"""The Ising model: spins that interact in pairs."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab import graphs
from ebmlab.domains import Spin
from ebmlab.energies.energy import Around
from ebmlab.energies.pairwise.pairwise import Matrix, Pairwise
from ebmlab.native.local_fields import local_fields
from ebmlab.settings import require_count


class Ising(Pairwise):
    """E(x) = -1/2 x'J x - h'x, x in {-1, +1}^d.

    Args:
        coupling: J, `(d, d)`, symmetric with a zero diagonal: an edge counts once; or its entries, `graphs.Edges`.
        field: h, a number or `(d,)`.
        learn: makes J and h parameters; the arguments are their initial values.

    Example:
        >>> energy = Ising([[0.0, 1.0], [1.0, 0.0]], field=0.5)
        >>> energy(torch.tensor([[1.0, 1.0], [1.0, -1.0]])).tolist()
        [-2.0, 1.0]
        >>> Ising.lattice(side=4, coupling=0.3).domain
        Spin(16)
    """

    domains = (Spin,)

    def __init__(self, coupling: Matrix, field: float | Sequence[float] | Tensor = 0.0, *, learn: bool = False) -> None:
        super().__init__(coupling, field, learn=learn)
        self.domain = Spin(len(self.field))

    @classmethod
    def learnable(cls, num_spins: int) -> Ising:
        """Couplings between all spins, and fields, as parameters; all zero at first."""
        require_count("Ising", num_spins=num_spins)
        return cls(torch.zeros(num_spins, num_spins), learn=True)

    @classmethod
    def lattice(
        cls, side: int, coupling: float, *, field: float | Sequence[float] | Tensor = 0.0, periodic: bool = True
    ) -> Ising:
        """A square grid of side * side spins, each joined to its nearest neighbours (`graphs.lattice`).

        Args:
            side: spins in a row; they are numbered row by row.
            coupling: J of every edge; an edge counts once, on a periodic lattice of side 2 too.
            field: h, a number or `(side * side,)`.
            periodic: joins opposite borders.
        """
        return cls(graphs.lattice_edges(side, coupling, periodic=periodic), field)

    @classmethod
    def barabasi_albert(
        cls,
        num_nodes: int,
        num_edges: int,
        *,
        coupling: float,
        field: float | Sequence[float] | Tensor = 0.0,
        seed: int = 0,
    ) -> Ising:
        """A scale-free random graph (`graphs.barabasi_albert`).

        Args:
            num_nodes: spins.
            num_edges: edges from each new node to older ones.
            coupling: J of every edge.
            field: h, a number or `(num_nodes,)`.
            seed: of the graph; torch's global generator is not used.
        """
        return cls(graphs.barabasi_albert_edges(num_nodes, num_edges, coupling=coupling, seed=seed), field)

    def around(self, x: Tensor) -> Around:
        """E(x) `(B,)` and J x + h `(B, d)`."""
        return self._around(x)

    def local_field(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        made = self._by_kernel(x) if sites is None else None
        return made[1] if made else super().local_field(x, sites)

    def _around(self, x: Tensor, keep: bool = True) -> Around:
        return self._by_kernel(x, keep) or super()._around(x)

    def _by_kernel(self, x: Tensor, keep: bool = True) -> Around | None:
        """As `_around`; None where no kernel in C++ computes it."""
        if not self.sparse:
            return None
        lists = self.neighbours
        return local_fields(x, lists.offsets, lists.sites, lists.weights, field=self.field, keep=keep)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """2 x_i (J x + h)_i, `(B, k)`: exact, since E is linear in each spin."""
        differences = 2 * x * (around[1] if around else self.local_field(x))
        return differences if index is None else differences.gather(1, index)

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Log of the odds of x_i = +1 given the rest, for the sites of one colour, `(B, k)`."""
        return self.local_field(x, sites).mul_(2)
