"""A scikit-learn estimator around an energy: `fit`, `transform`, `score_samples`, `sample`."""

from __future__ import annotations

import copy
import logging
import math
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, Self

import numpy as np
import pytorch_lightning as pl
import torch
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data
from torch import Tensor
from torch.optim.lr_scheduler import CosineAnnealingLR
from torch.utils.data import BatchSampler, DataLoader, RandomSampler

from ebmlab.data.numbers import as_numbers
from ebmlab.data.weighted import ByWeight
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, RBM, Bipartite, Energy
from ebmlab.errors import WHY, UserError, explained, how_many, told
from ebmlab.evaluation import LogZ, data_law, exact_log_z, log_z
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.numerics.means import mean_of, moments_of
from ebmlab.numerics.noise import bits, by_weight, uniform_numbers
from ebmlab.samplers import BlockGibbs, Sampler
from ebmlab.settings import require_count, require_factor

SUMMABLE = 16  # hidden units up to which log Z is summed exactly
DRAWS = 100  # of bits, for the likelihood of probabilities
AIS_CHAINS, AIS_TEMPERATURES = 200, 2000
_ALONE = threading.RLock()  # all threads share torch's global generator


class EBM(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):  # type: ignore[misc]
    """An energy-based model as a scikit-learn transformer and density, fit by persistent contrastive divergence.

    Real features are standardised before the energy sees them; densities and samples are in the units of X. A binary
    energy takes features in [0, 1]. Values between 0 and 1 are probabilities, from which `fit` draws new bits in each
    epoch.

    Args:
        energy: "GRBM" for real features, "RBM" for binary ones, or an `Energy` whose size is that of the data; `fit`
            trains a copy of it.
        num_hidden: number of hidden units; used only if `energy` is a name.
        sampler: moves the chains of training, of `sample` and of AIS for log Z, which needs an exact sampler. None is
            block Gibbs, which needs hidden units.
        num_steps: sampler steps in each training step.
        learning_rate: Adam's initial learning rate; it falls to 0 along a cosine.
        batch_size: rows in a training step, and number of chains.
        num_epochs: passes through the data.
        accelerator: where to train, as Lightning names it; all else runs on the CPU.
        random_state: None, a seed or a `RandomState`.

    Attributes:
        energy_: the fitted energy, float64, of standardised features.
        sampler_: the sampler as training has left it: one that tunes itself has found its step size.
        mean_, scale_: mean and scale by which features are standardised, `(n_features_in_,)`; 0 and 1 for a binary
            energy.

    Example:
        >>> X = np.random.default_rng(0).normal(size=(100, 3))
        >>> model = EBM(num_hidden=4, num_epochs=2, random_state=0).fit(X)
        >>> model.transform(X).shape, model.score_samples(X).shape, model.sample(5, random_state=0).shape
        ((100, 4), (100,), (5, 3))
    """

    def __init__(
        self,
        energy: str | Energy = "GRBM",
        num_hidden: int = 64,
        *,
        sampler: Sampler | None = None,
        num_steps: int = 1,
        learning_rate: float = 0.005,
        batch_size: int = 64,
        num_epochs: int = 30,
        accelerator: str = "cpu",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.energy = energy
        self.num_hidden = num_hidden
        self.sampler = sampler
        self.num_steps = num_steps
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.num_epochs = num_epochs
        self.accelerator = accelerator
        self.random_state = random_state

    def fit(self, X: ArrayLike, y: object = None, *, sample_weight: ArrayLike | None = None) -> Self:
        """Trains a fresh model on rows X `(n, d)`; y is ignored.

        With `sample_weight` `(n,)`, rows count by their weights. Each epoch draws as many rows as have any, by weight.
        """
        rows = validate_data(self, X, dtype=[np.float64, np.float32])
        x, weights = as_numbers(rows, "X").double(), None
        if sample_weight is not None:
            given = _check_sample_weight(sample_weight, rows, dtype=np.float64, ensure_non_negative=True)
            weights = as_numbers(given, "sample_weight")
            x, weights = x[weights > 0], weights[weights > 0]
        self._check_settings()
        with _seeded(self.random_state):
            self._fit(x, weights)
        return self

    def transform(self, X: ArrayLike) -> NDArray[Any]:
        """Features of rows X: E[h | x], the probabilities of hidden units that are bits, `(n, num_hidden)`."""
        rows, x = self._states(X)
        if not isinstance(self.energy_, Bipartite):
            raise UserError(f"EBM: {type(self.energy_).__name__} has no hidden units to transform into: take an RBM")
        with torch.no_grad():
            features: NDArray[Any] = self.energy_.units.mean(self.energy_.hidden_given_visible(x)).numpy()
        return features.astype(rows.dtype)

    def score_samples(self, X: ArrayLike) -> NDArray[Any]:
        """Log-likelihoods log p(x), `(n,)`: densities in the units of X, or probabilities of bits.

        A row with values between 0 and 1 gets the mean over 100 draws of bits with these probabilities. The draws are
        the same in each call and for each row.

        The first call computes log Z (`log_z_`, `log_z_error_`), exactly with up to 16 hidden units, else by AIS. It
        warns if log Z is not to be trusted.
        """
        _, x = self._states(X)
        with torch.no_grad():
            energies: NDArray[Any] = self._mean_energy(x).numpy()
        log_likelihoods: NDArray[Any] = -energies - self.log_z_ - np.log(self.scale_).sum()
        return log_likelihoods

    def score(self, X: ArrayLike, y: object = None) -> float:
        """The mean of `score_samples`."""
        return float(self.score_samples(X).mean())

    def sample(
        self, n_samples: int = 1, num_steps: int = 1000, *, random_state: int | np.random.RandomState | None = None
    ) -> NDArray[Any]:
        """States `(n_samples, d)` of chains after `num_steps` steps from noise, in the units of X."""
        check_is_fitted(self, "energy_")
        require_count("EBM", n_samples=n_samples, num_steps=num_steps)
        with _seeded(random_state), torch.no_grad():
            x, _ = self.sampler_.sample(self.energy_, self.energy_.random(n_samples).double(), num_steps)
        states: NDArray[Any] = x.flatten(1).numpy() * self.scale_ + self.mean_
        return states

    @property
    def log_z_(self) -> float:
        """Log Z of `energy_`."""
        return self._log_z().log_z

    @property
    def log_z_error_(self) -> float:
        """Standard error of `log_z_`: 0 if it was summed exactly, NaN if it is not to be trusted.

        Of AIS it includes the gap between its two directions, forward from noise and backward from the data.
        """
        return self._log_z().std_error

    @property
    def _n_features_out(self) -> int:
        return self.energy_.num_hidden if isinstance(self.energy_, Bipartite) else 0

    def _check_settings(self) -> None:
        require_count("EBM", num_steps=self.num_steps, batch_size=self.batch_size)
        require_count("EBM", least=0, num_epochs=self.num_epochs)
        require_factor("EBM", learning_rate=self.learning_rate)
        if not isinstance(self.sampler, Sampler | None):
            raise UserError(f"EBM: sampler is {told(self.sampler)}, but must be a Sampler, such as BlockGibbs()")

    def _fit(self, rows: Tensor, weights: Tensor | None) -> None:
        energy = self._new_energy(mean_of(rows, weights))
        binary, mean, scale = isinstance(energy.domain, Binary), np.zeros(rows.shape[1]), np.ones(rows.shape[1])
        if isinstance(energy.domain, Real):
            mean, deviation = (moment.numpy() for moment in moments_of(rows, weights))
            scale = np.where(deviation > 0, deviation, 1.0)
        x = self._events(rows.numpy(), energy, mean, scale).float()
        sampler = BlockGibbs() if self.sampler is None else copy.deepcopy(self.sampler)
        learner = ContrastiveDivergence(
            energy,
            sampler,
            start=ReplayBuffer(min(self.batch_size, len(x)), init="data"),
            num_steps=self.num_steps,
            optimizer=partial(torch.optim.Adam, lr=self.learning_rate),
            lr_scheduler=partial(CosineAnnealingLR, T_max=max(1, self.num_epochs)),
        )
        order = RandomSampler(x) if weights is None else ByWeight(weights)
        batches = BatchSampler(order, int(self.batch_size), drop_last=False)
        draw = bits if binary else None
        loader: DataLoader[Tensor] = DataLoader(x, None, sampler=batches, collate_fn=draw)  # type: ignore[arg-type]
        with _quiet():
            with explained(f"EBM: accelerator is {told(self.accelerator)}, which is not at hand: {WHY}", Exception):
                where: dict[str, Any] = {"accelerator": self.accelerator, "devices": 1}
                trainer = pl.Trainer(max_epochs=int(self.num_epochs), barebones=True, **where)
            trainer.fit(learner, loader)
        if not all(p.isfinite().all() for p in energy.parameters()):
            raise UserError(f"EBM: training has diverged; take a learning_rate below {self.learning_rate}")
        self.mean_, self.scale_ = mean, scale  # with the energy, so that a fit that fails leaves an earlier one whole
        self.energy_ = energy.cpu().double().eval().requires_grad_(False)
        self.sampler_ = sampler.cpu()
        self._base = data_law(energy.domain, x.double(), weights=weights)
        if weights is None:
            some = torch.randperm(len(x))[torch.arange(AIS_CHAINS) % len(x)]
        else:
            some = by_weight(weights, AIS_CHAINS, start=uniform_numbers())
        self._starts = bits(x[some].double()) if binary else x[some].double()
        self._log_z_found: LogZ | None = None

    def _new_energy(self, mean: Tensor) -> Energy:
        """An untrained energy for data with these means `(d,)`."""
        name = str(self.energy)
        if isinstance(self.energy, Energy):
            energy = copy.deepcopy(self.energy).float()
        elif name == "GRBM":
            energy = GRBM(len(mean), self.num_hidden)
        elif name == "RBM":
            energy = RBM(len(mean), self.num_hidden)
            energy.set_base(mean.float())
        else:
            raise UserError(f'EBM: energy is {told(self.energy)}, but must be "GRBM", "RBM" or an Energy')
        if (size := math.prod(energy.domain.event_shape)) != len(mean):
            given = how_many(len(mean), "feature")
            raise UserError(f"EBM: X has {given}, but {type(energy).__name__} models {how_many(size, 'number')}")
        return energy

    def _states(self, X: ArrayLike) -> tuple[NDArray[Any], Tensor]:
        """The rows as given, and as states of the energy's domain, float64."""
        check_is_fitted(self, "energy_")
        rows = validate_data(self, X, dtype=[np.float64, np.float32], reset=False)
        return rows, self._events(rows, self.energy_, self.mean_, self.scale_)

    @staticmethod
    def _events(rows: NDArray[Any], energy: Energy, mean: NDArray[Any], scale: NDArray[Any]) -> Tensor:
        """Rows in units of X as states `(n, *event)`, float64, or probabilities of bits."""
        x = as_numbers((rows - mean) / scale, "X").view(len(rows), *energy.domain.event_shape)
        if not isinstance(energy.domain, Binary):
            energy.domain.validate(x)
        elif not ((x >= 0) & (x <= 1)).all():
            raise UserError(f"EBM: {type(energy).__name__} takes features in [0, 1], but X has others: scale them")
        return x

    def _mean_energy(self, x: Tensor) -> Tensor:
        """E(x); of probabilities of bits the mean of E over draws that depend on no other row."""
        if not isinstance(self.energy_.domain, Binary) or ((x == 0) | (x == 1)).all():
            return self.energy_(x)
        thresholds = uniform_numbers(DRAWS, *x.shape[1:], generator=torch.Generator().manual_seed(0)).to(x.dtype)
        total = sum((self.energy_((x > threshold).to(x)) for threshold in thresholds), start=x.new_zeros(len(x)))
        return total / DRAWS

    def _log_z(self) -> LogZ:
        check_is_fitted(self, "energy_")
        if self._log_z_found is None:
            self._log_z_found = self._computed_log_z()
        return self._log_z_found

    def _computed_log_z(self) -> LogZ:
        energy = self.energy_
        if isinstance(energy, Bipartite) and energy.has_bits and energy.num_hidden <= SUMMABLE:
            return LogZ(float(exact_log_z(energy)), 0.0, gap=0.0, method="exact sum")
        chains: dict[str, Any] = {"num_chains": AIS_CHAINS, "num_temperatures": AIS_TEMPERATURES}
        with _seeded(0):
            found = log_z(energy, self.sampler_, x=self._starts, base=self._base, schedule="linear", **chains)
        if found.trusted:
            return found
        warnings.warn(f"do not trust these log-likelihoods: {'; '.join(found.doubts)}", stacklevel=4)
        return replace(found, std_error=math.nan)


@contextmanager
def _seeded(random_state: int | np.random.RandomState | None) -> Iterator[None]:
    """Seeds torch's global generator inside the block, and restores its state afterwards; one thread at a time."""
    right = "None, a whole number from 0 to 2**32 - 1 or a RandomState"
    with explained(f"EBM: random_state is {told(random_state)}, but must be {right}", (TypeError, ValueError)):
        generator = check_random_state(random_state)
    with _ALONE, torch.random.fork_rng():
        torch.manual_seed(int(generator.randint(2**31 - 1)))
        yield


@contextmanager
def _quiet() -> Iterator[None]:
    """Silences Lightning's messages about devices and data loaders."""
    log = logging.getLogger("pytorch_lightning.utilities.rank_zero")
    level = log.level
    log.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings(action="ignore"):
            yield
    finally:
        log.setLevel(level)
