"""The mean of the data, from which an energy starts."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from torch import Tensor

from ebmlab.callbacks.requirements import buffer_of, energy_of
from ebmlab.data.batch_checks import check_first_batch
from ebmlab.errors import UserError
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.streams import undisturbed


class DataMean(pl.Callback):
    """Gives the mean of the training data to the energy and to the replay buffer, before the first step of a run.

    Weighted data count by their weights. In a new run it calls the energy's `set_base`. With zero weights, an RBM and a
    ResNet are then Bernoulli(data mean) in place of the uniform law. From a uniform law contrastive divergence may not
    find the data. A GRBM is N(data mean, I). An RGCN starts new chains from graphs as dense as the data's. A
    `ReplayBuffer` with `init: mean` fills its slots from the mean.

    Raises:
        UserError: neither the energy nor the buffer takes the mean.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> trainer = pl.Trainer(max_steps=0, barebones=True, callbacks=[DataMean()])
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
        >>> trainer.fit(learner, Digits(binarize=True))
        >>> bool(learner.energy.b_v.any())
        True
    """

    @torch.no_grad()
    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        if stage != "fit":
            return
        energy: Any = energy_of(pl_module)
        buffer = buffer_of(pl_module)
        fills = buffer is not None and buffer.init == "mean"
        if not fills and not hasattr(energy, "set_base"):
            raise UserError(f"DataMean: {type(energy).__name__} takes no data mean; RBM, GRBM, ResNet and RGCN do")
        check_first_batch(data_of(trainer), "train", energy.domain, type(energy).__name__)
        mean = _mean(trainer)
        if buffer is not None and fills:
            buffer.mean = mean
        if trainer.ckpt_path is None and hasattr(energy, "set_base"):
            energy.set_base(mean)


def _mean(trainer: pl.Trainer) -> Tensor:
    """The mean over one epoch of training batches by their weights, of all ranks, `(*event)`, float64."""
    data = data_of(trainer)
    total, count = torch.zeros((), dtype=torch.float64), torch.zeros((), dtype=torch.float64)
    with undisturbed(loader := data.loader("train")):
        for batch in loader:
            x, weights = data.convert(batch).double(), data.batch_weights(batch)
            if weights is None:
                total, count = total + x.sum(0), count + len(x)
            else:
                total, count = total + torch.tensordot(weights.double(), x, 1), count + weights.double().sum()
    if trainer.world_size > 1:
        device = trainer.strategy.root_device
        total, count = (trainer.strategy.reduce(t.to(device), reduce_op="sum") for t in (total, count))
    return total / count
