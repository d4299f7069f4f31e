"""Block Gibbs: all visible units given the hidden ones, then all hidden units given the visible ones."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from ebmlab.domains import Binary, Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.numerics.noise import bernoulli
from ebmlab.samplers.compiled import PureSteps
from ebmlab.samplers.pure_steps import start_alone, step_gibbs
from ebmlab.samplers.sampler import Sampler, require_bipartite
from ebmlab.samplers.state import BipartiteState, Info


@dataclass(kw_only=True)
class BlockGibbsState(BipartiteState):
    """x, and h ~ p(h | x), which is drawn when it is first read, by the next step at the latest.

    The last state of a chain therefore costs no draw of h, unless somebody reads it.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> rbm = RBM(4, 3)
        >>> state = BlockGibbs().init(rbm, rbm.domain.random(5))
        >>> state.hidden is state.hidden
        True
    """

    def _keep(self, hidden: Tensor | None) -> None:
        self._hidden: Tensor | None = hidden

    def _read(self) -> Tensor:
        if self._hidden is None:
            assert self.logits is not None
            self._hidden = bernoulli(self.logits)
        return self._hidden

    hidden = property(_read, _keep)  # replaces the field of the base class, which `__init__` still sets


class BlockGibbs(Sampler):
    """h ~ p(h | v), v ~ p(v | h) (Liao et al. 2022, Alg. 5).

    If x follows the marginal law, (x, hidden) of each state follows the joint law.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> rbm = RBM(6, 3)
        >>> x, info = BlockGibbs().sample(rbm, rbm.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 6])
    """

    domains = (Real, Binary)
    exact = True

    def check(self, energy: Energy) -> None:
        require_bipartite(self, energy)
        super().check(energy)

    @torch.no_grad()
    def init(  # type: ignore[override]
        self, energy: Bipartite, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> BlockGibbsState:
        return self._at(energy, x, 0, known)

    @torch.no_grad()
    def step(self, energy: Bipartite, state: BlockGibbsState) -> tuple[BlockGibbsState, Info]:  # type: ignore[override]
        new = self._at(energy, energy.sample_visible(state.hidden), state.step + 1)
        return new, Info(lambda: _valid(new), lambda: energy.domain.hops(new.x, state.x))

    def pure_steps(self, energy: Energy) -> PureSteps | None:
        if type(self) is not BlockGibbs or not isinstance(energy.domain, Binary):
            return None
        return PureSteps(start_alone, step_gibbs)

    @torch.no_grad()
    def _run(self, energy: Energy, x: Tensor, num_steps: int) -> Tensor:
        """As in `Sampler`, from the same random numbers, without states and without p(h | x) at the last x."""
        if type(self) is not BlockGibbs:
            return super()._run(energy, x, num_steps)
        assert isinstance(energy, Bipartite)
        for _ in range(num_steps):
            x = energy.sample_visible(bernoulli(energy.hidden_given_visible(x)))
        return x

    def _at(self, energy: Bipartite, x: Tensor, step: int, known: PerChain | None = None) -> BlockGibbsState:
        logits, known = energy.hidden_logits(x, known)
        return BlockGibbsState(x=x, step=step, logits=logits, known=known)


def _valid(state: BlockGibbsState) -> Tensor:
    """1 for each chain, NaN where the hidden units have no law."""
    assert state.logits is not None
    return state.x.new_ones(len(state.x)).masked_fill_(state.logits.sum(1).isnan(), torch.nan)
