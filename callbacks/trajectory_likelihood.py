"""The log-likelihood of the data along training."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_warn

from ebmlab.callbacks.ais import base_law
from ebmlab.callbacks.isolated_evaluation import isolated
from ebmlab.callbacks.requirements import energies_at, learner_of, require_exact
from ebmlab.data.weighted import weighted_states
from ebmlab.domains import Finite
from ebmlab.evaluation.log_z import MIN_CHAINS
from ebmlab.evaluation.trajectory import Trajectory
from ebmlab.learners import Learner
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.lightning.averages import before_averages
from ebmlab.lightning.run_data import data_of
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count


class TrajectoryLikelihood(pl.Callback):
    """Follows log Z through training with weighted chains (`ebmlab.evaluation.trajectory`).

    Logs every `every_n_steps` optimizer steps, and at the end of training. `trajectory/train_log_likelihood` and
    `trajectory/val_log_likelihood` are means of `num_data` states, in nats, for each split that the run has. Beside
    them stand `trajectory/log_z` and `trajectory/ess`, the effective number of chains since they were last resampled.
    `trajectory/families` is the number of first states from which they descend. No likelihood has an error bar. Where
    training is faster than the chains, they miss the mass of new modes, few families survive, and the likelihood is too
    high: `trajectory/trusted` is 0 with fewer than 10 families, or above 0 nats for discrete data, and a warning says
    so once. More chains help most: where chains cannot go from mode to mode, families die out however many steps they
    take. More steps or slower training help, too; `AIS` estimates from both sides.

    The chains have random numbers of their own, so that training goes on as without them, and are saved in the
    checkpoint. In a distributed run every rank runs the same chains.

    Args:
        num_chains: chains.
        num_steps: steps of each chain from one update of the weights to the next, at stops on the straight line between
            the parameters. There are more if the weights would spread by more than half a nat from stop to stop.
        every_n_steps: optimizer steps from one update to the next. The line between two updates is much shorter than
            the optimizer's path, whose every turn would add to the error of log Z.
        num_data: states of each split to score.
        sampler: moves the chains and must be exact; the learner's sampler when None.
        seed: of the chains, and of the choice of states.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> callback = TrajectoryLikelihood(num_chains=20)
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> trainer = pl.Trainer(max_steps=5, log_every_n_steps=5, callbacks=[callback], **dict.fromkeys(quiet, False))
        >>> trainer.fit(ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData()), Digits(binarize=True))
        >>> -50 < float(trainer.callback_metrics["trajectory/train_log_likelihood"]) < -20
        True
    """

    def __init__(
        self,
        num_chains: int = 100,
        num_steps: int = 150,
        *,
        every_n_steps: int = 500,
        num_data: int = 1000,
        sampler: Sampler | None = None,
        seed: int = 0,
    ) -> None:
        counts = {"num_chains": num_chains, "num_steps": num_steps, "every_n_steps": every_n_steps}
        require_count("TrajectoryLikelihood", **counts, num_data=num_data)
        self.num_chains = num_chains
        self.num_steps = num_steps
        self.every_n_steps = every_n_steps
        self.num_data = num_data
        self.sampler = sampler
        self.seed = seed
        self._trajectory: Trajectory | None = None
        self._stream: torch.Tensor | None = None
        self._loaded: dict[str, Any] | None = None
        self._seen = 0
        self._warned = False
        self._data: dict[str, tuple[torch.Tensor, torch.Tensor | None]] = {}

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        require_exact(self._sampler(learner_of(pl_module, self)), self)
        before_averages(trainer, self)  # at the end of training an average replaces the weights that are followed

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, loaded, data = learner_of(pl_module, self), self._loaded, data_of(trainer)
        self._data = {
            s: weighted_states(data, s, n=self.num_data, seed=self.seed) for s in ("train", "val") if data.has(s)
        }
        self._stream, self._loaded, self._seen = None, None, trainer.global_step
        with self._own_numbers(learner):
            sampler = self._sampler(learner).to(learner.device)
            saved = None if loaded is None else loaded["chains"]
            base = base_law(learner, data) if saved is None else None
            self._trajectory = Trajectory(learner.energy, sampler, base, self.num_chains, saved=saved)
        if loaded is not None:
            self._stream, self._seen = loaded["stream"].cpu(), loaded["seen"]

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        if trainer.global_step % self.every_n_steps == 0:
            self._log(trainer, learner_of(pl_module, self))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._log(trainer, learner_of(pl_module, self))

    def _log(self, trainer: pl.Trainer, learner: Learner) -> None:
        step, trajectory = trainer.global_step, self._trajectory
        if step == self._seen or trajectory is None:  # gradients may accumulate
            return
        self._seen = step
        with self._own_numbers(learner):
            trajectory.follow(self.num_steps)
            metrics = {
                "trajectory/log_z": trajectory.log_z,
                "trajectory/ess": trajectory.ess,
                "trajectory/families": float(trajectory.families),
            }
            for split, (x, weights) in self._data.items():
                mean = float(weighted_mean(energies_at(learner, x), weights))
                metrics[f"trajectory/{split}_log_likelihood"] = -mean - trajectory.log_z
            quiet = bool(trainer.fast_dev_run)  # type: ignore[attr-defined]
            metrics["trajectory/trusted"] = float(self._judge(metrics, learner, quiet))
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})
        for logger in trainer.loggers:
            logger.log_metrics({**metrics, "epoch": trainer.current_epoch}, step=step - 1)

    def _judge(self, metrics: dict[str, float], learner: Learner, quiet: bool) -> bool:
        """Whether the likelihood is to be trusted. The first time that it is not, warns."""
        most = max((v for k, v in metrics.items() if k.endswith("likelihood")), default=-math.inf)
        doubt = ""
        if most > 0 and isinstance(learner.energy.domain, Finite):
            doubt = f"{most:.4g} nats, and above 0 is impossible for discrete data"
        elif metrics["trajectory/families"] < min(MIN_CHAINS, self.num_chains):
            doubt = f"its {self.num_chains} chains descend from {metrics['trajectory/families']:.0f} first states"
        if doubt and not self._warned and not quiet:
            self._warned = True
            rank_zero_warn(
                f"TrajectoryLikelihood: do not trust the likelihood from here on: {doubt}. The chains do not keep up "
                "with training: raise num_chains or num_steps, lower the learning rate, or use AIS"
            )
        return not doubt

    def state_dict(self) -> dict[str, Any]:
        if self._trajectory is None:
            return {} if self._loaded is None else self._loaded
        return {"chains": self._trajectory.state_dict(), "stream": self._stream, "seen": self._seen}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict or None

    def _sampler(self, learner: Learner) -> Sampler:
        return self.sampler or learner.sampler

    @contextmanager
    def _own_numbers(self, learner: Learner) -> Iterator[None]:
        """Runs its body with separate random numbers, which continue those of the last call."""
        with isolated(learner, self.seed if self._stream is None else self.seed + self._seen):
            if self._stream is not None:
                torch.set_rng_state(self._stream)
            yield
            self._stream = torch.get_rng_state()
