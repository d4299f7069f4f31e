"""The Potts model with general couplings, as it is learnt from protein and RNA families."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self, TypeVar, cast

import torch
from torch import Tensor, nn

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Categorical
from ebmlab.energies.energy import Energy
from ebmlab.energies.pairwise.conditionals import felt, log_conditionals
from ebmlab.energies.pairwise.pairwise import same
from ebmlab.energies.pairwise.scalar_potts import ScalarPotts
from ebmlab.energies.pairwise.site_tables import SiteTable, joint_tables, site_tables
from ebmlab.energies.pairwise.statistics import PottsSum
from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.errors import UserError
from ebmlab.native import affine
from ebmlab.native.value_pairs import energies
from ebmlab.numerics.unrounded import unrounded
from ebmlab.settings import require_count

DENSE = 0.25  # share of all pairs from which one matrix product beats a product a pair

SITES = 3  # of a joint table: rows of 63 numbers are gathered fastest

Pairs = Tensor | Sequence[Sequence[int]]
Made = TypeVar("Made")


class Potts(Energy):
    """E(x) = -sum_{i<j} J_ij(x_i, x_j) - sum_i h_i(x_i), x_i one of q values (Morcos et al. 2011, Eq. 1).

    States are one-hot, `(B, d, q)`. E is linear in each x_i, which extends it to real x and defines its gradient. All
    couplings and fields are parameters, zero at first.

    Args:
        num_coordinates: d.
        num_values: q, the gap of an alignment included.
        pairs: the pairs of sites that interact, `(P, 2)`, numbered from 0, each once; all by default. Memory grows
            with their number.

    Attributes:
        pairs: `(P, 2)`, the smaller site first, in order.
        coupling: J of each pair, `(P, q, q)`: the value of the smaller site, then that of the larger one.
        field: h, `(d, q)`.

    Example:
        >>> energy = Potts(num_coordinates=3, num_values=4, pairs=[[0, 2]])
        >>> with torch.no_grad():
        ...     energy.coupling[0, 1, 3] = 2.0
        >>> energy(energy.domain.from_index(torch.tensor([[1, 0, 3], [3, 0, 1]]))).tolist()
        [-2.0, -0.0]
    """

    domains = (Categorical,)
    pairs: Tensor

    scalar = ScalarPotts
    lattice = ScalarPotts.lattice

    def __init__(self, num_coordinates: int, num_values: int, *, pairs: Pairs | None = None) -> None:
        super().__init__()
        require_count("Potts", num_coordinates=num_coordinates, num_values=num_values)
        self.domain = Categorical(num_coordinates, num_values)
        self.register_buffer("pairs", _ordered(num_coordinates, pairs))
        self.coupling = nn.Parameter(torch.zeros(len(self.pairs), num_values, num_values))
        self.field = nn.Parameter(torch.zeros(num_coordinates, num_values))
        self._kept: dict[str, Any] = {}
        self._steady = False

    @classmethod
    def of(cls, coupling: Tensor, field: Tensor) -> Self:
        """A model of given numbers.

        Args:
            coupling: J_ij(a, b), `(d, d, q, q)`; J_ji(b, a) is the same number, or 0 where only one order is given.
            field: h, `(d, q)`.

        Raises:
            UserError: shapes do not fit, numbers are not finite, or the two orders of a pair disagree.

        Example:
            >>> coupling = torch.zeros(2, 2, 3, 3)
            >>> coupling[0, 1, 2, 0] = 1.5
            >>> Potts.of(coupling, torch.zeros(2, 3)).coupling[0, 2, 0].item()
            1.5
        """
        d, q = field.shape if field.dim() == 2 else (0, 0)
        if not d or tuple(coupling.shape) != (d, d, q, q):
            raise UserError(
                f"Potts: field has shape {tuple(field.shape)} and coupling {tuple(coupling.shape)}, but they must be "
                "(d, q) and (d, d, q, q)"
            )
        if not (coupling.isfinite().all() and field.isfinite().all()):
            raise UserError("Potts: coupling and field must be finite")
        upper, lower = coupling, coupling.permute(1, 0, 3, 2)
        rows, columns = torch.triu_indices(d, d, 1)
        first, second = upper[rows, columns], lower[rows, columns]
        used = [block.flatten(1).any(1) for block in (first, second)]
        if (used[0] & used[1] & (first != second).flatten(1).any(1)).any() or coupling.diagonal().any():
            raise UserError("Potts: coupling must have J_ji(b, a) = J_ij(a, b) and J_ii = 0")
        there = used[0] | used[1]
        energy = cls(d, q, pairs=torch.stack([rows, columns], 1)[there])
        with torch.no_grad():
            energy.coupling.copy_(torch.where(used[0].view(-1, 1, 1), first, second)[there])
            energy.field.copy_(field)
        return energy

    def couplings(self) -> Tensor:
        """J_ij(a, b) of all ordered pairs, `(d, d, q, q)`, with zeros where no pair interacts."""
        d, q = self.field.shape
        return self._matrix().view(d, q, d, q).transpose(1, 2)

    @unrounded
    def local_field(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        """h_i(a) + sum_j J_ij(a, x_j) = -dE/dx_i(a) of all sites, `(B, d, q)`, or of the given ones, `(B, k, q)`."""
        d, q = self.field.shape
        if not self._dense:
            i, j = self.pairs.T
            each = x.transpose(0, 1)  # (d, B, q)
            pull = torch.zeros_like(each, memory_format=torch.contiguous_format)
            pull = pull.index_add(0, i, each[j] @ self.coupling.mT).index_add(0, j, each[i] @ self.coupling)
            local = pull.transpose(0, 1) + self.field
            return local if sites is None else local[:, sites]
        rows = self._matrix() if sites is None else self._matrix().view(d, q, -1)[sites].flatten(0, 1)
        field = self.field if sites is None else self.field[sites]
        return affine(field.flatten(), x.flatten(1), rows.T).view(len(x), *field.shape)

    def forward(self, x: Tensor) -> Tensor:
        if type(self) is Potts and (found := energies(x, self.pairs, self.coupling, self.field)) is not None:
            return found
        return self._energy(x, self.local_field(x))

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        local = self.local_field(x)
        return self._energy(x, local), -local

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """The local field at x_i minus that at s, for every value s, `(B, k, q)`: exact, since E is linear in x_i."""
        sites = None
        if index is not None and len(index) > 0 and index.stride(0) == 0:  # the same in all chains, as in a sweep
            sites = index[0]
        local, present = self.local_field(x, sites), x if sites is None else x[:, sites]
        differences = (local * present).sum(-1, keepdim=True) - local
        if index is None or sites is not None:
            return differences
        return differences.gather(1, index.unsqueeze(-1).expand(-1, -1, x.shape[-1]))

    def log_conditionals(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        """The sum over i of log p(x_i | all others), `(B,)`, of states x, in which it may not be differentiated.

        With `sites` `(k,)` it is over these i alone, and their couplings alone are read.
        """
        if not self._dense:
            index = None if sites is None else sites.expand(len(x), -1)
            return -(-self.value_differences(x, index)).logsumexp(-1).sum(1)
        if sites is None:
            return log_conditionals(self._matrix(), self.field, x)
        matrix = felt(len(self.field), self.pairs, here=self.coupling, there=self.coupling, sites=sites)
        return log_conditionals(matrix, self.field[sites], x, sites=sites)

    @torch.no_grad()
    def site_tables(self, joint: bool = False) -> list[SiteTable]:
        """Couplings and fields as rows that `samplers.GibbsSweep` gathers; copies, up to date when they are asked for.

        Args:
            joint: tables of three neighbouring sites each, if so many pairs interact that this is faster.
        """
        if joint and self._dense:
            make = lambda: joint_tables(self.pairs, self.coupling, self.field, SITES)  # noqa: E731
        else:
            make = lambda: site_tables(self.pairs, self.coupling, self.field)  # noqa: E731
        return self._unchanged(f"tables {joint}", make)

    @torch.no_grad()
    def zero_sum_(self) -> Self:
        """Changes to the zero-sum gauge, in which every J_ij sums to 0 over each value, and every h_i to 0.

        The law stays; all energies move by one constant (Ekeberg et al. 2013, Eq. 9).
        """
        by_first, by_second = self.coupling.mean(2, keepdim=True), self.coupling.mean(1, keepdim=True)
        mean = self.coupling.mean((1, 2), keepdim=True)
        self._move_to_fields(by_first.squeeze(2) - mean.squeeze(2), by_second.squeeze(1) - mean.squeeze(1))
        self.coupling.copy_(zero_sum(self.coupling))
        self.field.sub_(self.field.mean(1, keepdim=True))
        return self

    @torch.no_grad()
    def lattice_gas_(self, reference: int = 0) -> Self:
        """Changes to the gauge in which all couplings and fields of one value are 0. The law stays.

        Args:
            reference: that value.

        Raises:
            UserError: there is no such value.
        """
        if not 0 <= reference < (values := self.field.shape[1]):
            raise UserError(f"Potts: reference is {reference}, but must be a value from 0 to {values - 1}")
        by_first, by_second = self.coupling[:, :, [reference]].clone(), self.coupling[:, [reference]].clone()
        corner = self.coupling[:, [reference]][:, :, [reference]].clone()
        self._move_to_fields((by_first - corner).squeeze(2), (by_second - corner).squeeze(1))
        self.coupling.sub_(by_first).sub_(by_second - corner)  # in this order the reference's are 0 exactly
        self.field.sub_(self.field[:, [reference]].clone())
        return self

    def _move_to_fields(self, first: Tensor, second: Tensor) -> None:
        """Adds to the fields what depends on one site of a pair alone, `(P, q)` each."""
        i, j = self.pairs.T
        self.field.index_add_(0, i, first).index_add_(0, j, second)

    def weighted_sum(self) -> WeightedSum:
        """The statistics f_i(a) and f_ij(a, b) alone, where `forward` is that of this class."""
        if type(self).forward is not Potts.forward:
            return super().weighted_sum()
        return PottsSum(self, self.pairs, self.coupling, self.field, self._dense)

    @property
    def _dense(self) -> bool:
        """Whether there are so many pairs that one product with all of J pays."""
        d = len(self.field)
        return len(self.pairs) >= DENSE * d * (d - 1) / 2

    def _energy(self, x: Tensor, local: Tensor) -> Tensor:
        return -0.5 * (x * (local + self.field)).flatten(1).sum(1)

    def _matrix(self) -> Tensor:
        """J as a symmetric matrix, `(d q, d q)`.

        On a CPU without gradients, as in a chain, it is kept until the couplings change.
        """
        if torch.is_grad_enabled() or torch.compiler.is_compiling():
            return self._make_matrix()
        return self._unchanged("matrix", self._make_matrix)

    def _unchanged(self, name: str, make: Callable[[], Made]) -> Made:
        """What `make` makes from the parameters; kept while they are steady, or on a CPU until one changes."""
        now = self.coupling, self.field
        if not self._steady and self.coupling.device.type != "cpu":
            return make()
        if not self._steady and not all(map(same, self._kept.get("parameters", (None, None)), now)):
            self._kept = {}
            self._kept["parameters"] = tuple(p.detach().clone() for p in now)
        if name not in self._kept:
            self._kept[name] = make()
        return cast(Made, self._kept[name])

    @contextlib.contextmanager
    def steady(self) -> Iterator[None]:
        """Within it the parameters must not change: tables are made once, without a copy that would tell of changes."""
        self._kept, self._steady = {}, True
        try:
            yield
        finally:
            self._kept, self._steady = {}, False

    def _make_matrix(self) -> Tensor:
        return felt(len(self.field), self.pairs, here=self.coupling, there=self.coupling)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_kept": {}, "_steady": False}


def zero_sum(coupling: Tensor) -> Tensor:
    """Couplings `(..., q, q)` of two values in the zero-sum gauge: without what depends on one of the values alone."""
    centred = coupling - coupling.mean(-1, keepdim=True)
    return centred.sub_(centred.mean(-2, keepdim=True))


def _ordered(num_coordinates: int, pairs: Pairs | None) -> Tensor:
    """The pairs `(P, 2)`, int64, the smaller site first, in order; checked."""
    if pairs is None:
        return torch.triu_indices(num_coordinates, num_coordinates, 1).T.contiguous()
    given = as_numbers(pairs, "Potts: pairs")
    if given.numel() == 0:
        return torch.zeros(0, 2, dtype=torch.int64)
    if given.dim() != 2 or given.shape[1] != 2 or given.is_floating_point():
        raise UserError(f"Potts: pairs has shape {tuple(given.shape)}, but must be whole numbers (P, 2)")
    given = given.long().sort(1).values
    if given.min() < 0 or given.max() >= num_coordinates or (given[:, 0] == given[:, 1]).any():
        raise UserError(f"Potts: pairs must join two different sites from 0 to {num_coordinates - 1}")
    unique: Tensor = torch.unique(given, dim=0)
    if len(unique) < len(given):
        raise UserError(f"Potts: {len(given) - len(unique)} of the pairs are given twice, in one order or both")
    return unique
