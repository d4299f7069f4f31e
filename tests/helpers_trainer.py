"""A trainer for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytorch_lightning as pl

QUIET = ("logger", "enable_checkpointing", "enable_progress_bar", "enable_model_summary")


def quiet_trainer(folder: Path, **settings: Any) -> pl.Trainer:
    """A trainer on the CPU without loggers, checkpoints and output, as far as `settings` do not ask for them."""
    options = dict.fromkeys(QUIET, False) | {"accelerator": "cpu", "default_root_dir": folder} | settings
    return pl.Trainer(**options)
