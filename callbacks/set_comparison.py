"""The base class of evaluations that compare a set of samples with a set of data."""

from __future__ import annotations

import pytorch_lightning as pl
import torchmetrics
from torch import Tensor

from ebmlab.callbacks.requirements import learner_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation, metric_device
from ebmlab.learners import Learner


class SetComparison(SampleEvaluation):
    """Draws states by new chains from noise, feeds them and the data to a metric, and logs its values as `GROUP/NAME`.

    Attributes:
        group: of the logged names.
    """

    group: str

    def metric(self, trainer: pl.Trainer, learner: Learner) -> torchmetrics.Metric | torchmetrics.MetricCollection:
        """Compares sets of states; computes values by name."""
        raise NotImplementedError

    def real(self, trainer: pl.Trainer, learner: Learner, num_samples: int) -> Tensor:
        """The data, the same on each rank, to compare with this many samples."""
        raise NotImplementedError

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner = learner_of(pl_module, self)
        n, num_steps = self.size(trainer, learner)
        device, real = metric_device(learner), self.real(trainer, learner, n)
        metric = self.metric(trainer, learner).to(device)
        metric.update(real[trainer.global_rank :: trainer.world_size].to(device), real=True)
        for x in self.samples(trainer, learner, n, num_steps, batch_size=self.batch_size):
            metric.update(x.to(device), real=False)
        values = {f"{self.group}/{name}": float(value) for name, value in metric.compute().items()}
        self.log_metrics(trainer, pl_module, values)
