"""Pictures of generated rows of numbers and classes."""

from __future__ import annotations

import pytorch_lightning as pl

from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import data_showing, held_out, learner_of, shown_as, split_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import Table
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.table import draw_table
from ebmlab.lightning.run_data import data_of


class SampleTable(SampleEvaluation):
    """Runs new chains from the same noise each time and shows the rows at their ends over data, on rank 0.

    Logs `samples/table`: of each column a histogram, of numbers, or the shares of its classes; of each pair of columns
    the points. It shows six columns at most. The data are of the held-out split.

    Args:
        num_samples: number of chains, and of rows of data (all, if there are fewer).
        num_steps: steps of each chain; default as in training.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains and the choice of data.

    Example:
        >>> from ebmlab.datamodules import MixedTable
        >>> from ebmlab.energies import ProductMLP
        >>> from ebmlab.learners import EnergyDiscrepancy, RatioMatching
        >>> from ebmlab.product import Product
        >>> energy = ProductMLP(Product.of_columns([3, 2, 0, 0]), hidden_dim=8)
        >>> callback = SampleTable(num_samples=20, num_steps=5)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[callback])
        >>> learner = RatioMatching(energy, EnergyDiscrepancy(4))
        >>> _ = trainer.test(learner, MixedTable(100), verbose=False)  # writes images/samples-table_step0000000.png
    """

    def __init__(
        self,
        num_samples: int = 1000,
        num_steps: int | None = None,
        *,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        super().check(trainer, pl_module)
        data_showing(trainer, Table, self)

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = data_of(trainer), learner_of(pl_module, self)
        if not trainer.is_global_zero:
            return
        n, num_steps = self.size(trainer, learner)
        samples = learner.draw(noise(learner, n), num_steps)
        held = drawn_states(data, split_of(data, held_out(trainer)), n=n, seed=self.seed)
        sides = {"data": held, f"samples after {num_steps} steps": samples}
        tables = {name: shown_as(Table, data, x) for name, x in sides.items()}
        self.log_image(trainer, "samples/table", draw_table(tables), caption=made_by(learner.sampler, num_steps))
