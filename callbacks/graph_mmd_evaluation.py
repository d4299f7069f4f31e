"""The discrepancy between generated graphs and data."""

from __future__ import annotations

import pytorch_lightning as pl

from ebmlab.callbacks.requirements import adjacency, graph_data, held_out, learner_of, require_split
from ebmlab.callbacks.sample_evaluation import SampleEvaluation, metric_device
from ebmlab.evaluation.metrics import GraphMMD


class GraphMMDEvaluation(SampleEvaluation):
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
        >>> from ebmlab.datamodules import EgoSmall
        >>> from ebmlab.energies import RGCN
        >>> from ebmlab.learners import RatioMatching
        >>> mmd, data = GraphMMDEvaluation(20, num_steps=5), EgoSmall(source="embedded", num_graphs=10, max_nodes=8)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[mmd])
        >>> (scores,) = trainer.test(RatioMatching(RGCN(8)), data, verbose=False)
        >>> sorted(name for name in scores if name.startswith("mmd/"))
        ['mmd/average', 'mmd/clustering', 'mmd/degree', 'mmd/orbit']
    """

    logs = ("mmd/*",)

    def __init__(
        self,
        num_samples: int = 200,
        num_steps: int | None = None,
        batch_size: int = 200,
        every_n_epochs: int = 10,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data = graph_data(trainer, self)
        require_split(data, held_out(trainer), self, "give it a validation split, or remove it")
        learner_of(pl_module, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = graph_data(trainer, self), learner_of(pl_module, self)
        n, num_steps = self.size(trainer, learner)
        device = metric_device(learner)
        real = data.states(held_out(trainer))
        metric = GraphMMD(adjacency(data, real[:1]).shape[-1]).to(device)
        metric.update(real[trainer.global_rank :: trainer.world_size].to(device), real=True)
        for x in self.samples(trainer, learner, n, num_steps, batch_size=self.batch_size):
            metric.update(x.to(device), real=False)
        values = {f"mmd/{name}": float(value) for name, value in metric.compute().items()}
        self.log_metrics(trainer, pl_module, values)
