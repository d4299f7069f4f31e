"""What `score` says of chains, and of samples that should follow the law of a model."""

from __future__ import annotations

from torch import Tensor

from ebmlab.errors import UserError, how_many
from ebmlab.evaluation import effective_sample_size, law_check, split_r_hat
from ebmlab.evaluation.r_hat import MIN_STEPS
from ebmlab.trained import TrainedModel


def mixing(energies: Tensor, chains: tuple[int, int] | None) -> str:
    """Effective sample size and R-hat of the energies of chains; nothing for independent samples."""
    if chains is None or chains[0] < MIN_STEPS:
        return ""
    values = energies.view(chains)
    ess, r_hat = float(effective_sample_size(values)), float(split_r_hat(values))
    return f", ESS {ess:.0f}, R-hat {r_hat:.3f} of the energies of {how_many(chains[1], 'chain')}"


def in_form(model: TrainedModel, x: Tensor, chains: tuple[int, int] | None) -> Tensor:
    """States of raw samples `(n, *shape)`: `(n, *event)`, or `(num_steps, num_chains, *event)` of chains."""
    states = model.states(x)
    return states if chains is None else states.view(*chains, *states.shape[1:])


def law_line(model: TrainedModel, given: Tensor, trusted: Tensor | None) -> str:
    """Whether samples follow the law of a model.

    Args:
        model: has the law.
        given: states `(n, *event)`, or chains `(num_steps, num_chains, *event)`.
        trusted: states `(m, *event)` that follow the law, or chains `(num_steps, num_chains, *event)`; they serve where
            the model has too many states to sum over.

    Raises:
        UserError: there are too many states, and no samples to trust.
    """
    energy = model.learner.energy
    try:
        return f"law, exactly: {law_check(energy, given)}"
    except UserError as error:
        if "too many" not in str(error):
            raise
        if trusted is None:
            return f"law: {error}; the files that follow are held against this one"
    return f"law, by the first file: {law_check(energy, given, reference=trusted)}"
