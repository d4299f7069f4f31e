"""Chains of `DMALA`, `ACS`, `AnyScale` and `GWG` on two values and a CPU: `MetropolisSampler.step`, written out.

Besides the evaluation of the energy, a step on a CPU consists of passes over memory and of the time that Python and
torch need to start them. The chains of this file need fewer of both: they keep only what the next step needs, make no
proposal objects, and compute the logits of a flip from the gradient in one pass.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Spin
from ebmlab.energies import Energy
from ebmlab.energies.evaluation import Merge
from ebmlab.numerics.noise import bernoulli, categorical
from ebmlab.numerics.softplus import sum_softplus
from ebmlab.samplers.compiled import worth_compiling
from ebmlab.samplers.metropolis import MetropolisSampler, metropolis
from ebmlab.samplers.proposals.factorised import flipped
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info, Leg


def written_out(sampler: Sampler, kernel: type[MetropolisSampler], energy: Energy, x: Tensor) -> bool:
    """Whether this file's chain for `kernel` makes the same steps as the sampler.

    It does so on two values and a CPU, unless the sampler is of a subclass that changes the steps.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import GWG
        >>> rbm = RBM(6, 3)
        >>> written_out(GWG(), GWG, rbm, rbm.domain.random(4))
        True
    """
    return _same_steps(sampler, kernel, energy) and x.device.type == "cpu"


def compilable(sampler: Sampler, kernel: type[MetropolisSampler], energy: Energy) -> bool:
    """Whether the steps of `kernel` in pure_steps.py are those of the sampler, and faster as a program.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import DMALA
        >>> compilable(DMALA(0.2), DMALA, RBM(6, 3))
        True
    """
    return _same_steps(sampler, kernel, energy) and type(sampler).chain is kernel.chain and worth_compiling(energy)


def _same_steps(sampler: Sampler, kernel: type[MetropolisSampler], energy: Energy) -> bool:
    """Whether a sampler makes the steps of `kernel`, which a subclass may change, on two values."""
    parts = ("init", "step", "steady", "settings", "proposal", "evaluate", "arrive", "potential")
    same = all(getattr(type(sampler), part, None) is getattr(kernel, part, None) for part in parts)
    return same and isinstance(energy.domain, Binary | Spin)


@torch.no_grad()
def langevin_chain(
    energy: Energy, x: Tensor, num_steps: int, cycle: Sequence[tuple[float, float]], leg: Leg | None = None
) -> Iterator[tuple[EnergyState, Info]]:
    """The chain of discrete Langevin proposals (`Flips`) with Metropolis decisions, from the same random numbers.

    Args:
        energy: on a `Binary` or `Spin` domain.
        x: `(B, *event)`.
        num_steps: how many steps.
        cycle: step size alpha and balance beta of each step, which repeat. If they are always the same, the logits at y
            serve the next step.
        leg: where the steps stand in a longer chain.

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(6, 3)
        >>> [state.step for state, _ in langevin_chain(rbm, rbm.domain.random(4), num_steps=2, cycle=[(0.2, 0.5)])]
        [1, 2]
    """
    leg = leg or Leg()
    at = energy.evaluate(x, leg.known)
    energy_x, known = at.energy, at.known
    fall = _fall(energy.domain, x, at.grad)
    half = 0.5 if isinstance(energy.domain, Binary) else 2.0  # (y_i - x_i)^2 / 2 of a flip
    laws = [(torch.tensor(-half / alpha, dtype=fall.dtype), 2 * beta) for alpha, beta in cycle]
    for k in range(num_steps):
        logit_0, weight = laws[(leg.first + k) % len(laws)]  # a flip has the logit logit_0 + weight * fall
        if k == 0 or len(laws) > 1:
            logits = torch.add(logit_0, fall, alpha=weight)
            normaliser = sum_softplus(logits.flatten(1))
        flips = bernoulli(logits)
        y = flipped(energy.domain, x, flips)
        at = energy.evaluate(y)
        fall_y = _fall(energy.domain, y, at.grad)
        logits_y = torch.add(logit_0, fall_y, alpha=weight)
        normaliser_y = sum_softplus(logits_y.flatten(1))
        back_minus_forth = torch.sub(logits_y, logits).mul_(flips).flatten(1).sum(1) - normaliser_y + normaliser
        accepted, probability = metropolis(energy_x - at.energy + back_minus_forth)
        merge, before = Merge(accepted, overwrite=True), x
        x, energy_x = merge(y, x), merge(at.energy, energy_x)
        if len(laws) == 1:
            logits, normaliser = merge(logits_y, logits), merge(normaliser_y, normaliser)
        else:
            fall = merge(fall_y, fall)
        known = None if known is None or at.known is None else at.known.merged(merge, known)
        yield (
            EnergyState(x=x, energy=energy_x, step=leg.first + k + 1, known=known),
            _report(energy, probability, before, x),
        )


@torch.no_grad()
def gwg_chain(energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[EnergyState, Info]]:
    """The chain of Gibbs with gradients for one flip a step (`IndependentMoves`), from the same random numbers.

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(6, 3)
        >>> [state.step for state, _ in gwg_chain(rbm, rbm.domain.random(4), num_steps=2)]
        [1, 2]
    """
    leg = leg or Leg()
    at = energy.evaluate(x, leg.known)
    energy_x, known = at.energy, at.known
    log_law = _fall(energy.domain, x, at.grad).flatten(1).log_softmax(1)
    for k in range(num_steps):
        chosen = categorical(log_law, 1)
        y = x.clone(memory_format=torch.contiguous_format)
        flat = y.view(len(y), -1)
        old = flat.gather(1, chosen)
        flat.scatter_(1, chosen, 1 - old if isinstance(energy.domain, Binary) else -old)
        at = energy.evaluate(y)
        log_law_y = _fall(energy.domain, y, at.grad).flatten(1).log_softmax(1)
        back_minus_forth = (log_law_y.gather(1, chosen) - log_law.gather(1, chosen)).squeeze(1)
        accepted, probability = metropolis(energy_x - at.energy + back_minus_forth)
        merge, before = Merge(accepted, overwrite=True), x
        x, energy_x, log_law = merge(y, x), merge(at.energy, energy_x), merge(log_law_y, log_law)
        known = None if known is None or at.known is None else at.known.merged(merge, known)
        yield (
            EnergyState(x=x, energy=energy_x, step=leg.first + k + 1, known=known),
            _report(energy, probability, before, x),
        )


def _fall(domain: Domain, x: Tensor, grad: Tensor) -> Tensor:
    """Half of how much E falls, to first order, when a coordinate flips: dE/dx_i (x_i - y_i) / 2."""
    return torch.sub(x, 0.5).mul_(grad) if isinstance(domain, Binary) else x * grad


def _report(energy: Energy, probability: Tensor, before: Tensor, x: Tensor) -> Info:
    return Info(probability, lambda: energy.domain.hops(x, before))
