"""What callbacks require of a run, and ask of it; errors are one line."""

from __future__ import annotations

import math
from typing import Any, TypeVar

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.data.interface import SPLITS, Data, Graphs, Images, Table
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.learners import Learner, ReplayBuffer
from ebmlab.lightning.run_data import data_of
from ebmlab.lightning.schedules import planned_steps
from ebmlab.samplers import Sampler

Kind = TypeVar("Kind")
_SHOWN: dict[type, tuple[str, str]] = {  # in words, and what to use
    Images: ("images", "callbacks.Density2D for points in the plane"),
    Graphs: ("graphs", "datamodules.EgoSmall"),
    Table: ("rows of numbers and classes", "Arrays with domain mixed"),
}


def learner_of(pl_module: pl.LightningModule, callback: pl.Callback) -> Learner:
    """The module as a `Learner`, which can run its sampler's chains."""
    if not isinstance(pl_module, Learner):
        raise UserError(
            f"{type(callback).__name__} draws samples, but {type(pl_module).__name__} has no sampler: "
            "use it with ContrastiveDivergence or RatioMatching"
        )
    return pl_module


def energy_of(pl_module: pl.LightningModule) -> Energy:
    """The energy that the module fits."""
    energy: Any = pl_module.energy
    assert isinstance(energy, Energy)
    return energy


def energies_at(pl_module: pl.LightningModule, x: torch.Tensor, batch_size: int = 1000) -> torch.Tensor:
    """Energies of states, in any shape `(n, ...)`: `(n,)`, float64, on the CPU."""
    energy = energy_of(pl_module)
    parts = torch.split(x.reshape(len(x), *energy.domain.event_shape), batch_size)
    return torch.cat([energy(part.to(pl_module.device, energy.dtype)) for part in parts]).cpu().double()


def of_all_ranks(pl_module: pl.LightningModule, x: torch.Tensor) -> torch.Tensor:
    """The rows `(n, ...)` of all ranks, one after the other; on each rank there must be as many."""
    if pl_module.trainer.world_size == 1:
        return x
    gathered = pl_module.all_gather(x.to(pl_module.device))
    assert isinstance(gathered, torch.Tensor)
    return gathered.flatten(0, 1)


def buffer_of(pl_module: pl.LightningModule) -> ReplayBuffer | None:
    """The learner's replay buffer, if it has one."""
    start = getattr(pl_module, "start", None)  # only some learners have it
    return start if isinstance(start, ReplayBuffer) else None


def training_steps(trainer: pl.Trainer, callback: pl.Callback) -> int:
    """Optimizer steps of the whole training, which must have an end."""
    total = planned_steps(trainer)
    if not math.isfinite(total):
        name = type(callback).__name__
        raise UserError(
            f"{name}: training has no end; set trainer.max_epochs, or trainer.max_steps if the data have no length"
        )
    return int(total)


def warn_of_new_length(callback: pl.Callback, before: int, now: int) -> None:
    """Warns if a resumed training is longer or shorter than planned, for what depends on the share that has passed.

    Args:
        callback: changes with this share.
        before: optimizer steps of the training that wrote the checkpoint; 0 if they are not known.
        now: those of the resumed one.
    """
    if before and before != now:
        rank_zero_warn(
            f"{type(callback).__name__}: the run has {now} steps now, and had {before}: from here on it goes by its "
            f"share of {now}, which takes it back or ahead"
        )


def known_data(trainer: pl.Trainer, kind: type[Kind], callback: pl.Callback, what: str, example: str) -> Kind:
    """The run's data, which must implement a protocol of `ebmlab.data.interface`.

    Args:
        trainer: of the run.
        kind: the protocol.
        callback: requires the data.
        what: the protocol in words.
        example: a datamodule that implements it.
    """
    data: object = data_of(trainer)
    if not isinstance(data, kind):
        name, given = type(callback).__name__, data_of(trainer).title
        raise UserError(f"{name} needs {what}, got {given}: use {example}, or remove {name}")
    return data


def split_of(data: Data, wanted: str) -> str:
    """The wanted split, or another one if the current run does not have it."""
    return next((split for split in (wanted, *SPLITS) if data.has(split)), wanted)


def held_out(trainer: pl.Trainer) -> str:
    """The split on which models are judged: "test" in `test`, else "val"."""
    return "test" if trainer.state.fn == TrainerFn.TESTING else "val"


def require_split(data: Data, split: str, callback: pl.Callback, mend: str) -> None:
    """Raises `UserError` unless the current run has data of the split."""
    if not data.has(split):
        raise UserError(f"{type(callback).__name__} needs {split} data, which {data.title} does not give here: {mend}")


def require_exact(sampler: Sampler, callback: pl.Callback) -> None:
    """Raises `UserError` unless the sampler, which is the callback's `sampler`, keeps the law of the energy."""
    if not sampler.exact:
        raise UserError(
            f"{type(callback).__name__} needs an exact sampler, and {type(sampler).__name__} is not: set its `sampler` "
            "to one that is, such as DMALA, GWG, or BlockGibbs for RBMs"
        )


def data_showing(trainer: pl.Trainer, kind: type, callback: pl.Callback) -> Data:
    """The run's data, which must show their states as this: `Images`, `Graphs` or `Table`."""
    data, name = data_of(trainer), type(callback).__name__
    if kind_of(data) is not kind:
        what, instead = _SHOWN[kind]
        raise UserError(
            f"{name} needs {what}, but {data.title} has events of shape {data.event_shape}: use {instead}, or remove "
            f"{name}"
        )
    return data


def images(data: Data, x: torch.Tensor) -> torch.Tensor:
    """States of image data as images `(B, C, H, W)` in [0, 1]."""
    return shown_as(Images, data, x).values


def shown_as(kind: type[Kind], data: Data, x: torch.Tensor) -> Kind:
    """States of data of that kind."""
    shown: object = data.show(x)
    assert isinstance(shown, kind)
    return shown


def kind_of(data: Data) -> type | None:
    """The type that `show` returns; None if the shape of events is not known."""
    if data.event_shape is None:
        return None
    return type(data.show(torch.zeros(1, *data.event_shape)))
