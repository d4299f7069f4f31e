"""Lightning's averages of the weights in a run that trains an energy: when they begin, of what, and what is kept."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import EMAWeightAveraging, WeightAveraging
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn
from torch import nn
from torch.optim.swa_utils import AveragedModel

from ebmlab.errors import UserError
from ebmlab.lightning.schedules import planned_steps

TRAINED = "current_model_state"  # where Lightning keeps the trained weights, beside the average in `state_dict`


def check_averages(trainer: pl.Trainer) -> None:
    """Raises `UserError` if an average begins after training, or not at the epoch that its settings name.

    If it has not begun by the end, Lightning puts the initial weights in place of the trained ones.
    """
    for callback in trainer.callbacks:  # type: ignore[attr-defined]
        if isinstance(callback, EMAWeightAveraging):
            _check_beginning(callback, trainer)


def _check_beginning(average: EMAWeightAveraging, trainer: pl.Trainer) -> None:
    """Lightning averages after each n-th step from a step on, and at the end of each epoch from an epoch on."""
    step, epoch = average.update_starting_at_step, average.update_starting_at_epoch
    by_step = average.update_every_n_steps > 0
    if by_step and step is None and epoch is not None:
        raise UserError(
            f"EMAWeightAveraging: update_starting_at_epoch is {epoch}, but Lightning averages after every step from "
            "the first one on: set update_starting_at_step instead, or with it update_every_n_steps to 0, which "
            "averages at the ends of epochs only"
        )
    steps, epochs = planned_steps(trainer), trainer.max_epochs or -1
    late_step = not by_step or 0 < steps <= (step or 0)
    if late_step and (epoch is None or 0 < epochs <= epoch):
        reason = "averages neither after steps nor after epochs"
        if by_step or epoch is not None:
            when = f"step {step} of {steps:g}" if by_step else f"epoch {epoch} of {epochs}"
            reason = f"begins at {when}, after training,"
        raise UserError(
            f"EMAWeightAveraging {reason} and would put the initial weights in place of the trained ones: let it begin "
            "earlier, or leave it out"
        )


def save_average(trainer: pl.Trainer, checkpoint: dict[str, Any]) -> None:
    """Makes `state_dict` of a checkpoint the weights that are evaluated: the average if it has begun, else the trained.

    Lightning saves the initial weights until an average begins, and never the average if only weights are saved.
    """
    for callback in _averages(trainer):
        if (average := callback._average_model) is None:
            continue
        if TRAINED in checkpoint:
            buffers = dict(trainer.lightning_module.named_buffers())
            live = {name: value for name, value in checkpoint[TRAINED].items() if name in buffers}
            checkpoint["state_dict"] = checkpoint["state_dict"] | live
        if int(average.n_averaged) == 0:
            checkpoint["state_dict"] = checkpoint.get(TRAINED, checkpoint["state_dict"])
        elif TRAINED not in checkpoint:
            names = checkpoint["state_dict"]
            weights = {name: p.detach() for name, p in average.module.named_parameters()}
            checkpoint["state_dict"] = {name: weights.get(name, value) for name, value in names.items()}


def average_parameters(learner: pl.LightningModule, trainer: pl.Trainer) -> None:
    """Leaves buffers out of the averages of a run, updates them at once, and forgets them when the training is over.

    Buffers are state, such as a step size that adapts: where the averages take the weights' place, buffers stay as they
    are. After the training, `trainer.test(ckpt_path=...)` evaluates what a new process would, the averaged weights.
    Lightning would load the trained ones.
    """
    for callback in _averages(trainer):
        if trainer.state.fn != TrainerFn.FITTING:
            callback._average_model = None
        elif (average := callback._average_model) is not None:
            average.use_buffers = False
            average.n_averaged = torch.zeros_like(average.n_averaged, device="cpu")  # reading it waits for no GPU
            if type(callback) is EMAWeightAveraging:  # a subclass may have another rule, such as a decay that grows
                average.update_parameters = partial(_update, average, _decay(average))  # type: ignore[method-assign]
            for name in ("_swap_models", "_copy_average_to_current"):
                setattr(callback, name, _with_buffers_of(callback, getattr(callback, name)))
            callback._swap_models = _once_begun(callback, callback._swap_models)  # type: ignore[method-assign]


def _decay(average: AveragedModel) -> float:
    """The factor of the average in its update."""
    one = torch.ones((), dtype=torch.float64)
    return float(average.avg_fn(one, 0 * one, 0))  # type: ignore[misc]


@torch.no_grad()
def _update(average: AveragedModel, decay: float, model: nn.Module) -> None:
    """Moves the average by 1 - decay towards the weights, all of them by one kernel; the first update copies them.

    Whole numbers stay what they were at the first update.
    """
    begun = int(average.n_averaged) > 0
    both = zip(average.module.parameters(), model.parameters(), strict=True)
    moved = [(m.detach(), p.detach().to(m)) for m, p in both if not begun or m.is_floating_point() or m.is_complex()]
    mine, weights = [m for m, _ in moved], [p for _, p in moved]
    if begun:
        torch._foreach_lerp_(mine, weights, 1 - decay)
    else:
        torch._foreach_copy_(mine, weights)
    average.n_averaged += 1


def _once_begun(callback: WeightAveraging, exchange: Callable[[pl.LightningModule], None]) -> Any:
    """Makes an exchange of weights wait for the average's first update: until then the average is the initial model."""

    def call(pl_module: pl.LightningModule) -> None:
        if _begun(callback):
            exchange(pl_module)

    return call


