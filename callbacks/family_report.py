"""Samples of a model of a family beside natural sequences."""

from __future__ import annotations

import pytorch_lightning as pl
import torch

from ebmlab.callbacks.contacts import aligned_data
from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.requirements import energies_at, energy_of, learner_of, of_all_ranks
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.weighted import drawn_states
from ebmlab.domains import Categorical
from ebmlab.drawing.family_report import draw_family
from ebmlab.errors import UserError
from ebmlab.evaluation.families import compare_families
from ebmlab.lightning.run_data import data_of
from ebmlab.sequences.weights import nearest_distances


class FamilyReport(SampleEvaluation):
    """Compares samples, which are the last states of new chains from noise, with the sequences of an alignment.

    It correlates the weighted statistics of one, two and three sites in the training data with those of the samples:
    `family/pearson_1`, `_2` and `_3` (`evaluation.compare_families`). `family/nearest` is the median share of sites at
    which a sample differs from the nearest training sequence. `family/novel` is the share of samples that are no
    training sequence, and `family/unique` that of different ones. `family/report` shows all of them, the first two
    principal components of the data, and the energies.

    Args:
        num_samples: number of chains, over all ranks; at least 2.
        num_steps: steps of each chain; default as in training.
        batch_size: chains that run at once.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: see `PeriodicEvaluation`.
        seed: see `PeriodicEvaluation`.

    Example:
        >>> FamilyReport(num_samples=500, num_steps=100).num_samples
        500
    """

    least = 2
    logs = ("family/*",)

    def __init__(
        self,
        num_samples: int = 2000,
        num_steps: int | None = None,
        *,
        batch_size: int = 2000,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed, batch_size)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner = learner_of(pl_module, self)
        aligned_data(trainer, self)
        if not isinstance(learner.energy.domain, Categorical):
            raise UserError(
                f"FamilyReport needs an energy of sequences, but {type(learner.energy).__name__} lives on "
                f"{learner.energy.domain}: remove it"
            )

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), aligned_data(trainer, self)
        n, num_steps = self.size(trainer, learner)
        n -= n % trainer.world_size  # so that all ranks have as many
        drawn = torch.cat(list(self.samples(trainer, learner, n, num_steps, batch_size=self.batch_size)))
        drawn = of_all_ranks(pl_module, drawn)
        train = data.states("train")
        found = compare_families(train, data.weights("train"), samples=drawn)
        self.log_metrics(trainer, pl_module, {f"family/{name}": value for name, value in found.summary().items()})
        if trainer.is_global_zero:
            held_out, shown = (drawn_states(data_of(trainer), s, seed=self.seed) for s in ("val", "train"))
            sets = {"training": shown, "held out": held_out, "samples": drawn}
            energies = {name: energies_at(pl_module, x) for name, x in sets.items()}
            apart = nearest_distances(held_out.argmax(-1), train.argmax(-1)).double() / train.shape[1]
            distances = {"held out": apart, "samples": found.nearest}
            caption = made_by(learner.sampler, num_steps)
            title = f"{type(energy_of(pl_module)).__name__}: {len(drawn):,} samples by {caption}"
            self.log_image(trainer, "family/report", draw_family(found, energies, distances, title), caption=caption)
