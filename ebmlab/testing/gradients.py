"""`assert_gradient`: a learner's training step has the gradient that it should have."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import KW_ONLY, dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.testing.law import MAX_STATES

NOISE = 1e-9  # relative; gradients that vary less from step to step are deterministic


class Trained(Protocol):
    """A learner: an energy, and a training step that returns a loss. Every `Learner` is one."""

    energy: Any

    def training_step(self, batch: Any, batch_idx: int) -> Tensor:
        """The loss of a batch."""


@dataclass(frozen=True)
class Gradient:
    """What `assert_gradient` has found.

    Attributes:
        steps: training steps that were averaged.
        z: the largest difference from the expected gradient in standard errors, over all entries that vary.
        error: the largest difference over the largest entry of the expected gradient.

    Example:
        >>> Gradient(steps=40, z=2.1, error=0.01).steps
        40
    """

    steps: int
    z: float
    _: KW_ONLY
    error: float


def log_likelihood_loss(energy: Energy, x: Tensor) -> Tensor:
    """-mean log p(x) = mean E(x) + log Z, with log Z by enumeration; a scalar, differentiable in the parameters.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.testing import log_likelihood_loss
        >>> ising = Ising([[0.0]], field=0.0)
        >>> round(float(log_likelihood_loss(ising, ising.domain.enumerate())), 4)  # log 2
        0.6931
    """
    values, size = getattr(energy.domain, "num_values", math.inf), energy.domain.size
    if values**size > MAX_STATES:
        raise UserError(
            f"assert_gradient: log Z of {type(energy).__name__} on {energy.domain} is no sum over at most {MAX_STATES} "
            "states: take a smaller energy, or say in `expected` what its loss is"
        )
    states = energy.domain.enumerate().to(x)
    return energy(x).mean() + (-energy(states)).logsumexp(0)


def assert_gradient(
    learner: Trained,
    x: Tensor,
    *,
    expected: Callable[[Any, Tensor], Tensor] = log_likelihood_loss,
    num_steps: int = 40,
    tolerance: float = 1e-6,
    limit: float = 4.5,
) -> Gradient:
    """Asserts that the gradient of `training_step(x)` is that of a loss which is computed without sampling.

    If all steps give the same gradient, it must be the expected one within the tolerance. Otherwise the mean over steps
    must be within `limit` standard errors, entry by entry. With 40 steps a right learner of 100 parameters fails once
    in 150 times, with a fixed seed never. Contrastive divergence is biased by design unless its chains are at
    equilibrium: give it a sampler that draws independent states, `Gibbs(block_size=energy.domain.size)`.

    Args:
        learner: not attached to a trainer; what it logs is dropped.
        x: a batch of data, `(B, *event)`.
        expected: `expected(energy, x)`, a scalar; by default -mean log p(x), with log Z by enumeration.
        num_steps: training steps that are averaged.
        tolerance: relative to the largest entry of the expected gradient, where no randomness is.
        limit: in standard errors, where there is.

    Returns:
        What was found, for a report.

    Raises:
        AssertionError: the gradient is another, with one line that says by how much, and at which parameter.
        UserError: log Z cannot be enumerated, or the energy has no parameters.

    Example:
        >>> import torch
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ContrastiveDivergence, FromNoise
        >>> from ebmlab.samplers import Gibbs
        >>> from ebmlab.testing import assert_gradient
        >>> _ = torch.manual_seed(0)
        >>> rbm = RBM(4, 2).double()
        >>> x = rbm.domain.random(500).double()
        >>> found = assert_gradient(ContrastiveDivergence(rbm, Gibbs(block_size=4), start=FromNoise()), x)
        >>> found.z < 4.5
        True
    """
    energy: Energy = learner.energy
    named = {name: p for name, p in energy.named_parameters() if p.requires_grad}
    if not named:
        raise UserError(f"assert_gradient: {type(energy).__name__} has no parameters that are trained")
    wanted = _gradient(expected(energy, x), named)
    with _without_logs(learner):
        steps = torch.stack([_gradient(learner.training_step(x, k), named) for k in range(num_steps)])
    mean, scale = steps.mean(0), float(wanted.abs().max())
    standard_error = steps.std(0) / math.sqrt(num_steps)
    random = standard_error > NOISE * max(scale, float(mean.abs().max()))
    difference = (mean - wanted).abs()
    in_errors = torch.where(random, difference / standard_error, 0.0)
    relative = torch.where(random, 0.0, difference) / (scale or 1.0)
    who = f"{type(learner).__name__} on {type(energy).__name__}"
    if not relative.max() <= tolerance:
        at = int(relative.nan_to_num(nan=torch.inf).argmax())
        raise AssertionError(
            f"{who}: the gradient in {_entry(named, at)} is {float(mean[at]):.6g}, not {float(wanted[at]):.6g}, off by "
            f"{float(relative[at]):.2g} of the largest entry, which is above {tolerance:g}"
        )
    if not in_errors.max() <= limit:
        at = int(in_errors.nan_to_num(nan=torch.inf).argmax())
        raise AssertionError(
            f"{who}: the mean gradient of {num_steps} steps in {_entry(named, at)} is {float(mean[at]):.4g}, not "
            f"{float(wanted[at]):.4g}, off by {float(in_errors[at]):.1f} standard errors, which is above {limit:g}"
        )
    return Gradient(num_steps, float(in_errors.max()), error=float(difference.max()) / (scale or 1.0))


def _gradient(loss: Tensor, named: dict[str, nn.Parameter]) -> Tensor:
    """Flat, float64; 0 for parameters that the loss does not depend on."""
    parameters = list(named.values())
    grads = torch.autograd.grad(loss, parameters, allow_unused=True)
    filled = [torch.zeros_like(p) if g is None else g for p, g in zip(parameters, grads, strict=True)]
    return torch.cat([g.flatten() for g in filled]).double()


def _entry(named: dict[str, nn.Parameter], at: int) -> str:
    """The name and index of an entry of the flat gradient."""
    for name, parameter in named.items():
        if at < parameter.numel():
            index = torch.unravel_index(torch.tensor(at), parameter.shape)
            return f"{name}[{', '.join(str(int(i)) for i in index)}]"
        at -= parameter.numel()
    raise IndexError(at)


@contextmanager
def _without_logs(learner: Any) -> Iterator[None]:
    """A learner without a trainer has nobody to log to."""
    own = {name: vars(learner)[name] for name in ("log", "log_dict") if name in vars(learner)}
    learner.log = learner.log_dict = lambda *_, **__: None
    try:
        yield
    finally:
        del learner.log, learner.log_dict
        vars(learner).update(own)
