"""The base class of learners: data checks, optimizers, checkpoints, and chains that sample the learnt energy."""

from __future__ import annotations

import copy
import warnings
from functools import partial
from typing import Any, Literal, Self

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable, ReduceLROnPlateau
from pytorch_lightning.trainer.states import TrainerFn
from torch import Tensor

from ebmlab.data.batch_checks import check_event_shape, check_first_batch
from ebmlab.data.batch_parts import samples_of
from ebmlab.data.interface import Data
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.domains import Domain
from ebmlab.energies import Energy
from ebmlab.errors import WHY, UserError, explained
from ebmlab.io.described import CLASS_PATH
from ebmlab.io.plain import require_finite
from ebmlab.learners.changes_with_training import warn_of_unasked
from ebmlab.learners.compiled_energy import uncompiled
from ebmlab.learners.fitting_data import check_domain, refuse_weights, weighted_mean
from ebmlab.learners.monitored_metrics import monitors_training
from ebmlab.learners.one_pass import in_one_pass
from ebmlab.learners.optimizer_check import try_optimizer
from ebmlab.learners.rebuilt import Rebuilt
from ebmlab.learners.resumed_optimizer import Groups, check_settings, continued, settings_of
from ebmlab.lightning.averages import average_parameters, check_averages, load_trained, save_average
from ebmlab.lightning.precision import keep_digits
from ebmlab.lightning.run_data import data_of
from ebmlab.lightning.schedules import check_period, resume_accumulation, set_period
from ebmlab.lightning.trainer import check_processes
from ebmlab.numerics.ranks import seed_of_rank
from ebmlab.numerics.streams import own_numbers
from ebmlab.samplers import Sampler
from ebmlab.samplers.draws import Draws
from ebmlab.settings import require_choice, require_count, require_factor

Interval = Literal["epoch", "step"]
ADAM: OptimizerCallable = partial(torch.optim.Adam, lr=1e-3)


