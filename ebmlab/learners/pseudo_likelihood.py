"""Pseudo-likelihood: each coordinate is predicted from all others (Besag, 1975; Ekeberg et al., 2013)."""

from __future__ import annotations

import copy
from functools import partial
from typing import Any, Literal, cast

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor, nn
from torch.nn.functional import softplus

from ebmlab.domains import Binary, Finite, Spin
from ebmlab.energies import Energy, Ising, Potts
from ebmlab.energies.pairwise.conditionals import felt, log_conditionals
from ebmlab.energies.pairwise.potts import zero_sum
from ebmlab.errors import UserError
from ebmlab.learners.learner import Interval, Learner
from ebmlab.learners.sample_loss import SampleLoss
from ebmlab.samplers import GibbsSweep, Sampler
from ebmlab.settings import require_choice, require_count, require_factor

ADAM: OptimizerCallable = partial(torch.optim.Adam, lr=1e-2)


def pseudo_log_likelihood(energy: Energy, x: Tensor, *, sites: Tensor | None = None) -> Tensor:
    """The sum over i of log p(x_i | all others), `(B,)`, of states `(B, *event)` of a finite domain.

    Args:
        energy: the model.
        x: the states.
        sites: the coordinates i, numbered in the flattened domain shape, each once, `(k,)`; all when None.
    """
    if isinstance(energy, Ising) and type(energy).forward is Ising.forward:
        own = x if sites is None else x[:, sites]
        return -softplus(-2 * own * energy.local_field(x, sites)).sum(1)
    if isinstance(energy, Potts) and type(energy).forward is Potts.forward and not x.requires_grad:
        return energy.log_conditionals(x, sites)
    index = None if sites is None else sites.expand(len(x), -1)
    if isinstance(energy.domain, Binary | Spin):
        return -softplus(-energy.flip_differences(x, index)).sum(1)
    return -(-energy.value_differences(x, index)).logsumexp(-1).sum(1)


