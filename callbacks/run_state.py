"""Saves the random generators and replay buffers of all ranks in the checkpoint, for an exact resume."""

from __future__ import annotations

import hashlib
from collections.abc import Sized
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ebmlab.callbacks.requirements import buffer_of
from ebmlab.domains import Domain
from ebmlab.energies import Bipartite
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.packed_bits import packed, unpacked
from ebmlab.learners import Learner
from ebmlab.lightning.after_checkpoint import Unfinished
from ebmlab.lightning.checkpoints import check_monitors, save_after_validation, save_at_the_end, stop_again
from ebmlab.lightning.loader_position import LoaderPosition
from ebmlab.lightning.scores import Scores
from ebmlab.lightning.trainer import is_accumulating, resume_by_epochs, save_no_step_again
from ebmlab.numerics.streams import generator_states
from ebmlab.samplers import Tempered

BUFFER, HIDDEN = "replay_buffer", "replay_buffer_hidden"
KEY, OWED, PLACE, SAMPLES = "run_state", "owed_steps", "loader_position", "samples"
Streams = dict[str, Tensor]


class RunState(pl.Callback):
    """Makes a resumed run draw the random numbers that it would have drawn without the interruption.

    A checkpoint holds, for every rank, the states of torch's global generators and of the replay buffer, if there is
    one, with the hidden units that block Gibbs has drawn. Chains of two values take a bit for each coordinate. The
    generators are the CPU's, and the GPU's if the run uses one. The order of the data is restored by the loaders; those
    of `datamodules` resume within an epoch. A `ModelCheckpoint` with `save_last` also saves the end of training. If
    there are more ranks than wrote the checkpoint, the additional ones get new generators, with a warning. Buffers are
    distributed again over any number of ranks.

    The order of a plain `DataLoader` is restored, too. So is what Lightning does just after it has written a
    checkpoint: a step of `ReduceLROnPlateau`, the row of metrics. A `ModelCheckpoint` that monitors a score of
    validation takes no other weights than those that were validated for the best; see `Scores`.

    Example:
        >>> callback, checkpoint = RunState(), {}
        >>> trainer, module = pl.Trainer(callbacks=[callback], logger=False), pl.LightningModule()
        >>> callback.on_save_checkpoint(trainer, module, checkpoint)
        >>> checkpoint["run_state"]["cpu"].shape == torch.get_rng_state().unsqueeze(0).shape
        True
    """

    def __init__(self) -> None:
        self._loaded: Streams | None = None
        self._buffer: Tensor | None = None
        self._hidden: Tensor | None = None
        self._place: dict[str, Any] | None = None  # of the loader, in the checkpoint
        self._samples: int | None = None  # to train on, in the checkpoint
        self._before: Tensor | None = None  # the state of training's generator while validation runs
        self._position, self._unfinished, self._scores = LoaderPosition(), Unfinished(), Scores()

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        """Makes Lightning resume under `max_steps` as it does under `max_epochs`, and save the end of training."""
        resume_by_epochs(trainer)
        if stage == "fit":
            self._isolate_validation(trainer)
        for checkpoint in trainer.checkpoint_callbacks:
            if isinstance(checkpoint, ModelCheckpoint):
                save_at_the_end(checkpoint)
                save_after_validation(checkpoint)
                if stage == "fit":
                    self._scores.guard(checkpoint)

    def _isolate_validation(self, trainer: pl.Trainer) -> None:
        """Makes training go on from the random numbers before validation, whose loader draws some: it may be skipped.

        Lightning does not validate again where a run goes on from the last step of an epoch, but begins to.
        """
        loop = trainer.fit_loop.epoch_loop.val_loop
        validate, skip = loop.run, loop.increment_progress_to_evaluation_end

        def pass_over() -> None:
            with torch.random.fork_rng(devices=[]):
                skip()

        def run() -> Any:
            with torch.random.fork_rng(devices=[]):
                self._before = torch.get_rng_state()
                try:
                    return validate()
                finally:
                    self._before = None

        loop.run, loop.increment_progress_to_evaluation_end = run, pass_over  # type: ignore[method-assign]

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        check_monitors(trainer, pl_module)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Restores the states, after everything else that seeds or draws at the start of a run."""
        save_no_step_again(trainer)
        stop_again(trainer)
        if self._samples is not None:
            _warn_of_other_data(self._samples, _samples(trainer))
        loaded, self._loaded = self._loaded, None
        buffer = buffer_of(pl_module)
        if self._buffer is not None and buffer is not None:
            _warn_of_old_size(buffer.size, len(self._buffer), 1 if loaded is None else len(loaded["cpu"]))
            buffer.slots = _share(self._buffer, trainer).to(pl_module.device)
            if isinstance(pl_module, Learner) and not isinstance(pl_module.sampler, Tempered):
                buffer.slots = buffer.cold(pl_module.energy.domain)  # the checkpoint may have replicas
            if self._hidden is not None:
                buffer.restore_hidden(_share(self._hidden, trainer).to(pl_module.device))
        place, self._buffer, self._hidden, self._place = self._place, None, None, None
        self._scores.publish(trainer)
        if loaded is None or not trainer.fit_loop.is_resuming:
            self._position.begin(trainer)
            return
        ranks = len(loaded["cpu"])
        if ranks != trainer.world_size:
            rank_zero_warn(
                f"RunState: the checkpoint holds the random streams of {ranks} ranks and this run has "
                f"{trainer.world_size}: it goes on from other random numbers than the unbroken run"
            )
        if trainer.global_rank < ranks:
            _restore({name: states[trainer.global_rank] for name, states in loaded.items()}, pl_module.device)
        else:
            torch.manual_seed(_fresh_seed(loaded["cpu"], trainer.global_rank))
        if place is not None and ranks == trainer.world_size:
            own = {name: [each[trainer.global_rank] for each in place[name]] for name in ("start", "now")}
            self._position.restore(trainer, place | own)

    def on_train_epoch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._unfinished.enter("")
        self._unfinished.finish(trainer, pl_module)
        self._position.note(trainer)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        self._unfinished.enter("")
        self._unfinished.finish(trainer, pl_module)

    def on_train_batch_end(self, *_: Any) -> None:
        self._unfinished.enter("step")

    def on_validation_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._unfinished.validate()

    def on_validation_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._scores.note(trainer)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._unfinished.end_epoch(trainer)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._unfinished.enter("")

    def state_dict(self) -> dict[str, Any]:
        return self._scores.state()

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._scores.load(state_dict)

    def on_save_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        """Gathers the states of each generator, `(ranks, bytes)`. Lightning calls this on all ranks.

        Loggers first write the metrics that they hold back, which a resumed run will not log again.
        """
        self._unfinished.log(trainer)
        for logger in trainer.loggers:
            getattr(logger, "flush", bool)()
        _warn_of_lost_gradients(trainer)
        device = pl_module.device
        streams = generator_states(device) | ({} if self._before is None else {"cpu": self._before})
        checkpoint[KEY] = {name: _gather(trainer, state.to(device)) for name, state in streams.items()}
        checkpoint[SAMPLES] = _samples(trainer)
        if owed := self._unfinished.state(trainer):
            checkpoint[OWED] = owed
        if (place := self._position.state(trainer)) is not None:
            gathered = {name: [_gather(trainer, each.to(device)) for each in place[name]] for name in ("start", "now")}
            checkpoint[PLACE] = place | gathered
        buffer = buffer_of(pl_module)
        for key, states in () if buffer is None else ((BUFFER, buffer.slots), (HIDDEN, _small(buffer.hidden()))):
            if states is not None:
                checkpoint[key] = packed(trainer.strategy.all_gather(states).view(-1, *states.shape[1:]).cpu())

    def on_load_checkpoint(
        self, trainer: pl.Trainer, pl_module: pl.LightningModule, checkpoint: dict[str, Any]
    ) -> None:
        self._loaded = checkpoint.get(KEY)
        self._buffer, self._hidden = _slots(checkpoint, BUFFER), _slots(checkpoint, HIDDEN)
        self._place, self._samples = checkpoint.get(PLACE), checkpoint.get(SAMPLES)
        self._unfinished.load(checkpoint.get(OWED, []))
        if self._buffer is not None and isinstance(pl_module, Learner):
            _check_buffer(self._buffer, pl_module.energy.domain)
            if self._hidden is not None and isinstance(energy := pl_module.energy, Bipartite):
                _check_buffer(self._hidden, energy.units.domain(energy.num_hidden))
                if (lost := len(self._buffer) - len(self._hidden)) != 0:
                    raise UserError(
                        f"the checkpoint's replay buffer is damaged: its hidden units are {abs(lost)} too "
                        f"{'few' if lost > 0 else 'many'}; take an earlier checkpoint"
                    )
        if self._loaded is None:
            rank_zero_warn("RunState: the checkpoint was written without it; the run continues with new random numbers")


def renew(checkpoint: dict[str, Any], number: int) -> None:
    """Replaces the random states that `RunState` saved by new ones, which depend on the old ones and a number alone."""
    for name, states in checkpoint.get(KEY, {}).items():
        for state in states:
            seed = hashlib.sha256(state.cpu().numpy().tobytes() + str(number).encode()).digest()[:7]
            generator = torch.Generator(name).manual_seed(int.from_bytes(seed))
            state.copy_(generator.get_state())


def _share(states: Tensor, trainer: pl.Trainer) -> Tensor:
    """This rank's part of the states of all ranks."""
    share = len(states) // trainer.world_size
    return states[trainer.global_rank * share :][:share]


