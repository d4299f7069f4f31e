"""Whether a model was trained out of equilibrium."""

from __future__ import annotations

import math

import pytorch_lightning as pl
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.callbacks.periodic import noise
from ebmlab.callbacks.requirements import learner_of, split_of
from ebmlab.callbacks.sample_evaluation import SampleEvaluation
from ebmlab.data.interface import Images
from ebmlab.data.weighted import drawn_states
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.evaluation.nearest_neighbour import adversarial_accuracy
from ebmlab.lightning.run_data import data_of
from ebmlab.settings import require_count

SHOWN = 64
RISE = 0.1  # of the larger share, above which long chains are worse


class EquilibriumCheck(SampleEvaluation):
    """Compares samples of chains as long as in training with those of much longer chains.

    A model that was trained with chains too short to reach its law learns their law instead (Decelle, Furtlehner &
    Seoane 2021). Its samples are best after as many steps as in training, and get worse with more.

    Logs, for short and long chains, `equilibrium/data_short` and `equilibrium/samples_short`. They are the shares of
    training data and of samples whose nearest neighbour is of their own kind (`ebmlab.evaluation.nearest_neighbour`);
    1/2 is best. Beside them stand their mean `equilibrium/accuracy_short`, and the mean energies
    `equilibrium/energy_data` and `equilibrium/energy_short`. Shows both sets of samples as `equilibrium/samples` if
    they are images. Warns if the larger share is higher by 0.1 after the long chains. The mean does not tell, since it
    is 1/2 for samples that spread too widely, too. All chains start from the same noise. Every rank runs the same
    chains.

    Args:
        num_samples: number of chains, and of data (all, if there are fewer); at least 2.
        num_steps: steps of the short chains; default as in training.
        longer: the long chains take this many times as many steps.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the noise, the chains and the choice of data.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> callback = EquilibriumCheck(num_samples=50, longer=5)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[callback])
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
        >>> (scores,) = trainer.test(learner, Digits(binarize=True), verbose=False)
        >>> scores["equilibrium/accuracy_long"] > 0.6  # the model is untrained
        True
    """

    least = 2

    logs = ("equilibrium/*",)

    def __init__(
        self,
        num_samples: int = 500,
        num_steps: int | None = None,
        *,
        longer: int = 50,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
    ) -> None:
        super().__init__(num_samples, num_steps, every_n_epochs, at_start, seed)
        require_count("EquilibriumCheck", least=2, longer=longer)
        self.longer = longer

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        n, num_steps = self.size(trainer, learner)
        real = learner.to_event(drawn_states(data, split_of(data, "train"), n=n, seed=self.seed)).to(learner.device)
        start = noise(learner, len(real))
        real = real.to(start.dtype)
        lengths = {"short": num_steps, "long": self.longer * num_steps}
        samples = {name: learner.draw(start, steps) for name, steps in lengths.items()}
        metrics = {f"equilibrium/energy_{k}": float(learner(x).mean()) for k, x in ({"data": real} | samples).items()}
        shares = {name: adversarial_accuracy(real, x) for name, x in samples.items()}
        for name, share in shares.items():
            both = {"accuracy": share.mean, "data": share.data, "samples": share.samples}
            metrics |= {f"equilibrium/{what}_{name}": value for what, value in both.items()}
        self.log_metrics(trainer, pl_module, metrics)
        shown = {f"after {lengths[name]} steps": data.show(x[:SHOWN]) for name, x in samples.items()}
        pictures = {title: tile(x.values) for title, x in shown.items() if isinstance(x, Images)}
        if pictures:
            self.log_image(trainer, "equilibrium/samples", panels(pictures), caption=type(learner.sampler).__name__)
        enough = shares["long"].larger - shares["short"].larger > max(RISE, 2 / math.sqrt(len(real)))
        if enough and not trainer.fast_dev_run:  # type: ignore[attr-defined]
            rank_zero_warn(
                f"EquilibriumCheck: the model was trained out of equilibrium: samples are told from data with accuracy "
                f"{shares['short'].larger:.2f} after {lengths['short']} steps, but {shares['long'].larger:.2f} after "
                f"{lengths['long']}. Draw with {lengths['short']} steps, or train with longer or persistent chains; "
                "its likelihood says little about its samples"
            )
