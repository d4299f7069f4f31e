"""The log-likelihood of the data, by annealed importance sampling."""

from __future__ import annotations

import math
from functools import partial
from pathlib import Path
from typing import Any

import pytorch_lightning as pl
import torch
from pytorch_lightning.callbacks import ModelCheckpoint
from pytorch_lightning.trainer.states import TrainerFn
from pytorch_lightning.utilities.exceptions import SIGTERMException
from torch import Tensor

from ebmlab.callbacks.ais_metrics import LOGGED, bits_per_dim, entropy, judge, metrics_of
from ebmlab.callbacks.image_log import made_by
from ebmlab.callbacks.periodic import PeriodicEvaluation, shows_progress
from ebmlab.callbacks.requirements import energies_at, held_out, learner_of, require_exact, require_split, split_of
from ebmlab.data.interface import Data, Images
from ebmlab.data.weighted import drawn_states, weighted_states
from ebmlab.domains import Finite
from ebmlab.drawing.annealing import Likelihood, draw_annealing, draw_likelihood
from ebmlab.drawing.figures import panels
from ebmlab.drawing.tiles import tile
from ebmlab.energies import Base, reference
from ebmlab.errors import WHY, UserError, explained
from ebmlab.evaluation import LogZ, data_law, log_z
from ebmlab.evaluation.annealing import path_for
from ebmlab.evaluation.base_laws import has_data_law
from ebmlab.evaluation.headline import Headline
from ebmlab.evaluation.ladder import Schedule, check_schedule
from ebmlab.evaluation.walk import annealing_kernel
from ebmlab.learners import Learner
from ebmlab.learners.fitting_data import weighted_mean
from ebmlab.lightning.checkpoints import skip_where
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.ranks import seed_of_rank
from ebmlab.samplers import Sampler
from ebmlab.settings import require_count, require_inside

SHOWN = 64
LIKELIHOODS = ("ais/log_likelihood", "ais/log_likelihood_lower", "ais/train_log_likelihood", "ais/bits_per_dim")
"""NaN for checkpoints if they are not to be trusted."""


