"""Energies of data and of the model's own samples, over the training."""

from __future__ import annotations

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import buffer_of, energies_at, held_out, learner_of, split_of
from ebmlab.callbacks.rich_log import log_histogram, log_table
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.histograms import draw_histograms
from ebmlab.lightning.run_data import data_of


class EnergyHistograms(SampleEvaluation):
    """Shows the energies of training data, held-out data and negatives, on rank 0.

    Negatives are states of the replay buffer, or the last states of new chains from noise if the learner has none. The
    picture is `energies/histogram`; W&B and TensorBoard also get the histograms `energies/train`, `energies/held-out`
    and `energies/negatives`, and W&B the table `energies/samples` of single energies. If the fit is good the three
    overlap: held-out energies above those of training data tell of overfitting, negatives below both of a mode that the
    data lack.

    Args:
        num_samples: of each of the three, or all if there are fewer.
        num_steps: steps of each new chain; default as in training.
        num_rows: of each of the three in the table.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the choice of states and of the chains.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[EnergyHistograms(50, 5)])
        >>> learner = ContrastiveDivergence(GRBM(64, 8), BlockGibbs(), start=FromData())
        >>> _ = trainer.test(learner, Digits(), verbose=False)  # writes images/energies-histogram_step0000000.png
    """

    def __init__(
        self,
        num_samples: int = 500,
        num_steps: int | None = None,
        *,
        num_rows: int = 100,
        every_n_epochs: int = 10,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        self.num_rows = num_rows

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        if not trainer.is_global_zero:
            return
        n, num_steps = self.size(trainer, learner)
        splits = {"train": split_of(data, "train"), "held-out": split_of(data, held_out(trainer))}
        states = {name: drawn_states(data, split, n=n, seed=self.seed) for name, split in splits.items()}
        buffer = buffer_of(pl_module)
        kept = None if buffer is None else buffer.cold(learner.energy.domain)
        if kept is None:
            states["negatives"] = learner.draw(noise(learner, n), num_steps)
            caption = made_by(learner.sampler, num_steps)
        else:
            states["negatives"] = kept[torch.randperm(len(kept), device=kept.device)[:n]]
            caption = f"{type(learner.sampler).__name__}, replay buffer"
        energies = {name: energies_at(learner, x) for name, x in states.items()}
        rows: list[list[object]] = []
        for name, values in energies.items():
            log_histogram(trainer, f"energies/{name}", values)
            rows += [[name, i, value] for i, value in enumerate(values[: self.num_rows].tolist())]
        log_table(trainer, "energies/samples", ["states", "number", "energy"], rows)
        self.log_image(trainer, "energies/histogram", draw_histograms(energies, "energy"), caption=caption)
