"""Boltzmann learning of pairwise models: moments of data against those of persistent chains (Ackley et al., 1985)."""

from __future__ import annotations

import math
from contextlib import nullcontext
from functools import partial
from typing import Any, cast

import torch
from pytorch_lightning.cli import LRSchedulerCallable, OptimizerCallable
from torch import Tensor

from ebmlab.data.interface import Data
from ebmlab.data.weighted import weighted_states
from ebmlab.energies import Energy, Ising, Potts
from ebmlab.energies.accumulated import known
from ebmlab.energies.pairwise.half_matrix import HalfMatrix
from ebmlab.energies.pairwise.statistics import Moments, half_moments
from ebmlab.errors import UserError
from ebmlab.learners.learner import Interval, Learner
from ebmlab.learners.replay_buffer import ReplayBuffer
from ebmlab.lightning.run_data import data_of
from ebmlab.numerics.allocator import return_freed_memory
from ebmlab.numerics.ranks import rank_and_world
from ebmlab.samplers import GibbsSweep, Sampler
from ebmlab.settings import require_count, require_factor

SGD: OptimizerCallable = partial(torch.optim.SGD, lr=0.2)
AT_ONCE = 720  # chains that move at a time: their states are floats, those of all others bytes


class BoltzmannLearning(Learner):
    """Fits a `Potts` or `Ising` energy by the gradient of its log-likelihood, f - p in each of its statistics.

    The moments f of all training data are taken once, with their weights; those of the chains, p, after each step. A
    batch of the data only says that it is time for a step.

    The gradient is preconditioned, by default. C is the covariance matrix of the data, m are the data's means, and D
    holds the differences of both covariances about m. With P = (C + damping)^-1, couplings move along P D P, and fields
    along P (f - p) - (P D P) m. For a Gaussian law this is the natural gradient at the data's law. Without it a rate
    that the few directions shared by all sites allow is too small for the many others. D and P D P are set to 0 where
    no coupling learns. The direction then climbs the likelihood on any graph, and vanishes at its maximum alone. The
    gradients of penalties belong to D, so that the same holds of the penalised likelihood. Without a penalty couplings
    also learn the noise of few sequences.

    Args:
        energy: the model.
        sampler: moves the chains.
        num_chains: chains, on all ranks together.
        num_steps: steps of each chain in a training step.
        damping: see above; at least the root of `l1` + 2 `l2` is taken. null takes the plain gradient.
        pseudo_count: share of the uniform law that is mixed into the data's.
        l1: factor of the sum of absolute couplings, which is taken off the mean log-likelihood.
        l2: factor of the sum of squared couplings, likewise.
        optimizer: makes the optimizer from the parameters.
        lr_scheduler: makes the learning-rate schedule from the optimizer.
        lr_interval: see `Learner`.

    Attributes:
        start: the chains.
        chain_moments: those of the chains' last states; None before the first step.
        data_moments: those of the training data, with the pseudo-count; None before the first step.
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
    chain_moments: Moments | None = None
    data_moments: Moments | None = None
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
        l2: float = 0.0,
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
        require_factor("BoltzmannLearning", pseudo_count=pseudo_count, l2=l2)
        if damping is not None and not damping > 0:
            raise UserError(f"BoltzmannLearning: damping is {damping}, but must be positive, or null")
        schedule: dict[str, Any] = {"lr_scheduler": lr_scheduler, "lr_interval": lr_interval}
        super().__init__(energy, sampler or GibbsSweep(), num_steps=num_steps, l1=l1, optimizer=optimizer, **schedule)
        self.num_chains, self.damping, self.pseudo_count, self.l2 = num_chains, damping, pseudo_count, l2
        self.start = ReplayBuffer(num_chains)
        self._preconditioner: HalfMatrix | None = None

    def check_data(self, data: Data, training: bool = True) -> None:
        super().check_data(data, training)
        if training:
            self.start.check(self.energy.domain, self._chains)

    def teardown(self, stage: str) -> None:
        super().teardown(stage)
        self.data_moments = self._preconditioner = None

    def optimizer_step(self, *args: Any, **kwargs: Any) -> None:
        """Frees the gradient, which would otherwise stay while the chains move."""
        super().optimizer_step(*args, **kwargs)
        self.zero_grad()
        return_freed_memory()

    @torch.no_grad()
    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        if self.data_moments is None:
            self._take_moments()
        self._move_chains()
        couplings, fields = self._gradient()
        # the energy of the chains minus the data's
        gap = self._coupling.flatten().dot(couplings.flatten()) + self._field.flatten().dot(fields.flatten())
        if self.log_is_due:
            self.log("train/energy_gap", gap, prog_bar=True, sync_dist=True)
        if self.damping is None:
            couplings -= self._learnt(self._pull())
        else:
            del couplings
            return_freed_memory()
            couplings, fields = self._direction()
        return_freed_memory()
        with torch.enable_grad():
            downhill = [couplings.neg_(), fields.neg_()]
            return known(-gap, downhill, [self._coupling, self._field])

    def pair_moments(self) -> tuple[Tensor, Tensor]:
        """f_ij(a, b) of the data and p_ij(a, b) of the chains' last states, in the shape of a Potts model's couplings.

        Both mix in the same share of the uniform law, `pseudo_count`.
        """
        assert self.data_moments is not None and self.chain_moments is not None
        f, p = self._of_pairs(self.data_moments.two), self._of_pairs(self.chain_moments.two)
        return f, p.mul_(1 - self.pseudo_count).add_(self.pseudo_count / p[0].numel())

    def _move_chains(self) -> None:
        """Moves all chains, and takes their moments."""
        self.chain_moments = None  # frees the last ones
        return_freed_memory()
        hops: list[Tensor] = []

        def move(x: Tensor) -> Tensor:
            return_freed_memory()
            if not self.log_is_due:
                return self.sampler.last_states(self.energy, x, self.num_steps)
            x, info = self.sampler.sample(self.energy, x, self.num_steps)
            hops.append(info.hops)
            return x

        with self.energy.steady() if isinstance(self.energy, Potts) else nullcontext():
            at_once = AT_ONCE if self.device.type == "cpu" else self.num_chains  # a GPU is fast with all of them
            self.start.move(self.energy, self.energy.random(1), step=move, at_once=at_once)
        return_freed_memory()
        if hops:
            self.log("sampler/hops", torch.cat(hops).mean(), sync_dist=True)
        slots = self.start.slots
        assert slots is not None
        found = Moments.zero(self.energy.domain.event_shape, self._field)
        found.add(slots)
        self.chain_moments = found.scale_(1 / len(slots))
        return_freed_memory()

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
        return self.energy.upper

    @property
    def _field(self) -> Tensor:
        return cast(Tensor, self.energy.field)

    def _take_moments(self) -> None:
        """Those of the data, and the preconditioner."""
        x, weights = self._all_data()
        found = self.data_moments = half_moments(x.to(self._field), weights, self.pseudo_count)
        del x
        if self.damping is not None:
            covariance = found.two.full().addr_(found.one, found.one, alpha=-1)
            covariance.diagonal().add_(max(self.damping, math.sqrt(self.l1 + 2 * self.l2)))  # how steep penalties are
            covariance = torch.linalg.cholesky(covariance)
            covariance = torch.cholesky_inverse(covariance)  # a name for each would keep both
            self._preconditioner = HalfMatrix.of(covariance, found.values)
            del covariance
        return_freed_memory()

    def _all_data(self) -> tuple[Tensor, Tensor | None]:
        x, weights = weighted_states(data_of(self.trainer), "train")
        return self.to_event(x), weights

    def _gradient(self) -> tuple[Tensor, Tensor]:
        """The gradient f - p in couplings and fields; 0 where no coupling learns."""
        assert self.data_moments is not None and self.chain_moments is not None
        data, chains = self.data_moments, self.chain_moments
        couplings = self._learnt(self._of_pairs(data.two, chains.two))
        return couplings, (data.one - chains.one).view_as(self._field)

    def _learnt(self, couplings: Tensor) -> Tensor:
        """The numbers of couplings, with 0 in place of those of couplings that do not learn."""
        return couplings if self.learns is None else couplings * self.learns.to(couplings.device)

    def _direction(self) -> tuple[Tensor, Tensor]:
        """The preconditioned gradient in couplings and fields.

        D and P D P are made a few columns at a time, and half of P D P alone.
        """
        assert self.data_moments is not None and self.chain_moments is not None and self._preconditioner is not None
        (mean, f, q), p, P = self.data_moments, self._penalised(self.chain_moments.two), self._preconditioner
        one, learns = mean - self.chain_moments.one, self._learning()
        n, D = len(mean), HalfMatrix(len(mean), mean, q)
        for k, own in enumerate(f.slices()):
            columns = f.columns(k).sub_(p.columns(k))
            columns.addr_(one, mean[own], alpha=-1).addr_(mean, one[own], alpha=-1)
            columns = P @ _only_couplings(learns, columns, slice(0, n), own, q)
            D.add(columns, P.columns(k))
            del columns
            return_freed_memory()
        for rows, block in D:
            _only_couplings(learns, block, rows, slice(rows.start, n), q)
        fields = P @ one.unsqueeze(1) - D @ mean.unsqueeze(1)
        return self._of_pairs(D), fields.view_as(self._field)

    def _pull(self) -> Tensor:
        """The gradient of the penalties in the couplings."""
        return 2 * self.l2 * self._coupling + self.l1 * self._coupling.sign()

    def _penalised(self, moments: HalfMatrix) -> HalfMatrix:
        """Moments of the chains and the gradient of the penalties."""
        if self.l1 == self.l2 == 0:
            return moments
        if isinstance(self.energy, Potts):
            return moments.plus_pairs(self.energy.pairs, self._pull())
        i, j = pairs = torch.triu_indices(len(self._field), len(self._field), 1, device=self._field.device)
        return moments.plus_pairs(pairs.T, self._pull()[i, j].view(-1, 1, 1))

    def _of_pairs(self, matrix: HalfMatrix, minus: HalfMatrix | None = None) -> Tensor:
        """Entries of `matrix`, or of `matrix - minus`, in the layout of the couplings' parameter."""
        if not isinstance(self.energy, Potts):
            full = matrix.full() if minus is None else matrix.full() - minus.full()
            return full.triu_(1)
        return matrix.of_pairs(self.energy.pairs, self.energy.field.shape[1], minus)

    def _learning(self) -> Tensor:
        """Which couplings learn, bool: `(d, q, d, q)`, or `(d, 1, d, 1)` where all of a pair do or none."""
        d = len(self._field)
        if not isinstance(self.energy, Potts):
            return ~torch.eye(d, dtype=torch.bool, device=self._field.device).view(d, 1, d, 1)
        i, j = self.energy.pairs.T
        learns = torch.ones(1, 1, 1, dtype=torch.bool) if self.learns is None else self.learns
        learns = learns.to(i.device)
        found = learns.new_zeros(d, d, *learns.shape[1:])
        found[i, j], found[j, i] = learns, learns.mT
        return found.transpose(1, 2)


def _only_couplings(learns: Tensor, part: Tensor, rows: slice, columns: slice, q: int) -> Tensor:
    """Sets entries to 0 where no coupling learns, in place; those of a site with itself are among them.

    Args:
        learns: of all sites, as `BoltzmannLearning._learning` gives it.
        part: rows and columns of a matrix between sites.
        rows: which they are.
        columns: which they are.
        q: values of a site.
    """
    i, j = (slice(own.start // q, own.stop // q) for own in (rows, columns))
    part.view(i.stop - i.start, q, j.stop - j.start, q).mul_(learns[i, :, j])
    return part
