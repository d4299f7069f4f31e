"""Energies made of several: products of experts and mixtures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce

import torch
from torch import Tensor, nn

from ebmlab.domains import Domain, Finite
from ebmlab.energies.energy import Around, Energy
from ebmlab.errors import WHY, UserError, explained
from ebmlab.settings import require_all_positive


class _Composed(Energy):
    """Several energies on one domain, and one weight for each.

    Weights are numbers, not tensors, so that they follow the device and dtype of the energies.
    """

    domains = (Domain,)

    def __init__(self, energies: Sequence[Energy], weights: Sequence[float]) -> None:
        super().__init__()
        self.energies = nn.ModuleList(energies)
        self.domain = _shared_domain(type(self).__name__, energies)
        self.weights = _numbers(type(self).__name__, "weights", weights, len(energies))

    def _parts(self) -> list[Energy]:
        return list(self.energies)  # type: ignore[arg-type]

    @property
    def dtype(self) -> torch.dtype:
        """The finest of the energies' precisions."""
        return reduce(torch.promote_types, [energy.dtype for energy in self._parts()])

    def step_unit(self) -> Tensor | float:
        """The first energy's."""
        return self._parts()[0].step_unit()


class Sum(_Composed):
    """E(x) = sum over k of w_k E_k(x): a product of experts, the product of exp(-w_k E_k(x)) (Hinton, 2002, Eq. 1).

    Args:
        energies: E_k, all on one domain; held, not copied.
        weights: w_k, of any sign; 1 each when None.

    Raises:
        UserError: no energies, energies on different domains, or not one finite weight for each.

    Example:
        >>> from ebmlab.energies import Ising
        >>> both = Sum([Ising.lattice(2, coupling=0.5), Ising([[0.0] * 4] * 4, field=1.0)], weights=[2.0, 1.0])
        >>> both(torch.ones(1, 4)).item()
        -8.0
    """

    def __init__(self, energies: Sequence[Energy], weights: Sequence[float] | None = None) -> None:
        super().__init__(energies, [1.0] * len(energies) if weights is None else weights)

    def forward(self, x: Tensor) -> Tensor:
        return self._sum([energy(x) for energy in self._parts()])

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        values, grads = zip(*[energy.value_and_grad(x) for energy in self._parts()], strict=True)
        return self._sum(values), self._sum(grads)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        return self._sum([energy.flip_differences(x, index) for energy in self._parts()])

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        return self._sum([energy.value_differences(x, index) for energy in self._parts()])

    def _sum(self, values: Sequence[Tensor]) -> Tensor:
        total, *others = [w * value for w, value in zip(self.weights, values, strict=True)]
        for value in others:
            total = total + value
        return total


class Mixture(_Composed):
    """E(x) = -log of the sum over k of w_k exp(-E_k(x)) / Z_k.

    If the w_k sum to 1 and the Z_k are right, p(x) is the sum of w_k p_k(x). The mixture's own Z is then 1. Without
    `log_z`, the share of energy k is proportional to w_k times its true Z.

    Args:
        energies: E_k, all on one domain; held, not copied.
        weights: w_k, positive; 1 / K each when None.
        log_z: log Z_k; 0 each when None.

    Raises:
        UserError: no energies, energies on different domains, or numbers that do not fit.

    Example:
        >>> from ebmlab.energies import Ising
        >>> mixture = Mixture([Ising([[0.0]], field=h) for h in (1.0, -1.0)], weights=[0.75, 0.25])
        >>> [round(float(p), 2) for p in mixture.responsibilities(torch.ones(1, 1))[0]]  # 0.75 e to 0.25 / e
        [0.96, 0.04]
    """

    def __init__(
        self,
        energies: Sequence[Energy],
        weights: Sequence[float] | None = None,
        *,
        log_z: Sequence[float] | None = None,
    ) -> None:
        super().__init__(energies, [1 / max(1, len(energies))] * len(energies) if weights is None else weights)
        require_all_positive("Mixture", weights=self.weights)
        constants = _numbers("Mixture", "log_z", [0.0] * len(energies) if log_z is None else log_z, len(energies))
        self._logs = [math.log(w) - z for w, z in zip(self.weights, constants, strict=True)]

    def forward(self, x: Tensor) -> Tensor:
        return -self._terms(x).logsumexp(1)

    def responsibilities(self, x: Tensor) -> Tensor:
        """p(k | x), `(B, K)`."""
        return self._terms(x).softmax(1)

    def value_and_grad(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Each energy's gradient, weighted by its responsibility."""
        values, grads = zip(*[energy.value_and_grad(x) for energy in self._parts()], strict=True)
        terms = self._weigh(values)
        shares = terms.softmax(1).view(*terms.shape, *[1] * (x.dim() - 1))
        return -terms.logsumexp(1), (shares * torch.stack(grads, 1)).sum(1)

    def flip_differences(self, x: Tensor, index: Tensor | None = None, around: Around | None = None) -> Tensor:
        mixed = self._mix(x, [energy.flip_differences(x, index) for energy in self._parts()])
        return super().flip_differences(x, index, around) if mixed.isnan().any() else mixed  # an energy forbids x

    def value_differences(self, x: Tensor, index: Tensor | None = None) -> Tensor:
        mixed = self._mix(x, [energy.value_differences(x, index) for energy in self._parts()])
        return super().value_differences(x, index) if mixed.isnan().any() else mixed

    def _terms(self, x: Tensor) -> Tensor:
        """Log of w_k exp(-E_k(x)) / Z_k, `(B, K)`."""
        return self._weigh([energy(x) for energy in self._parts()])

    def _weigh(self, values: Sequence[Tensor]) -> Tensor:
        return torch.stack([log - value for log, value in zip(self._logs, values, strict=True)], 1)

    def _mix(self, x: Tensor, differences: Sequence[Tensor]) -> Tensor:
        """The mixture's differences `(B, ...)` from each energy's: -log of the mean exp(-difference) under p(k | x)."""
        shares = self._terms(x).log_softmax(1)
        shares = shares.view(*shares.shape, *[1] * (differences[0].dim() - 1))
        return -(shares - torch.stack(list(differences), 1)).logsumexp(1)


def _shared_domain(name: str, energies: Sequence[Energy]) -> Domain:
    if not energies:
        raise UserError(f"{name}: energies is empty, but must hold at least one")
    first, *others = [energy.domain for energy in energies]
    for k, other in enumerate(others, start=1):
        sizes = [domain.num_values if isinstance(domain, Finite) else None for domain in (first, other)]
        if type(first) is not type(other) or first.event_shape != other.event_shape or sizes[0] != sizes[1]:
            values = "" if sizes[0] == sizes[1] else f", and coordinates have {sizes[0]} and {sizes[1]} values"
            raise UserError(f"{name}: energy 0 lives on {first}, but energy {k} on {other}{values}")
    return first


def _numbers(name: str, what: str, numbers: Sequence[float], count: int) -> list[float]:
    with explained(f"{name}: {what} must be a list of numbers ({WHY})", (TypeError, ValueError)):
        values = [float(number) for number in numbers]
    if len(values) != count:
        raise UserError(f"{name}: {len(values)} {what} for {count} energies; each energy needs one")
    if not all(math.isfinite(value) for value in values):
        raise UserError(f"{name}: {what} are {values}, but must be finite")
    return values
