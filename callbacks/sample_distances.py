"""Distances between generated states and data, of any domain."""

from __future__ import annotations

import pytorch_lightning as pl
from torch import Tensor

from ebmlab.callbacks.requirements import held_out, learner_of, require_split
from ebmlab.callbacks.set_comparison import SetComparison
from ebmlab.data.weighted import drawn_states
from ebmlab.evaluation import metrics
from ebmlab.evaluation.headline import Headline
from ebmlab.learners import Learner
from ebmlab.lightning.run_data import data_of


class SampleDistances(SetComparison):
    """Draws states by new chains from noise and logs how far they are from held-out data.

    Logs `distance/energy` (`evaluation.energy_distance`), `distance/sliced_wasserstein`, and `distance/precision` and
    `distance/recall` of 3 neighbours. `distance/classifier` is the accuracy of the classifier two-sample test, 1/2 if
    nothing tells samples from data.

    The data are of the validation split, or of the test split in `test`. They are as many states as are drawn, or all
    if there are fewer, the same each time. Each rank draws its share of the chains.

    Args:
        num_samples: number of chains, over all ranks; at least 4.
        num_steps: steps of each chain; default as in training.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains (the ranks derive different ones from it) and the choice of data.

    Example:
        >>> from ebmlab.datamodules import Shapes2D
        >>> from ebmlab.energies import RealMLP
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import ULA
        >>> callback = SampleDistances(num_samples=50, num_steps=5)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[callback])
        >>> (scores,) = trainer.test(ContrastiveDivergence(RealMLP(2), ULA(0.01)), Shapes2D(), verbose=False)
        >>> sorted(name for name in scores if name.startswith("distance/"))[:3]
        ['distance/classifier', 'distance/energy', 'distance/precision']
    """

    group = "distance"

    least = 4

    logs = tuple(f"distance/{name}" for name in metrics.SampleDistances.names)

    def __init__(
        self,
        num_samples: int = 1000,
        num_steps: int | None = None,
        *,
        batch_size: int = 1000,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner_of(pl_module, self)
        require_split(data_of(trainer), held_out(trainer), self, "give it a validation split, or remove it")

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        return Headline("energy distance", metrics["distance/energy"], about=f"{held_out(trainer)} data")

    def metric(self, trainer: pl.Trainer, learner: Learner) -> metrics.SampleDistances:
        return metrics.SampleDistances()

    def real(self, trainer: pl.Trainer, learner: Learner, num_samples: int) -> Tensor:
        return learner.to_event(drawn_states(data_of(trainer), held_out(trainer), n=num_samples, seed=self.seed))