def _small(hidden: Tensor | None) -> Tensor | None:
    """Hidden units as bytes if they are bits."""
    bits = hidden is not None and bool(((hidden == 0) | (hidden == 1)).all())
    return hidden.to(torch.int8) if hidden is not None and bits else hidden


def _slots(checkpoint: dict[str, Any], key: str) -> Tensor | None:
    """The slots of all ranks, or their hidden units, if there were any, which earlier versions did not pack.

    Raises:
        UserError: they cannot be unpacked.
    """
    if key not in checkpoint:
        return None
    damaged = f"the checkpoint's replay buffer is damaged: {WHY}; take an earlier checkpoint"
    with explained(damaged, (AttributeError, KeyError, RuntimeError, TypeError, ValueError)):
        return unpacked(checkpoint[key])


def _check_buffer(slots: Tensor, domain: Domain) -> None:
    """Raises `UserError` unless a checkpoint's slots, their replicas or hidden units hold states of their domain."""
    states = slots if slots.is_floating_point() else slots.float()
    if states.dim() == 2 + len(domain.event_shape):
        states = states.flatten(0, 1)
    with explained(f"the checkpoint's replay buffer is damaged: {WHY}; take an earlier checkpoint", UserError):
        domain.validate(states)


def _samples(trainer: pl.Trainer) -> int | None:
    """The number of samples to train on; None where the loader does not tell."""
    data = getattr(loader := trainer.train_dataloader, "data", getattr(loader, "dataset", None))
    return len(data) if isinstance(data, Sized) else None


