"""Contrastive divergence: lower the energy of data, raise that of the sampler's negatives."""

from __future__ import annotations

import math
import warnings
from collections import deque
from collections.abc import Iterator
from functools import partial
from typing import Any, Literal

import pytorch_lightning as pl
import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.domains import Binary, Domain
from ebmlab.energies import Bipartite, Energy
from ebmlab.errors import UserError
from ebmlab.learners.chains import Chains, FromNoise
from ebmlab.noise import bernoulli
from ebmlab.samplers import Info, Sampler, State

SGD: OptimizerCallable = partial(torch.optim.SGD, lr=0.01)


class ContrastiveDivergence(pl.LightningModule):
    """Fits an energy by the gradient <dE/dtheta>_data - <dE/dtheta>_negatives (Liao et al. 2022, Alg. 3 and 4).

    Args:
        energy: the model.
        sampler: moves the negative chains.
        chains: where they start: `FromNoise()` (modified CD, the default) or `FromData()` (plain CD).
        num_steps: K, steps of each chain per training step.
        burn_in: steps whose states do not count; every later state does. Default: all but the last (CD-K).
        density: what is fit, for bipartite energies: "joint" draws the hidden units (Eq. 13), "marginal" sums them out
            (Eq. 18). Other energies have no hidden units and take "marginal".
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule, stepped once an epoch, from the optimizer.

    Raises:
        UserError: a combination that cannot work.
    """

    domains = (Domain,)

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler,
        chains: Chains | None = None,
        num_steps: int = 1,
        burn_in: int | None = None,
        density: Literal["joint", "marginal"] = "marginal",
        optimizer: OptimizerCallable = SGD,
        lr_scheduler: LRSchedulerCallable | None = None,
    ) -> None:
        super().__init__()
        with warnings.catch_warnings():  # without the modules, `load_from_checkpoint` could not rebuild the learner
            warnings.filterwarnings("ignore", "Attribute .* is an instance of `nn.Module`")
            self.save_hyperparameters(logger=False)
        self.energy = energy
        self.sampler = sampler
        self.chains = chains or FromNoise()
        self.num_steps = num_steps
        self.burn_in = num_steps - 1 if burn_in is None else burn_in
        self.density = density
        self._make_optimizer = optimizer
        self._make_lr_scheduler = lr_scheduler
        sampler.check(energy)
        if num_steps < 1:
            raise UserError(f"num_steps is {num_steps}, but a chain must take at least 1 step")
        if density not in ("joint", "marginal"):
            raise UserError(f'density is "{density}", but must be "joint" or "marginal"')
        if not 0 <= self.burn_in < num_steps:
            raise UserError(
                f"burn_in is {burn_in}, but must be from 0 to num_steps - 1 = {num_steps - 1}: some state must count"
            )
        if density == "joint" and not isinstance(energy, Bipartite):
            raise UserError(
                f'density "joint" needs a bipartite energy, {type(energy).__name__} has no hidden units: use "marginal"'
            )

    def forward(self, x: Tensor) -> Tensor:
        """Energies `(B,)` of a batch of data."""
        energy: Tensor = self.energy(self.to_event(x))
        return energy

    def to_event(self, x: Tensor) -> Tensor:
        """A batch of data as states of the energy's domain: images become vectors where the energy wants vectors."""
        return x.reshape(len(x), *self.energy.domain.event_shape)

    def setup(self, stage: str) -> None:
        self.check_data(getattr(self.trainer, "datamodule", None))

    def check_data(self, datamodule: Any) -> None:
        """Raises `UserError` if the energy cannot model the events of a datamodule."""
        domains = getattr(datamodule, "domains", (Domain,))
        if not isinstance(self.energy.domain, domains):
            mend = "true" if isinstance(self.energy.domain, Binary) else "false"
            raise UserError(
                f"{type(datamodule).__name__} gives {domains[0].__name__} data, but {type(self.energy).__name__} lives "
                f"on {self.energy.domain}: set the data's binarize to {mend}, or choose another energy"
            )
        given, wanted = getattr(datamodule, "event_shape", None), self.energy.domain.event_shape
        if given is None or given == wanted or (len(wanted) == 1 and math.prod(given) == wanted[0]):
            return
        raise UserError(
            f"{type(datamodule).__name__} gives events of shape {given} ({math.prod(given)} numbers), but "
            f"{type(self.energy).__name__} models {self.energy.domain}: change the energy's size or the data set"
        )

    def on_fit_start(self) -> None:
        if self.trainer.world_size > 1:  # the ranks must not run the same chains
            torch.manual_seed(torch.initial_seed() + self.global_rank)

    def training_step(self, batch: Tensor, batch_idx: int) -> Tensor:
        x = self.to_event(batch)
        positive, data_energy = self._positive_phase(x)
        negative, negative_energy, info = self._negative_phase(self.chains.start(x, self.energy.domain))
        self.log_dict(
            {
                "train/energy_data": data_energy,
                "train/energy_negative": negative_energy,
                "train/energy_gap": negative_energy - data_energy,
            },
            prog_bar=True,
        )
        self.log("sampler/acceptance", info.acceptance.mean(), prog_bar=True)
        self.log("sampler/hops", info.hops.mean())
        return positive - negative

    def validation_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("val/energy", self(batch).mean(), batch_size=len(batch), sync_dist=True)

    def test_step(self, batch: Tensor, batch_idx: int) -> None:
        self.log("test/energy", self(batch).mean(), batch_size=len(batch), sync_dist=True)

    def on_before_optimizer_step(self, optimizer: torch.optim.Optimizer) -> None:
        grads = [p.grad for p in self.parameters() if p.grad is not None]
        self.log("train/grad_norm", torch.nn.utils.get_total_norm(grads))
        self.log("train/learning_rate", optimizer.param_groups[0]["lr"])

    def configure_optimizers(self) -> Any:
        try:
            optimizer = self._make_optimizer(self.parameters())
            schedulers = [self._make_lr_scheduler(optimizer)] if self._make_lr_scheduler else []
        except ValueError as error:
            raise UserError(f"optimizer or lr_scheduler: {error}") from error
        return [optimizer], schedulers

    def on_save_checkpoint(self, checkpoint: dict[str, Any]) -> None:
        """Keeps hyper-parameters that are plain data: those of a learner that the command line built."""
        checkpoint["hyper_parameters"] = {
            k: v for k, v in checkpoint.get("hyper_parameters", {}).items() if _is_plain(v)
        }

    @torch.no_grad()
    def trajectory(self, x: Tensor, num_steps: int | None = None, denoise: bool = False) -> Iterator[Tensor]:
        """The states `(B, *event)` of chains from x after each step.

        Args:
            x: first states, `(B, *event)`.
            num_steps: at least 1; default as in training.
            denoise: give E[v | h] in place of v (bipartite energies only).
        """
        if num_steps is not None and num_steps < 1:
            raise UserError(f"num_steps is {num_steps}, but a chain must take at least 1 step")
        for state, _ in self.sampler.chain(self.energy, x, self.num_steps if num_steps is None else num_steps):
            yield self._mean_visible(state) if denoise else state.x

    @torch.no_grad()
    def draw(self, x: Tensor, num_steps: int | None = None, denoise: bool = False) -> Tensor:
        """The last state of `trajectory`."""
        return deque(self.trajectory(x, num_steps, denoise), maxlen=1).pop()

    def _positive_phase(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Mean energy of the data, to differentiate, and the mean marginal energy, to log."""
        average = self.energy.average()
        if not isinstance(self.energy, Bipartite):
            average.add(x)
            value = average.value()
            return value, value.detach()
        with torch.no_grad():
            logits = self.energy.hidden_given_visible(x)
            marginal = self.energy.marginal_energy(x, logits).mean()
        average.add(x, bernoulli(logits) if self.density == "joint" else torch.sigmoid(logits))
        return average.value(), marginal

    def _negative_phase(self, x: Tensor) -> tuple[Tensor, Tensor, Info]:
        """Mean energy of the states that count, the last states' mean marginal energy, and the mean `Info`."""
        average = self.energy.average()
        state, total = None, None
        for k, (state, info) in enumerate(self.sampler.chain(self.energy, x, self.num_steps)):
            total = info if total is None else total + info
            if k >= self.burn_in:
                average.add(state.x, self._hidden(state))
        assert state is not None and total is not None
        value = average.value()
        if not isinstance(self.energy, Bipartite) or state.logits is None:
            return value, value.detach(), total / self.num_steps
        with torch.no_grad():
            marginal = self.energy.marginal_energy(state.x, state.logits).mean()
        return value, marginal, total / self.num_steps

    def _hidden(self, state: State) -> Tensor | None:
        """Hidden units that complete a state: drawn ones for the joint density, their mean for the marginal."""
        if state.logits is None:
            return None
        if self.density == "marginal":
            return torch.sigmoid(state.logits)
        return bernoulli(state.logits) if state.hidden is None else state.hidden

    def _mean_visible(self, state: State) -> Tensor:
        if not isinstance(self.energy, Bipartite):
            raise UserError(
                f"denoise gives E[v | h], but {type(self.energy).__name__} has no hidden units: set it to false"
            )
        if state.hidden is not None:
            return self.energy.mean_visible(state.hidden)
        logits = self.energy.hidden_given_visible(state.x) if state.logits is None else state.logits
        return self.energy.mean_visible(torch.sigmoid(logits))


def _is_plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(map(_is_plain, value.values()))
    if isinstance(value, list | tuple):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | float | str)
