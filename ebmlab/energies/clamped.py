"""The conditional law of some coordinates given the others, as an energy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Categorical, Domain, Finite
from ebmlab.energies.bipartite import Bipartite
from ebmlab.energies.energy import Around, Energy
from ebmlab.energies.laws import of_states
from ebmlab.errors import WHY, UserError, explained
from ebmlab.product import Product

Array = Tensor | Sequence[Any]


class _Chosen(Energy):
    """Turns `Clamped(energy, ...)` into a `ClampedBipartite` if the energy is bipartite.

    This is a class of its own because command-line parsers read the arguments of `__new__` if a class defines it.
    """

    def __new__(cls, energy: Energy | None = None, *args: Any, **kwargs: Any) -> Self:
        joint = cls is Clamped and isinstance(energy, Bipartite)
        given = () if energy is None else (energy,)
        return super().__new__(ClampedBipartite if joint else cls, *given, *args, **kwargs)  # type: ignore[return-value]


class Clamped(_Chosen):
    """E(x_free) = E(x) with the other coordinates of x fixed, so that exp(-E) / Z is p(x_free | x_given).

    The states are the free coordinates, in their order in the flattened event: `(B, k)`, or one-hot `(B, k, K)` on a
    Categorical domain. Differences, closed forms and colours come from the inner energy. A clamped bipartite energy is
    bipartite: block Gibbs redraws the hidden units and the free visible ones. On a Product they are the states of the
    parts that have free coordinates, `Product.subset`, for `Alternate` with a kernel for each of these.

    Several events make as many laws, in which the same coordinates are free. A batch of n G states then holds n states
    of the law given the first of G events, then n of the second, and so on.

    Args:
        energy: held, not copied.
        x: an event in the shape of the energy's states, or several, `(G, *event)`. Values at free coordinates are
            ignored and may be NaN.
        mask: True where x is given, in the domain's shape, which on a Categorical domain has no axis of classes. A mask
            in the shape of the event is accepted there too, if all classes of a coordinate agree. That of a Product has
            this shape, `(n,)`; `Product.entries` makes it from names of parts.

    Attributes:
        free: indices of the free coordinates, on a Product of the free numbers, in the flattened event, `(k,)`, int64.
        given: x, with some valid value at free coordinates.

    Raises:
        UserError: x or the mask do not fit the energy's domain, or nothing is free.

    Example:
        >>> from ebmlab.energies import Ising
        >>> energy = Ising.lattice(2, coupling=0.5)
        >>> top = Clamped(energy, x=[1, 1, -1, -1], mask=[True, True, False, False])
        >>> top.domain, top.merge(torch.ones(1, 2)).tolist()
        (Spin(2), [[1.0, 1.0, 1.0, 1.0]])
    """

    domains = (Domain,)
    free: Tensor
    given: Tensor

    def __init__(self, energy: Energy, x: Array, *, mask: Array) -> None:
        super().__init__()
        self.energy = energy
        is_given = _mask(energy.domain, mask).to(energy.device)
        free = (~is_given).nonzero().squeeze(1)
        if len(free) == 0:
            raise UserError(f"Clamped: the mask gives all {len(is_given)} coordinates of {energy.domain}; none is free")
        self.domain = _subset(energy.domain, ~is_given)
        given = _events(energy.domain, x, free).to(device=energy.device, dtype=energy.dtype)
        self.per_chain = "given" if given.dim() > len(energy.domain.event_shape) else None
        self.register_buffer("free", free, persistent=False)
        self.register_buffer("given", given, persistent=False)
        self._colours: tuple[list[Tensor], list[Tensor]] | None = None

    @property
    def dtype(self) -> torch.dtype:
        """The inner energy's."""
        return self.energy.dtype

    def merge(self, x: Tensor) -> Tensor:
        """Whole events `(B, *event)`: the given coordinates, with the free ones x `(B, k)` filled in."""
        domain, given = self.energy.domain, self.given.to(x)
        own = of_states(given if self.per_chain else given.unsqueeze(0), len(x))
        return domain.flat(own).index_copy(1, self.free, x).view(len(x), *domain.event_shape)

    def split(self, x: Tensor) -> Tensor:
        """The free coordinates `(B, k)` of whole events `(B, *event)`."""
        return self.energy.domain.flat(x).index_select(1, self.free)

    def forward(self, x: Tensor) -> Tensor:
        energy: Tensor = self.energy(self.merge(x))
        return energy

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        value, grad = self.energy.value_and_grad(self.merge(x))
        return value, self.split(grad)

    def around(self, x: Tensor) -> Around:
        return self.energy.around(self.merge(x))

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self.energy.flip_differences(self.merge(x), self._places(x, index), around)

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self.energy.value_differences(self.merge(x), self._places(x, index))

    @property
    def colours(self) -> list[Tensor]:
        """The inner energy's colours, restricted to the free coordinates; used by `ChromaticGibbs`."""
        inner: list[Tensor] = self.energy.colours  # type: ignore[assignment]
        if self._colours is None or self._colours[0] is not inner:
            place = torch.full((self.energy.domain.size,), -1, device=self.free.device)
            place[self.free] = torch.arange(len(self.free), device=self.free.device)
            own = [place[sites] for sites in inner]
            own = [sites[sites >= 0] for sites in own]
            self._colours = inner, [sites for sites in own if len(sites)]
        return self._colours[1]

    def conditional(self, x: Tensor, sites: Tensor) -> Tensor:
        """Logits of p(x_i) given the rest, for the free sites of one colour."""
        return self.energy.conditional(self.merge(x), self.free[sites])  # type: ignore[operator, no-any-return]

    @property
    def minibatch(self) -> Callable[[], Clamped]:
        """The inner energy's `minibatch`, if it has one, with the same coordinates given."""
        inner: Callable[[], Energy] = self.energy.minibatch  # type: ignore[assignment]
        is_given = torch.ones(self.energy.domain.shape, dtype=torch.bool, device=self.free.device)
        is_given.view(-1)[self.free] = False
        return lambda: Clamped(inner(), self.given, mask=is_given)

    def check_law(self) -> None:
        self.energy.check_law()

    def step_unit(self) -> Tensor | float:
        return self.energy.step_unit()

    def _places(self, x: Tensor, index: Tensor | None) -> Tensor:
        """The inner energy's numbers of the coordinates in `index`."""
        return self.free.expand(len(x), -1) if index is None else self.free[index]


