"""What autocast must not round: the last layer of a network, and energies in closed form."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from functools import wraps
from typing import Any, TypeVar, cast

import torch
from torch import Tensor, nn

from ebmlab.numerics.noise import wide

Method = TypeVar("Method", bound=Callable[..., Any])


def unrounded(method: Method) -> Method:
    """Runs a method of a tensor with autocast switched off, the tensor in float32 at least.

    Half precision is too coarse for energies: near -300 its numbers are 0.25 apart in float16 and 2 apart in bfloat16.
    A constant that is added to E would change the law.
    """

    @wraps(method)
    def call(self: Any, x: Tensor, *args: Any, **kwargs: Any) -> Any:
        if not torch.is_autocast_enabled(x.device.type):
            return method(self, x, *args, **kwargs)
        with no_autocast(x.device):
            return method(self, wide(x), *args, **kwargs)

    return cast(Method, call)


def no_autocast(device: torch.device) -> AbstractContextManager[object]:
    """Switches autocast off on a device.

    Gradients are taken this way: under autocast the backward pass would round what the forward pass has not.
    """
    enabled = torch.is_autocast_enabled(device.type)
    return torch.autocast(device.type, enabled=False) if enabled else nullcontext()


def read_out(network: nn.Sequential, x: Tensor) -> Tensor:
    """The single output `(...)` of a network of x `(..., n)`, whose last layer autocast does not round."""
    *layers, last = network
    for layer in layers:
        x = layer(x)
    output: Tensor = _call(last, x)
    return output.squeeze(-1)


@unrounded
def _call(layer: nn.Module, x: Tensor) -> Tensor:
    result: Tensor = layer(x)
    return result
