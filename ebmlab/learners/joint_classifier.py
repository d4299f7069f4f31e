"""A joint energy-based model: a classifier whose logits are also the energy of its inputs (Grathwohl et al., 2020)."""

from __future__ import annotations

from typing import Any

from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor
from torch.nn.functional import cross_entropy

from ebmlab.data.batch_checks import first_batch
from ebmlab.data.interface import Data
from ebmlab.energies.classifier import Classifier
from ebmlab.errors import UserError
from ebmlab.learners.contrastive_divergence import ContrastiveDivergence
from ebmlab.learners.learner import ADAM, Interval
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.lightning.run_data import data_of
from ebmlab.samplers import Sampler
from ebmlab.samplers.initial_states import Start
from ebmlab.settings import require_factor

BINS = 15  # of confidence


class JointClassifier(ContrastiveDivergence):
    """Fits log p(x) + log p(y | x) with one network (JEM).

    The term of p(y | x) is the classifier's cross-entropy. The gradient of log p(x) comes from negative chains, as in
    `ContrastiveDivergence` (Grathwohl et al., 2020, Alg. 1). Two scores are logged beside `val/energy`. `val/accuracy`
    is the share of right classes. `val/calibration_error` is the mean distance of confidence and accuracy over 15 bins
    of confidence (torchmetrics).

    The batches hold labels; datamodules that have them give them when asked, and other loaders give (x, y). Training
    may diverge, as the paper's did; `callbacks.DivergenceGuard`, which is on by default, stops it there.

    Args:
        energy: a `Classifier`.
        sampler: moves the negative chains; the paper's is Langevin dynamics at low temperature,
            `ULA(step_size, temperature)`.
        start: where they start; `ReplayBuffer(reinitialize=0.05)` when None.
        num_steps: steps of each chain per training step.
        generative_weight: factor of the term of log p(x). With 0 it is an ordinary classifier, without chains.
        data_noise: standard deviation of Gaussian noise on the data of log p(x), not on those of log p(y | x).
        l1: see `Learner`.
        energy_l2: see `ContrastiveDivergence`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy has no classes, or settings do not fit each other or the energy.

    Example:
        >>> from ebmlab.energies import ClassifierMLP
        >>> from ebmlab.samplers import MALA
        >>> learner = JointClassifier(ClassifierMLP(4, num_classes=3), MALA(0.1), num_steps=5)
        >>> x = learner.draw(torch.randn(8, 4))
        >>> learner.energy.logits(x).softmax(1).shape
        torch.Size([8, 3])
    """

    takes_weights = False
    logs = (*ContrastiveDivergence.logs, "train/class_loss", "val/accuracy", "val/calibration_error")
    energy: Classifier

    def __init__(
        self,
        energy: Classifier,
        sampler: Sampler,
        *,
        start: Start | None = None,
        num_steps: int = 20,
        generative_weight: float = 1.0,
        data_noise: float = 0.0,
        l1: float = 0.0,
        energy_l2: float = 0.0,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        if not isinstance(energy, Classifier):
            raise UserError(
                f"JointClassifier: {type(energy).__name__} has no classes: take ClassifierMLP, or a subclass of "
                "ebmlab.energies.Classifier"
            )
        super().__init__(
            energy,
            sampler,
            start=start or ReplayBuffer(reinitialize=0.05),
            num_steps=num_steps,
            l1=l1,
            energy_l2=energy_l2,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
            data_noise=data_noise,
        )
        require_factor("JointClassifier", generative_weight=generative_weight)
        self.generative_weight = generative_weight
        from torchmetrics.classification import (  # here, because it loads torchvision
            MulticlassAccuracy,
            MulticlassCalibrationError,
        )

        self.accuracy = MulticlassAccuracy(energy.num_classes, average="micro")
        self.calibration = MulticlassCalibrationError(energy.num_classes, n_bins=BINS, norm="l1")

    def setup(self, stage: str) -> None:
        data = data_of(self.trainer)
        data.give_labels()
        super().setup(stage)
        if stage == "fit":
            self._check_labels(data)

    def _check_labels(self, data: Data) -> None:
        """Raises `UserError` if the classes of the first batch are not those of the energy."""
        labels, classes = data.batch_labels(first_batch(data, "train")), self.energy.num_classes
        if data.num_classes not in (None, classes) or not ((labels >= 0) & (labels < classes)).all():
            there_are = data.num_classes or f"numbers from {int(labels.min())} to {int(labels.max())} as"
            raise UserError(
                f"{data.title} has {there_are} classes, but {type(self.energy).__name__} {classes}: change its "
                "num_classes"
            )

    def labels(self, batch: Any) -> Tensor:
        """The classes `(B,)` of a batch of data."""
        return Data().batch_labels(batch) if self._trainer is None else data_of(self.trainer).batch_labels(batch)

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        loss = cross_entropy(self.energy.logits(self.states(batch)), self.labels(batch))
        if self.log_is_due:
            self.log("train/class_loss", loss.detach(), prog_bar=True, sync_dist=True)
        if self.generative_weight == 0:
            return loss + self.penalty()
        difference, penalty = self.contrast(batch)
        return loss + self.generative_weight * difference + penalty

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        super().validation_step(batch, batch_idx)
        self._log_classes("val", batch)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        super().test_step(batch, batch_idx)
        self._log_classes("test", batch)

    def _log_classes(self, split: str, batch: Any) -> None:
        """Adds a batch to the split's accuracy and calibration error."""
        probabilities, labels = self.energy.logits(self.states(batch)).softmax(1), self.labels(batch)
        for name, metric in (("accuracy", self.accuracy), ("calibration_error", self.calibration)):
            metric.update(probabilities, labels)
            self.log(f"{split}/{name}", metric, batch_size=len(labels))
