"""Block Gibbs: all visible units given the hidden ones, then all hidden units given the visible ones."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.domains import Binary, Real
from ebmlab.energies import Bipartite, Energy
from ebmlab.noise import bernoulli
from ebmlab.samplers.sampler import Info, Sampler, State, require_bipartite


class BlockGibbs(Sampler):
    """v ~ p(v | h), h ~ p(h | v) (Liao et al. 2022, Alg. 5; `init` draws the first h).

    Each state's (x, hidden) is a pair from the joint law once its x is.
    """

    domains = (Real, Binary)

    @property
    def exact(self) -> bool:
        return True

    def check(self, energy: Energy) -> None:
        require_bipartite(self, energy)

    @torch.no_grad()
    def init(self, energy: Bipartite, x: Tensor, horizon: int | None = None) -> State:  # type: ignore[override]
        return self._state(energy, x, 0)

    @torch.no_grad()
    def step(self, energy: Bipartite, state: State) -> tuple[State, Info]:  # type: ignore[override]
        assert state.hidden is not None
        x = energy.sample_visible(state.hidden)
        new = self._state(energy, x, state.step + 1)
        assert new.logits is not None
        acceptance = x.new_ones(len(x)).masked_fill_(new.logits.sum(1).isnan(), torch.nan)
        return new, Info(acceptance, energy.domain.hops(x, state.x))

    @staticmethod
    def _state(energy: Bipartite, x: Tensor, k: int) -> State:
        logits = energy.hidden_given_visible(x)
        return State(x=x, step=k, logits=logits, hidden=bernoulli(logits))