class AIS(PeriodicEvaluation):
    """Estimates log Z and the mean log-likelihood of the data, in nats.

    Logs these numbers of the validation split, or of the test split in `test`:

    - `ais/log_likelihood`; that of real data is a density of the standardised states;
    - `ais/bits_per_dim`, minus the same likelihood in bits, divided by the number of coordinates. That of real data is
      a density of the raw numbers, whose unit is one level of a pixel. A density can exceed 1, and this number then is
      negative;
    - `ais/entropy` of the model's law on a finite domain, log Z plus the mean energy of the chains by their weights, in
      nats; of one process alone;
    - `ais/log_z`, and `ais/std_error`, its standard error and the gap (below) added in squares;
    - `ais/ess`, the effective sample size of the weights (of `num_chains` times `num_replicates`), and
      `ais/max_weight`, the largest share that one chain has.

    Shows the chains' last states as `ais/samples`, and as `ais/weights` the histogram of the log-weights of both
    directions and the effective chains along the path. In `fit` also logs `ais/train_log_likelihood`, of as many
    training data, and draws `ais/likelihood`, both along the training.

    If chains are too short, AIS underestimates log Z and overestimates the likelihood, often with all chains effective.
    So chains also run backward, from data that the sampler has moved at the full model for a tenth of the temperatures.
    They give `ais/log_likelihood_lower`, and `ais/gap`, the backward log Z minus the forward one. `ais/trusted` is 1
    where these are within 1 nat and at least 10 chains of each direction are effective, else 0. A family of resampled
    chains counts as one, and `ais/families` says how many survive. An untrusted number comes with a warning that says
    why and what to change, has no standard error, and replaces no best checkpoint. A likelihood of discrete data above
    0 is impossible, and untrusted too. The backward estimate is approximate: it cannot reveal a mode that neither data
    nor chains have visited. An interrupted forward run continues from a file in the run's folder.

    Args:
        num_chains: chains in one replicate, over all ranks.
        num_temperatures: steps of each chain in `fit` and `validate`.
        test_temperatures: steps of each chain in `test`; default as in `fit`.
        sampler: moves the chains and must be exact; the learner's sampler when None.
        schedule: `linear`, `sigmoid` or `adaptive`, see `ebmlab.evaluation.ais`.
        num_replicates: independent repeats; `ais/spread` is the standard deviation of their log Z.
        reverse: run the chains backward, too. False saves half the time, and no likelihood is trusted.
        every_n_epochs: see `PeriodicEvaluation`.
        at_start: also evaluate before the first step.
        seed: of the chains.
        resample: the share of effective chains under which they are resampled; 0 for never.
        num_moves: steps of each chain at each temperature.
        equilibrate: the sampler that moves data at the full model before they go backward; None takes `sampler`.
            `Tempered` suits modes that `sampler` does not leave.
        compile: see `ebmlab.evaluation.ais`; the first evaluation takes 10 to 20 seconds longer.

    Example:
        >>> from ebmlab.datamodules import Digits
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromData
        >>> from ebmlab.samplers import BlockGibbs
        >>> callback = AIS(num_chains=100, num_temperatures=20)
        >>> trainer = pl.Trainer(logger=False, enable_progress_bar=False, callbacks=[callback])
        >>> learner = ContrastiveDivergence(RBM(64, 8), BlockGibbs(), start=FromData())
        >>> (metrics,) = trainer.test(learner, Digits(binarize=True), verbose=False)
        >>> -50 < metrics["ais/log_likelihood"] < -40  # 64 log(1/2) = -44 before training
        True
    """

    logs = tuple(f"ais/{name}" for name in LOGGED)

    def __init__(
        self,
        num_chains: int = 500,
        num_temperatures: int = 10_000,
        *,
        test_temperatures: int | None = None,
        sampler: Sampler | None = None,
        schedule: Schedule = "linear",
        num_replicates: int = 1,
        reverse: bool = True,
        every_n_epochs: int = 10,
        at_start: bool = False,
        seed: int = 0,
        resample: float = 0.0,
        num_moves: int = 1,
        equilibrate: Sampler | None = None,
        compile: bool = False,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed=seed)
        check_schedule(schedule)
        tests = num_temperatures if test_temperatures is None else test_temperatures
        require_count("AIS", num_chains=num_chains, num_temperatures=num_temperatures, test_temperatures=tests)
        require_count("AIS", num_replicates=num_replicates, num_moves=num_moves)
        self.num_chains = num_chains
        self.num_temperatures = num_temperatures
        self.test_temperatures = tests
        self.sampler = sampler
        self.schedule: Schedule = schedule
        self.num_replicates = num_replicates
        self.reverse = reverse
        require_inside("AIS", "[0, 1]", resample=resample)
        self.resample = resample
        self.num_moves = num_moves
        if equilibrate is not None and not equilibrate.converges:
            raise UserError(
                f"AIS: equilibrate is {type(equilibrate).__name__}, whose chains do not follow the model's "
                "law however long they are: take an exact sampler, or Tempered around one"
            )
        self.equilibrate = equilibrate
        self.compile = compile
        self._history: list[Likelihood] = []

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        require_split(data, held_out(trainer), self, "give it a validation split, or remove it")
        sampler = self._sampler(learner)
        require_exact(sampler, self)
        with explained(f"AIS: {type(sampler).__name__} cannot move its chains: {WHY}", UserError):
            sampler.check(learner.energy)
            path = path_for(sampler, reference(learner.energy.domain), learner.energy)
            if self.compile:
                annealing_kernel(path, sampler, self.resample, self.num_moves)
            if self.equilibrate is not None:
                self.equilibrate.check(learner.energy)

    def setup(self, trainer: pl.Trainer, pl_module: pl.LightningModule, stage: str) -> None:
        super().setup(trainer, pl_module, stage)
        for callback in trainer.checkpoint_callbacks:
            if isinstance(callback, ModelCheckpoint) and callback.monitor in self._likelihoods(trainer):
                skip_where(callback, lambda _, score: score is not None and bool(score.isnan()))  # untrusted

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        learner, data = learner_of(pl_module, self), data_of(trainer)
        testing, fitting = trainer.state.fn == TrainerFn.TESTING, trainer.state.fn == TrainerFn.FITTING
        temperatures = self.test_temperatures if testing else self.num_temperatures
        chains, steps = self.limit(trainer, self.num_chains, temperatures)
        states, weights = weighted_states(data, held_out(trainer))
        mean_energy = float(weighted_mean(energies_at(learner, states), weights))
        starts = states if weights is None else drawn_states(data, held_out(trainer), seed=self.seed)
        found = self._log_z(trainer, learner, data, starts, chains, steps)
        metrics = metrics_of(found, mean_energy)
        metrics["ais/bits_per_dim"] = bits_per_dim(metrics["ais/log_likelihood"], data, learner.energy)
        if isinstance(learner.energy.domain, Finite) and trainer.world_size == 1:
            metrics["ais/entropy"] = entropy(found, energies_at(learner, found.samples))
        trusted = judge(metrics, found, learner.energy, quiet=bool(trainer.fast_dev_run))  # type: ignore[attr-defined]
        if fitting:
            train, weights = weighted_states(data, split_of(data, "train"), n=len(states), seed=self.seed)
            metrics["ais/train_log_likelihood"] = (
                -float(weighted_mean(energies_at(learner, train), weights)) - found.log_z
            )
        self.log_metrics(trainer, pl_module, metrics)
        if fitting and not trusted:
            self._metrics |= dict.fromkeys(self._likelihoods(trainer), math.nan)  # also for a resumed run
            self._publish(trainer, self._metrics)
        caption = made_by(self._sampler(learner), steps * self.num_moves)
        if fitting:
            history = self._extended(trainer.global_step, metrics)
            self.log_image(trainer, "ais/likelihood", draw_likelihood(history), caption=caption)
        self.log_image(trainer, "ais/weights", draw_annealing(found), caption=caption)
        shown = data.show(found.samples[:SHOWN])
        if isinstance(shown, Images):
            title = f"AIS: {len(shown.values)} chains after {steps} temperatures"
            self.log_image(trainer, "ais/samples", panels({title: tile(shown.values)}), caption=caption)

    def headline_of(self, trainer: pl.Trainer, metrics: dict[str, float]) -> Headline:
        name = f"{'test' if held_out(trainer) == 'test' else 'validation'} log-likelihood"
        error, trusted = metrics.get("ais/std_error"), bool(metrics["ais/trusted"])
        return Headline(name, metrics["ais/log_likelihood"], unit="nats", error=error, trusted=trusted)

    def _log_z(
        self, trainer: pl.Trainer, learner: Learner, data: Data, states: Tensor, chains: int, steps: int
    ) -> LogZ:
        """Log Z by chains that go forward, and by chains that go back from some of the `states` `(n, *event)`."""
        name = f"ais-{held_out(trainer)}-step{trainer.global_step}-seed{self.seed}-rank{trainer.global_rank}"
        base = base_law(learner, data)
        torch.manual_seed(seed_of_rank(self.seed, trainer.global_rank))
        return log_z(
            learner.energy,
            self._sampler(learner).to(learner.device),
            x=learner.to_event(states) if self.reverse else None,
            base=base,
            num_chains=chains,
            num_temperatures=steps,
            schedule=self.schedule,
            num_replicates=self.num_replicates,
            progress=shows_progress(trainer),
            saved=Path(trainer.default_root_dir, f"{self.key(trainer, name)}.pt"),
            check=partial(_stop_if_told, trainer),
            resample=self.resample,
            num_moves=self.num_moves,
            equilibrate=None if self.equilibrate is None else self.equilibrate.to(learner.device),
            compile=self.compile,
        )

    def _likelihoods(self, trainer: pl.Trainer) -> set[str]:
        return {self.key(trainer, name) for name in LIKELIHOODS}

    def state_dict(self) -> dict[str, Any]:
        return super().state_dict() | {"history": [tuple(point) for point in self._history]}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        super().load_state_dict(state_dict)
        self._history = [Likelihood(*point) for point in state_dict.get("history", [])]  # older checkpoints have none

    def _extended(self, step: int, metrics: dict[str, float]) -> list[Likelihood]:
        """The likelihoods so far, with the new ones; a training that was rolled back forgets what it had ahead."""
        value, train = metrics["ais/log_likelihood"], metrics["ais/train_log_likelihood"]
        lower = metrics.get("ais/log_likelihood_lower", math.nan)
        point = Likelihood(step, value, lower, train, bool(metrics["ais/trusted"]))
        self._history = [*(earlier for earlier in self._history if earlier.step < step), point]
        return self._history

    def _sampler(self, learner: Learner) -> Sampler:
        return self.sampler or learner.sampler


def _stop_if_told(trainer: pl.Trainer) -> None:
    """Stops AIS on SIGTERM, for which Lightning only sets a flag that it reads between batches."""
    if trainer.received_sigterm:
        raise SIGTERMException


def base_law(learner: Learner, data: Data) -> Base:
    """The law of the training data on bits, as published, and on real numbers; see `data_law`."""
    domain = learner.energy.domain
    if not has_data_law(domain):
        return reference(domain)
    x, weights = weighted_states(data, split_of(data, "train"))
    return data_law(domain, learner.to_event(x), weights=weights).to(learner.device)
