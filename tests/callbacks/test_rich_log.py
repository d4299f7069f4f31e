"""Histograms of energies, as loggers receive them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from helpers_trainer import quiet_trainer
from pytorch_lightning.loggers import WandbLogger

from ebmlab.callbacks.rich_log import log_histogram


class Kept(WandbLogger):
    """Keeps what it would send."""

    def __init__(self) -> None:
        self.seen: dict[str, Any] = {}

    def log_metrics(self, metrics: Any, step: int | None = None) -> None:
        self.seen |= metrics


@pytest.mark.parametrize("first", [-300.0, 0.0, 1e-300, 12345.678])
@pytest.mark.parametrize("ulps", [0, 1, 63, 10**6])
def test_energies_that_differ_by_the_last_digit_have_a_histogram(first: float, ulps: int, tmp_path: Path) -> None:
    pytest.importorskip("wandb")
    last = first + ulps * np.spacing(first)
    logger = Kept()
    trainer = quiet_trainer(tmp_path)
    trainer.loggers = [logger]
    log_histogram(trainer, "energies/data", torch.tensor([first, first, last], dtype=torch.float64))
    histogram = logger.seen["energies/data"]
    assert sum(histogram.histogram) == 3
    assert histogram.bins[0] <= min(first, last) and max(first, last) <= histogram.bins[-1]
