"""Tries an optimizer and its schedule on small parameters, so that what cannot step is refused before training."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor, nn

from ebmlab.errors import UserError, one_line

_STEPS = 2


def try_optimizer(
    make_optimizer: Callable[[Any], Any], make_schedule: Callable[[Any], Any] | None, parameters: Iterable[Tensor]
) -> None:
    """Takes two steps with stand-ins of at most two entries an axis; the random numbers are left as they were.

    Args:
        make_optimizer: makes the optimizer of the parameters that it is given.
        make_schedule: makes the schedule of an optimizer, if there is one.
        parameters: of the energy.

    Raises:
        UserError: one of them cannot be made of these settings, or cannot take a step.
    """
    small = [nn.Parameter(torch.ones([min(size, 2) for size in p.shape], dtype=p.dtype)) for p in parameters]

    def closure() -> Tensor:
        for parameter in small:
            parameter.grad = torch.zeros_like(parameter)
        return torch.zeros(())

    part, schedule = "optimizer", None
    with torch.random.fork_rng(devices=[]), warnings.catch_warnings(action="ignore"), torch.enable_grad():
        try:
            optimizer = make_optimizer(small)
            closure()
            optimizer.step(closure)
            if make_schedule is None:
                return
            part = "lr_scheduler"
            schedule = make_schedule(optimizer)
            for _ in range(_STEPS):
                plateau = isinstance(schedule, torch.optim.lr_scheduler.ReduceLROnPlateau)
                schedule.step(0.0) if plateau else schedule.step()
        except UserError:
            raise
        except ZeroDivisionError as error:
            period = _zero(schedule) or f"a period of {_name(make_schedule)}"
            raise UserError(f"{part}: {period} is 0, but must be at least 1") from error
        except Exception as error:  # torch's classes raise any type
            raise UserError(f"{part}: {one_line(error)}") from error


def _zero(schedule: Any) -> str | None:
    """The name of a schedule's setting that is 0, such as T_max; None if there is none."""
    numbers = {} if schedule is None else vars(schedule)
    named = (name for name, value in numbers.items() if type(value) is int and value == 0 and name[:1] != "_")
    return next((name for name in named if name != "last_epoch"), None)


def _name(maker: Any) -> str:
    return str(getattr(maker, "__qualname__", None) or getattr(maker, "class_path", None) or "the schedule")
