"""Negative chains that change as training goes on: smaller steps, or fewer until most of it is over."""

from __future__ import annotations

import math
from typing import Any

import pytorch_lightning as pl
from torch import Tensor

from ebmlab.callbacks.requirements import learner_of, training_steps, warn_of_new_length
from ebmlab.errors import UserError
from ebmlab.learners import ContrastiveDivergence
from ebmlab.learners.changes_with_training import ChangesWithTraining
from ebmlab.settings import require_count, require_inside


class ChainSchedule(pl.Callback):
    """Sets an attribute of the learner before each training step, by the share of the training that has passed.

    Samples for pictures and scores have what the config says. A run that is resumed to another length goes by the
    share of that length, with a warning.

    Attributes:
        attribute: of the learner; its class holds the value outside of training steps.
        total: steps of the whole training.
    """

    attribute: str

    def __init__(self) -> None:
        self.total = 0

    def check(self, learner: ContrastiveDivergence) -> None:
        """Raises `UserError` unless the learner's chains can be changed."""

    def value(self, learner: ContrastiveDivergence, step: int) -> Any:
        """The attribute's value in a training step of `self.total`."""
        raise NotImplementedError

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        learner = learner_of(pl_module, self)
        if not isinstance(learner, ContrastiveDivergence):
            raise UserError(
                f"{type(self).__name__}: {type(learner).__name__} has no negative chains: take ContrastiveDivergence, "
                "or leave it out"
            )
        self.check(learner)

    def on_fit_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        before, self.total = self.total, training_steps(trainer, self)
        if trainer.ckpt_path is not None:
            warn_of_new_length(self, before, self.total)

    def on_train_batch_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        assert isinstance(pl_module, ContrastiveDivergence)
        setattr(pl_module, self.attribute, self.value(pl_module, trainer.global_step))

    def state_dict(self) -> dict[str, Any]:
        return {"total": self.total}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.total = state_dict["total"]

    def on_exception(self, trainer: pl.Trainer, pl_module: pl.LightningModule, exception: BaseException) -> None:
        self.teardown(trainer, pl_module, "fit")

    def teardown(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        vars(pl_module).pop(self.attribute, None)


class AnnealedSteps(ChainSchedule):
    """Lets the step size of the negative chains fall on a cosine over training (Liao et al. 2022, Table 3).

    In training step t of T the sampler's `step_size` is multiplied by end + (1 - end) (1 + cos(pi t / T)) / 2. Samples
    for pictures and scores are drawn with the step size of the config. A run that is resumed to another length follows
    the cosine over that length, with a warning.

    Args:
        end: the factor that the last steps come near; 0 in the paper.

    Raises:
        UserError: the learner has no negative chains, the sampler has no step size or changes its own, or training has
            no end.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import GRBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import GibbsLangevin
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> settings = {"max_steps": 2, "log_every_n_steps": 1, "callbacks": [AnnealedSteps()]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> learner = ContrastiveDivergence(GRBM(64, 8), GibbsLangevin(step_size=0.1))
        >>> trainer.fit(learner, Digits())
        >>> learner.sampler.step_size
        tensor(0.1000)
    """

    attribute = "step_factor"

    def __init__(self, end: float = 0.0) -> None:
        super().__init__()
        require_inside("AnnealedSteps", "[0, 1]", end=end)
        self.end = end

    def check(self, learner: ContrastiveDivergence) -> None:
        sampler, name = learner.sampler, type(learner.sampler).__name__
        if isinstance(sampler, ChangesWithTraining):
            raise UserError(f"AnnealedSteps: {name} chooses its own step size in training: remove one of the two")
        if not isinstance(getattr(sampler, "step_size", None), Tensor):
            raise UserError(f"AnnealedSteps: {name} has no step_size: remove one of the two, or take DMALA")

    def value(self, learner: ContrastiveDivergence, step: int) -> float:
        fallen = (1 + math.cos(math.pi * step / self.total)) / 2
        return self.end + (1 - self.end) * fallen


class ShortChains(ChainSchedule):
    """Contrastive divergence with shorter negative chains, until a share of the training has passed.

    Short chains learn most of what there is to learn in less time. The learner's own `num_steps` complete the rest at
    the end. As many of a chain's last states are negatives as the learner's `burn_in` leaves of its `num_steps`, or all
    of them if there are fewer. Samples for pictures and scores have the length of the config. A rollback of
    `DivergenceGuard` that lengthens the learner's chains lengthens the short ones as much. A run that is resumed to
    another length has short chains for the share of that length, with a warning.

    Args:
        num_steps: steps of the short chains; at most the learner's.
        until: share of the training that has them, from 0 to 1.

    Raises:
        UserError: the learner's chains are shorter, it has none, or training has no end.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> settings = {"max_steps": 4, "log_every_n_steps": 1, "callbacks": [ShortChains(num_steps=1, until=0.75)]}
        >>> trainer = pl.Trainer(**settings, **dict.fromkeys(quiet, False))
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), num_steps=10)  # CD-1 three times, then CD-10
        >>> trainer.fit(learner, Digits(binarize=True))
        >>> learner.num_steps
        10
    """

    attribute = "chain_steps"

    def __init__(self, num_steps: int = 1, until: float = 0.75) -> None:
        super().__init__()
        require_count("ShortChains", num_steps=num_steps)
        require_inside("ShortChains", "[0, 1]", until=until)
        self.num_steps = num_steps
        self.until = until
        self._full = 0  # the learner's num_steps before any rollback of `DivergenceGuard`

    def check(self, learner: ContrastiveDivergence) -> None:
        if learner.num_steps < self.num_steps:
            raise UserError(
                f"ShortChains: num_steps is {self.num_steps}, but must be at most the learner's, {learner.num_steps}"
            )
        self._full = learner.num_steps

    def value(self, learner: ContrastiveDivergence, step: int) -> int | None:
        short = math.ceil(self.num_steps * learner.num_steps / self._full)
        return short if step < self.until * self.total else None
