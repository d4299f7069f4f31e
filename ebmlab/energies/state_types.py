"""States of any numeric type, as an energy takes them: the one place at which they are converted."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from ebmlab.domains import Domain
from ebmlab.errors import UserError

Method = TypeVar("Method", bound=Callable[..., Any])
TAKE_STATES = (  # methods of energies whose first argument is a batch of states, or of hidden units, h
    "value_and_grad",
    "gradient",
    "evaluate",
    "around",
    "flip_differences",
    "flip_energies",
    "value_differences",
    "conditional",
    "local_field",
    "hidden_given_visible",
    "hidden_logits",
    "visible_energy",
    "joint_energy",
    "visible_given_hidden",
    "sample_visible",
    "mean_visible",
    "responsibilities",
    "energies_at",
    "values",
    "increment",
    "merge",
)


def takes_states(method: Method) -> Method:
    """The method of an energy with its first argument in the energy's floating type.

    States are converted by `Energy.as_states`, and hidden units, an argument of the name h, by `Bipartite.as_hidden`.
    """
    if hasattr(method, "_takes_states"):
        return method
    name = list(inspect.signature(method).parameters)[1]
    convert = "as_hidden" if name == "h" else "as_states"

    @wraps(method)
    def entered(self: Any, *args: Any, **kwargs: Any) -> Any:
        if args:
            return method(self, getattr(self, convert)(args[0]), *args[1:], **kwargs)
        if name in kwargs:
            kwargs[name] = getattr(self, convert)(kwargs[name])
        return method(self, **kwargs)

    entered._takes_states = True  # type: ignore[attr-defined]
    return entered  # type: ignore[return-value]


def converted(x: Tensor, domain: Domain, dtype: torch.dtype) -> Tensor:
    """States `(B, *event)` in another floating type. Whole numbers and booleans must be the domain's values.

    Raises:
        UserError: x is no tensor of real numbers, holds whole numbers that are not the domain's, or the type is too
            coarse for them.
    """
    if isinstance(x, Tensor) and x.is_floating_point():
        return x.to(dtype)
    domain.validate(x)
    states = x.to(dtype)
    if not torch.equal(states.to(x.dtype), x):
        raise UserError(f"states of {domain} hold whole numbers that {dtype} rounds: take an energy in float64")
    return states


def floating_type(module: nn.Module) -> torch.dtype | None:
    """The precision of the first floating-point parameter; else of the first buffer; None if there is neither.

    `next(module.parameters())` takes ten times as long, and samplers ask at every evaluation.
    """
    return _first(module, "_parameters") or _first(module, "_buffers")


def _first(module: nn.Module, kind: str) -> torch.dtype | None:
    for tensor in module.__dict__[kind].values():
        if tensor is not None and tensor.is_floating_point():
            dtype: torch.dtype = tensor.dtype
            return dtype
    for child in module.__dict__["_modules"].values():
        if child is not None and (found := _first(child, kind)) is not None:
            return found
    return None
