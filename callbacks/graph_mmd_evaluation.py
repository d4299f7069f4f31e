"""The discrepancy between generated graphs and data."""

from __future__ import annotations

import pytorch_lightning as pl
import torch

from callbacks.periodic import PeriodicEvaluation, chain_length, check_length
from callbacks.requirements import adjacency, graph_data, held_out, learner_of, require_split
from ebmlab.errors import UserError
from ebmlab.evaluation.metrics import GraphMMD


class GraphMMDEvaluation(PeriodicEvaluation):
    """Draws graphs by new chains from noise and logs their discrepancy from the data, see `evaluation.graph_mmds`.

    Logs `mmd/degree`, `mmd/clustering`, `mmd/orbit` and their mean, `mmd/average`, against all graphs of the validation
    split, or of the test split in `test`. Each rank draws its share of the chains.

    Args:
        num_samples: number of chains, over all ranks. The smaller of the two sets determines the values of a perfect
            model, which are above 0.
        num_steps: steps of each chain; default as in training.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise and the chains; the ranks derive different ones from it.

    Example:
        >>> GraphMMDEvaluation(num_samples=100).num_samples
        100
    """

    def __init__(
        self,
        num_samples: int = 200,
        num_steps: int | None = None,
        batch_size: int = 200,
        every_n_epochs: int = 10,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed)
        check_length(self, num_steps)
        if min(num_samples, batch_size) < 1:
            raise UserError(
                f"GraphMMDEvaluation: num_samples is {num_samples} and batch_size {batch_size}; both must be at least 1"
            )
        self.num_samples = num_samples
        self.num_steps = num_steps
        self.batch_size = batch_size

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = graph_data(trainer, self)
        require_split(data, held_out(trainer), self, "give it a validation split, or remove it")
        learner_of(pl_module, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = graph_data(trainer, self), learner_of(pl_module, self)
        n, num_steps = self.limit(trainer, self.num_samples, chain_length(learner, self.num_steps))
        device = torch.device("cpu") if learner.device.type == "mps" else learner.device  # no float64 there
        real = data.states(held_out(trainer))
        metric = GraphMMD(adjacency(data, real[:1]).shape[-1]).to(device)
        metric.update(real[trainer.global_rank :: trainer.world_size].to(device), real=True)
        for x in self.samples(trainer, learner, n, num_steps, batch_size=self.batch_size):
            metric.update(x.to(device), real=False)
        values = {f"mmd/{name}": float(value) for name, value in metric.compute().items()}
        self.log_metrics(trainer, pl_module, values)
