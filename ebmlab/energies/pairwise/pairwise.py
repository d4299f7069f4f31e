"""Energies that are sums over pairs of sites: the common part of the Ising and the Potts model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import embedding_bag
from torch.nn.utils.parametrize import register_parametrization

from ebmlab.data.numbers import as_numbers
from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.pairwise.neighbours import Neighbours
from ebmlab.errors import UserError
from ebmlab.graphs import Edges, colour
from ebmlab.numerics.means import as_floats
from ebmlab.numerics.unrounded import unrounded

SPARSE = 0.015  # share of non-zero couplings below which summing over neighbours beats a matrix product (on CPU)

Matrix = Tensor | Sequence[Sequence[float]] | Edges


class Pairwise(Energy):
    """E(x) = -1/2 sum_ij J_ij x_i . x_j - sum_i h_i . x_i, where x_i is a number or a one-hot vector.

    Args:
        coupling: J, `(d, d)`, symmetric with a zero diagonal, so that every edge counts once; or its entries. Few
            entries are kept as lists of neighbours, in memory that grows with their number.
        field: h, an array that broadcasts to the event shape `(d, *event)`.
        event: shape of one site's state; () for a number.
        learn: makes J and h parameters; J stays symmetric with a zero diagonal.

    Attributes:
        coupling: J, `(d, d)`; made when it is asked for if J is kept as lists.
        sparse: whether J is kept as lists.
        field: h, in the shape of an event.
    """

    coupling: Tensor
    field: Tensor
    sparse: bool
    neighbours: Neighbours
    _colours: list[Tensor] | None
    _lists: list[Neighbours]
    _in_order: Sequence[Neighbours] = ()
    _seen: tuple[Tensor, int, Tensor] | None

    def __init__(self, coupling: Matrix, field: Any, event: tuple[int, ...] = (), learn: bool = False) -> None:
        super().__init__()
        name = type(self).__name__
        edges = _edges(name, coupling)
        field = _field(name, field, (edges.size, *event), edges.values.dtype)
        self.learn = learn
        if learn:
            self.coupling, self.field = nn.Parameter(edges.matrix().triu()), nn.Parameter(field)
            register_parametrization(self, "coupling", Symmetric())
            type(self).__name__ = name  # register_parametrization has changed this object's class, and its name
            self.sparse = False
            return
        self.register_buffer("field", field)
        self._join(edges)
        self.register_load_state_dict_pre_hook(_join_saved)  # type: ignore[no-untyped-call]

    def __reduce_ex__(self, protocol: Any) -> Any:
        """Pickles couplings that are learnt, which torch does not, by how the energy was made and its parameters."""
        if not self.learn:
            return super().__reduce_ex__(protocol)
        made, args, kwargs = self._made_with
        trained = {name: p.requires_grad for name, p in self.named_parameters()}
        return _made, (made, args, kwargs), (self.state_dict(), trained, self.training), None, None, _filled

    def _join(self, edges: Edges) -> None:
        """Takes new couplings, on the device and in the precision of h."""
        for name in ("coupling", "neighbours"):
            if name in {**self._buffers, **self._modules}:
                delattr(self, name)
        self.sparse = 0 < len(edges.values) < SPARSE * edges.size**2
        self._colours, self._lists, self._in_order, self._seen = None, [], (), None
        if self.sparse:
            self.neighbours = Neighbours.given_by(edges).to(self.field)
        else:
            self.register_buffer("coupling", edges.matrix().to(self.field))

    @property
    def upper(self) -> nn.Parameter:
        """What learns of couplings that do: J above the diagonal, `(d, d)`; all other entries count for nothing."""
        learnt: nn.Parameter = self.parametrizations.coupling.original
        return learnt

    def edges(self) -> Edges:
        """The entries of J that are not 0."""
        return self.neighbours.edges() if self.sparse else Edges.of(self.coupling)

    def __getattr__(self, name: str) -> Any:
        if name == "coupling" and "neighbours" in self._modules:
            return self.edges().matrix()
        return super().__getattr__(name)

    @property
    def colours(self) -> list[Tensor]:
        """Site numbers, int64, one tensor per colour: given the rest, the sites of one colour are independent."""
        if self.learn:
            raise UserError(
                f"{type(self).__name__}: learnt couplings join all sites, so that no two can be redrawn at once; "
                "use Gibbs in place of ChromaticGibbs"
            )
        if type(self).forward is not Pairwise.forward:
            raise UserError(
                f"{type(self).__name__} has a forward of its own, so that its couplings do not say which sites "
                "interact; use Gibbs in place of ChromaticGibbs"
            )
        changed = not torch.compiler.is_compiling() and self._has_changed()
        if self._colours is None or changed:
            if not self.sparse or self._colours is None or self._colours[0].device != self.field.device:
                self._colours = [sites.to(self.field.device) for sites in colour(self.edges())]
            self._lists = [self.neighbours.of(sites) for sites in self._colours] if self.sparse else []
            self._in_order = ()
        return self._colours

    def in_order(self) -> Neighbours:
        """The neighbours of all sites, one colour after the other; kept until a coupling changes."""
        order = torch.cat(self.colours)
        if not self._in_order:
            self._in_order = ((self.neighbours if self.sparse else Neighbours.given_by(self.edges())).of(order),)
        return self._in_order[0]

    def _has_changed(self) -> bool:
        """Whether couplings have changed since the last call, in place too, as where a chain follows a training.

        On a CPU they are compared, as inference tensors and `.data` do not say when they are written to. A GPU would
        have to wait for the comparison.
        """
        weights = self.neighbours.weights if self.sparse else self.coupling
        version = 0 if weights.is_inference() else weights._version
        if self._seen is not None and self._seen[0] is weights and self._seen[1] == version:
            same = weights.device.type != "cpu" or torch.equal(self._seen[2], weights)
            if same:
                return False
        self._seen = weights, version, weights.detach().clone()
        return True

    @unrounded
    def local_field(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        """(J x + h)_i = -dE/dx_i of all sites, `(B, d, ...)`, or of the given ones, `(B, k, ...)`."""
        if not self.sparse:
            coupling = self.coupling.to(x.dtype)
            rows = coupling if sites is None else coupling[sites]
            pull = (x.transpose(1, -1) @ rows.T).transpose(1, -1)
        else:
            pull = self._sums(x, sites).transpose(0, 1)
        field = self.field.to(x.dtype)
        return pull.contiguous() + field if sites is None else pull.add_(field[sites])

    def _sums(self, x: Tensor, sites: Tensor | None) -> Tensor:
        """J x of all sites or of those given, `(d, B, ...)` or `(k, B, ...)`, as sums over each site's neighbours.

        Nothing is copied if the sites are the first axis of x in memory. For the sites of a colour only their own lists
        are read.
        """
        neighbours = self.neighbours
        for own, those in zip(self._colours or [], self._lists, strict=True):
            neighbours = those if own is sites else neighbours
        table = x.transpose(0, 1).flatten(1).contiguous()
        weights = neighbours.weights.to(x.dtype)
        sums = embedding_bag(neighbours.sites, table, neighbours.offsets, mode="sum", per_sample_weights=weights)
        sums = sums.view(len(neighbours.offsets), len(x), *x.shape[2:])
        return sums[sites] if sites is not None and neighbours is self.neighbours else sums

    def forward(self, x: Tensor) -> Tensor:
        return self._around(x, keep=False)[0]

    @torch.no_grad()
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, local = self._around(x)
        return value, -local

    def _around(self, x: Tensor, keep: bool = True) -> Around:
        """E(x) `(B,)`, and J x + h `(B, d, ...)` if it is wanted."""
        local = self.local_field(x)
        return self._energy(x, local), local

    def _energy(self, x: Tensor, local: Tensor) -> Tensor:
        return -0.5 * (x * (local + self.field.to(x.dtype))).flatten(1).sum(1)


def _made(kind: type[Pairwise], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Pairwise:
    return kind(*args, **kwargs)


def _filled(energy: Pairwise, state: tuple[dict[str, Tensor], dict[str, bool], bool]) -> None:
    """Gives a new energy what a pickle holds: parameters, which of them are trained, and the mode."""
    tensors, trained, training = state
    energy.to(tensors["field"])
    energy.load_state_dict(tensors)
    for name, p in energy.named_parameters():
        p.requires_grad_(trained[name])
    energy.train(training)


class Symmetric(nn.Module):
    """Makes a matrix symmetric with a zero diagonal, from the entries above its diagonal.

    On a CPU without gradients, as in a chain, the result is kept until the entries change: comparing them takes a tenth
    of the time. A GPU would have to wait for the comparison.
    """

    def __init__(self) -> None:
        super().__init__()
        self._kept: tuple[Tensor, Tensor] | None = None

    def forward(self, matrix: Tensor) -> Tensor:
        if torch.is_grad_enabled() or matrix.device.type != "cpu" or torch.compiler.is_compiling():
            return self.make(matrix)
        if self._kept is None or not same(self._kept[0], matrix):
            self._kept = matrix.clone(), self.make(matrix)
        return self._kept[1]

    @staticmethod
    def make(matrix: Tensor) -> Tensor:
        upper = matrix.triu(1)
        return upper + upper.T


def same(kept: Tensor | None, now: Tensor) -> bool:
    """Whether a tensor that was kept has the type, the place and the numbers of another one."""
    return kept is not None and kept.dtype == now.dtype and kept.device == now.device and torch.equal(kept, now)


def _join_saved(energy: Pairwise, saved: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Gives an energy the graph of a saved one of its size before its couplings are copied.

    Checkpoints of earlier versions hold the matrix J where lists are kept now.
    """
    names = [f"{prefix}neighbours.{name}" for name in ("sites", "weights", "offsets")]
    matrix = saved.get(f"{prefix}coupling")
    if matrix is not None and len(matrix) == len(energy.field):
        energy._join(Edges.of(matrix))
        if energy.sparse:
            del saved[f"{prefix}coupling"]
            saved.update(zip(names, energy.neighbours.state_dict().values(), strict=True))
    elif all(name in saved for name in names) and len(saved[names[2]]) == len(energy.field):
        sites, weights, offsets = (saved[name] for name in names)
        ends = torch.cat([offsets, offsets.new_tensor([len(sites)])])
        if sites.shape != weights.shape or ends[0] != 0 or (ends.diff() < 0).any():
            raise UserError(
                f"{type(energy).__name__}: {len(sites)} neighbours, {len(weights)} couplings to them and the places "
                "where the list of each site begins do not fit together; the file is damaged"
            )
        lists = Neighbours(sites, weights, energy.field.new_zeros(0))
        lists.offsets = offsets
        energy._join(lists.edges())


