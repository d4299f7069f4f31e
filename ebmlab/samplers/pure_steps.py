"""The steps of samplers as functions of tensors alone, which can be compiled (`compiled.py`).

Each samples as `Sampler.chain` does, from the same random numbers if it is not compiled. A state is a tuple of tensors,
x first. `settings` are those of this step, `(numbers,)`. `fall` is half of how much E falls, to first order, when a
coordinate flips, `(B, *event)`. In annealed importance sampling the energy changes at every step. A state there holds
the values at both ends of the path, from which those at any beta follow.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Finite
from ebmlab.energies import Bipartite, Bridge, Energy
from ebmlab.numerics.noise import bernoulli, uniform, wide
from ebmlab.numerics.softplus import sum_softplus
from ebmlab.samplers.compiled import Tensors

Proposed = tuple[Tensor, Callable[[Tensor], Tensor]]
"""A proposal y, and a function of `fall` at y: the log-probability of the way back minus that of the way there."""


def flip_settings(energy: Energy, step_sizes: Tensor, balances: Tensor) -> Tensor:
    """The settings of `step_flips` and `step_cycle` for step sizes and balances, `(period, 2)`.

    They are the logit of a flip where the gradient is 0, and the factor of `fall` that is added to it.

    Example:
        >>> from ebmlab.energies import RBM
        >>> flip_settings(RBM(4, 3), torch.tensor(0.25), torch.tensor(0.5))
        tensor([[-2.,  1.]])
    """
    half = 0.5 if isinstance(energy.domain, Binary) else 2.0  # (y_i - x_i)^2 / 2 of a flip
    return torch.stack([-half / step_sizes.reshape(-1), 2 * balances.reshape(-1)], 1)


def start_alone(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """The state of kernels that keep nothing but x."""
    return (x,)


def start_flips(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """x, E(x), the logits of a flip there, and the normaliser of the proposal, of discrete Langevin on two values."""
    value, fall = _value_and_fall(energy, x)
    return x, value, *_law(fall, settings)


def step_flips(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """`langevin_chain` of two_values.py with one step size and balance."""
    x, value, logits, normaliser = state
    flips = bernoulli(logits)
    y = _flipped(energy, x, flips)
    there = start_flips(energy, y, settings)
    back_minus_forth = _back_minus_forth(flips, (logits, normaliser), there[2:])
    return _accepted(value - there[1] + back_minus_forth, there, state)


def start_cycle(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """x, E(x) and `fall` there."""
    return x, *_value_and_fall(energy, x)


def step_cycle(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """`step_flips` where the next step has other settings, so that no law is kept."""
    x, value, fall = state
    y, back_minus_forth = _propose_flips(energy, x, fall, settings)
    there = start_cycle(energy, y, settings)
    return _accepted(value - there[1] + back_minus_forth(there[2]), there, state)


def start_gwg(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """x, E(x), and the log-probabilities of the coordinate that Gibbs with gradients flips, on two values."""
    value, fall = _value_and_fall(energy, x)
    return x, value, fall.flatten(1).log_softmax(1)


def step_gwg(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """`gwg_chain` of two_values.py."""
    x, value, log_law = state
    y, chosen = _one_flipped(energy, x, log_law)
    there = start_gwg(energy, y, settings)
    back_minus_forth = (there[2].gather(1, chosen) - log_law.gather(1, chosen)).squeeze(1)
    return _accepted(value - there[1] + back_minus_forth, there, state)


def start_path(path: Bridge, x: Tensor) -> Tensors:
    """x, and E(x) and `fall` for each end of the path."""
    return x, *_value_and_fall(path.base, x), *_value_and_fall(path.energy, x)


def anneal_flips(path: Bridge, state: Tensors, settings: Tensor) -> Tensors:
    """One temperature of AIS by discrete Langevin proposals on two values, as in `anneal` and `langevin_chain`.

    Args:
        path: from a base to an energy; its own beta does not count.
        state: as from `start_path`.
        settings: the last beta, the next one, and the settings of the step at the next one.

    Returns:
        The increments of the log-weights `(B,)`, and the tensors of the next state.
    """
    return _anneal(path, state, settings, _propose_flips)


def anneal_gwg(path: Bridge, state: Tensors, settings: Tensor) -> Tensors:
    """`anneal_flips` by `gwg_chain`."""
    return _anneal(path, state, settings, _propose_one_flip)


def step_gibbs(energy: Bipartite, state: Tensors, settings: Tensor) -> Tensors:
    """Hidden units given x, and x given them, both binary."""
    logits = energy.visible_given_hidden(bernoulli(energy.hidden_given_visible(state[0])))
    assert isinstance(logits, Tensor)
    return (bernoulli(logits),)


def start_sweep(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """x, of which each site is one row of memory."""
    return (x.transpose(0, 1).contiguous().transpose(0, 1),)


def step_sweep(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """`ChromaticGibbs.step` on two values: all sites, one colour after the other.

    A site without a valid law becomes NaN, and its neighbours after it; in `step` its chain would stay where it is.
    """
    (x,) = state
    for sites in energy.colours:  # type: ignore[union-attr]
        logits = energy.conditional(x, sites).transpose(0, 1)  # type: ignore[operator]
        values = cast(Finite, energy.domain).from_index(bernoulli(logits)).to(x.dtype).where(~logits.isnan(), torch.nan)
        x = x.transpose(0, 1).index_copy(0, sites, values).transpose(0, 1)
    return (x,)


def step_langevin(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """Moves x to x - alpha dE/dx + sqrt(2 alpha T) noise, without Metropolis.

    Args:
        energy: on a `Real` domain.
        state: x alone.
        settings: alpha, in absolute units, and T.
    """
    (x,) = state
    alpha, temperature = settings.unbind()
    return (x - alpha * energy.gradient(x) + (2 * alpha * temperature).sqrt() * torch.randn_like(x),)


def start_adjusted(energy: Energy, x: Tensor, settings: Tensor) -> Tensors:
    """x, E(x) and dE/dx."""
    return x, *energy.value_and_grad(x)


def step_adjusted(energy: Energy, state: Tensors, settings: Tensor) -> Tensors:
    """`step_langevin` with Metropolis, from the states of `start_adjusted`."""
    x, value, grad = state
    alpha, temperature = settings.unbind()
    noise = torch.randn_like(x)
    there = start_adjusted(energy, x - alpha * grad + (2 * alpha * temperature).sqrt() * noise, settings)
    back = (x - there[0] + alpha * there[2]).square().flatten(1).sum(1) / (4 * alpha * temperature)
    forth = noise.square().flatten(1).sum(1) / 2
    return _accepted((value - there[1]) / temperature - back + forth, there, state)


def _value_and_fall(energy: Energy, x: Tensor) -> Tensors:
    """E(x) and `fall`."""
    value, grad = energy.value_and_grad(x)
    return value, (x - 0.5) * grad if isinstance(energy.domain, Binary) else x * grad


def _anneal(path: Bridge, state: Tensors, settings: Tensor, propose: Callable[..., Proposed]) -> Tensors:
    x, base, base_fall, value, fall = state
    old, new, own = settings[0], settings[1], settings[2:]

    def mix(at_0: Tensor, at_1: Tensor) -> Tensor:
        return (1 - new) * at_0 + torch.where(new == 0, 0, new * at_1)  # 0 times an infinite energy is NaN

    y, back_minus_forth = propose(path, x, mix(base_fall, fall), own)
    there = start_path(path, y)
    log_ratio = mix(base, value) - mix(there[1], there[3]) + back_minus_forth(mix(there[2], there[4]))
    increment = torch.where(new == old, 0, (new - old) * (base - value))  # likewise
    return increment, *_accepted(log_ratio, there, state)


def _propose_flips(energy: Energy, x: Tensor, fall: Tensor, settings: Tensor) -> Proposed:
    law = _law(fall, settings)
    flips = bernoulli(law[0])
    return _flipped(energy, x, flips), lambda there: _back_minus_forth(flips, law, _law(there, settings))


def _propose_one_flip(energy: Energy, x: Tensor, fall: Tensor, settings: Tensor) -> Proposed:
    log_law = fall.flatten(1).log_softmax(1)
    y, chosen = _one_flipped(energy, x, log_law)

    def back_minus_forth(there: Tensor) -> Tensor:
        back = there.flatten(1).log_softmax(1).gather(1, chosen)
        return (back - log_law.gather(1, chosen)).squeeze(1)

    return y, back_minus_forth


def _law(fall: Tensor, settings: Tensor) -> Tensors:
    """The logits of the flips, and the normaliser of the proposal."""
    logit_0, weight = settings.unbind()
    logits = logit_0 + weight * fall
    return logits, sum_softplus(logits.flatten(1))


def _one_flipped(energy: Energy, x: Tensor, log_law: Tensor) -> tuple[Tensor, Tensor]:
    """A copy of x with one coordinate flipped, and which one, `(B, 1)`; `log_law` `(B, size)` is the law of it."""
    cdf = wide(log_law).exp().cumsum(1)
    level = uniform(cdf[:, -1:]) * cdf[:, -1:]
    chosen = (cdf <= level).sum(1, keepdim=True).clamp(max=log_law.shape[1] - 1)
    flat = x.flatten(1)
    old = flat.gather(1, chosen)
    return flat.scatter(1, chosen, 1 - old if isinstance(energy.domain, Binary) else -old).view_as(x), chosen


def _flipped(energy: Energy, x: Tensor, flips: Tensor) -> Tensor:
    return (x - flips).abs() if isinstance(energy.domain, Binary) else x - 2 * x * flips


def _back_minus_forth(flips: Tensor, here: Tensors, there: Tensors) -> Tensor:
    """Log-probability of the way back minus that of the way there, of laws `(logits, normaliser)`."""
    return ((there[0] - here[0]) * flips).flatten(1).sum(1) - there[1] + here[1]


def _accepted(log_ratio: Tensor, new: Tensors, old: Tensors) -> Tensors:
    """Chain by chain the new state with probability min(1, exp(log_ratio)), else the old one."""
    accept = uniform(log_ratio) < log_ratio.clamp(max=0).exp()
    return tuple(torch.where(accept.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in zip(new, old, strict=True))
