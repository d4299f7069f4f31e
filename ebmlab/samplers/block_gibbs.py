"""Block Gibbs: all visible units given the hidden ones, then all hidden units given the visible ones."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import cast

from torch import Tensor

from ebmlab.domains import Binary, Categorical, Real
from ebmlab.energies import Bipartite, Energy, PerChain
from ebmlab.energies.hidden_units import BITS, HiddenUnits
from ebmlab.errors import UserError
from ebmlab.native.block_gibbs import block_gibbs_steps
from ebmlab.samplers.at_once import at_once
from ebmlab.samplers.by_chain import Moved, Sure
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import BipartiteState, Info

MOST = 32  # chains that move at once


@dataclass(kw_only=True)
class BlockGibbsState(BipartiteState):
    """x, and h ~ p(h | x): as given, else drawn when it is first read.

    Steps go on from an h that is given, and draw one of their own elsewhere. They do not look at what was read, so that
    the next state depends on this one and the generator alone. A state whose h nobody reads costs no other draw of it.
    """

    units: HiddenUnits = BITS

    def _keep(self, hidden: Tensor | None) -> None:
        self._given, self._shown = hidden, hidden

    def _read(self) -> Tensor:
        if self._shown is None:
            self._shown = self.draw()
        return self._shown

    hidden = property(_read, _keep)  # replaces the field of the base class, which `__init__` still sets

    def draw(self) -> Tensor:
        """The h from which a step goes on, `(B, H)`: as given, else drawn anew at each call."""
        if self._given is not None:
            return self._given
        assert self.logits is not None
        return self.units.sample(self.logits)


@dataclass
class Drawn(PerChain):
    """Hidden units `(B, H)` that an earlier step has drawn at x: the chain goes on from them."""

    hidden: Tensor


def start(energy: Energy, x: Tensor, settings: Sequence[Number], known: PerChain | None = None) -> BlockGibbsState:
    """The inputs of the hidden units, of bits the logits; none where the hidden units are drawn already."""
    energy = cast(Bipartite, energy)
    if isinstance(known, Drawn):
        return BlockGibbsState(x=x, hidden=known.hidden, units=energy.units)
    logits, known = energy.hidden_logits(x, known)
    return BlockGibbsState(x=x, logits=logits, known=known, units=energy.units)


def step(energy: Energy, state: BlockGibbsState, settings: Sequence[Number]) -> tuple[BlockGibbsState, Info]:
    """H ~ p(h | x), and then the next x ~ p(v | h)."""
    new = start(energy, cast(Bipartite, energy).sample_visible(state.draw()), settings)
    assert new.logits is not None
    return new, Info(Sure(new.x, new.logits), Moved(energy.domain, new.x, state.x))


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

    domains = (Real, Binary, Categorical)
    exact = True

    def check(self, energy: Energy) -> None:
        require_bipartite(self, energy)
        super().check(energy)

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step)

    def _at_once(self, energy: Energy, x: Tensor, num_steps: int) -> tuple[Tensor, Info] | None:
        if type(self) is not BlockGibbs:
            return None
        steps = partial(block_gibbs_steps, x=x, num_steps=num_steps)
        return at_once(steps, energy, x=x, num_steps=num_steps, most=MOST)


def require_bipartite(sampler: Sampler, energy: Energy) -> None:
    """Raises `UserError` unless the energy has hidden units."""
    if not isinstance(energy, Bipartite):
        other = "MALA" if isinstance(energy.domain, Real) else "DMALA"
        raise UserError(
            f"{type(sampler).__name__} needs a bipartite energy (an RBM or GRBM: it draws hidden units), "
            f"but {type(energy).__name__} has none; use {other}, for example"
        )
