"""What was read of another package: an energy, and what the energy alone does not say."""

from __future__ import annotations

import copy
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical
from ebmlab.energies import RBM, Energy, Ising, Potts
from ebmlab.errors import UserError
from ebmlab.graphs import Edges

Label = Hashable
Form = Literal["bits", "spins", "values"]


@dataclass(frozen=True)
class Foreign:
    """A model or problem of another package.

    Attributes:
        energy: E, as ebmlab counts it: low energy is likely, and p(x) is proportional to exp(-E(x)).
        kind: the format, one of `ebmlab.exchange.KINDS`.
        offset: the package's own number for x is `scale * E(x) + offset`.
        scale: see `offset`.
        names: the package's labels of the coordinates, in their order; () where they are numbered from 0.
        form: how the package writes its states: "bits", 0 and 1, "spins", -1 and +1, or "values", 0, 1, 2, ...
        facts: what else is known, as plain data: beta, the update of a training, the kind of hidden units.
        lost: what could not be carried over, in words.
        source: the file or the object that it came from.

    Example:
        >>> found = Foreign(Ising([[0.0, 1.0], [1.0, 0.0]]), "dimod", offset=2.0, names=("a", "b"))
        >>> found.value(torch.tensor([[1, 1], [1, -1]], dtype=torch.int8)).tolist()
        [1.0, 3.0]
    """

    energy: Energy
    kind: str
    _: KW_ONLY
    offset: float = 0.0
    scale: float = 1.0
    names: tuple[Label, ...] = ()
    form: Form = "spins"
    facts: Mapping[str, Any] = field(default_factory=dict)
    lost: tuple[str, ...] = ()
    source: str = ""

    @torch.no_grad()
    def value(self, x: Tensor) -> Tensor:
        """What the package itself says of states `(B, d)` of the energy: its energy, or the cut of a graph, `(B,)`."""
        return self.scale * exact(self.energy, x) + self.offset

    def states(self, raw: Tensor | np.ndarray[Any, Any]) -> Tensor:
        """The package's states `(B, d)`, of any numeric type, as states of the energy.

        Raises:
            UserError: they are none.

        Example:
            >>> Foreign(Ising([[0.0, 1.0], [1.0, 0.0]]), "dimod", form="bits").states(np.array([[0, 1]])).tolist()
            [[-1.0, 1.0]]
        """
        x = torch.as_tensor(np.asarray(raw)).to(self.energy.dtype)
        if isinstance(self.energy.domain, Categorical):
            inside = bool(((x == x.round()) & (x >= 0) & (x < self.energy.domain.num_values)).all())
            if not inside:
                raise UserError(f"values must be whole numbers from 0 to {self.energy.domain.num_values - 1}")
            x = self.energy.domain.from_index(x.long()).to(x)
        elif isinstance(self.energy.domain, Binary):
            x = (x + 1) / 2 if self.form == "spins" else x
        else:
            x = 2 * x - 1 if self.form == "bits" else x
        self.energy.domain.validate(x)
        return x

    def described(self) -> dict[str, Any]:
        """All but the energy as plain data, for a checkpoint to hold."""
        return {
            "kind": self.kind,
            "offset": self.offset,
            "scale": self.scale,
            "names": [_plain(name) for name in self.names],
            "form": self.form,
            "facts": dict(self.facts),
            "lost": list(self.lost),
            "source": self.source,
        }


@torch.no_grad()
def exact(energy: Energy, x: Tensor) -> Tensor:
    """E of states `(B, d)` in float64, `(B,)`.

    Float32 holds each number of a problem, but not their sum: beyond 16,777,216 it has no odd numbers.
    """
    wide = energy if energy.dtype == torch.float64 else copy.deepcopy(energy).double()
    return wide(x.to(wide.dtype))


