"""Cluster sampling of Ising and Potts models on a CPU (`cluster_steps.cpp`)."""

from __future__ import annotations

import ctypes
import functools
from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.native.library import threads, trusted
from ebmlab.native.plain import readable, within

BURST = 2**23  # edges that a call looks at, in a tenth of a second; Python hears signals in between


@dataclass(frozen=True)
class Bonds:
    """A graph, and how strongly its edges bond.

    Attributes:
        offsets: where the neighbours of each site begin, and where the last ones end, int64 `(d + 1,)`.
        others: the neighbours, int64 `(n,)`.
        couplings: to them, float32 `(n,)`. Equal values are bonded; spins of a negative one if they differ.
        fields: of each value, float32 `(d, K)`; None for none.
        spins: whether values are the spins -1 and +1, of which a cluster keeps its pattern or turns over.
    """

    offsets: Tensor
    others: Tensor
    couplings: Tensor
    fields: Tensor | None
    spins: bool


def is_possible(bonds: Bonds) -> bool:
    """Whether there is a kernel, and it may read these numbers: they must be finite, and the neighbours sites."""
    numbers = [bonds.couplings] if bonds.fields is None else [bonds.couplings, bonds.fields]
    if not readable(*numbers) or int(bonds.offsets[-1]) != len(bonds.others) or kernel() is None:
        return False
    return within(bonds.others, len(bonds.offsets) - 1) and all(bool(t.isfinite().all()) for t in numbers)


def moved(values: Tensor, num_values: int, bonds: Bonds, *, num_steps: int, wolff: bool) -> tuple[Tensor, Tensor]:
    """Moves chains by steps of Swendsen and Wang, or of Wolff, in place.

    Args:
        values: of each site, int32 `(B, d)`, contiguous.
        num_values: K.
        bonds: the model.
        num_steps: of each chain.
        wolff: whether the cluster of one site is turned over.

    Returns:
        The sum of the acceptance probabilities of each chain, `(B,)`; how many sites have changed, int64 `(B,)`.
    """
    library = kernel()
    assert library is not None and values.is_contiguous() and values.dtype == torch.int32
    acceptance = torch.zeros(len(values), dtype=torch.float32, device="cpu")
    changes = torch.zeros(len(values), dtype=torch.int64, device="cpu")
    work = len(bonds.others) + values.shape[1]
    rows = max(1, BURST // work)
    for begin in range(0, len(values), rows):
        some = slice(begin, begin + rows)
        left, at_once = num_steps, max(1, BURST // (work * len(values[some])))
        while left > 0:
            seed = int(torch.randint(2**62, (), device="cpu"))
            part = values[some], min(at_once, left), acceptance[some], changes[some]
            _step(library, bonds, num_values, *part, wolff=wolff, seed=seed)
            left -= at_once
    return acceptance, changes


def _step(
    library: ctypes.CDLL,
    bonds: Bonds,
    num_values: int,
    values: Tensor,
    steps: int,
    acceptance: Tensor,
    changes: Tensor,
    *,
    wolff: bool,
    seed: int,
) -> None:
    lists = (t.data_ptr() for t in (bonds.offsets, bonds.others, bonds.couplings))
    fields = None if bonds.fields is None else bonds.fields.data_ptr()
    chains = values.data_ptr(), len(values), steps
    found = acceptance.data_ptr(), changes.data_ptr(), threads(40 * steps * values.numel())
    library.step(values.shape[1], num_values, *lists, fields, bonds.spins, *chains, wolff, seed, *found)


@functools.cache
def kernel() -> ctypes.CDLL | None:
    """The compiled kernel, after it has turned over clusters that are certain; None where there is none."""
    i, p, c = ctypes.c_int64, ctypes.c_void_p, ctypes.c_int
    return trusted("cluster_steps", _turns, step=[i, i, p, p, p, p, c, p, i, i, c, ctypes.c_uint64, p, p, c])


def _turns(library: ctypes.CDLL) -> bool:
    """Whether clusters come out right where couplings and fields are so strong that only one result is possible."""
    cpu = torch.device("cpu")
    offsets, others = torch.arange(5, device=cpu), torch.tensor([1, 0, 3, 2], device=cpu)
    couplings = torch.tensor([40.0, 40.0, -40.0, -40.0], dtype=torch.float32, device=cpu)
    fields = torch.tensor([[-90.0, 90.0], [0, 0], [0, 0], [-90.0, 90.0]], dtype=torch.float32, device=cpu)
    x = torch.tensor([[0, 0, 1, 0], [1, 1, 0, 1]], dtype=torch.int32, device=cpu)
    acceptance, changes = torch.zeros(2, dtype=torch.float32, device=cpu), torch.zeros(2, dtype=torch.int64, device=cpu)
    bonds = Bonds(offsets, others, couplings, fields, spins=True)
    _step(library, bonds, 2, x, 3, acceptance, changes, wolff=False, seed=0)
    right = x.tolist() == [[1, 1, 0, 1]] * 2 and changes.tolist() == [4, 0] and acceptance.tolist() == [3.0, 3.0]
    turned, expected = x.clone(), [[0, 0, 0, 1], [1, 1, 1, 0]]
    _step(
        library,
        Bonds(offsets, others, couplings, None, spins=True),
        2,
        turned,
        1,
        acceptance,
        changes,
        wolff=True,
        seed=0,
    )
    return right and all(row in expected for row in turned.tolist())
