"""A trained model with the preprocessing of its training data."""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ebmlab.data import mixed
from ebmlab.data.preprocessing import Preprocessing
from ebmlab.domains import Real
from ebmlab.energies import Bipartite, Clamped, ClampedBipartite, Energy
from ebmlab.energies.laws import num_laws
from ebmlab.errors import WHY, UserError, explained, how_many
from ebmlab.io.progress import Meter
from ebmlab.samplers import Sampler
from ebmlab.samplers.draws import Draws
from ebmlab.settings import require_count
from ebmlab.trained.hardly_moved import hardly_moved
from ebmlab.trained.likelihood import LogLikelihood, kept_log_z
from ebmlab.trained.numbers import Numbers, as_mask, as_tensor, check_names, checked
from ebmlab.trained.record import Record
from ebmlab.trained.substitutes import another_sampler, conditional_sampler, samplers_of

BATCH = 2000  # states in one evaluation
TOGETHER = 200  # chains that complete at a time: more take as long for each, and progress is told in between


class TrainedModel:
    """What a checkpoint knows, on raw data `(N, *shape)` or `(N, prod(shape))` as the user's files hold them.

    NumPy arrays give NumPy arrays, tensors give tensors. Of a data frame the columns must be those of the training
    data's table, in their order. Samples and completions are in the units of the raw data;
    pixels are in [0, 1], also where files hold levels from 0 to 255.

    Args:
        learner: the trained learner, or the record of one; it is frozen here.
        preprocessing: how raw data become states.
        path: of the checkpoint, beside which log Z is kept; None keeps it nowhere.
        about: what else is known of the training, such as its steps and its score, for `print`.

    Attributes:
        learner: holds the energy of the states, `learner.energy`, and the sampler. Of a checkpoint it is a record,
            which cannot train on; `Learner.load_from_checkpoint` makes the learner itself.
        shape: of one raw event.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence
        >>> from ebmlab.samplers import BlockGibbs
        >>> model = TrainedModel(ContrastiveDivergence(RBM(6, 3), BlockGibbs()), Preprocessing((2, 3)))
        >>> model.energy(model.sample(5)).shape
        torch.Size([5])
        >>> mask = torch.tensor([[True, True, True], [False, False, False]])
        >>> model.complete(torch.ones(4, 2, 3), mask).shape
        torch.Size([4, 2, 3])
    """

    def __init__(
        self, learner: Draws, preprocessing: Preprocessing, *, path: Path | None = None, about: Sequence[str] = ()
    ) -> None:
        self.learner = learner.eval().requires_grad_(False)
        self.preprocessing = preprocessing
        self.path = path
        self.about = tuple(about)
        self.shape = preprocessing.shape
        energy = self._energy
        if torch.Size(preprocessing.event_shape).numel() != torch.Size(energy.domain.event_shape).numel():
            raise UserError(
                f"the checkpoint's data have states of shape {preprocessing.event_shape}, but {type(energy).__name__} "
                f"models {energy.domain}: load it with the learner that it was trained with"
            )

    def __repr__(self) -> str:
        energy, count = self._energy, sum(p.numel() for p in self.learner.parameters())
        hidden = f", {how_many(energy.num_hidden, 'hidden unit')}" if isinstance(energy, Bipartite) else ""
        by = self.learner.trained_by if isinstance(self.learner, Record) else type(self.learner).__name__
        trained = f"{by} with {type(self.learner.sampler).__name__}"
        parts = [f"{type(energy).__name__} on {energy.domain}{hidden}, {count:,} parameters", trained, *self.about]
        return "\n  ".join(["TrainedModel", *parts])

    def states(self, raw: Numbers) -> Tensor:
        """Raw data as states of the energy, `(N, *event)`.

        Raises:
            UserError: raw data have another shape, are not finite, or become no states of the energy's domain.
        """
        return self._converted(checked(raw, self.preprocessing)[0])

    @torch.no_grad()
    def energy(self, raw: Numbers) -> Any:
        """E of each event, `(N,)`; low energy is likely."""
        numbers, back = checked(raw, self.preprocessing)
        return back(torch.cat([self._energy(x) for x in self._batches(numbers)]))

    def log_likelihood(
        self, raw: Numbers, num_chains: int = 200, *, num_temperatures: int = 2000, fresh: bool = False
    ) -> LogLikelihood:
        """Log p of each event, with the error of log Z and whether to trust it.

        Densities of real data are those of the raw numbers, with one level of a pixel as its unit of length. They
        differ by a constant from those of the standardised states, which are `ais/log_likelihood` of the training.

        Log Z is computed once, exactly where the sum is small. Else it comes from annealed importance sampling forward
        and backward, or from replica exchange where that is not to be trusted. It is kept in a file beside the
        checkpoint. Chains start from the events of this first call, so call it with data of the model's own kind first.

        Args:
            raw: events.
            num_chains: chains of each direction.
            num_temperatures: temperatures of each chain.
            fresh: compute log Z anew even if it is known.
        """
        numbers, back = checked(raw, self.preprocessing)
        x = self._converted(numbers)
        with torch.no_grad():
            energies = torch.cat([self._energy(part) for part in torch.split(x, BATCH)])
        samplers = samplers_of(self.learner.sampler, self._energy.domain)
        found = kept_log_z(self._energy, samplers, x, self.path, num_chains, num_temperatures, fresh)
        domain = self._energy.domain
        values = -energies - found.log_z + self.preprocessing.log_jacobian(domain)
        return LogLikelihood(back(values), found, size=domain.size)

    def grad_log_prob(self, raw: Numbers) -> Any:
        """The gradient of log p, `(N, *shape)`.

        It is taken in the raw numbers if these are real. On a finite domain it is the gradient in the states, `(N,
        *event)`. The energy is then extended to real numbers.
        """
        numbers, back = checked(raw, self.preprocessing)
        grad = -torch.cat([self._energy.value_and_grad(x)[1] for x in self._batches(numbers)])
        given = self.preprocessing
        grad = grad.view(-1, *given.event_shape)
        if not isinstance(self._energy.domain, Real) or given.binarize or given.num_classes:
            return back(grad)
        return back(grad * given.slope(as_tensor(raw)[0]).to(grad))

    @torch.no_grad()
    def sample(self, n: int, num_steps: int = 1000, *, denoise: bool = False, batch_size: int = BATCH) -> Tensor:
        """Events `(n, *shape)`: the last states of new chains of the learner's sampler, which start from noise.

        Args:
            n: number of chains.
            num_steps: steps of each.
            denoise: give E[v | h] of the last states (only with hidden units).
            batch_size: chains that run at the same time.
        """
        require_count("sample", n=n, batch_size=batch_size)
        sizes = [min(batch_size, n - first) for first in range(0, n, batch_size)]
        return self.preprocessing.to_raw(torch.cat([*self.learner.draws(sizes, num_steps, denoise=denoise)]))

    @torch.no_grad()
    def features(self, raw: Numbers) -> Any:
        """E[h | x], `(N, num_hidden)`: for bits, the hidden units' probabilities.

        Raises:
            UserError: the energy has no hidden units.
        """
        energy = self._energy
        if not isinstance(energy, Bipartite):
            raise UserError(f"{type(energy).__name__} has no hidden units to take features from: train an RBM or GRBM")
        numbers, back = checked(raw, self.preprocessing)
        return back(energy.units.mean(torch.cat([energy.hidden_given_visible(x) for x in self._batches(numbers)])))

    @torch.no_grad()
    def complete(
        self,
        raw: Numbers,
        mask: Any,
        *,
        num_samples: int | None = None,
        num_steps: int = 1000,
        denoise: bool = False,
        sampler: Sampler | None = None,
    ) -> Any:
        """Events whose given coordinates are those of `raw` and whose others are drawn from p(rest | given).

        The chains start from noise, and move by the learner's sampler. If it cannot serve a conditional law, the first
        of block Gibbs, chromatic Gibbs, Gibbs and MALA that can takes its place. On rows of mixed tables its kernels of
        the parts with free columns move these.

        Args:
            raw: events; what they hold at free coordinates is ignored and may be NaN.
            mask: True where a coordinate is given, in the shape of one event.
            num_samples: completions of each event.
            num_steps: steps of each chain.
            denoise: give E[v | h] of the last states at the free coordinates (only with hidden units).
            sampler: moves the chains in place of the learner's.

        Returns:
            `(N, *shape)`, or `(N, num_samples, *shape)` if `num_samples` is given.
        """
        k = 1 if num_samples is None else num_samples
        require_count("complete", num_samples=k, num_steps=num_steps)
        _, back = as_tensor(raw)
        x, coordinates = self._clamped(raw, mask)
        completed: list[Tensor] = []
        with Meter("completing", "sample", len(x)) as meter:
            for events in torch.split(x, max(1, TOGETHER // k)):
                clamped = Clamped(self._energy, events, mask=coordinates)
                drawn = self.draw(clamped, k, num_steps=num_steps, denoise=denoise, sampler=sampler)
                completed += torch.split(self.preprocessing.to_raw(drawn), k)
                meter.passed(len(completed))
        found = self.with_given(torch.stack(completed), raw, mask=mask)
        return back(found[:, 0] if num_samples is None else found)

    def with_given(self, found: Tensor, raw: Numbers, *, mask: Any) -> Tensor:
        """Completions `(N, num_samples, *shape)` that hold the given numbers themselves, neither clamped nor rounded.

        Arguments as in `complete`.
        """
        form = self.preprocessing
        if form.binarize or form.num_classes:
            return found
        numbers, is_given = self._given(raw, mask)
        numbers = numbers if numbers.is_floating_point() else form.scaled(numbers) * form.float_scale
        return numbers.to(found).unsqueeze(1).where(is_given.to(found.device), found)

    def conditionals(self, raw: Numbers, mask: Any) -> list[Clamped]:
        """The law of the free coordinates of each event given the others, as an energy of the free states.

        Arguments as in `complete`. Samplers, `ais` and `exact_log_z` take these energies as they take any other.
        """
        x, coordinates = self._clamped(raw, mask)
        return [Clamped(self._energy, event, mask=coordinates) for event in x]

    def _clamped(self, raw: Numbers, mask: Any) -> tuple[Tensor, Tensor]:
        """Events and the mask as `Clamped` takes them."""
        numbers, is_given = self._given(raw, mask)
        x = self._converted(
            checked(numbers.masked_fill(~is_given, 0), self.preprocessing, seen=numbers)[0], check=False
        )
        coordinates, classes = self._mask(mask), self.preprocessing.classes
        return x, mixed.to_entries(coordinates, classes) if classes else coordinates

    def _given(self, raw: Numbers, mask: Any) -> tuple[Tensor, Tensor]:
        """Raw events `(N, *shape)`, and where they are given, in a shape that broadcasts with theirs."""
        form = self.preprocessing
        check_names(raw, form.columns)
        is_given = self._mask(mask)
        one_hot = is_given.numel() != torch.Size(form.shape).numel()  # the raw data are one-hot vectors
        return form.shaped(as_tensor(raw)[0]), is_given.unsqueeze(-1) if one_hot else is_given.view(form.shape)

    def _mask(self, mask: Any) -> Tensor:
        """Where an event is given, in the shape of a state's coordinates, or of a row of a mixed table."""
        form = self.preprocessing
        return as_mask(mask, form, form.shape if form.classes else self._energy.domain.shape)

    @torch.no_grad()
    def draw(
        self, clamped: Clamped, n: int, *, num_steps: int, denoise: bool = False, sampler: Sampler | None = None
    ) -> Tensor:
        """Whole states `(n, *event)` whose free coordinates follow a conditional law; arguments as in `complete`.

        If the law is given G events, n states of each: `(G n, *event)`.
        """
        if denoise and not isinstance(clamped, ClampedBipartite):
            raise UserError(f"denoise gives E[v | h], but {type(self._energy).__name__} has no hidden units")
        sampler = sampler or conditional_sampler(self.learner.sampler, clamped)
        x, info = sampler.sample(clamped, clamped.random(num_laws(clamped) * n).to(clamped.given), num_steps)
        if hardly_moved(info, clamped, num_steps):
            other = another_sampler(sampler, clamped)
            mend = f", or complete by another sampler, such as {other}" if other else ""
            warnings.warn(f"the chains of {type(sampler).__name__} hardly moved: take more steps{mend}", stacklevel=2)
        if denoise and isinstance(clamped, ClampedBipartite):
            x = clamped.mean_visible(clamped.units.sample(clamped.hidden_given_visible(x)))
        return clamped.merge(x)

    @property
    def _energy(self) -> Energy:
        return self.learner.energy

    def _converted(self, numbers: Tensor, check: bool = True) -> Tensor:
        """Raw numbers as states, `(N, *event)`."""
        energy = self._energy
        x = self.preprocessing.to_states(numbers).to(energy.device, energy.dtype)
        x = x.reshape(len(x), *energy.domain.event_shape)
        if check:
            with explained(f"raw data become no states of {type(energy).__name__}: {WHY}", UserError):
                energy.domain.validate(x)
        return x

    def _batches(self, numbers: Tensor) -> Iterator[Tensor]:
        """States a batch at a time: one-hot vectors of all sequences of a family take gigabytes."""
        for part in torch.split(numbers, BATCH):
            try:
                x = self._converted(part)
            except UserError:
                self._converted(numbers)  # counts events from the first one
                raise
            yield x
