"""The state of the chains between two steps, and the report of a step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from ebmlab.energies import Bipartite, PerChain
from ebmlab.numerics.noise import wide
from ebmlab.samplers.proposals import Proposal

Later = Tensor | Callable[[], Tensor]


@dataclass(kw_only=True)
class State(PerChain):
    """The positions of the chains, and the values that the kernel has already computed there.

    When the energy's parameters or the sampler's settings change, the computed values are no longer valid: keep only
    `x` and call `init` again.

    Attributes:
        x: `(B, *event)`.
        step: steps taken since `init`.
        proposal: q( . | x) for the next step, if the last step has made it; else None.
        known: what a `Bridge`, or an energy at temperatures of each chain, has computed at x. It does not depend on
            beta, and `init` can use it at another one. None for other energies.

    Example:
        >>> import torch
        >>> from ebmlab.samplers import State
        >>> old, new = State(x=torch.zeros(2, 3)), State(x=torch.ones(2, 3), step=1)
        >>> new.where(torch.tensor([True, False]), old).x
        tensor([[1., 1., 1.],
                [0., 0., 0.]])
    """

    x: Tensor
    step: int = 0
    proposal: Proposal | None = None
    known: PerChain | None = None

    @property
    def kept(self) -> Tensor:
        """The states from which later chains go on: x, or all replicas if a chain has several."""
        return self.x

    @property
    def carried(self) -> dict[str, Any]:
        """What the next step needs and `init` at x does not find: the number of steps, and more in subclasses."""
        return {"step": self.step}


@dataclass(frozen=True)
class Leg:
    """Where steps stand in a longer chain; by default they are a chain of their own.

    Attributes:
        first: how many steps the chain has taken before.
        horizon: how many steps are planned for it; None if it ends with this leg.
        known: `state.known` of the state at which the leg begins, so that x is not evaluated again.

    Example:
        >>> Leg(first=10, horizon=100).known is None
        True
    """

    first: int = 0
    horizon: int | None = None
    _: KW_ONLY
    known: PerChain | None = None


@dataclass(kw_only=True)
class EnergyState(State):
    """x with the energy there.

    Attributes:
        energy: E(x), `(B,)`.

    Example:
        >>> import torch
        >>> from ebmlab.samplers import EnergyState
        >>> EnergyState(x=torch.zeros(2, 3), energy=torch.zeros(2)).step
        0
    """

    energy: Tensor


@dataclass(kw_only=True)
class GradientState(EnergyState):
    """x with the energy and its gradient there.

    Attributes:
        grad: dE/dx, `(B, *event)`.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import ACS
        >>> ising = Ising.lattice(3, 0.2)
        >>> ACS().init(ising, ising.domain.random(5)).grad.shape
        torch.Size([5, 9])
    """

    grad: Tensor


@dataclass(kw_only=True)
class BipartiteState(State):
    """x with the hidden units of a bipartite energy.

    Attributes:
        logits: logits of p(h | x), `(B, H)`; None if the energy has no hidden units.
        hidden: h, `(B, H)`; None if the kernel draws no hidden units.

    Example:
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers import BlockGibbs
        >>> rbm = RBM(4, 3)
        >>> BlockGibbs().init(rbm, rbm.domain.random(5)).hidden.shape
        torch.Size([5, 3])
    """

    logits: Tensor | None = None
    hidden: Tensor | None = None


def hidden_given_state(energy: Bipartite, state: State) -> Tensor:
    """Logits `(B, H)` of p(h | x) at a state; taken from the state if the kernel has computed them.

    Example:
        >>> from ebmlab.energies import RBM
        >>> rbm = RBM(4, 3)
        >>> hidden_given_state(rbm, State(x=rbm.random(5))).shape
        torch.Size([5, 3])
    """
    kept = state.logits if isinstance(state, BipartiteState) else None
    return energy.hidden_given_visible(state.x) if kept is None else kept


class Info:
    """The report of one step, or its mean over steps.

    Args:
        acceptance: probability with which the proposal was accepted, `(B,)`; 1 without a Metropolis decision.
        hops: how far the chain moved, `(B,)`: coordinates changed on a finite domain, Euclidean distance on Real.
        evaluations: number of evaluations of energy and gradient in the step (block Gibbs: of pairs of conditionals).

    A function in place of a tensor is called when somebody first reads the attribute. A chain whose report nobody reads
    does not compute it.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = Gibbs().sample(ising, ising.domain.random(5), num_steps=10)
        >>> info.acceptance
        tensor([1., 1., 1., 1., 1.])
    """

    __slots__ = ("_acceptance", "_hops", "evaluations")

    def __init__(self, acceptance: Later, hops: Later, *, evaluations: float = 1.0) -> None:
        self._acceptance, self._hops, self.evaluations = acceptance, hops, evaluations

    def later(self) -> tuple[Later, Later]:
        """Acceptance and hops as given, or read before."""
        return self._acceptance, self._hops

    @property
    def acceptance(self) -> Tensor:
        """As in the arguments."""
        if not isinstance(self._acceptance, Tensor):
            self._acceptance = self._acceptance()
        return self._acceptance

    @property
    def hops(self) -> Tensor:
        """As in the arguments."""
        if not isinstance(self._hops, Tensor):
            self._hops = self._hops()
        return self._hops

    @staticmethod
    def cat(reports: Sequence[Info]) -> Info:
        """The report of blocks of chains that moved one after the other; `evaluations` is the mean over all chains."""
        if len(reports) == 1:
            return reports[0]
        acceptance, hops = torch.cat([r.acceptance for r in reports]), torch.cat([r.hops for r in reports])
        evaluations = sum(r.evaluations * len(r.hops) for r in reports) / len(hops)
        return Info(acceptance, hops, evaluations=evaluations)

    def __add__(self, other: Info) -> Info:
        acceptance, hops = wide(self.acceptance) + other.acceptance, wide(self.hops) + other.hops
        return Info(acceptance, hops, evaluations=self.evaluations + other.evaluations)

    def __truediv__(self, n: int) -> Info:
        return Info(self.acceptance / n, self.hops / n, evaluations=self.evaluations / n)