class PseudoLikelihood(SampleLoss):
    """Fits an energy on a finite domain by maximal pseudo-likelihood, without chains in training.

    The loss is the mean over data of -sum_i log p(x_i | all others), in nats, plus penalties. Weighted data count by
    their weights. `Potts` and `Ising` have two forms (Ekeberg, Hartonen & Aurell, 2014). In the symmetric one a pair
    has one coupling. In the asymmetric one each site is regressed on the others with couplings of its own. The energy
    then has the mean of the two of each pair, and is in the zero-sum gauge.

    Penalties are on couplings, each pair once; on the other energies, on parameters with two or more axes. Without one
    on fields, values that never occur take a field to minus infinity.

    Args:
        energy: the model.
        sampler: draws from it for pictures, scores and `predict`.
        num_steps: steps of these chains.
        form: `symmetric` or `asymmetric`.
        l1: factor of the sum of absolute couplings. In the asymmetric form both couplings of a pair count, by half.
        l2: factor of the sum of squared couplings, likewise.
        l2_field: factor of the sum of squared fields.
        sites_per_step: k coordinates, drawn anew at each training step, in place of all D. The loss is D / k times
            their sum, which has the same mean. Time and memory of the conditionals fall to k / D; those of penalties
            and of the optimizer stay.
        optimizer: makes the optimizer from the parameters. `torch.optim.LBFGS` needs all data in one batch, and all
            coordinates.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Raises:
        UserError: the energy has no finite domain, the form does not suit it, or there are not so many coordinates.

    Example:
        >>> from ebmlab.energies import Potts
        >>> learner = PseudoLikelihood(Potts(5, 4), l2=0.01, l2_field=0.01)
        >>> round(float(-pseudo_log_likelihood(learner.energy, learner.energy.random(1)).detach()), 4)  # 5 log 4
        6.9315
    """

    domains = (Finite,)
    logs = SampleLoss.logs

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        num_steps: int = 100,
        form: Literal["symmetric", "asymmetric"] = "symmetric",
        l1: float = 0.0,
        l2: float = 0.0,
        l2_field: float = 0.0,
        sites_per_step: int | None = None,
        optimizer: OptimizerCallable = ADAM,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        super().__init__(energy, sampler or GibbsSweep(), num_steps, l1, optimizer, lr_scheduler, lr_interval)
        require_factor("PseudoLikelihood", l2=l2, l2_field=l2_field)
        require_choice("PseudoLikelihood", ("symmetric", "asymmetric"), form=form)
        self.form, self.l2, self.l2_field, self.sites_per_step = form, l2, l2_field, sites_per_step
        energy = self.energy
        if sites_per_step is not None:
            require_count("PseudoLikelihood", sites_per_step=sites_per_step)
            if sites_per_step > energy.domain.size:
                raise UserError(
                    f"PseudoLikelihood: sites_per_step is {sites_per_step}, but {type(energy).__name__} has "
                    f"{energy.domain.size} coordinates"
                )
        paired = isinstance(energy, Potts) or (isinstance(energy, Ising) and energy.learn)
        if l2_field and not paired:
            raise UserError("PseudoLikelihood: l2_field needs a Potts or Ising energy that learns: set it to 0")
        if form == "asymmetric":
            if not paired or not isinstance(energy, Potts | Ising):
                raise UserError(
                    'PseudoLikelihood: form "asymmetric" needs a Potts or Ising energy that learns, got '
                    f'{type(energy).__name__}: use "symmetric"'
                )
            self.regressions = nn.Parameter(_both_orders(energy))
            self.fields = nn.Parameter(energy.field.detach().clone())

    def losses(self, x: Tensor) -> Tensor:
        sites, share = None, 1.0
        if self.sites_per_step is not None:
            sites = torch.randperm(self.energy.domain.size, device=x.device)[: self.sites_per_step]
            share = len(sites) / self.energy.domain.size
        if self.form == "symmetric":
            return -pseudo_log_likelihood(self.energy, x, sites=sites) / share
        return -self._regressed(x, sites) / share

    def configure_optimizers(self) -> Any:
        optimizers, schedules = super().configure_optimizers()
        if self.sites_per_step is not None and isinstance(optimizers[0], torch.optim.LBFGS):
            raise UserError(
                "PseudoLikelihood: LBFGS needs the same loss at each call, and sites_per_step draws other coordinates: "
                "set sites_per_step to null, or take Adam"
            )
        return optimizers, schedules

    @torch.no_grad()
    def on_fit_start(self) -> None:
        """In the asymmetric form, starts from an energy that was changed since, such as by `callbacks.ClosedForm`."""
        super().on_fit_start()
        if self.form == "symmetric":
            return
        held = copy.deepcopy(self.energy)
        self.average_()
        found = [p.clone() for p in self.energy.parameters()]
        self.energy.load_state_dict(held.state_dict())
        if isinstance(held, Potts):
            held.zero_sum_()
        if not all(torch.allclose(a, b, 1e-3, 1e-5) for a, b in zip(found, held.parameters(), strict=True)):
            self.regressions.copy_(_both_orders(cast(Potts | Ising, self.energy)))
            self.fields.copy_(cast(Tensor, self.energy.field))

    def on_train_batch_end(self, *_: Any) -> None:
        """In the asymmetric form, gives the energy what the regressions have found."""
        if self.form == "asymmetric":
            self.average_()

    @torch.no_grad()
    def average_(self) -> None:
        """Sets the energy's fields, and each coupling to the mean of what the regressions of both its sites have found.

        In a Potts model both are brought to the zero-sum gauge before, each with the field of its own site.
        """
        here, there = self.regressions
        if isinstance(self.energy, Ising):
            self.energy.upper.copy_((here + there) / 2)
            self.energy.field.copy_(self.fields)
            return
        assert isinstance(self.energy, Potts)
        i, j = self.energy.pairs.T
        field = self.fields.index_add(0, i, here.mean(2)).index_add_(0, j, there.mean(1))
        self.energy.coupling.copy_(zero_sum((here + there) / 2))
        self.energy.field.copy_(field - field.mean(1, keepdim=True))

    def penalty(self) -> Tensor | float:
        total: Tensor | float = 0.0
        for couplings, share in self._penalised():
            total = total + share * (self.l1 * couplings.abs().sum() if self.l1 else 0.0)
            total = total + share * (self.l2 * couplings.square().sum() if self.l2 else 0.0)
        if self.l2_field:
            fields = self.fields if self.form == "asymmetric" else cast(Tensor, self.energy.field)
            total = total + self.l2_field * fields.square().sum()
        return total

    def log_split(self, split: str, x: Tensor) -> None:
        Learner.log_split(self, split, x)
        self.log_mean(f"{split}/loss", -pseudo_log_likelihood(self.energy, x))

    def _penalised(self) -> list[tuple[Tensor, float]]:
        """Parameters to penalise, each with the factor by which every pair of sites counts once."""
        if self.form == "asymmetric":
            return [(self.regressions, 0.5)]
        if isinstance(self.energy, Potts):
            return [(self.energy.coupling, 1.0)]
        if isinstance(self.energy, Ising):
            return [(self.energy.coupling, 0.5)]  # symmetric: each pair is there twice
        return [(p, 1.0) for p in self.energy.parameters() if p.dim() > 1]

    def _regressed(self, x: Tensor, sites: Tensor | None = None) -> Tensor:
        """As `pseudo_log_likelihood`, each site with couplings of its own, `(B,)`."""
        here, there = self.regressions
        fields = self.fields if sites is None else self.fields[sites]
        if isinstance(self.energy, Potts):
            matrix = felt(len(self.fields), self.energy.pairs, here=here, there=there, sites=sites)
            return log_conditionals(matrix, fields, x, sites=sites)
        own, rows = x, here.triu(1) + there.triu(1).T
        if sites is not None:
            own, rows = x[:, sites], rows[sites]
        return -softplus(-2 * own * (x @ rows.T + fields)).sum(1)


def _both_orders(energy: Potts | Ising) -> Tensor:
    """The couplings twice, `(2, ...)`: those of the regression of the smaller site of a pair, and of the larger."""
    held = energy.coupling if isinstance(energy, Potts) else energy.coupling.triu(1)
    return held.detach().expand(2, *held.shape).clone()
