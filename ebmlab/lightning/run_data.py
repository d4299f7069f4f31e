"""The data of a trainer's present run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

import pytorch_lightning as pl
from pytorch_lightning.trainer.states import TrainerFn

from ebmlab.data.foreign_loaders import PlainData
from ebmlab.data.interface import Data

Made = TypeVar("Made")


def data_of(trainer: pl.Trainer) -> Data:
    """The data of the trainer's present run.

    This is the datamodule if it is a `Data`. Otherwise it is a `PlainData` that wraps the datamodule or the loaders.

    Plain data have only the splits of the run's stage: "train" and "val" in `fit`, "val" in `validate`, "test" in
    `test`. No other function asks the trainer for its data.
    """
    sources = _data_sources(trainer)
    given = {split: source.instance for split, source in sources.items()}
    for owner in given.values():
        if isinstance(owner, Data):
            return owner
    asked = {**given, "model": trainer.lightning_module}
    loaders = {split: source.dataloader for split, source in sources.items() if source.is_defined()}
    owner = next((given[split] for split in [*loaders, *given]), None)
    energy: Any = trainer.lightning_module.energy
    title = "the run" if owner is None else type(owner).__name__
    return _kept_while(trainer, asked, lambda: PlainData(title, loaders, energy.domain))


def _data_sources(trainer: pl.Trainer) -> dict[str, Any]:
    """Where the loaders of the run's stage come from, by split. They have no public name before training starts."""
    sources: dict[Any, dict[str, Any]] = {
        TrainerFn.FITTING: {
            "train": trainer.fit_loop._data_source,
            "val": trainer.fit_loop.epoch_loop.val_loop._data_source,
        },
        TrainerFn.VALIDATING: {"val": trainer.validate_loop._data_source},
        TrainerFn.TESTING: {"test": trainer.test_loop._data_source},
    }
    return sources.get(trainer.state.fn, {"predict": trainer.predict_loop._data_source})


def _kept_while(trainer: pl.Trainer, asked: dict[str, Any], make: Callable[[], Made]) -> Made:
    """What `make` has made for a run, as long as it has the same data and the same model.

    It is kept as an attribute of the trainer, which the callbacks of a run share and which ends with the run. In a
    dictionary of weak references it would never end, for it refers to the trainer by its data.

    Args:
        trainer: of the run.
        asked: what the run has, by name.
        make: called if the trainer keeps nothing, or what was made for something else.
    """
    before, made = getattr(trainer, "_ebmlab_kept", (None, None))
    if before is None or before.keys() != asked.keys() or any(before[part] is not asked[part] for part in asked):
        made = make()
        trainer._ebmlab_kept = asked, made  # type: ignore[attr-defined]
    return cast(Made, made)
