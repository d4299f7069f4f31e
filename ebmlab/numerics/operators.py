"""Operators of torch, which programs that `torch.compile` makes call as they are."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

LIBRARY = torch.library.Library("ebmlab", "FRAGMENT")  # type: ignore[no-untyped-call]


def operator(signature: str, function: Callable[..., Tensor], shape: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """A function on a CPU as an operator, which knows no gradients.

    `torch.library.custom_op` makes one for any device and with gradients, which takes ten microseconds more a call.
    The compiler takes the result to follow from the arguments. In a program with gradients it merges calls with equal
    ones (torch 2.14.1, `fx_graph_cse`), and none in a program without. A function that draws therefore takes a seed.

    Args:
        signature: its name and its arguments, as torch writes them.
        function: of these arguments.
        shape: of the same arguments, to a tensor of the shape, type and layout of what the function returns.
    """
    name = signature.partition("(")[0]
    LIBRARY.define(f"{signature} -> Tensor")  # type: ignore[no-untyped-call]
    LIBRARY.impl(name, function, "CPU")  # type: ignore[no-untyped-call]
    torch.library.register_fake(f"ebmlab::{name}", shape, lib=LIBRARY)
    made: Callable[..., Tensor] = getattr(torch.ops.ebmlab, name).default
    return made
