"""The log-likelihood of the data along training, from replicas at its own stages."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.utilities import rank_zero_warn
from torch import Tensor

from ebmlab.callbacks.ais_evaluation import base_law, mean_energy_of
from ebmlab.callbacks.isolated import isolated
from ebmlab.callbacks.requirements import learner_of
from ebmlab.domains import Finite
from ebmlab.energies import Base, Energy
from ebmlab.errors import UserError
from ebmlab.evaluation.exchange import ExchangeResult, run_exchange, with_rungs
from ebmlab.learners import Learner
from ebmlab.plain_data import data_of
from ebmlab.samplers import Sampler, TrajectoryTempered
from ebmlab.samplers.trajectory_tempered import swap_log_ratio

GROWTH = 1.2  # of the number of optimizer steps, from one of the first updates to the next


class ExchangeLikelihood(pl.Callback):
    """Follows log Z through training with replicas at the model and at earlier stages (Bereux et al. 2025).

    An update moves the replicas along the whole path of stages and on to a base law, and takes log Z from the ratios of
    neighbours (`ebmlab.evaluation.exchange_log_z`). Errors therefore do not add up over training as the weights of
    `TrajectoryLikelihood` do, and chains find new modes by way of the stages. A stage is kept when the model no longer
    swaps with the last one that was. In every update half of the replicas at the model begin at training data, the
    others where they were: their two likelihoods must agree.

    Logs at every update, and at the end of training, `exchange/train_log_likelihood` and `exchange/val_log_likelihood`,
    mean nats of the first `num_data` states of a split that the run has, `exchange/log_z`, `exchange/std_error`,
    `exchange/swap_rate`, the smallest of all neighbours, `exchange/stages`, and `exchange/trusted`, 0 where something
    is to be doubted; the first time, a warning says what. Updates come at every fifth of the steps made so far, and at
    most `every_n_steps` apart.

    The replicas have random numbers of their own, so that training goes on as without them. They and all stages are
    saved in the checkpoint. In a distributed run every rank runs the same replicas.

    Args:
        num_chains: replicas at each stage.
        num_steps: of each replica in an update; the first half is left out of the estimate.
        every_n_steps: optimizer steps from one update to the next.
        swap_rate: below it, a stage is kept.
        rungs: temperatures between the earliest stage and the base law, the latter included.
        num_data: states of each split to score.
        sampler: moves the replicas and must be exact; the learner's sampler when None.
        seed: of the replicas.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> callback = ExchangeLikelihood(num_chains=20)
        >>> quiet = ("logger", "enable_progress_bar", "enable_checkpointing", "enable_model_summary")
        >>> trainer = pl.Trainer(max_steps=5, callbacks=[callback], **dict.fromkeys(quiet, False))
        >>> trainer.fit(ContrastiveDivergence(RBM(64, 8), BlockGibbs(), FromData()), Digits(binarize=True))
        >>> -50 < float(trainer.callback_metrics["exchange/train_log_likelihood"]) < -20
        True
    """

    def __init__(
        self,
        num_chains: int = 50,
        num_steps: int = 40,
        every_n_steps: int = 2000,
        swap_rate: float = 0.25,
        rungs: int = 4,
        num_data: int = 1000,
        sampler: Sampler | None = None,
        seed: int = 0,
    ) -> None:
        if min(num_chains, num_steps) < 4 or min(every_n_steps, rungs, num_data) < 1 or not 0 < swap_rate < 1:
            raise UserError(
                f"ExchangeLikelihood: num_chains is {num_chains}, num_steps {num_steps}, every_n_steps "
                f"{every_n_steps}, rungs {rungs}, num_data {num_data} and swap_rate {swap_rate}; the first two must be "
                "at least 4, the next three at least 1, and swap_rate between 0 and 1"
            )
        self.num_chains = num_chains
        self.num_steps = num_steps
        self.every_n_steps = every_n_steps
        self.swap_rate = swap_rate
        self.rungs = rungs
        self.num_data = num_data
        self.sampler = sampler
        self.seed = seed
        self._stages: list[Energy] = []
        self._last: Energy | None = None
        self._replicas: Tensor | None = None
        self._stream: Tensor | None = None
        self._loaded: dict[str, Any] | None = None
        self._seen = self._next = 0
        self._warned = False
        self._base: Base | None = None
        self._data: dict[str, Tensor] = {}

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        sampler = self._sampler(learner_of(pl_module, self))
        if not sampler.exact:
            raise UserError(
                f"ExchangeLikelihood needs an exact sampler, and {type(sampler).__name__} is not: set its `sampler` "
                "to one that is, such as DMALA, GWG, or BlockGibbs for RBMs"
            )

    def on_train_start(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, loaded, data = learner_of(pl_module, self), self._loaded, data_of(trainer)
        self._data = {s: data.states(s)[: self.num_data].clone() for s in ("train", "val") if data.has(s)}
        self._loaded, self._stream, self._stages, self._last, self._replicas = None, None, [], None, None
        self._seen = self._next = trainer.global_step
        if loaded is not None:
            self._stream, self._seen, self._next = loaded["stream"].cpu(), loaded["seen"], loaded["next"]
            self._stages = [_filled(learner.energy, tensors) for tensors in loaded["stages"]]
            self._last = _filled(learner.energy, loaded["last"])
            self._replicas = loaded["replicas"].to(learner.device)
        with isolated(learner, self.seed):
            self._base = base_law(learner, data)
        if loaded is None:
            with self._own_numbers(learner):
                self._update(learner)

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: Any) -> None:
        if trainer.global_step >= self._next:
            self._log(trainer, learner_of(pl_module, self))

    def on_train_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        self._log(trainer, learner_of(pl_module, self))

    def _log(self, trainer: pl.Trainer, learner: Learner) -> None:
        step = trainer.global_step
        if step == self._seen:  # gradients may accumulate
            return
        self._seen, self._next = step, step + max(1, min(self.every_n_steps, round((GROWTH - 1) * step)))
        with self._own_numbers(learner):
            result = self._update(learner)
            metrics = {
                "exchange/log_z": result.log_z,
                "exchange/std_error": result.std_error,
                "exchange/swap_rate": float(result.swap_rates.min()),
                "exchange/stages": float(len(self._stages)),
            }
            for split, x in self._data.items():
                metrics[f"exchange/{split}_log_likelihood"] = -mean_energy_of(learner, x) - result.log_z
            quiet = bool(trainer.fast_dev_run)  # type: ignore[attr-defined]
            metrics["exchange/trusted"] = float(self._judge(result, metrics, learner, quiet))
        trainer.callback_metrics.update({key: torch.tensor(value) for key, value in metrics.items()})
        for logger in trainer.loggers:
            logger.log_metrics({**metrics, "epoch": trainer.current_epoch}, step=step - 1)

    def _update(self, learner: Learner) -> ExchangeResult:
        """Moves the replicas along the path to the present model, and keeps the last one as a stage if it must."""
        assert self._base is not None
        energy, base = _filled(learner.energy, _tensors(learner.energy)), self._base
        path, log_z = with_rungs(energy, self._tempered(learner), base, self.rungs)
        x = base.draw(self.num_chains).to(learner.device, energy.dtype) if self._replicas is None else self._replicas
        if self._last is not None:
            one, other = path.path(energy)[:2]
            rate = float(swap_log_ratio(one, other, x[:, 0], x[:, 1]).clamp(max=0).exp().mean())
            if not rate >= self.swap_rate:
                self._stages.insert(0, self._last)
                x = torch.cat([x[:, :1], x], 1)
                path, log_z = with_rungs(energy, self._tempered(learner), base, self.rungs)
        x = x if x.dim() > 1 + len(energy.domain.event_shape) else path.init(energy, x).kept
        data, half = self._data["train"], self.num_chains // 2
        x[:half, 0] = learner.to_event(data[torch.randint(len(data), (half,))]).to(x)
        result, self._replicas = run_exchange(energy, path, x, self.num_steps, log_z)
        self._last = energy
        return result

    def _judge(self, result: ExchangeResult, metrics: dict[str, float], learner: Learner, quiet: bool) -> bool:
        """Whether the likelihood is to be trusted. The first time that it is not, warns."""
        doubts = list(result.doubts)
        for key, value in metrics.items():
            if key.endswith("likelihood") and value > 0 and isinstance(learner.energy.domain, Finite):
                doubts.append(f"{value:.4g} nats, and above 0 is impossible for discrete data")
        if doubts and not self._warned and not quiet:
            self._warned = True
            rank_zero_warn(
                f"ExchangeLikelihood: do not trust the likelihood of step {self._seen}: {'; '.join(doubts)}. Lower "
                "every_n_steps, or raise num_steps"
            )
        return not doubts

    def state_dict(self) -> dict[str, Any]:
        if self._last is None:
            return {} if self._loaded is None else self._loaded
        return {
            "replicas": self._replicas,
            "stages": [_tensors(stage) for stage in self._stages],
            "last": _tensors(self._last),
            "stream": self._stream,
            "seen": self._seen,
            "next": self._next,
        }

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self._loaded = state_dict or None

    def _tempered(self, learner: Learner) -> TrajectoryTempered:
        return TrajectoryTempered(self._sampler(learner).to(learner.device), self._stages)

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


def _tensors(energy: Energy) -> dict[str, Tensor]:
    return {name: tensor.detach().clone() for name, tensor in energy.state_dict().items()}


def _filled(energy: Energy, tensors: dict[str, Tensor]) -> Energy:
    """A copy of an energy with other parameters, in eval mode and frozen."""
    copied = copy.deepcopy(energy).eval().requires_grad_(False)
    copied.load_state_dict(tensors)
    return copied