class Learner(Rebuilt, Draws):
    """An energy, a sampler that draws from it, and the optimizer of the energy. A subclass defines the loss.

    Args:
        energy: the model.
        sampler: draws from it.
        num_steps: steps of the sampler's chains.
        l1: factor of the sum of the absolute weights, which is added to the loss. Weights are parameters with two or
            more axes; biases are not penalised.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: when the schedule takes a step: after each `epoch` or after each optimizer `step`.

    Example:
        >>> import torch
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, Learner
        >>> from ebmlab.samplers import BlockGibbs
        >>> learner: Learner = ContrastiveDivergence(RBM(6, 3), BlockGibbs())
        >>> learner(torch.zeros(2, 1, 2, 3)).shape  # images become vectors
        torch.Size([2])
    """

    domains: tuple[type[Domain], ...] = (Domain,)
    takes_weights: bool = False  # whether the loss counts samples by their weights
    asks_sampler: bool = False  # whether training asks its sampler to change, if it is a `ChangesWithTraining`
    logs: tuple[str, ...] = ()  # all that this very class logs; a subclass that says nothing may log anything

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        *,
        num_steps: int,
        l1: float,
        optimizer: OptimizerCallable,
        lr_scheduler: LRSchedulerCallable | None,
        lr_interval: Interval,
    ) -> None:
        super().__init__()
        if not isinstance(energy.domain, self.domains):
            kinds = " or ".join(kind.__name__ for kind in self.domains)
            raise UserError(
                f"{type(self).__name__} fits energies on {kinds} domains, but {type(energy).__name__} lives on "
                f"{energy.domain}: take another energy, or another learner"
            )
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Attribute .* is an instance of `nn.Module`")
            warnings.filterwarnings("ignore", "Attribute .* removed from hparams")  # a module with parametrizations
            self.save_hyperparameters(logger=False)  # those that the command line gives
        if CLASS_PATH not in self.hparams:
            self.hparams.clear()  # `Rebuilt` describes what Python has made
        self.energy = energy = uncompiled(energy)
        self.sampler = sampler
        self.num_steps = num_steps
        require_factor(type(self).__name__, l1=l1)
        self.l1 = l1
        self._make_optimizer = optimizer
        self._make_lr_scheduler = lr_scheduler
        self._lr_interval = lr_interval
        self._settings: Groups = []  # of the optimizer, before a checkpoint replaces them
        self._saved: Groups = []  # those of a checkpoint from which training goes on
        self.continued_settings: dict[str, Any] = {}  # of these, the ones that replace others
        self._is_monitored = False  # something in the run depends on values that are logged in training steps
        self._split_weights: Tensor | None = None  # of the batch that `log_split` sees
        self._period = 0  # T_max of a cosine, if `set_period` has set it; a checkpoint may bring another one
        sampler.check(energy)
        require_count(type(self).__name__, num_steps=num_steps)
        require_choice(type(self).__name__, ("epoch", "step"), lr_interval=lr_interval)

    def __setattr__(self, name: str, value: Any) -> None:
        """Sets an attribute. Lightning writes this one 40 times a step, and torch would look for parameters in it."""
        if name == "_current_fx_name":
            self.__dict__[name] = value
        else:
            super().__setattr__(name, value)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        """The loss of a batch of data `(B, *event)`, a scalar."""
        raise NotImplementedError

    def validation_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("val", batch, batch_idx)

    def test_step(self, batch: Any, batch_idx: int) -> None:
        self._evaluate("test", batch, batch_idx)

    def predict_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The energies `(B,)` of a batch of data, in any form that the trainer's loaders give."""
        energies: Tensor = self.energy(self.states(batch))
        return energies

    def _evaluate(self, split: str, batch: Any, batch_idx: int) -> None:
        """With random numbers of the batch's own: the same each time, and without moving those of training."""
        with own_numbers(seed_of_rank(batch_idx, self.global_rank), self.device):
            self._split_weights = self.weights(batch)
            self.log_split(split, self.states(batch))

    def log_split(self, split: str, x: Tensor) -> None:
        """Logs the mean energy of a batch x `(B, *event)` of the validation or test split."""
        self.log_mean(f"{split}/energy", self.energy(x))

    def log_mean(self, name: str, values: Tensor) -> None:
        """Logs the mean of values `(B,)` of a batch of the validation or test split, by their weights if they have."""
        self.log(name, weighted_mean(values, self._split_weights), batch_size=len(values), sync_dist=True)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        """Deep-copies all but the optimizer factories, which hold the trainer. Weight averaging needs this."""
        for shared in (self._make_optimizer, self._make_lr_scheduler):
            memo[id(shared)] = shared
        new = type(self).__new__(type(self))
        memo[id(self)] = new
        new.__setstate__(copy.deepcopy(self.__getstate__(), memo))  # type: ignore[no-untyped-call]
        return new

    def forward(self, x: Tensor) -> Tensor:
        """Energies `(B,)` of a batch of data."""
        energy: Tensor = self.energy(self.to_event(x))
        return energy

    def to_event(self, x: Tensor) -> Tensor:
        """A batch of data as states of the energy's domain; images become vectors if the energy takes vectors."""
        return x.reshape(len(x), *self.energy.domain.event_shape)

    def states(self, batch: Any) -> Tensor:
        """A batch of the trainer's loaders, in any form, as states of the energy's domain, in the energy's dtype."""
        x = samples_of(batch, "the batch") if self._trainer is None else data_of(self.trainer).convert(batch)
        return self.energy.as_states(self.to_event(x))

    def weights(self, batch: Any) -> Tensor | None:
        """How much each sample of a batch counts, `(B,)`, with mean 1 over the split; None if all count alike."""
        return None if self._trainer is None else data_of(self.trainer).batch_weights(batch)

    def penalty(self) -> Tensor | float:
        """The term of the loss that does not depend on the data: l1 times the sum of the absolute weights."""
        if self.l1 == 0:
            return 0.0
        return self.l1 * torch.stack([p.abs().sum() for p in self.energy.parameters() if p.dim() > 1]).sum()

    def setup(self, stage: str) -> None:
        check_processes(self.trainer)
        keep_digits(self, self.trainer)
        average_parameters(self, self.trainer)
        data, energy = data_of(self.trainer), type(self.energy).__name__
        self.check_data(data, stage == "fit")
        if stage == "fit":
            warn_of_unasked(self.sampler, type(self).__name__, asks=self.asks_sampler)
        splits = {"fit": ["train"], "validate": ["val"], "test": ["test"]}.get(stage, [])
        for split in splits + ["val"] * (stage == "fit" and self.trainer.enable_validation):
            check_first_batch(data, split, self.energy.domain, energy)

    def check_data(self, data: Data, training: bool = True) -> None:
        """Raises `UserError` if the energy cannot model the data or, in training, cannot learn from them."""
        energy = type(self.energy).__name__
        check_domain(data, self.energy.domain, energy)
        if training and not self.takes_weights:
            refuse_weights(data, type(self).__name__)
        if data.event_shape is not None:
            check_event_shape(data.event_shape, self.energy.domain, data.title, energy)

    @property
    def log_is_due(self) -> bool:
        """Whether values that are logged in this training step are written down.

        They are at every `log_every_n_steps`-th optimizer step and at the end of an epoch. They are at every step if a
        checkpoint, early stopping or the learning rate depends on one of them. Lightning's bookkeeping of values that
        nobody reads takes longer than a training step of a small model.
        """
        if (trainer := self._trainer) is None or self._is_monitored:
            return True
        every: int = trainer.log_every_n_steps  # type: ignore[attr-defined]
        return bool(trainer.fast_dev_run) or trainer.is_last_batch or (trainer.global_step + 1) % max(every, 1) == 0  # type: ignore[attr-defined]

    def on_fit_start(self) -> None:
        """Refuses what cannot go on before the callbacks start and the run's files are written."""
        check_averages(self.trainer)
        if self._saved:
            watched = any(schedule.reduce_on_plateau for schedule in self.trainer.lr_scheduler_configs)
            optimizer = continued(self._make_optimizer(self.parameters()), self._saved)
            self.continued_settings = check_settings(self._settings, optimizer, watched)
        if self.global_rank > 0:  # the ranks must not draw the same random numbers
            torch.manual_seed(seed_of_rank(torch.initial_seed(), self.global_rank))

    def on_train_start(self) -> None:
        resume_accumulation(self.trainer)
        check_period(self._period, self.trainer)
        self._is_monitored = monitors_training(self.trainer)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.log_is_due:
            grads = [p.grad for p in self.parameters() if p.grad is not None]
            self.log("train/grad_norm", torch.nn.utils.get_total_norm(grads))
            self.log("train/learning_rate", optimizer.param_groups[0]["lr"])

    def configure_optimizers(self) -> Any:
        try_optimizer(self._make_optimizer, self._make_lr_scheduler, self.parameters())
        with explained(f"optimizer or lr_scheduler: {WHY}", ValueError):
            optimizer = in_one_pass(self._make_optimizer(self.parameters()))
            scheduler = self._make_lr_scheduler(optimizer) if self._make_lr_scheduler else None
        self._settings = settings_of(optimizer)
        for group in self._settings:
            require_factor("optimizer", lr=float(group.get("lr", 0.0)))
        if scheduler is None:
            return [optimizer], []
        self._period = set_period(scheduler, self._lr_interval, self._trainer)
        schedule: dict[str, Any] = {"scheduler": scheduler, "interval": self._lr_interval}
        if isinstance(scheduler, ReduceLROnPlateau):  # waits where an epoch has no validation
            schedule |= {"monitor": scheduler.monitor, "strict": False}
            if self._lr_interval == "epoch" and str(scheduler.monitor).startswith("val/"):  # else it sees old scores
                schedule["frequency"] = self.trainer.check_val_every_n_epoch or 1
        return [optimizer], [schedule]

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Saves how to make the learner again, and how raw data become states."""
        super().on_save_checkpoint(checkpoint)
        save_average(self.trainer, checkpoint)
        data = data_of(self.trainer)
        if data.has("train"):
            preprocessing = data.preprocessing
            checkpoint["preprocessing"] = None if preprocessing is None else preprocessing.to_dict()

    def on_load_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Makes the trainer's data become states as they did in training; see `Data.adopt`."""
        if self._trainer is None:
            return
        load_trained(self.trainer, checkpoint)
        if self.trainer.state.fn == TrainerFn.FITTING and "optimizer_states" not in checkpoint:
            raise UserError(
                f"{self.trainer.ckpt_path} has weights alone (save_weights_only), and no training goes on from them: "
                "take a checkpoint that was saved whole, or begin a new run"
            )
        if self.trainer.state.fn == TrainerFn.FITTING and checkpoint["optimizer_states"]:
            self._saved = checkpoint["optimizer_states"][0]["param_groups"]
        path = self.trainer.ckpt_path or "the checkpoint"
        require_finite(checkpoint["state_dict"], path, dict(self.named_parameters()))
        if saved := checkpoint.get("preprocessing"):
            data_of(self.trainer).adopt(Preprocessing.from_dict(saved))
