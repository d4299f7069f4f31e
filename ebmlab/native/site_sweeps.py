"""Gibbs sampling of the sites of a Potts model on a CPU, the same site in all chains (`site_sweeps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from ebmlab.native.library import trusted
from ebmlab.native.plain import readable

BURST = 2**27  # rows that a call adds up, in a tenth of a second; Python hears signals in between


class _Table(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_int64) for name in ("begin", "sites", "count", "stride")),
        *((name, ctypes.c_void_p) for name in ("rows", "within", "others", "shift")),
    ]


def is_possible(*numbers: Tensor) -> bool:
    """Whether there is a kernel, and it may read numbers of these kinds."""
    return readable(*numbers) and kernel() is not None


class SiteRows:
    """What the sites of a model feel, for the kernel.

    Args:
        values: q.
    """

    def __init__(self, values: int) -> None:
        self.values = values
        self._tables, self._kept, self._sites = list[_Table](), list[list[Tensor | None]](), 0
        self._ends = set[int]()  # least and largest neighbours

    def append(self, rows: Tensor, *, within: Tensor | None, neighbours: Tensor | None) -> None:
        """Adds the next few sites, side by side.

        Args:
            rows: the logits of k sites for each value of each neighbour, `(n q, k q)`, float32; more columns are 0.
            within: what is added to those of site i for each value of the k, `(k, k q, q)`; None if k is 1.
            neighbours: `(n,)`, int64; None if they are all sites.
        """
        k, shift = 1 if within is None else len(within), None
        if neighbours is not None:  # from places in a state to rows
            shift = (torch.arange(len(neighbours), device="cpu") - neighbours) * self.values
            self._ends |= {int(end) for end in neighbours.aminmax()} if len(neighbours) else set()
        kept = [None if t is None else t.detach().contiguous() for t in (rows, within, neighbours, shift)]
        shape = self._sites, k, len(rows) // self.values, rows.shape[1]
        self._tables.append(_Table(*shape, *map(_address, kept)))
        self._kept.append(kept)
        self._sites += k

    def __reduce__(self) -> Any:
        """Made anew in a copy or from a pickle, as tensors lie elsewhere there."""
        return _made, (self.values, self._kept)

    def redraw(
        self, places: Tensor, order: Sequence[int], *, factor: float | Tensor = 1.0, others: Tensor | None = None
    ) -> Tensor:
        """Redraws sites from their laws given the others, in place: those that were appended together, in order.

        Args:
            places: states, j q + x_j for site j, `(B, d)`, int64.
            order: numbers of appended sites.
            factor: of the logits; a number, or one for each chain, `(B, 1)`.
            others: added to the logits, `(d, q)`, or those of each chain, `(B, d, q)`.

        Returns:
            A number for each chain, `(B,)`, NaN if one of its laws was none.

        Raises:
            IndexError: a state has not as many sites, or a neighbour is none of them, as in a file of a stranger.
        """
        library, chains = kernel(), len(places)
        assert library is not None and places.is_contiguous() and places.dtype == torch.int64
        if places.shape[1] != self._sites:
            raise IndexError(f"a state has {places.shape[1]} sites, but the model has {self._sites}")
        if not all(0 <= end < self._sites for end in self._ends):
            raise IndexError(f"neighbours must be sites from 0 to {self._sites - 1}, but the model has others")
        totals = torch.zeros(chains, dtype=torch.float32, device="cpu")
        factors = None
        if isinstance(factor, Tensor) or factor != 1:
            factors = (torch.ones_like(totals).unsqueeze(1) * factor).float().contiguous()
        added = None if others is None else others.float().contiguous()
        tables, walk = (_Table * len(self._tables))(*self._tables), torch.tensor(order, dtype=torch.int64, device="cpu")
        work = max(1, chains * max(table.count * table.sites for table in self._tables))
        for part in walk.split(max(1, BURST // work)):  # type: ignore[no-untyped-call]
            _redraw(library, places, (tables, self.values), part, factors=factors, others=added, totals=totals)
        return totals


def _made(values: int, kept: Sequence[Sequence[Tensor | None]]) -> SiteRows:
    made = SiteRows(values)
    for rows, within, neighbours, _ in kept:
        assert rows is not None
        made.append(rows, within=within, neighbours=neighbours)
    return made


def _redraw(
    library: ctypes.CDLL,
    places: Tensor,
    model: tuple[ctypes.Array[_Table], int],
    order: Tensor,
    *,
    factors: Tensor | None = None,
    others: Tensor | None = None,
    totals: Tensor,
    seed: int | None = None,
) -> None:
    seed = int(torch.randint(2**62, (), device="cpu")) if seed is None else seed
    apart = others[0].numel() if others is not None and others.dim() == 3 else 0
    laws, walk = (*model, _address(factors), _address(others), apart), (order.data_ptr(), len(order))
    found = totals.data_ptr(), torch.get_num_threads()
    library.redraw(places.data_ptr(), *places.shape, *laws, *walk, seed, *found)


def _address(t: Tensor | None) -> int | None:
    return None if t is None else t.data_ptr()


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after it has drawn the only values that are possible; None where there is none."""
    i, p, c = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    return trusted("site_sweeps", _follows, redraw=[p, i, i, p, i, p, p, i, p, i, ctypes.c_uint64, p, c])


def _follows(library: ctypes.CDLL) -> bool:
    """Whether a site of 18 values takes the only value that its neighbour leaves possible."""
    chains, q = 11, 18
    values, cpu = torch.arange(chains, device="cpu"), torch.device("cpu")
    rows = torch.full((q, q), -torch.inf, dtype=torch.float32, device=cpu)
    rows[torch.arange(q, device=cpu), (5 * torch.arange(q, device=cpu) + 3) % q] = 2.0
    near, shift = torch.tensor([1], device=cpu), torch.tensor([-q], device=cpu)
    table = (_Table * 1)(_Table(0, 1, 1, q, rows.data_ptr(), None, near.data_ptr(), shift.data_ptr()))
    places = torch.stack([values.flip(0), values + q], 1).contiguous()
    totals, order = torch.zeros(chains, dtype=torch.float32, device=cpu), torch.zeros(1, dtype=torch.int64, device=cpu)
    _redraw(library, places, (table, q), order, totals=totals, seed=7)
    return torch.equal(places[:, 0], (5 * values + 3) % q) and bool((totals == 1).all())
