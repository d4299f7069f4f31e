"""Boltzmann learning of pairwise models: moments of data against those of persistent chains (Ackley et al., 1985)."""

from __future__ import annotations

from functools import partial
from typing import Any, cast

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.energies import Energy, Ising, Potts
from ebmlab.energies.accumulated import known
from ebmlab.energies.pairwise.statistics import moments
from ebmlab.errors import UserError
from ebmlab.learners.learner import Interval, Learner
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.learners.weighted_states import weighted_states
from ebmlab.numerics.ranks import rank_and_world
from ebmlab.samplers import GibbsSweep, Sampler
from ebmlab.settings import require_count, require_factor

SGD: OptimizerCallable = partial(torch.optim.SGD, lr=0.2)


class BoltzmannLearning(Learner):
    """Fits a `Potts` or `Ising` energy by the gradient of its log-likelihood, f - p in each of its statistics.

    The moments f of all training data are taken once, with their weights; those of the chains, p, after each step. A
    batch of the data only says that it is time for a step.

    The gradient is preconditioned, by default. C is the covariance matrix of the data, m are the data's means, and D
    holds the differences of both covariances about m. With P = (C + damping)^-1, couplings move along P D P, and fields
    along P (f - p) - (P D P) m. For a Gaussian law this is the natural gradient at the data's law. Without it a rate
    that the few directions shared by all sites allow is too small for the many others. D and P D P are set to 0 where
    no coupling learns. The direction then climbs the likelihood on any graph, and vanishes at its maximum alone.

    Args:
        energy: the model.
        sampler: moves the chains.
        num_chains: chains, on all ranks together.
        num_steps: steps of each chain in a training step.
        damping: see above; null takes the plain gradient.
        pseudo_count: share of the uniform law that is mixed into the data's.
        l1: see `Learner`.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Attributes:
        start: the chains.
        chain_moments: mean and mean product of the chains' last states, as in `moments`; None before the first step.
        learns: which couplings of a Potts model learn, in the shape of `energy.coupling`; None for all. The others stay
            what they are.

    Raises:
        UserError: the energy is no Potts model, and no Ising model that learns.

    Example:
        >>> learner = BoltzmannLearning(Potts(5, 4), num_chains=1000)
        >>> learner.start.size, learner.damping
        (1000, 0.05)
    """

    takes_weights = True
    chain_moments: tuple[Tensor, Tensor] | None = None
    learns: Tensor | None = None

    logs = ("train/energy_gap", "train/grad_norm", "train/learning_rate", "val/energy", "sampler/hops")

    def __init__(
        self,
        energy: Energy,
        sampler: Sampler | None = None,
        *,
        num_chains: int = 5000,
        num_steps: int = 10,
        damping: float | None = 0.05,
        pseudo_count: float = 0.001,
        l1: float = 0.0,
        optimizer: OptimizerCallable = SGD,
        lr_scheduler: LRSchedulerCallable | None = None,
        lr_interval: Interval = "epoch",
    ) -> None:
        if not (type(energy) is Potts or (isinstance(energy, Ising) and energy.learn)):
            raise UserError(
                f"BoltzmannLearning needs a Potts energy, or an Ising energy that learns, got {type(energy).__name__}: "
                "use ContrastiveDivergence with start=ReplayBuffer(...)"
            )
        require_count("BoltzmannLearning", num_chains=num_chains)
        require_factor("BoltzmannLearning", pseudo_count=pseudo_count)
        if damping is not None and not damping > 0:
            raise UserError(f"BoltzmannLearning: damping is {damping}, but must be positive, or null")
        super().__init__(
            energy,
            sampler or GibbsSweep(),
            num_steps=num_steps,
            l1=l1,
            optimizer=optimizer,
            lr_scheduler=lr_scheduler,
            lr_interval=lr_interval,
        )
        self.num_chains, self.damping, self.pseudo_count = num_chains, damping, pseudo_count
        self.start = ReplayBuffer(num_chains)
        self._data_moments: tuple[Tensor, Tensor] | None = None
        self._preconditioner: Tensor | None = None

    def check_data(self, data: Data, training: bool = True) -> None:
        super().check_data(data, training)
        if training:
            self.start.check(self.energy.domain, self._chains)

    def teardown(self, stage: str) -> None:
        super().teardown(stage)
        self._data_moments = self._preconditioner = None

    @torch.no_grad()
    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if self._data_moments is None:
            self._take_moments()
        starts = self.start.draw(self.energy, self._chains, self.energy.random(1))
        if self.log_is_due:
            x, info = self.sampler.sample(self.energy, starts, self.num_steps)
            self.log("sampler/hops", info.hops.mean(), sync_dist=True)
        else:
            x = self.sampler.last_states(self.energy, starts, self.num_steps)
        self.start.put_back(x)
        self.chain_moments = moments(x)
        one, two = self._differences()
        two = self._only_couplings(two)
        plain = self._of_pairs(two), one.view_as(self._field)
        couplings, fields = plain if self.damping is None else self._preconditioned(one, two)
        # the energy of the chains minus the data's
        gap = (self._coupling * plain[0]).sum() + (self._field * plain[1]).sum()
        if self.log_is_due:
            self.log("train/energy_gap", gap, prog_bar=True, sync_dist=True)
        with torch.enable_grad():
            return known(-gap, [-couplings, -fields], [self._coupling, self._field]) + self.penalty()

    def pair_moments(self) -> tuple[Tensor, Tensor]:
        """f_ij(a, b) of the data and p_ij(a, b) of the chains' last states, in the shape of a Potts model's couplings.

        Both mix in the same share of the uniform law, `pseudo_count`.
        """
        assert self._data_moments is not None and self.chain_moments is not None
        f, p = self._of_pairs(self._data_moments[1]), self._of_pairs(self.chain_moments[1])
        return f, (1 - self.pseudo_count) * p + self.pseudo_count / p[0].numel()

    @property
    def _chains(self) -> int:
        """Chains of each rank."""
        return -(-self.num_chains // rank_and_world()[1])

    @property
    def _coupling(self) -> Tensor:
        """The parameter that holds the couplings."""
        if isinstance(self.energy, Potts):
            return self.energy.coupling
        assert isinstance(self.energy, Ising)
        return cast(Tensor, self.energy.parametrizations.coupling.original)

    @property
    def _field(self) -> Tensor:
        return cast(Tensor, self.energy.field)

    def _take_moments(self) -> None:
        """Those of the data, and the preconditioner."""
        x, weights = self._all_data()
        one, two = self._data_moments = moments(x.to(self._field), weights, self.pseudo_count)
        if self.damping is not None:
            covariance = two - torch.outer(one, one)
            covariance.diagonal().add_(self.damping)
            self._preconditioner = torch.cholesky_inverse(torch.linalg.cholesky(covariance))

    def _all_data(self) -> tuple[Tensor, Tensor | None]:
        return weighted_states(self.trainer, self.energy.domain.event_shape)

    def _differences(self) -> tuple[Tensor, Tensor]:
        """Moments of the data minus those of the chains."""
        assert self._data_moments is not None and self.chain_moments is not None
        (one, two), (own, pairs) = self._data_moments, self.chain_moments
        return one - own, two - pairs

    def _preconditioned(self, one: Tensor, two: Tensor) -> tuple[Tensor, Tensor]:
        """The direction in couplings and fields, from differences of moments."""
        assert self._data_moments is not None and self._preconditioner is not None
        mean, P = self._data_moments[0], self._preconditioner
        about_mean = two - torch.outer(one, mean) - torch.outer(mean, one)
        D = self._only_couplings(P @ self._only_couplings(about_mean) @ P)
        return self._of_pairs(D), (P @ one - D @ mean).view_as(self._field)

    def _of_pairs(self, matrix: Tensor) -> Tensor:
        """Entries of a matrix `(n, n)` between sites, as the parameter of the couplings holds them."""
        if not isinstance(self.energy, Potts):
            return matrix.triu(1)
        (d, q), (i, j) = self.energy.field.shape, self.energy.pairs.T
        return matrix.view(d, q, d, q)[i, :, j]

    def _only_couplings(self, matrix: Tensor) -> Tensor:
        """Sets the entries to 0 where no coupling learns, in place; those of a site with itself are among them."""
        d = len(self._field)
        matrix.view(d, len(matrix) // d, d, -1).mul_(self._mask())
        return matrix

    def _mask(self) -> Tensor:
        """1 where a coupling learns, else 0: `(d, q, d, q)`, or `(d, 1, d, 1)` where all of a pair do or none."""
        d = len(self._field)
        if not isinstance(self.energy, Potts):
            return (1 - torch.eye(d).to(self._field)).view(d, 1, d, 1)
        i, j = self.energy.pairs.T
        learns = self._coupling.new_ones(1, 1, 1) if self.learns is None else self.learns.to(self._coupling)
        mask = learns.new_zeros(d, d, *learns.shape[1:])
        mask[i, j], mask[j, i] = learns, learns.mT
        return mask.transpose(1, 2)
