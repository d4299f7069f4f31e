"""The metric of Hamiltonian kernels: what is known of the spread of x (Neal, 2011, MCMC using Hamiltonian dynamics).

With x = S z, kernels move z, whose masses are 1: dz/dt = v and dv/dt = -S' dE/dx (Sec. 5.4.1). S is 1, a diagonal or a
Cholesky factor.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.numbers import Number, plus
from ebmlab.settings import require_all_positive

Scale = Sequence[float] | Sequence[Sequence[float]] | Tensor


def drift(x: Tensor, scale: Tensor | None, time: Number, velocity: Tensor) -> Tensor:
    """The position x + time S v."""
    if scale is None:
        return plus(x, time, velocity)
    if scale.shape == x.shape[1:]:
        return plus(x, time * scale.to(x), velocity)
    return plus(x, time, (velocity.flatten(1) @ scale.to(x).T).view_as(x))


def kick(velocity: Tensor, scale: Tensor | None, time: Number, grad: Tensor) -> Tensor:
    """The velocity v - time S' dE/dx."""
    if scale is None:
        return plus(velocity, -time, grad)
    if scale.shape == grad.shape[1:]:
        return plus(velocity, -time * scale.to(grad), grad)
    return plus(velocity, -time, (grad.flatten(1) @ scale.to(grad)).view_as(grad))


def as_scale(owner: str, scale: Scale | None) -> Tensor | None:
    """S as a tensor.

    Raises:
        UserError: it is neither a lower triangle with a positive diagonal nor positive.
    """
    if scale is None:
        return None
    given = as_numbers(scale, f"{owner}: scale")
    if given.dim() != 2 or len(given) != given.shape[1] or (given.triu(1) != 0).any():
        require_all_positive(owner, scale=given)
        return given
    if not given.isfinite().all():
        raise UserError(f"{owner}: scale holds numbers that are not finite, but must be a Cholesky factor")
    require_all_positive(owner, **{"the diagonal of scale": given.diagonal()})
    return given


def check_scale(owner: str, scale: Tensor | None, domain: Domain) -> None:
    """Raises `UserError` unless S fits the domain."""
    if scale is None:
        return
    shape, factor = tuple(domain.event_shape), (domain.size, domain.size)
    if tuple(scale.shape) not in (shape, factor):
        raise UserError(
            f"{owner}: scale has shape {tuple(scale.shape)}, but {domain} needs {shape}, or {factor} for a factor"
        )
    if tuple(scale.shape) == factor != shape and (scale.triu(1) != 0).any():
        raise UserError(f"{owner}: scale of shape {factor} must be a Cholesky factor: zero above the diagonal")


def length_unit(energy: Energy) -> Tensor | float:
    """The root of `energy.step_unit()`, in which leapfrog steps are given."""
    unit = energy.step_unit()
    return unit.sqrt() if isinstance(unit, Tensor) else math.sqrt(unit)


def kinetic_rise(end: Tensor, begin: Tensor) -> Tensor:
    """(|v'|^2 - |v|^2) / 2, `(B,)`, which rounds less than the difference of two sums."""
    return ((end - begin) * (end + begin)).flatten(1).sum(1) / 2


def kinetic(velocity: Tensor) -> Tensor:
    """|v|^2 / 2, `(B,)`."""
    return velocity.square().flatten(1).sum(1) / 2
