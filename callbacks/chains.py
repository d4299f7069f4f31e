"""What callbacks that draw samples ask of the learner and the data."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from ebmlab.energies import Bipartite
from ebmlab.errors import UserError


def image_data(trainer: pl.Trainer, callback: pl.Callback) -> Any:
    """The run's datamodule, which must hold images."""
    name = type(callback).__name__
    data = getattr(trainer, "datamodule", None)
    if data is None:
        raise UserError(
            f"{name} needs the run's datamodule (real images, and how states become images): give the trainer one"
        )
    if len(data.event_shape) != 3:
        raise UserError(
            f"{name} needs images, but {type(data).__name__} has events of shape {tuple(data.event_shape)}: "
            f"use callbacks.Density2D for points in the plane, or remove {name}"
        )
    return data


def require_chains(pl_module: pl.LightningModule, callback: pl.Callback) -> Any:
    """The learner, which must be able to run its sampler's chains."""
    if not hasattr(pl_module, "trajectory"):
        raise UserError(
            f"{type(callback).__name__} draws samples, but {type(pl_module).__name__} has no sampler: "
            f"use it with ContrastiveDivergence"
        )
    return pl_module


def chain_length(learner: Any, num_steps: int | None) -> int:
    """Steps of a chain: as told, or as in training."""
    return int(learner.num_steps if num_steps is None else num_steps)


def check_length(callback: pl.Callback, num_steps: int | None) -> None:
    """Raises `UserError` unless a chain of the callback can take that many steps."""
    if num_steps is not None and num_steps < 1:
        raise UserError(f"{type(callback).__name__}: num_steps is {num_steps}, but a chain must take at least 1 step")


def noise(learner: Any, n: int) -> Tensor:
    """First states `(n, *event)` of fresh chains, on the learner's device and in its dtype."""
    x: Tensor = learner.energy.random(n)
    return x.to(next(learner.energy.parameters(), x).dtype)


def shows_mean(learner: Any, denoise: bool | None) -> bool:
    """Whether to show E[v | h]: as told, or, where None is told, if the energy has hidden units."""
    return isinstance(learner.energy, Bipartite) if denoise is None else denoise


def to_images(data: Any, x: Tensor) -> Tensor:
    """States as images `(B, C, H, W)` in [0, 1]."""
    images: Tensor = data.denormalize(x)
    return images.clamp(0, 1)
