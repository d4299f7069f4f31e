"""Moves each part of a product of domains given the others, by a kernel of its own (Metropolis within Gibbs)."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace
from typing import cast

import torch
from torch import Tensor, nn

from ebmlab.domains import Real
from ebmlab.energies import Energy, Part, PerChain
from ebmlab.errors import WHY, UserError, explained
from ebmlab.product import Product
from ebmlab.samplers.gibbs import Gibbs
from ebmlab.samplers.langevin import MALA
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State


@dataclass(kw_only=True)
class AlternateState(State):
    """x, and how many steps are planned.

    Attributes:
        horizon: steps planned, over which the kernels' schedules are spread.
    """

    horizon: int | None = None


class Alternate(Sampler):
    """A kernel for each part of a `Product`, one after the other; each sees the law of its part given the others.

    A kernel that leaves this law invariant leaves that of the whole state invariant. Exact kernels therefore make an
    exact sampler (Tierney, 1994, Markov Chains for Exploring Posterior Distributions, Sec. 2.4). Energies and gradients
    that a kernel keeps are stale once another part has moved. Each kernel therefore starts anew at every step, which
    costs one more evaluation, and momenta are drawn anew.

    Args:
        kernels: a sampler for each part, by the names of the domain, in the order in which they move.

    Example:
        >>> from ebmlab.domains import Binary, Real
        >>> from ebmlab.energies import ProductMLP
        >>> from ebmlab.samplers import DMALA, MALA
        >>> energy = ProductMLP(Product(bits=Binary(3), place=Real(1)), hidden_dim=8)
        >>> x, info = Alternate(bits=DMALA(0.5), place=MALA(0.3)).sample(energy, energy.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 4])
    """

    domains = (Product,)
    keeps_values = False

    def __init__(self, **kernels: Sampler) -> None:
        super().__init__()
        for name, kernel in kernels.items():
            if not isinstance(kernel, Sampler):
                raise UserError(f"Alternate: {name} is {kernel!r}, but must be a sampler such as MALA(0.1)")
            if not kernel.independent:
                raise UserError(f"Alternate: {name} is {type(kernel).__name__}, whose chains move together")
        self.kernels = nn.ModuleDict(kernels)

    @classmethod
    def of(cls, kernels: Mapping[str, Sampler]) -> Alternate:
        """The sampler of a mapping from parts to kernels, for YAML files."""
        return cls(**kernels)

    @classmethod
    def usual(cls, domain: Product) -> Alternate:
        """`Gibbs` for the finite parts of a domain, and `MALA(0.1)` for those of real numbers.

        Example:
            >>> from ebmlab.domains import Binary
            >>> Alternate.usual(Product(bits=Binary(3), place=Real(1))).exact
            True
        """
        return cls(**{name: MALA(0.1) if isinstance(part, Real) else Gibbs() for name, part in domain.parts.items()})

    def only(self, parts: Collection[str]) -> Alternate:
        """The sampler of some of the parts, such as those that `Clamped` leaves free; it shares the kernels.

        Raises:
            UserError: it has no kernel for one of them.
        """
        named = self.named()
        if missing := [name for name in parts if name not in named]:
            raise UserError(f"Alternate moves {', '.join(named)}, but has no kernel for {missing[0]}")
        return type(self)(**{name: named[name] for name in parts})

    def named(self) -> dict[str, Sampler]:
        """The kernels by the names of their parts."""
        return cast(dict[str, Sampler], dict(self.kernels.items()))

    @property
    def exact(self) -> bool:
        return all(kernel.exact for kernel in self.named().values())

    def check(self, energy: Energy) -> None:
        super().check(energy)
        assert isinstance(energy.domain, Product)
        if self.kernels.keys() != energy.domain.parts.keys():
            raise UserError(
                f"Alternate moves {', '.join(self.kernels) or 'nothing'}, but {type(energy).__name__} lives on "
                f"{energy.domain}: name a sampler for each part"
            )
        nobody = torch.empty(0, *energy.domain.event_shape)
        for name, kernel in self.named().items():
            with explained(f"Alternate: {name}: {WHY}", UserError):
                kernel.check(Part(energy, name, x=nobody))

    @torch.no_grad()
    def init(
        self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None
    ) -> AlternateState:
        return AlternateState(x=x, horizon=horizon)

    @torch.no_grad()
    def step(self, energy: Energy, state: AlternateState) -> tuple[AlternateState, Info]:
        x, reports = state.x, []
        for name, kernel in self.named().items():
            given = Part(energy, name, x=x)
            at = kernel.init(given, given.split(x).contiguous(), state.horizon)
            at.step = state.step
            at, info = kernel.step(given, at)
            x = given.merge(at.x)
            reports.append((info, kernel.keeps_values))
        total = sum((info for info, _ in reports[1:]), reports[0][0])
        evaluations = total.evaluations + sum(more for _, more in reports)
        acceptance = total.acceptance / len(reports)
        return replace(state, x=x, step=state.step + 1), Info(acceptance, total.hops, evaluations=evaluations)
