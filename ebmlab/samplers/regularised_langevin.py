"""Regularised Langevin dynamics: proposals that change a given number of coordinates on average (Feng & Yang 2025)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.samplers.discrete_langevin import check_langevin
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Proposal, factorised
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_positive

MOST = 0.9  # of the coordinates
ROUNDS = 8  # of Newton's method; the law is exact whatever it has reached


def change_logits(domain: Finite, x: Tensor, drift: Tensor) -> Tensor:
    """The log of the sum over y_i != x_i of exp(drift_i (y_i - x_i)), `(B, size)`: logits of changes without a step.

    On an Ordinal domain y_i are the neighbours x_i - 1 and x_i + 1.
    """
    x, drift = domain.flat(x), domain.flat(drift)
    if isinstance(domain, Categorical):
        here = (drift * x).sum(-1, keepdim=True)
        return (drift - here).masked_fill(x > 0, -torch.inf).logsumexp(-1)
    if isinstance(domain, Ordinal):
        down = (-drift).masked_fill(x <= 0, -torch.inf)
        return torch.logaddexp(down, drift.masked_fill(x >= domain.num_values - 1, -torch.inf))
    return -2 * x * drift if isinstance(domain, Spin) else (1 - 2 * x) * drift


def threshold(logits: Tensor, changes: Number) -> Tensor:
    """C with sum over i of sigmoid(l_i - c) = changes, `(B, 1)`, by Newton's method between bounds that bisect."""
    share = torch.as_tensor(changes / logits.shape[1]).clamp(max=MOST)
    changes, shift = share * logits.shape[1], torch.logit(share)
    low, high = logits.amin(1, keepdim=True) - shift, logits.amax(1, keepdim=True) - shift
    c = logits.mean(1, keepdim=True) - shift
    for _ in range(ROUNDS):
        p = torch.sigmoid(logits - c)
        excess = p.sum(1, keepdim=True) - changes
        low, high = torch.where(excess > 0, c, low), torch.where(excess > 0, high, c)
        newton = c + excess / (p * (1 - p)).sum(1, keepdim=True)
        c = torch.where((newton >= low) & (newton <= high), newton, (low + high) / 2)
    return c


def propose(energy: Energy, x: Tensor, grad: Tensor, settings: Sequence[Number]) -> Proposal:
    """The discrete Langevin proposal whose step size lets `changes` coordinates change on average from this x."""
    changes, balance = settings
    domain = cast(Finite, energy.domain)
    if domain.num_values == 1:  # nothing can change
        return factorised(domain, x, grad, stiffness=1.0)
    c = threshold(change_logits(domain, x, -balance * grad), changes)
    square = 2 if isinstance(domain, Categorical) else 4 if isinstance(domain, Spin) else 1  # |y_i - x_i|^2
    stiffness = (2 / square * c).view(-1, *[1] * len(domain.shape))
    window = 1 if isinstance(domain, Ordinal) else None
    return factorised(domain, x, grad, stiffness=stiffness, window=window, weight=-balance)


def start(energy: Energy, x: Tensor, settings: Sequence[Number], known: PerChain | None = None) -> EnergyState:
    """E(x), and the proposal there."""
    at = energy.evaluate(x, known)
    law = propose(energy, x, at.grad, settings)
    return EnergyState(x=x, energy=at.energy, proposal=law, known=at.known)


def step(energy: Energy, state: EnergyState, settings: Sequence[Number]) -> tuple[EnergyState, Info]:
    """Draws y from q( . | x), and accepts with min(1, p(y) q(x | y) / (p(x) q(y | x))); q( . | y) has its own step."""
    assert state.proposal is not None
    draw = state.proposal.sample()
    new = start(energy, draw.y, settings)
    log_ratio = state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)
    return decide(energy, log_ratio, new=new, old=state)


class RegularisedLangevin(Sampler):
    """Regularised Langevin dynamics (Feng & Yang, ICML 2025), with a Metropolis decision.

    It is `DMALA` with a step size of its own at each x, such that a given number of coordinates is expected to change.
    The gradient says which ones. So a step neither stands still in a mode nor leaves everything behind elsewhere. The
    way back has the step size of y. The paper optimises without Metropolis; here the law is exact.

    On an Ordinal domain coordinates change by 1, as `DMALA(window=1)` changes them.

    Args:
        changes: the expected number of coordinates that a proposal changes; tunable. More than nine tenths of all
            coordinates count as nine tenths.
        balance: beta, the weight of the gradient; tunable.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import RegularisedLangevin
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = RegularisedLangevin(changes=2.0).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True
    changes: Tensor
    balance: Tensor

    def __init__(self, changes: float, balance: float = 0.5) -> None:
        super().__init__()
        check_langevin("RegularisedLangevin", 1.0, balance)
        require_positive("RegularisedLangevin", changes=changes)
        self.register_buffer("changes", torch.tensor(float(changes)), persistent=False)
        self.register_buffer("balance", torch.tensor(float(balance)), persistent=False)

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, torch.stack([self.changes, self.balance]).unsqueeze(0))
