"""The base class of energies: value, gradient in x, energies of neighbours, and averages to learn from."""

from __future__ import annotations

import inspect
import itertools
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

from ebmlab.domains import Binary, Domain, Finite, Spin
from ebmlab.energies import by_autograd, materialised
from ebmlab.energies.evaluation import Evaluation, PerChain
from ebmlab.energies.state_types import TAKE_STATES, converted, floating_type, takes_states
from ebmlab.energies.weighted_sum import WeightedSum
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded

DERIVED = (
    "value_and_grad",
    "gradient",
    "differentiable_gradient",
    "evaluate",
    "flip_differences",
    "value_differences",
)  # from `forward` alone
Around = tuple[Tensor, ...]  # what the energies of all neighbours of x start from: E(x) `(B,)`, and more in subclasses


class NoDomain(UserError, AttributeError):
    """An energy's class does not say where x lives."""


class NotBegun(UserError, AttributeError):
    """An energy's `__init__` does not call that of its base."""


class Energy(Recorded, nn.Module):
    """E(x), with p(x) proportional to exp(-E(x)); one number per sample, never divided by the batch size.

    States may be of any numeric type. All methods convert them to the energy's floating type, and answer in it. Whole
    numbers and booleans must be the domain's values; those of floating-point states are checked by `domain.validate`,
    as samplers do where chains start, not here.

    Attributes:
        domain: of x.
        domains: kinds of domain that the class supports.
        fast_compiled: whether programs that `torch.compile` makes evaluate it as fast as it does itself.

    Example:
        >>> from ebmlab.domains import Real
        >>> class Quadratic(Energy):
        ...     def __init__(self, size):
        ...         super().__init__()
        ...         self.domain = Real(size)
        ...     def forward(self, x):
        ...         return x.square().sum(1) / 2
        >>> value, grad = Quadratic(2).value_and_grad(torch.tensor([[3.0, 4.0]]))
        >>> value, grad
        (tensor([12.5000]), tensor([[3., 4.]]))
    """

    domain: Domain
    domains: ClassVar[tuple[type[Domain], ...]] = ()
    fast_compiled: ClassVar[bool] = True

    def __getattr__(self, name: str) -> Tensor | nn.Module:
        if name == "domain":
            raise NoDomain(
                f"{type(self).__name__} has no domain: set self.domain = Binary(num_bits), or another domain"
            )
        if name in ("_parameters", "_buffers", "_modules"):
            raise NotBegun(f"{type(self).__name__}: super().__init__() must come first in __init__")
        return super().__getattr__(name)

    def __init_subclass__(cls, **kwargs: Any) -> None:
        """Where a class overrides `forward`, the closed forms of the class that it derives from are out of date.

        Those that it does not override become the general ones of `Energy`, which follow `forward`. All methods that
        take states take those of any numeric type.

        Raises:
            UserError: the hidden units of a bipartite energy would go on to follow the old one.
        """
        super().__init_subclass__(**kwargs)
        for name in TAKE_STATES:
            if inspect.isfunction(method := cls.__dict__.get(name)):
                setattr(cls, name, takes_states(method))
        forward, general = _place(cls, "forward"), cls.__mro__.index(Energy)
        if forward < _place(cls, "joint_energy") < general:
            raise UserError(
                f"{cls.__name__} overrides forward, but its hidden units follow the joint_energy of a class that it "
                "derives from: override joint_energy and the conditionals too, or add energies by ebmlab.energies.Sum"
            )
        for name in DERIVED:
            if forward < _place(cls, name) < general:
                setattr(cls, name, Energy.__dict__[name])
                if name == "flip_differences":
                    cls.around = Energy.around  # type: ignore[method-assign]

    def __call__(self, x: Tensor) -> Tensor:
        """Energies `(B,)` of states `(B, *event)`, by `forward`, as floating-point numbers.

        Raises:
            UserError: x has another shape or holds whole numbers that are not the domain's values. Or `forward` gives
                another shape or no tensor of real numbers: some samplers would silently make a wrong law of it.
        """
        x = self.as_states(x)
        if not torch.compiler.is_compiling() and (domain := getattr(self, "domain", None)) is not None:
            domain.require_shape(x)
        energies: Tensor = super().__call__(x)
        if not isinstance(energies, Tensor) or energies.is_complex():
            kind = energies.dtype if isinstance(energies, Tensor) else type(energies).__name__
            raise UserError(f"{type(self).__name__} gives energies of type {kind}, but must give a float tensor")
        if not energies.is_floating_point():  # a temperature would be rounded before it multiplies whole numbers
            energies = energies.to(x.dtype)
        if energies.shape != x.shape[:1]:
            raise UserError(
                f"{type(self).__name__} gives energies of shape {tuple(energies.shape)} for {len(x)} states, but must "
                f"give ({len(x)},), one number for each: sum over all other axes"
            )
        return energies

    def extra_repr(self) -> str:
        return str(getattr(self, "domain", ""))

    def forward(self, x: Tensor) -> Tensor:
        """Energies `(B,)` of states `(B, *event)`."""
        raise NotImplementedError

    @takes_states
    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """E(x) `(B,)` and dE/dx `(B, *event)`, both detached; samplers may overwrite them.

        Raises:
            UserError: E does not follow from x by operations that autograd differentiates.
        """
        return by_autograd.value_and_grad(self, x)

    def gradient(self, x: Tensor) -> Tensor:
        """dE/dx `(B, *event)` alone, detached. Energies whose gradient does not need E(x) may override this method."""
        return self.value_and_grad(x)[1]

    @takes_states
    def differentiable_gradient(self, x: Tensor) -> Tensor:
        """dE/dx `(B, *event)` at an x that requires a gradient; x and the parameters can be differentiated through it.

        Raises:
            UserError: E does not follow from x by operations that autograd differentiates.
        """
        return by_autograd.differentiable_gradient(self, x)

    def evaluate(self, x: Tensor, known: PerChain | None = None) -> Evaluation:
        """`value_and_grad`, together with by-products of computing them.

        Args:
            x: states, `(B, *event)`.
            known: the `known` of an earlier evaluation at the same x. With it, a `Bridge` whose beta has changed need
                not evaluate its ends again, nor an energy at temperatures of each chain. Other energies ignore it.
        """
        return Evaluation(*self.value_and_grad(x))

    @takes_states
    def around(self, x: Tensor) -> Around:
        """What the energies of all neighbours of x `(B, *event)` start from: E(x) `(B,)`, and more in subclasses."""
        energy: Tensor = self(x)
        return (energy,)

    @takes_states
    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        """E(x with one coordinate flipped) - E(x), on a `Binary` or `Spin` domain.

        Energies whose structure makes neighbours cheap override this method; here the neighbours are materialised.

        Args:
            x: states, `(B, *event)`.
            index: which coordinates of the flattened event to flip, `(B, k)`; all of them when None.
            around: `self.around(x)`, if it has been computed already.

        Returns:
            `(B, k)`.
        """
        if not isinstance(self.domain, Binary | Spin):
            raise UserError(
                f"flip_differences needs a Binary or Spin domain, {type(self).__name__} lives on {self.domain}"
            )
        flat = x.flatten(1)
        batch, size = flat.shape
        if index is None:
            index = torch.arange(size, device=x.device).expand(batch, size)
        old = flat.gather(1, index)
        new = 1 - old if isinstance(self.domain, Binary) else -old
        neighbours = flat.unsqueeze(1).repeat(1, index.shape[1], 1)
        neighbours.scatter_(2, index.unsqueeze(2), new.unsqueeze(2))
        here = (around or self.around(x))[0]
        energies = materialised.energies_of(self, neighbours.view(-1, *x.shape[1:]))
        return energies.view(index.shape) - here.unsqueeze(1)

    @takes_states
    def flip_energies(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """Energies of the one-flip neighbours of x, `(B, k)`; arguments as in `flip_differences`."""
        around = self.around(x)
        return around[0].unsqueeze(1) + self.flip_differences(x, index, around)

    @takes_states
    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        """E(x with one coordinate set to a value) - E(x), for every value of that coordinate, on any finite domain.

        Here k * (num_values - 1) neighbours and x are evaluated.

        Args:
            x: states, `(B, *event)`.
            index: coordinates of the flattened domain shape, `(B, k)`; all of them when None.

        Returns:
            `(B, k, num_values)`; 0 at the value that the coordinate has.
        """
        domain = self.domain
        if isinstance(domain, Binary | Spin):
            flips = self.flip_differences(x, index)
            bits = domain.to_index(x.flatten(1))
            bits = bits if index is None else bits.gather(1, index)
            return torch.stack([flips.where(bits == 1, 0), flips.where(bits == 0, 0)], -1)
        if not isinstance(domain, Finite):
            raise UserError(f"value_differences needs a finite domain, {type(self).__name__} lives on {domain}")
        return materialised.value_differences(self, x, index)

    @property
    def device(self) -> torch.device:
        """The device of the parameters and buffers; the CPU for an energy without any."""
        tensors = itertools.chain(self.parameters(), self.buffers())
        return next((t.device for t in tensors), torch.device("cpu"))

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the parameters and buffers; torch's default for an energy without any."""
        return floating_type(self) or torch.get_default_dtype()

    def as_states(self, x: Tensor) -> Tensor:
        """States `(B, *event)` of any numeric type in the energy's; floats stay as they are if it has no tensors.

        Raises:
            UserError: x is no tensor of real numbers, or holds whole numbers that are not the domain's values.
        """
        if torch.compiler.is_compiling():  # chains have been converted before
            return x
        if isinstance(x, Tensor) and (x.dtype == self.dtype or (x.is_floating_point() and floating_type(self) is None)):
            return x
        return converted(x, self.domain, self.dtype)

    def random(self, n: int) -> Tensor:
        """Draws states `(n, *event)` for new chains from the domain's reference law, as this energy takes them."""
        return self.domain.random(n, device=self.device).to(self.dtype)

    def check_law(self) -> None:
        """Raises `UserError` if exp(-E) is known to have no finite integral, so that there is no law to draw from."""

    def step_unit(self) -> Tensor | float:
        """The factor by which samplers multiply their step size: 1, unless the energy has a natural squared length."""
        return 1.0

    def weighted_sum(self) -> WeightedSum:
        """A new accumulator of weighted energies of states, see `WeightedSum`."""
        return WeightedSum(self)


def _place(cls: type, name: str) -> int:
    """How many classes are asked for a method before the one that defines it."""
    return next((k for k, kind in enumerate(cls.__mro__) if name in kind.__dict__), len(cls.__mro__))
