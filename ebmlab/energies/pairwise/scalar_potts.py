"""The Potts model with one coupling a pair, whose energy counts the pairs of one class."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor

from ebmlab import graphs
from ebmlab.domains import Categorical
from ebmlab.energies.pairwise.pairwise import Matrix, Pairwise
from ebmlab.settings import require_count

Field = Sequence[float] | Sequence[Sequence[float]] | Tensor | None


class ScalarPotts(Pairwise):
    """E(x) = -1/2 sum_ij J_ij [x_i = x_j] - sum_i h_i(x_i), x_i one of K classes (Potts, 1952).

    `Potts` has couplings J_ij(a, b) of their own for all pairs of values, and learns them.

    States are one-hot, `(B, d, K)`. The inner product of x_i and x_j is [x_i = x_j] and extends E to real x, which
    defines its gradient.

    Args:
        coupling: J, `(d, d)`, symmetric with a zero diagonal: an edge counts once; or its entries, `graphs.Edges`.
        field: h, `(K,)` for all sites or `(d, K)`; none by default.
        num_values: K.

    Example:
        >>> energy = ScalarPotts([[0.0, 1.0], [1.0, 0.0]], num_values=3)
        >>> energy(energy.domain.from_index(torch.tensor([[2, 2], [0, 1]]))).tolist()
        [-1.0, -0.0]
    """

    domains = (Categorical,)

    def __init__(self, coupling: Matrix, field: Field = None, *, num_values: int = 3) -> None:
        require_count("ScalarPotts", num_values=num_values)
        super().__init__(coupling, 0.0 if field is None else field, (num_values,))
        self.domain = Categorical(len(self.field), num_values)

    @classmethod
    def lattice(
        cls, side: int, num_values: int, *, coupling: float, field: Field = None, periodic: bool = True
    ) -> ScalarPotts:
        """A square grid of side * side sites, each joined to its nearest neighbours (`graphs.lattice`).

        Args:
            side: sites in a row; they are numbered row by row.
            num_values: K.
            coupling: J of every edge; an edge counts once, on a periodic lattice of side 2 too.
            field: h, `(K,)` for all sites or `(side * side, K)`; none by default.
            periodic: joins opposite borders.
        """
        return cls(graphs.lattice_edges(side, coupling, periodic=periodic), field, num_values=num_values)

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """(J x + h)_i . (x_i - s) for every class s, `(B, k, K)`: exact, since E is linear in each x_i."""
        local = self.local_field(x)
        differences = (local * x).sum(-1, keepdim=True) - local
        if index is None:
            return differences
        return differences.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i = s) given the rest, for the sites of one colour; `(B, k, K)`."""
        return self.local_field(x, sites)
