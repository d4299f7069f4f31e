"""Weights in the precision of the run, and their averages, where Lightning would round them."""

from __future__ import annotations

import pytorch_lightning as pl
from pytorch_lightning.callbacks import WeightAveraging
from torch import Tensor


def keep_digits(learner: pl.LightningModule, trainer: pl.Trainer) -> None:
    """Prepares a run with `64-true`, `bf16-true` or `16-true` before a checkpoint is loaded.

    Lightning makes the averages of the weights, and loads a checkpoint, before it converts the learner. With `64-true`
    a resumed run would therefore begin with parameters rounded to float32. Averages would stay float32, and the trained
    weights would be rounded whenever the two change places for an evaluation. With half precision these exchanges would
    round the averages.
    """
    averages = [c for c in trainer.callbacks if isinstance(c, WeightAveraging) and c._average_model is not None]  # type: ignore[attr-defined]
    if trainer.precision == "64-true":
        learner.double()
        for average in averages:
            assert average._average_model is not None
            average._average_model.double()
    elif trainer.precision in ("bf16-true", "16-true"):
        for average in averages:
            _keep_average(average)


def _keep_average(average: WeightAveraging) -> None:
    """Makes the average come back from the second of two exchanges as it was before the first one."""
    exchange, kept = average._swap_models, list[Tensor]()

    def exchange_and_keep(pl_module: pl.LightningModule) -> None:
        assert average._average_model is not None
        module = average._average_model.module
        tensors = [*module.parameters(), *module.buffers()]
        exact = [tensor.detach().clone() for tensor in tensors]
        exchange(pl_module)
        if not kept:
            kept.extend(exact)
            return
        for tensor, value in zip(tensors, kept, strict=True):
            tensor.data.copy_(value)
        kept.clear()

    average._swap_models = exchange_and_keep  # type: ignore[method-assign]