def _edges(name: str, coupling: Matrix) -> Edges:
    """The entries of J, checked."""
    edges = coupling if isinstance(coupling, Edges) else _entries(name, coupling)
    if not edges.values.isfinite().all():
        raise UserError(f"{name}: coupling has entries that are not finite")
    return edges.checked(name) if isinstance(coupling, Edges) else edges


def _entries(name: str, coupling: Tensor | Sequence[Sequence[float]]) -> Edges:
    matrix = as_floats(as_numbers(coupling, f"{name}: coupling"))
    if matrix.dim() != 2 or matrix.shape[0] != matrix.shape[1] or matrix.numel() == 0:
        raise UserError(f"{name}: coupling has shape {tuple(matrix.shape)}, but must be a square matrix (d, d)")
    edges = Edges.of(matrix)  # often few; NaN counts as one
    if (edges.rows == edges.columns).any():
        raise UserError(f"{name}: coupling has a non-zero diagonal; no site interacts with itself")
    if not torch.equal(edges.values.nan_to_num(), matrix[edges.columns, edges.rows].nan_to_num()):
        raise UserError(f"{name}: coupling is not symmetric; (J + J') / 2 gives the same energy")
    return edges


def _field(name: str, field: Any, shape: tuple[int, ...], dtype: torch.dtype) -> Tensor:
    try:
        values = as_numbers(field, f"{name}: field").to(dtype).expand(shape).clone()
    except RuntimeError as error:
        reason = str(error).splitlines()[0]
        raise UserError(f"{name}: field must be a number or an array that broadcasts to {shape} ({reason})") from error
    if not values.isfinite().all():
        raise UserError(f"{name}: field has entries that are not finite")
    return values
