"""Multiple-try Metropolis with the proposal of DMALA, for a trial: `papers/multiple_try.py`."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor
from torch.distributions import Categorical

from ebmlab.domains import Binary, Spin
from ebmlab.energies import Energy
from ebmlab.samplers import GradientState, Info, Sampler
from ebmlab.samplers.metropolis import metropolis
from ebmlab.samplers.proposals import Proposal, factorised

Weights = Literal["importance", "balanced"]


class MultipleTry(Sampler):
    """DMALA with k tries a step (Liu, Liang & Wong 2000).

    k states y are drawn from q( . | x), and one of them is taken by its weight w(x, y). From there k - 1 states are
    drawn, and x joins them. The ratio of the two sums of weights decides. Weights are p(y) / q(y | x), of importance,
    or balanced: sqrt(p(y) q(x | y) / (p(x) q(y | x))) (Gagnon, Maire & Zanella 2023). One try is DMALA.

    Args:
        step_size: alpha.
        tries: k.
        weights: of the tries.
    """

    domains, exact = (Binary, Spin), True
    step_size: Tensor

    def __init__(self, step_size: float, tries: int, weights: Weights) -> None:
        super().__init__()
        self.register_buffer("step_size", torch.tensor(step_size), persistent=False)
        self.tries, self.weights = tries, weights

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: object = None) -> GradientState:
        at = energy.evaluate(x, None)
        return GradientState(x=x, energy=at.energy, grad=at.grad)

    @torch.no_grad()
    def step(self, energy: Energy, state: GradientState) -> tuple[GradientState, Info]:
        tried, log_w, log_back = self._tried(energy, state, self.tries)
        row = (torch.arange(len(log_w)), Categorical(logits=log_w).sample())
        flat = row[0] * self.tries + row[1]
        new = GradientState(x=tried.x[flat], energy=tried.energy[flat], grad=tried.grad[flat])
        others = self._tried(energy, new, self.tries - 1)[1] if self.tries > 1 else log_w[:, :0]
        log_ratio = log_w.logsumexp(1) - torch.cat([others, log_back[row].unsqueeze(1)], 1).logsumexp(1)
        accepted, probability = metropolis(log_ratio)
        after = new.overwritten(accepted, state)
        after.step = state.step + 1
        hops = energy.domain.hops(after.x, state.x)
        return after, Info(probability, hops, evaluations=2 * self.tries - 1)

    def _tried(self, energy: Energy, state: GradientState, tries: int) -> tuple[GradientState, Tensor, Tensor]:
        """States drawn from the proposal, chain by chain, and the logs of the weights to them and back, `(B, k)`."""
        x, here, grad = (part.repeat_interleave(tries, 0) for part in (state.x, state.energy, state.grad))
        draw = self._proposal(energy, x, grad).sample()
        at = energy.evaluate(draw.y, None)
        forth, back = draw.log_prob, self._proposal(energy, draw.y, at.grad).log_prob(draw.reverse)
        if self.weights == "importance":
            there, home = -at.energy - forth, -here - back
        else:
            there = (here - at.energy + back - forth) / 2
            home = -there
        tried = GradientState(x=draw.y, energy=at.energy, grad=at.grad)
        return tried, there.view(-1, tries), home.view(-1, tries)

    def _proposal(self, energy: Energy, x: Tensor, grad: Tensor) -> Proposal:
        return factorised(energy.domain, x, grad, stiffness=1 / self.step_size, weight=-0.5)
