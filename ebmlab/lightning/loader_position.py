"""The place of a plain `DataLoader` in its epoch, for an exact resume."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset


class LoaderPosition:
    """Brings torch's `DataLoader`, which has no state, to the batch at which a checkpoint was written.

    The order of an epoch follows from the random generators at its start. They are kept, so that a resumed run can
    make the order again and pass over the batches that it has seen. Loaders with a `state_dict`, such as those of
    `datamodules`, and those of iterable data sets are left alone.
    """

    def __init__(self) -> None:
        self._start: list[Tensor] | None = None  # the generators' states before the epoch's order is drawn
        self._drawn = False  # the order of the epoch that is about to begin is drawn

    def begin(self, trainer: pl.Trainer) -> None:
        """Draws the first epoch's order anew; Lightning has drawn it before random numbers were restored."""
        self.note(trainer)
        if self._start is not None:
            iter(trainer.fit_loop._data_fetcher)  # type: ignore[arg-type]
            self._drawn = True

    def note(self, trainer: pl.Trainer) -> None:
        """Keeps the states of the generators. An epoch begins, and its order is about to be drawn."""
        drawn, self._drawn = self._drawn, False
        if drawn:
            return
        generators = _generators(trainer)
        self._start = None if generators is None else [generator.get_state() for generator in generators]

    def state(self, trainer: pl.Trainer) -> dict[str, Any] | None:
        """The batches of the epoch so far, 0 at its end, and the generators at its start, one tensor each."""
        if self._start is None:
            return None
        loop = trainer.fit_loop.epoch_loop
        ended = loop._num_ready_batches_reached()
        batches = 0 if ended else loop.batch_progress.current.ready
        now = [generator.get_state() for generator in (_generators(trainer) or [])[1:]]
        return {"batches": batches, "start": self._start, "now": now}

    def restore(self, trainer: pl.Trainer, state: dict[str, Any]) -> None:
        """Goes to the saved place. The global generator is left where the order needed it."""
        generators = _generators(trainer)
        if generators is None or len(generators) != len(state["start"]):
            return
        if not state["batches"]:
            for generator, saved in zip(generators[1:], state["now"], strict=True):
                generator.set_state(saved)
            if not trainer.fit_loop.epoch_loop.restarted_on_last:  # else Lightning draws the next order by itself
                self.begin(trainer)
            return
        now = torch.get_rng_state()
        for generator, saved in zip(generators, state["start"], strict=True):
            generator.set_state(saved)
        self.begin(trainer)
        batches: Any = trainer.fit_loop._data_fetcher.iterator  # type: ignore[union-attr]
        for _ in range(state["batches"]):
            next(batches)
        torch.set_rng_state(now)


def _generators(trainer: pl.Trainer) -> list[torch.Generator] | None:
    """The global generator and the loader's own ones; None if the loader is left alone."""
    combined = trainer.fit_loop._combined_loader
    loaders = [] if combined is None else combined.flattened
    found = [torch.default_generator]
    for loader in loaders:
        if type(loader) is not DataLoader or isinstance(loader.dataset, IterableDataset):
            return None
        for owner in (loader, loader.sampler, loader.batch_sampler, getattr(loader.batch_sampler, "sampler", None)):
            generator = getattr(owner, "generator", None)
            if isinstance(generator, torch.Generator) and all(generator is not other for other in found):
                found.append(generator)
    return found if loaders else None
