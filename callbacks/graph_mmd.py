"""How far generated graphs are from data."""

from __future__ import annotations

from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from callbacks.chains import chain_length, check_length, noise, require_chains
from callbacks.periodic import PeriodicEvaluation
from ebmlab.errors import UserError
from ebmlab.evaluation.metrics import GraphMMD
from ebmlab.ranks import seed_of_rank


class GraphMMDEvaluation(PeriodicEvaluation):
    """Draws fresh chains from noise and logs how their graphs differ from the data's, by `evaluation.graph_mmds`.

    Logs `mmd/degree`, `mmd/clustering`, `mmd/orbit` and their mean, `mmd/average`: against the validation split in fit
    and `validate`, against the test split in `test`. Each rank draws its share; all graphs of the split count.

    Args:
        num_samples: chains, over all ranks. The smaller of the two sets decides how far above 0 a perfect model stays.
        num_steps: steps of each chain; default as in training.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`, like the rest.
        at_start: also before the first step.
        seed: of the noise and the chains; each rank's differs.
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

    @property
    def state_key(self) -> str:
        settings = ("num_samples", "num_steps", "seed")
        return self._generate_state_key(**{name: getattr(self, name) for name in settings})

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        graph_data(trainer, self)
        require_chains(pl_module, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = graph_data(trainer, self), require_chains(pl_module, self)
        n, num_steps = self.limit(trainer, self.num_samples, chain_length(learner, self.num_steps))
        device = torch.device("cpu") if learner.device.type == "mps" else learner.device  # no float64 there
        metric = GraphMMD(data.num_nodes).to(device)
        real: Tensor = data.normalize(data.raw("test" if trainer.state.fn == TrainerFn.TESTING else "val"))
        metric.update(real[trainer.global_rank :: trainer.world_size].to(device), real=True)
        torch.manual_seed(seed_of_rank(self.seed, trainer.global_rank))
        share = n // trainer.world_size + (trainer.global_rank < n % trainer.world_size)
        for i in range(0, max(share, 1), self.batch_size):
            x = noise(learner, min(self.batch_size, share - i))
            x = learner.draw(x, num_steps) if len(x) else x
            metric.update(x.to(device), real=False)
        values = {f"mmd/{name}": float(value) for name, value in metric.compute().items()}
        self.log_metrics(trainer, pl_module, values)


def graph_data(trainer: pl.Trainer, callback: pl.Callback) -> Any:
    """The run's datamodule, which must hold graphs."""
    data = getattr(trainer, "datamodule", None)
    if data is None or not (hasattr(data, "num_nodes") and hasattr(data, "adjacency")):
        name, given = type(callback).__name__, "no datamodule" if data is None else type(data).__name__
        raise UserError(
            f"{name} needs a datamodule of graphs, with num_nodes and adjacency, got {given}: "
            f"use datamodules.EgoSmall, or remove {name}"
        )
    return data