def _with_buffers_of(callback: WeightAveraging, exchange: Callable[[pl.LightningModule], None]) -> Any:
    """Makes an exchange of weights leave buffers alone, by copying the learner's into the average first."""

    def call(pl_module: pl.LightningModule) -> None:
        assert callback._average_model is not None
        own = callback._average_model.module.named_buffers()
        live = dict(pl_module.named_buffers())
        for name, buffer in own:
            if name in live:
                buffer.data.copy_(live[name].data)
        exchange(pl_module)

    return call


def load_trained(trainer: pl.Trainer, checkpoint: dict[str, Any]) -> None:
    """Resumes a run that no longer averages its weights from the trained ones, not from their average."""
    if trainer.state.fn != TrainerFn.FITTING and TRAINED in checkpoint:
        rank_zero_info("The checkpoint holds averaged weights: these are evaluated, not the trained ones.")
    if trainer.state.fn == TrainerFn.FITTING and TRAINED in checkpoint and not _averages(trainer):
        checkpoint["state_dict"] = checkpoint[TRAINED]
        rank_zero_warn(
            "the checkpoint's run averages its weights, and this one has no EMAWeightAveraging: it goes on from the "
            "trained weights and drops their average"
        )


def before_averages(trainer: pl.Trainer, callback: pl.Callback) -> None:
    """Has a callback see the weights at the end of training before averages replace them.

    Lightning calls `on_train_end` of its callbacks in the order of their list, and has no hook between the last step
    and the averages' hook. The callback therefore moves before them.
    """
    callbacks: list[pl.Callback] = trainer.callbacks  # type: ignore[attr-defined]
    swaps = next((i for i, c in enumerate(callbacks) if isinstance(c, WeightAveraging)), len(callbacks))
    if swaps < callbacks.index(callback):
        callbacks.insert(swaps, callbacks.pop(callbacks.index(callback)))


@contextmanager
def averaged(trainer: pl.Trainer, pl_module: pl.LightningModule) -> Iterator[None]:
    """Runs its body with the averaged weights of a `WeightAveraging` callback, if there is one that has begun.

    Until its first update the average is that of the initial weights, and the current ones are taken. Lightning swaps
    the weights around validation only, so that this calls the callback's hooks for validation.
    """
    callbacks = [c for c in _averages(trainer) if _begun(c)]
    for callback in callbacks:
        callback.on_validation_epoch_start(trainer, pl_module)
    try:
        yield
    finally:
        for callback in reversed(callbacks):
            callback.on_validation_epoch_end(trainer, pl_module)


def _begun(callback: WeightAveraging) -> bool:
    return callback._average_model is not None and int(callback._average_model.n_averaged) > 0


def _averages(trainer: pl.Trainer) -> list[WeightAveraging]:
    return [c for c in trainer.callbacks if isinstance(c, WeightAveraging)]  # type: ignore[attr-defined]