class ClampedBipartite(Clamped, Bipartite):
    """E(v_free, h) = E(v, h) with the other visible units fixed; as an energy of v_free, h is summed out.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> energy = ClampedBipartite(RBM(3, 2), x=[1, 0, 0], mask=[True, False, False])
        >>> x, _ = BlockGibbs().sample(energy, energy.random(5), num_steps=10)
        >>> x.shape, energy.merge(x)[:, 0].tolist()
        (torch.Size([5, 2]), [1.0, 1.0, 1.0, 1.0, 1.0])
    """

    energy: Bipartite

    def __init__(self, energy: Bipartite, x: Array, *, mask: Array) -> None:
        super().__init__(energy, x, mask=mask)
        self.num_hidden, self.units = energy.num_hidden, energy.units

    def joint_energy(self, v: Tensor, h: Tensor) -> Tensor:
        return self.energy.joint_energy(self.merge(v), h)

    def hidden_given_visible(self, v: Tensor) -> Tensor:
        return self.energy.hidden_given_visible(self.merge(v))

    def visible_given_hidden(self, h: Tensor) -> Tensor | tuple[Tensor, Tensor]:
        law = self.energy.visible_given_hidden(h)
        if isinstance(law, Tensor):
            return self.split(law)
        mean, variance = law
        if variance.dim() == len(mean.shape):
            return self.split(mean), self.split(variance.expand_as(mean))
        return self.split(mean), self.split(variance.expand(1, *mean.shape[1:]))[0]

    def visible_energy(self, v: Tensor) -> Tensor:
        return self.energy.visible_energy(self.merge(v))


def _mask(domain: Domain, mask: Array) -> Tensor:
    """True where a coordinate is given, `(size,)`."""
    values = as_numbers(mask, "Clamped: mask")
    if not ((values == 0) | (values == 1)).all():
        raise UserError("Clamped: mask must hold True (given) and False (free) alone")
    values = values.bool()
    if isinstance(domain, Categorical) and values.shape == domain.event_shape:
        if not (values == values[..., :1]).all():
            raise UserError(f"Clamped: mask gives some classes of a coordinate of {domain} and not the others")
        values = values[..., 0]
    if values.shape != domain.shape:
        raise UserError(f"Clamped: mask has shape {tuple(values.shape)}; coordinates of {domain} have {domain.shape}")
    return values.flatten()


def _events(domain: Domain, x: Array, free: Tensor) -> Tensor:
    """The event or events x, validated where they are given, with one of the domain's values at free coordinates."""
    given = as_numbers(x, "Clamped: x")
    given = given.to(free.device, torch.promote_types(given.dtype, torch.get_default_dtype()))
    size = len(domain.event_shape)
    if given.shape[given.dim() - size :] != domain.event_shape or given.dim() > size + 1 or not given.numel():
        raise UserError(f"Clamped: x has shape {tuple(given.shape)}; one state of {domain} has {domain.event_shape}")
    flat, filler = domain.flat(given.view(-1, *domain.event_shape)), domain.flat(_lowest(domain).to(given))
    flat = flat.index_copy(1, free, filler.index_select(1, free).expand(len(flat), *[-1] * (flat.dim() - 1)))
    with explained(f"Clamped: the given coordinates of x are not a state of the energy: {WHY}", UserError):
        domain.validate(flat.view(-1, *domain.event_shape))
    return flat.view(given.shape)


def _subset(domain: Domain, free: Tensor) -> Domain:
    """The domain of the coordinates that are free, `(size,)`, bool."""
    if not isinstance(domain, Product):
        return domain.with_shape(int(free.sum()))
    with explained(f"Clamped: mask: {WHY}", UserError):
        return domain.subset(free)


def _lowest(domain: Domain) -> Tensor:
    """One of a domain's states, `(1, *event)`: the first value of each finite coordinate, 0 of real numbers."""
    if isinstance(domain, Product):
        return domain.join({name: _lowest(part) for name, part in domain.parts.items()})
    if isinstance(domain, Finite):
        return domain.from_index(torch.zeros(1, *domain.shape, dtype=torch.long))
    return torch.zeros(1, *domain.event_shape)