def spins(
    rows: Sequence[int] | np.ndarray[Any, Any],
    columns: Sequence[int] | np.ndarray[Any, Any],
    values: Sequence[float] | np.ndarray[Any, Any],
    h: Sequence[float] | np.ndarray[Any, Any],
) -> Ising:
    """An Ising model of pairs of sites; pairs that are given several times, in either order, add up.

    The precision is float32 if it holds all numbers exactly, else float64.

    Args:
        rows: one site of each pair, counted from 0.
        columns: the other.
        values: J of each pair.
        h: the field of each site, which also says how many there are.

    Raises:
        UserError: a number is not finite, a site is out of range, or a site is paired with itself.
    """
    fields, J = torch.from_numpy(np.array(h, float)) + 0.0, torch.from_numpy(np.array(values, float))
    a, b = (torch.from_numpy(np.array(ends, np.int64)) for ends in (rows, columns))
    size = len(fields)
    if size == 0:
        raise UserError("there are no variables in it")
    if not (fields.isfinite().all() and J.isfinite().all()):
        raise UserError("it holds NaN or infinity")
    if len(a) and (int(torch.minimum(a, b).min()) < 0 or int(torch.maximum(a, b).max()) >= size):
        raise UserError(f"it pairs a site beyond the {size} that it has")
    if bool((a == b).any()):
        raise UserError(f"it pairs the site {int(a[a == b][0])} with itself")
    keys, place = torch.unique(torch.minimum(a, b) * size + torch.maximum(a, b), return_inverse=True)
    sums = torch.zeros(len(keys), dtype=torch.float64).index_add_(0, place, J)
    keys, sums = keys[sums != 0], sums[sums != 0]
    low, high = keys // size, keys % size
    entries = torch.cat([low * size + high, high * size + low])
    order = entries.argsort()
    entries, both = entries[order], torch.cat([sums, sums])[order]
    dtype = precision(both, fields)
    return Ising(Edges(size, entries // size, entries % size, both.to(dtype)), fields.to(dtype))


def from_bits(
    rows: Sequence[int] | np.ndarray[Any, Any],
    columns: Sequence[int] | np.ndarray[Any, Any],
    values: Sequence[float] | np.ndarray[Any, Any],
    linear: Sequence[float] | np.ndarray[Any, Any],
    offset: float = 0.0,
) -> tuple[Ising, float]:
    """The Ising model of an energy on bits, `sum a_i x_i + sum q_ij x_i x_j + offset`, and its offset; s = 2 x - 1."""
    a, q = np.asarray(linear, float), np.asarray(values, float)
    h = -a / 2
    for ends in (rows, columns):
        np.subtract.at(h, np.asarray(ends, int), q / 4)
    return spins(rows, columns, -q / 4, h), float(offset + a.sum() / 2 + q.sum() / 4)


def machine(W: Any, visible: Any, hidden: Any) -> RBM:
    """An RBM with given parameters, in float32 if it holds them exactly, else in float64.

    Args:
        W: weights `(V, H)`.
        visible: biases `(V,)`.
        hidden: biases `(H,)`.

    Raises:
        UserError: the shapes do not belong together, or a number is not finite.
    """
    W, b_v, b_h = (torch.from_numpy(np.array(part, float)) for part in (W, visible, hidden))
    if W.dim() != 2 or b_v.shape != W.shape[:1] or b_h.shape != W.shape[1:] or 0 in W.shape:
        shapes = ", ".join(str(tuple(part.shape)) for part in (W, b_v, b_h))
        raise UserError(f"weights, visible and hidden biases have the shapes {shapes}, not (V, H), (V,), (H,)")
    if not all(bool(part.isfinite().all()) for part in (W, b_v, b_h)):
        raise UserError("its parameters hold NaN or infinity")
    energy = RBM(*W.shape).to(precision(W, b_v, b_h))
    with torch.no_grad():
        for own, given in ((energy.W, W), (energy.b_v, b_v), (energy.b_h, b_h)):
            own.copy_(given)
    return energy


def potts(pairs: Any, coupling: Tensor, field: Tensor) -> Potts:
    """A Potts model with given parameters, in float32 if it holds them exactly, else in float64.

    Args:
        pairs: sites i < j of each pair, `(P, 2)`.
        coupling: J_ij(a, b), `(P, q, q)`.
        field: h_i(a), `(d, q)`.
    """
    ends = torch.as_tensor(pairs, dtype=torch.int64).view(-1, 2)
    energy = Potts(*field.shape, pairs=ends).to(precision(coupling, field))
    with torch.no_grad():
        energy.coupling.copy_(coupling)
        energy.field.copy_(field)
    return energy


def precision(*values: Tensor) -> torch.dtype:
    """Float32 if it holds all numbers exactly, else float64."""
    exact = all(torch.equal(part.float().double(), part.double()) for part in values)
    return torch.float32 if exact else torch.float64


def labels(names: Sequence[Any]) -> tuple[Label, ...]:
    """Labels as they are kept: lists, which JSON makes of tuples, become tuples; () for 0, 1, 2, ...

    Raises:
        UserError: two are alike.
    """
    made = tuple(labels_of(name) for name in names)
    require_different(made)
    return () if made == tuple(range(len(made))) else made


def require_different(names: Sequence[Label]) -> None:
    """Raises `UserError` if two variables have the same label."""
    if len(set(names)) < len(names):
        raise UserError(f"several variables are called {next(name for name in names if names.count(name) > 1)}")


def labels_of(name: Any) -> Label:
    """One label: a tuple in place of a list, and Python's own number in place of NumPy's."""
    if isinstance(name, list | tuple):
        return tuple(labels_of(part) for part in name)
    label: Label = name.item() if isinstance(name, np.generic) else name
    return label


def in_order(names: Sequence[Label]) -> list[Label]:
    """Labels in their own order if all are whole numbers, else as they come."""
    return sorted(names) if all(isinstance(name, int) for name in names) else list(names)  # type: ignore[type-var]


def _plain(label: Label) -> Any:
    """A label as plain data, of which `labels_of` makes the label again, if it is made of numbers and texts."""
    if isinstance(label, tuple):
        return [_plain(part) for part in label]
    return label if isinstance(label, int | float | str) else str(label)
