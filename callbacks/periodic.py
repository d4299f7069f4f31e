"""The base class of evaluations: when they run, and how they draw samples."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from dataclasses import asdict, replace
from fnmatch import fnmatch
from itertools import takewhile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities import rank_zero_info
from torch import Tensor, nn

from ebmlab.callbacks.image_log import log_image
from ebmlab.callbacks.isolated_evaluation import isolated
from ebmlab.callbacks.requirements import kind_of
from ebmlab.data.interface import Images
from ebmlab.evaluation.headline import Headline
from ebmlab.io.old_names import current_callback
from ebmlab.learners import Learner
from ebmlab.lightning.averages import averaged
from ebmlab.lightning.checkpoints import add_to_last, watch
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.ranks import seed_of_rank
from ebmlab.settings import require_count

if TYPE_CHECKING:
    from matplotlib.figure import Figure

FAST_DEV_SAMPLES = 16
FAST_DEV_STEPS = 2
# Settings that change neither what is evaluated nor how:
NO_STATE = {"every_n_epochs", "at_start", "batch_size", "compile"}


class PeriodicEvaluation(pl.Callback):
    """Evaluates before the first step, after every n-th epoch, at the end of fit, and in `validate` and `test`.

    A subclass overrides `evaluate`, which runs in eval mode, without gradients and with its own random numbers, so that
    it does not change the training. If it has a number that counts, `headline_of` names it, and the run ends with it.
    If the run averages its weights (Lightning's `EMAWeightAveraging`), the averaged weights are evaluated.

    Data may give each sample a weight. Means then count samples by it. Comparisons and pictures take samples that are
    drawn by it, some several times and others not at all (`ebmlab.data.weighted`).

    A score is that of the weights at its evaluation. A `ModelCheckpoint` that monitors it takes no other weights for
    the best. A learning rate that falls on a plateau changes only after an evaluation. The evaluation at the end of fit
    is a candidate for the best only if the number of epochs is a multiple of `every_n_epochs`.

    A subclass must keep each of its settings in an attribute of the same name. The settings identify the callback in a
    checkpoint, so that one trainer can have two callbacks of one class if their settings differ. The names of the
    second's metrics and pictures end in `_2`.

    Args:
        every_n_epochs: evaluate after each n-th training epoch (and after the last).
        at_start: also evaluate before the first training step, but not when a run is resumed, nor in a `fast_dev_run`.
        seed: of the evaluation's random numbers, the same each time, so that pictures and scores can be compared.

    Attributes:
        headline: the score of the last evaluation that counts, with that of the first one in training.
        picture: the first picture of the last evaluation in this process, on rank 0.

    Example:
        >>> class MeanEnergy(PeriodicEvaluation):
        ...     def evaluate(self, trainer, pl_module):
        ...         x = torch.cat(list(self.samples(trainer, pl_module, num_samples=100)))
        ...         self.log_metrics(trainer, pl_module, {"samples/energy": float(pl_module(x).mean())})
    """

    logs: tuple[str, ...] = ()  # the names of all metrics, which `*` may end
    needs_images = False  # left out with a note where the data are none, unless a score of it is monitored

    def __init__(self, every_n_epochs: int = 1, at_start: bool = True, *, seed: int = 0) -> None:
        require_count(type(self).__name__, every_n_epochs=every_n_epochs)
        self.every_n_epochs = every_n_epochs
        self.at_start = at_start
        self.seed = seed
        self.headline: Headline | None = None
        self.picture: Path | None = None
        self._last_step = -1
        self._is_left_out = False
        self._metrics: dict[str, float] = {}
        self._watched: set[str] = set()

    @property
    def state_key(self) -> str:
        """The class and its settings: the name under which a checkpoint holds the callback's state."""
        names = [name for name in inspect.signature(type(self)).parameters if name not in NO_STATE]
        settings = {name: vars(self)[name] for name in names if name in vars(self)}
        plain = {k: type(v).__name__ if isinstance(v, nn.Module) else v for k, v in settings.items()}
        return self._generate_state_key(**plain)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Raises `UserError` if the run cannot be evaluated; called before it starts."""

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        unfit = without_images(trainer)
        self._is_left_out = self in unfit
        if not self._is_left_out:
            self.check(trainer, pl_module)
        elif unfit[0] is self:
            names = ", ".join(type(callback).__name__ for callback in unfit)
            rank_zero_info(f"{data_of(trainer).title} gives no images: {names} left out.")

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Evaluates and logs; called on every rank."""
        raise NotImplementedError

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline | None:
        """What of the metrics of an evaluation counts most; None if nothing does."""
        return None

    def is_due(self, trainer: pl.Trainer) -> bool:
        """Whether the present weights have not been evaluated yet in this training, as they are at its end."""
        return not self._is_left_out and self._last_step != trainer.global_step

    def samples(
        self,
        trainer: pl.Trainer,
        learner: Learner,
        num_samples: int,
        num_steps: int | None = None,
        denoise: bool = False,
        batch_size: int | None = None,
        title: str = "sampling",
    ) -> Iterator[Tensor]:
        """Runs this rank's share of new chains from noise and yields their last states, batch by batch.

        A rank without a share yields one empty batch, so that every rank has something to gather.

        Args:
            trainer: tells the ranks, and whether to show a progress bar.
            learner: its sampler moves the chains.
            num_samples: number of chains, over all ranks.
            num_steps: steps of each chain; default as in training.
            denoise: yield E[v | h] in place of v.
            batch_size: chains that run at once; default all.
            title: of the progress bar, which appears if the chains take long.
        """
        torch.manual_seed(seed_of_rank(self.seed, trainer.global_rank))
        share = num_samples // trainer.world_size + (trainer.global_rank < num_samples % trainer.world_size)
        size = batch_size or max(share, 1)
        sizes = [min(size, share - i) for i in range(0, share, size)] or [0]
        yield from learner.draws(sizes, num_steps, denoise=denoise, title=title, shown=shows_progress(trainer))

    def key(self, trainer: pl.Trainer, name: str) -> str:
        """The name of a metric or picture: `name`, or `name_2` for the second of `alike` callbacks, and so on."""
        before = takewhile(lambda c: c is not self, trainer.callbacks)  # type: ignore[attr-defined]
        place = 1 + sum(map(self.alike, before))
        return name if place == 1 else f"{name}_{place}"

    def alike(self, other: pl.Callback) -> bool:
        """Whether another callback logs under the same names."""
        return type(other) is type(self)

    def log_image(self, trainer: pl.Trainer, name: str, image: Figure | Tensor, caption: str = "") -> None:
        """Writes a picture to the run's folder and sends it to the loggers; see `callbacks.image_log.log_image`."""
        path = log_image(trainer, self.key(trainer, name), image, caption=caption)
        self.picture = self.picture or path

    def log_metrics(self, trainer: pl.Trainer, pl_module: pl.LightningModule, metrics: dict[str, float]) -> None:
        """Sends metrics to the loggers and to `trainer.callback_metrics`, where a ModelCheckpoint finds them.

        `LightningModule.log` cannot be called before the first step or after the last. It is therefore used in
        `validate` and `test` only, where it also fills the table that they print. The step is the number of steps
        taken, while Lightning's own metrics count from 0. A logger that has `count_steps_taken` is told which metrics
        these are.
        """
        fitting = trainer.state.fn == TrainerFn.FITTING
        if (found := self.headline_of(trainer, metrics)) is not None:
            before = self.headline if fitting else None
            begin = None if before is None else before.value if before.begin is None else before.begin
            self.headline = replace(found, begin=begin)
        metrics = {self.key(trainer, name): value for name, value in metrics.items()}
        if not fitting:
            pl_module.log_dict(metrics)
            return
        self._metrics.update(metrics)
        self._publish(trainer, metrics)
        for logger in trainer.loggers:
            if count_steps_taken := getattr(logger, "count_steps_taken", None):
                count_steps_taken(metrics)
            logger.log_metrics({**metrics, "epoch": epoch_of(trainer)}, step=trainer.global_step)

    def limit(self, trainer: pl.Trainer, num_samples: int, num_steps: int) -> tuple[int, int]:
        """Returns both numbers, reduced under `fast_dev_run`."""
        if not trainer.fast_dev_run:  # type: ignore[attr-defined]
            return num_samples, num_steps
        return min(num_samples, FAST_DEV_SAMPLES), min(num_steps, FAST_DEV_STEPS)

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._watched.clear()
        self._publish(trainer, self._metrics)  # a resumed run has metrics already
        brief: bool = trainer.fast_dev_run  # type: ignore[attr-defined]
        if self.at_start and trainer.global_step == 0 and not brief:
            self._run(trainer, pl_module)

    def on_train_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if (trainer.current_epoch + 1) % self.every_n_epochs == 0:
            self._run(trainer, pl_module)

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self.is_due(trainer):
            self._run(trainer, pl_module)
            add_to_last(trainer, self)

    def on_fit_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Catches up on the last evaluation in a run that was killed during it and has nothing left to train."""
        self.on_train_end(trainer, pl_module)

    def on_validation_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if trainer.state.fn == TrainerFn.VALIDATING:
            self._run(trainer, pl_module)

    def on_test_epoch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._run(trainer, pl_module)

    def state_dict(self) -> dict[str, Any]:
        headline = None if self.headline is None else asdict(self.headline)
        return {"last_step": self._last_step, "metrics": self._metrics, "headline": headline}

    def on_load_checkpoint(self, trainer: pl.Trainer, module: pl.LightningModule, checkpoint: dict[str, Any]) -> None:
        """Finds the state that an older checkpoint holds under an earlier name of the class."""
        checkpoint["callbacks"] = {current_callback(key): state for key, state in checkpoint["callbacks"].items()}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._last_step = state_dict["last_step"]
        self._metrics = dict(state_dict["metrics"])
        self.headline = Headline.kept(state_dict.get("headline"))  # older checkpoints have none

    def _run(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        if self._is_left_out:
            return
        self.picture = None
        with averaged(trainer, pl_module), isolated(pl_module, self.seed):
            self.evaluate(trainer, pl_module)
        if trainer.state.fn == TrainerFn.FITTING:
            self._last_step = trainer.global_step

    def _publish(self, trainer: pl.Trainer, metrics: dict[str, float]) -> None:
        new = metrics.keys() - self._watched
        self._watched |= new
        watch(trainer, new, self.every_n_epochs, self._is_stale, type(self).__name__)
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})

    def _is_stale(self, trainer: pl.Trainer, score: Tensor | None) -> bool:
        return self._last_step != trainer.global_step


def without_images(trainer: pl.Trainer) -> list[pl.Callback]:
    """The callbacks that need images and are left out, since the data are none and nothing monitors their scores."""
    callbacks: list[Any] = trainer.callbacks  # type: ignore[attr-defined]
    wanting = [callback for callback in callbacks if getattr(callback, "needs_images", False)]
    if not wanting or kind_of(data_of(trainer)) in (None, Images):
        return []
    monitored = [getattr(callback, "monitor", None) or "" for callback in callbacks]
    return [c for c in wanting if not any(fnmatch(name, log) for name in monitored for log in c.logs)]


def shows_progress(trainer: pl.Trainer) -> bool:
    """Whether this process may show progress bars."""
    return trainer.is_global_zero and trainer.progress_bar_callback is not None


def epoch_of(trainer: pl.Trainer) -> int:
    """The number of the current epoch, or of the last one after training, from 0, as checkpoints are named."""
    started: int = trainer.fit_loop.epoch_progress.current.started  # type: ignore[attr-defined]
    return max(started - 1, 0)


def noise(learner: Learner, n: int) -> Tensor:
    """Initial states `(n, *event)` of new chains, on the learner's device and in its dtype."""
    x = learner.energy.random(n)
    return x.to(next(learner.energy.parameters(), x).dtype)
