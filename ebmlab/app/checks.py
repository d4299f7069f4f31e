"""Checks the trainer's settings before the trainer is built, and refuses by name what cannot work."""

from __future__ import annotations

from typing import Any

import torch
from jsonargparse import Namespace
from pytorch_lightning import callbacks

from ebmlab.energies import Energy
from ebmlab.errors import UserError

REFUSED = {
    "LearningRateFinder": "their loss is no measure of the fit; try rates by --model.optimizer.lr",
    "BatchSizeFinder": "choose --data.batch_size yourself",
    "StochasticWeightAveraging": "use EMAWeightAveraging, which every evaluation here knows",
    "BaseFinetuning": "energies have no backbone to freeze",
    "ModelPruning": "energies are not pruned",
}
STRATEGIES = ("fsdp", "deepspeed", "xla", "tpu")


def check_config(config: Namespace) -> None:
    """Raises `UserError` for a seed or trainer settings that Lightning accepts and fails on later."""
    for name, value in config.items():
        if isinstance(value, int) and abs(value) >= 2**63 and name != "seed_everything":
            raise UserError(f"{name} is {value}, which is too large: whole numbers must be below 2**63")
    seed, trainer = config.seed_everything, config.trainer
    if not isinstance(seed, bool) and seed is not None and not 0 <= seed < 2**32:
        raise UserError(f"seed_everything is {seed}, but must be from 0 to {2**32 - 1}")
    for name in ("accumulate_grad_batches", "num_nodes", "log_every_n_steps", "check_val_every_n_epoch"):
        if isinstance(value := trainer.get(name), int) and value < 1:
            raise UserError(f"trainer.{name} is {value}, but must be at least 1")
    strategy = trainer.get("strategy")
    name = strategy if isinstance(strategy, str) else str(getattr(strategy, "class_path", ""))
    if name.startswith(("ddp_spawn", "ddp_fork", "ddp_notebook")):
        raise UserError(f"trainer.strategy is {name}, whose processes cannot hand the trained run back: set it to ddp")
    if any(word in name.lower() for word in STRATEGIES):
        raise UserError(f"trainer.strategy is {name}: models here fit on one device; spread the chains by ddp")


def check_callbacks(found: list[Any]) -> None:
    """Raises `UserError` if a callback, or a class of one, is one of Lightning's that cannot work with energies."""
    kinds = [callback if isinstance(callback, type) else type(callback) for callback in found]
    for name, mend in REFUSED.items():
        if any(issubclass(kind, getattr(callbacks, name)) for kind in kinds):
            raise UserError(f"trainer.callbacks: {name} does not work with energy-based models: {mend}")


def why_idle(trainer: Any, checkpoint: dict[str, Any]) -> str:
    """Why a trainer has taken no step, as the end of a line; nothing if it has taken some.

    Args:
        trainer: after `fit`.
        checkpoint: from which it went on; empty for a new run.
    """
    if trainer.global_step > checkpoint.get("global_step", 0):
        return ""
    limits = ("limit_train_batches", "max_epochs", "max_steps")
    none = next((name for name in limits if not getattr(trainer, name)), None)
    reason = f"trainer.{none} is 0" if none else "trainer.max_time, max_steps or max_epochs was reached before"
    return f": nothing was trained, for {reason}"


def check_energy(energy: torch.nn.Module) -> None:
    """Raises `UserError` unless an energy gives one number for each state."""
    if type(energy).forward is Energy.forward:
        raise UserError(f"{type(energy).__name__} has no forward: write forward(self, x), one energy for each state")
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        try:
            energy(energy.domain.random(3))  # type: ignore[union-attr, operator]
        except UserError:
            raise
        except Exception:  # the error is reported where the energy is used
            return
