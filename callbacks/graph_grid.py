"""Pictures of generated graphs."""

from __future__ import annotations

import pytorch_lightning as pl

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import data_showing, learner_of, shown_as, split_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import Graphs
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.graph_panels import draw_graphs
from ebmlab.extras import require


class GraphGrid(SampleEvaluation):
    """Runs new chains from the same noise each time and shows the graphs at their ends, in `samples/graphs`, on rank 0.

    As many training graphs are shown beside them, the same each time. Nodes without edges are left out. It needs
    networkx, which computes the layouts: `pip install 'ebmlab[graphs]'`.

    Args:
        num_samples: number of chains, and of training graphs (all, if there are fewer).
        num_steps: steps of each chain; default as in training.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains and the choice of training graphs.

    Example:
        >>> from ebmlab.datamodules import EgoSmall
        >>> from ebmlab.energies import RGCN
        >>> from ebmlab.learners import RatioMatching
        >>> grid, data = GraphGrid(num_samples=4, num_steps=5), EgoSmall(source="embedded", num_graphs=10, max_nodes=8)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[grid])
        >>> _ = trainer.test(RatioMatching(RGCN(8)), data, verbose=False)  # writes a picture to images/
    """

    def __init__(
        self,
        num_samples: int = 16,
        num_steps: int | None = None,
        *,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().check(trainer, pl_module)
        data_showing(trainer, Graphs, self)
        require("GraphGrid", "networkx")

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = data_showing(trainer, Graphs, self), learner_of(pl_module, self)
        if not trainer.is_global_zero:
            return
        n, num_steps = self.size(trainer, learner)
        samples = learner.draw(noise(learner, n), num_steps)
        sides = {
            f"samples after {num_steps} steps": samples,
            "data": drawn_states(data, split_of(data, "train"), n=n, seed=self.seed),
        }
        figure = draw_graphs({k: shown_as(Graphs, data, x.cpu()).adjacency for k, x in sides.items()})
        self.log_image(trainer, "samples/graphs", figure, caption=made_by(learner.sampler, num_steps))
