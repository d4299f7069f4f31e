"""Returns a run that has diverged to a checkpoint that it wrote before, with other settings and random numbers."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from lightning_fabric.plugins import CheckpointIO
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.utilities import rank_zero_info, rank_zero_warn

from ebmlab.callbacks.run_state import RunState, renew
from ebmlab.errors import UserError
from ebmlab.io.files import load_checkpoint, save, write_table
from ebmlab.learners import ContrastiveDivergence

MOST = 1000.0  # times as many steps
GOOD = "good"  # the folder beside the checkpoints


class RolledBack(Exception):
    """Training has stopped, and goes on from `checkpoint`.

    The command line does so by itself. In Python, call `fit` of a new trainer and a new learner with it.

    Args:
        checkpoint: the checkpoint to which the run returns.
    """

    def __init__(self, checkpoint: Path) -> None:
        super().__init__(f'the run has diverged: go on by fit(..., ckpt_path="{checkpoint}")')
        self.checkpoint = checkpoint


class Rollback:
    """Keeps good checkpoints, and makes the one from which a diverged run goes on.

    A rollback replaces the run's last checkpoint by the last good one. New states of the random generators, and what
    has happened, are added. The run then resumes from it. So a run that is killed, at whatever moment, and resumed is
    the run that was not killed. Either it resumes before the divergence, meets it again and rolls back in the same way.
    Or it resumes from the rollback's checkpoint.

    Args:
        max_rollbacks: how many a run may take.
        learning_rate_factor: the learning rate is multiplied by it at each rollback, whatever its schedule.
        num_steps_factor: the sampler's steps are multiplied by it at each rollback, and rounded up.

    Attributes:
        history: of each rollback the step of the divergence and that of the checkpoint. Then the product of the factors
            of the learning rate, the sampler's steps, and the cause.
        drifting: a checkpoint that is written now is not a good one.

    Raises:
        UserError: a setting is out of its range.
    """

    def __init__(self, max_rollbacks: int, learning_rate_factor: float = 0.5, num_steps_factor: float = 1.0) -> None:
        if max_rollbacks < 1 or not 0 < learning_rate_factor <= 1 or not 1 <= num_steps_factor <= MOST:
            raise UserError(
                f"DivergenceGuard: max_rollbacks is {max_rollbacks}, learning_rate_factor {learning_rate_factor} and "
                f"num_steps_factor {num_steps_factor}; need at least 1, above 0 and at most 1, and from 1 to {MOST:g}"
            )
        self.max_rollbacks = max_rollbacks
        self.learning_rate_factor = learning_rate_factor
        self.num_steps_factor = num_steps_factor
        self.history: list[dict[str, Any]] = []
        self.drifting = False
        self._new = False  # the run is about to start from the checkpoint of a rollback
        self._folder: Path | None = None

    def state_dict(self) -> dict[str, Any]:
        """What a checkpoint keeps."""
        return {"history": self.history, "drifting": self.drifting, "new": self._new}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores what `state_dict` returned."""
        self.history, self.drifting, self._new = list(state["history"]), state["drifting"], state["new"]

    @property
    def left(self) -> int:
        """How many more the run may take."""
        return max(0, self.max_rollbacks - len(self.history))

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Has every checkpoint that the trainer writes come by here.

        Raises:
            UserError: the run's other callbacks or its learner cannot be rolled back.
        """
        callbacks = trainer.callbacks  # type: ignore[attr-defined]
        for kind in (RunState, ModelCheckpoint):
            if not any(isinstance(c, kind) for c in callbacks):
                raise UserError(f'DivergenceGuard: on_divergence "rollback" needs the callback {kind.__name__}: add it')
        if self.num_steps_factor > 1 and not isinstance(pl_module, ContrastiveDivergence):
            raise UserError(
                f"DivergenceGuard: num_steps_factor is {self.num_steps_factor}, but {type(pl_module).__name__} runs no "
                "chains in training: leave it at 1"
            )
        trainer.strategy.checkpoint_io = _Watched(trainer.strategy.checkpoint_io, self)

    def start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        """Applies and logs earlier rollbacks, and keeps the state from which this process starts."""
        last = next(c for c in trainer.checkpoint_callbacks if isinstance(c, ModelCheckpoint))
        self._folder = Path(str(last.dirpath), GOOD)
        if trainer.is_global_zero:
            for path in self._kept():  # what a killed or diverged run has left
                if _step(path) > trainer.global_step:
                    path.unlink()
        if trainer.ckpt_path is None:
            trainer.save_checkpoint(self._folder / "step=0.ckpt", weights_only=False)
        elif trainer.is_global_zero and not self._new:
            self.keep(load_checkpoint(Path(trainer.ckpt_path)))
        if self.history:
            self._apply(trainer, pl_module)
        if self._new:
            self._log(trainer)
        self._new = False

    def keep(self, checkpoint: dict[str, Any]) -> None:
        """Keeps a checkpoint of this step unless it is not a good one, and deletes the oldest."""
        if self._folder is None or self.drifting or "optimizer_states" not in checkpoint:
            return
        path = self._folder / f"step={checkpoint['global_step']}.ckpt"
        if not path.exists():
            save(checkpoint, path, sync=True)
        for old in self._kept()[: -self.max_rollbacks - 1]:
            old.unlink()

    def back(self, trainer: pl.Trainer, pl_module: pl.LightningModule, key: str, cause: str) -> RolledBack:
        """Writes the checkpoint from which the run goes on. All ranks call this.

        Args:
            trainer: of the run.
            pl_module: its learner.
            key: under which checkpoints keep the state of the callback that owns this object.
            cause: why the run has diverged, one line.

        Returns:
            What the caller has to raise.

        Raises:
            UserError: none of the kept checkpoints can be read.
        """
        path = self._write(trainer, pl_module, key, cause) if trainer.is_global_zero else Path()
        return RolledBack(trainer.strategy.broadcast(path))

    def _write(self, trainer: pl.Trainer, pl_module: pl.LightningModule, key: str, cause: str) -> Path:
        assert self._folder is not None
        checkpoint = self._good(trainer.global_step)
        rate, num_steps = 1.0, getattr(pl_module, "num_steps", 0)
        if self.history:
            rate = self.history[-1]["learning_rate_factor"]
        entry = {
            "step": trainer.global_step,
            "to_step": checkpoint["global_step"],
            "learning_rate_factor": rate * self.learning_rate_factor,
            "num_steps": math.ceil(num_steps * self.num_steps_factor),
            "cause": cause,
        }
        history = [*self.history, entry]
        renew(checkpoint, len(history))
        checkpoint["callbacks"][key] = {"history": history, "drifting": False, "new": True}
        saves_last = any(getattr(c, "save_last", None) for c in trainer.checkpoint_callbacks)
        path = self._folder.parent / ("last.ckpt" if saves_last else "rollback.ckpt")
        save(checkpoint, path, sync=True)
        return path

    def _good(self, now: int) -> dict[str, Any]:
        """The newest good checkpoint; an earlier one than last time if the run has come no further since."""
        paths = [path for path in self._kept() if _step(path) <= now]
        if self.history and now <= self.history[-1]["step"]:
            paths = [path for path in paths if _step(path) < self.history[-1]["to_step"]] or paths[:1]
        for path in reversed(paths):
            try:
                return load_checkpoint(path)
            except UserError as error:
                rank_zero_warn(str(error))
        raise UserError(f"the run has diverged, and none of the checkpoints in {self._folder} can be read")

    def _apply(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        last = self.history[-1]
        for optimizer in trainer.optimizers:
            _scale_learning_rate(optimizer, last["learning_rate_factor"])
        if isinstance(pl_module, ContrastiveDivergence):
            pl_module.burn_in += last["num_steps"] - pl_module.num_steps  # as many states are used as before
            pl_module.num_steps = last["num_steps"]

    def _log(self, trainer: pl.Trainer) -> None:
        last, number = self.history[-1], len(self.history)
        rank_zero_info(
            f"DivergenceGuard: rollback {number} of {self.max_rollbacks}, from step {last['step']} to step "
            f"{last['to_step']}: new random numbers, learning rate times {last['learning_rate_factor']:g}, "
            f"{last['num_steps']} sampler steps; cause: {last['cause']}"
        )
        metrics = {f"rollback/{k}": float(last[k]) for k in ("step", "learning_rate_factor", "num_steps")}
        for logger in trainer.loggers:
            logger.log_metrics({"rollback/number": float(number), **metrics}, step=trainer.global_step)
        if trainer.is_global_zero:
            write_table(Path(trainer.default_root_dir, "rollbacks.csv"), list(last), self.history)

    def _kept(self) -> list[Path]:
        """The kept checkpoints, from old to new."""
        return sorted(self._folder.glob("step=*.ckpt"), key=_step) if self._folder else []


class _Watched(CheckpointIO):
    """Hands every checkpoint that is written to a `Rollback`, too."""

    def __init__(self, inner: CheckpointIO, rollback: Rollback) -> None:
        self._inner, self._rollback = inner, rollback

    def save_checkpoint(self, checkpoint: dict[str, Any], path: str | Path, storage_options: Any | None = None) -> None:
        self._rollback.keep(checkpoint)
        self._inner.save_checkpoint(checkpoint, path, storage_options)

    def load_checkpoint(self, path: str | Path, *args: Any, **kwargs: Any) -> dict[str, Any]:
        return self._inner.load_checkpoint(path, *args, **kwargs)

    def remove_checkpoint(self, path: str | Path) -> None:
        self._inner.remove_checkpoint(path)


def _scale_learning_rate(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Multiplies the learning rate during each step alone: schedules compute the next rate from the last one."""
    unscaled: list[Any] = []

    def before(*_: Any) -> None:
        unscaled[:] = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * factor

    def after(*_: Any) -> None:
        for group, rate in zip(optimizer.param_groups, unscaled, strict=True):
            group["lr"] = rate

    optimizer.register_step_pre_hook(before)
    optimizer.register_step_post_hook(after)


def _step(path: Path) -> int:
    return int(path.stem.partition("=")[2])