def _warn_of_other_data(before: int, now: int | None) -> None:
    if now not in (None, before):
        rank_zero_warn(
            f"there are {now} samples to train on, and when the checkpoint was written there were {before}: samples "
            "that were held out may be trained on now; start a new run for other data"
        )


def _warn_of_old_size(size: int, slots: int, ranks: int) -> None:
    if not size <= slots < size + ranks:  # every rank rounds its share up
        rank_zero_warn(
            f"RunState: the checkpoint's replay buffer has {slots} slots and goes on with them; start.size, now "
            f"{size}, counts in new runs only"
        )


def _warn_of_lost_gradients(trainer: pl.Trainer) -> None:
    epoch = trainer.fit_loop.epoch_loop
    if is_accumulating(trainer):
        rank_zero_warn(
            f"RunState: this checkpoint is written after batch {epoch.batch_progress.current.ready} of the epoch, amid "
            f"the {trainer.accumulate_grad_batches} whose gradients accumulate, and lacks these. A run resumed from it "
            "differs from the unbroken one; validate and save at multiples of accumulate_grad_batches"
        )


def _restore(states: Streams, device: torch.device) -> None:
    torch.set_rng_state(states["cpu"].cpu().clone())  # a row of a larger tensor makes torch crash
    if device.type != "cpu" and device.type in states:
        torch.get_device_module(device).set_rng_state(states[device.type].cpu().clone(), device)


def _gather(trainer: pl.Trainer, state: Tensor) -> Tensor:
    return trainer.strategy.all_gather(state).view(trainer.world_size, -1).cpu()


def _fresh_seed(states: Tensor, rank: int) -> int:
    """A seed that depends on the checkpoint and the rank alone."""
    with torch.random.fork_rng(devices=[]):
        torch.set_rng_state(states[0].cpu().clone())
        return int(torch.randint(2**62, (rank + 1,))[-1])
