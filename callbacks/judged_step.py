"""The numbers by which an optimizer step is judged. A GPU brings them while the next step is under way."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.optim import Adam, AdamW


@dataclass(frozen=True)
class JudgedStep:
    """What is known of a step before the optimizer takes it.

    Attributes:
        where: step and epoch of the run, in words.
        batch: its data.
        loss: of the batches whose gradients are added up; None if nobody has seen it.
        half: there are gradients, and float16 holds them somewhere.
        numbers: the gradient's norm, the loss, mean energies of data and of negatives, `(4,)`, on the CPU.
        arrived: the event after which `numbers` holds them; None if it does already.
    """

    where: str
    batch: Any
    loss: Tensor | None
    half: bool
    numbers: Tensor
    arrived: Any = None

    def values(self) -> list[float]:
        """The four numbers; waits for them."""
        if self.arrived is not None:
            self.arrived.synchronize()
        values: list[float] = self.numbers.tolist()
        return values


def can_hold_back(optimizer: Any) -> bool:
    """Whether the optimizer can leave out a step without the CPU knowing: torch's fused Adam and AdamW."""
    return type(optimizer) in (Adam, AdamW) and all(group["fused"] for group in optimizer.param_groups)


def hold_back(optimizer: Any, numbers: Tensor, limit: float) -> None:
    """Leaves out the next step on the GPU if it is bad, as torch's loss scaler does, and without waiting.

    Args:
        optimizer: one that can.
        numbers: those of `JudgedStep`, on the GPU.
        limit: of the difference between the mean energies.
    """
    norm, loss, data, negative = numbers.double().unbind()  # as the CPU computes with them
    good = norm.isfinite() & loss.isfinite() & ~((negative - data).abs() > limit)
    optimizer.found_inf = (~good).to(torch.float32)


def on_its_way(numbers: Tensor) -> tuple[Tensor, Any]:
    """The numbers on the CPU, and the event after which they are there."""
    copied, arrived = numbers.to("cpu", non_blocking=True), torch.cuda.Event()  # type: ignore[no-untyped-call]
    arrived.record()
    return copied, arrived
