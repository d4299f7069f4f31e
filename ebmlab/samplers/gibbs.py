"""Gibbs sampling that enumerates the values of a block (Geman & Geman, 1984)."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal, cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.errors import UserError
from ebmlab.samplers.blocks import MAX_CONFIGURATIONS, ball, random_block, redraw
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.settings import require_choice, require_count


@dataclass(kw_only=True)
class GibbsState(State):
    """x with the position of a systematic scan.

    Attributes:
        first: index of the block that a systematic scan begins with.
    """

    first: int = 0

    @property
    def carried(self) -> dict[str, Any]:
        return super().carried | {"first": self.first}


class Gibbs(Sampler):
    """One step redraws one block of coordinates from p(x_block | all others) (Geman & Geman 1984).

    All num_values^block_size configurations of the block are enumerated; each counts as one evaluation. For blocks of
    one coordinate `energy.value_differences` is used, which is much cheaper for structured energies.

    Args:
        block_size: coordinates per step (the X of Gibbs-X); a domain with fewer coordinates is one block.
        scan: `systematic` takes consecutive blocks in turn, the same block in all chains. `init` draws the first block
            at random, so that many short runs reach every coordinate. `random` draws the coordinates anew for each
            step and chain.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import Gibbs
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = Gibbs(block_size=2).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    keeps_values = False
    exact = True

    def __init__(self, block_size: int = 1, scan: Literal["systematic", "random"] = "systematic") -> None:
        super().__init__()
        require_count("Gibbs", block_size=block_size)
        require_choice("Gibbs", ("systematic", "random"), scan=scan)
        self.block_size = block_size
        self.scan = scan

    def check(self, energy: Energy) -> None:
        super().check(energy)
        domain = cast(Finite, energy.domain)
        size = min(self.block_size, domain.size)
        if domain.num_values**size > MAX_CONFIGURATIONS:
            raise UserError(
                f"Gibbs: a block of {size} coordinates of {domain} has {domain.num_values}^{size} configurations, too "
                f"many to enumerate (at most {MAX_CONFIGURATIONS}); take a smaller block_size"
            )

    @torch.no_grad()
    def init(self, energy: Energy, x: Tensor, horizon: int | None = None, known: PerChain | None = None) -> GibbsState:
        domain = cast(Finite, energy.domain)
        return GibbsState(x=x, first=int(torch.randint(self._num_blocks(domain), ())))

    @torch.no_grad()
    def step(self, energy: Energy, state: GibbsState) -> tuple[GibbsState, Info]:
        domain, x = cast(Finite, energy.domain), state.x
        block = self._block(domain, state)
        width = block.shape[1]
        y, info = redraw(energy, x, block, ball(domain.num_values, width, width, x.device))
        return replace(state, x=y, step=state.step + 1), info

    def _num_blocks(self, domain: Finite) -> int:
        return -(-domain.size // min(self.block_size, domain.size))

    def _block(self, domain: Finite, state: GibbsState) -> Tensor:
        """The coordinates that this step redraws, `(B, X)`."""
        size, width = domain.size, min(self.block_size, domain.size)
        if self.scan == "random":
            return random_block(domain, state.x, width)
        first = (state.first + state.step) % self._num_blocks(domain) * width
        coordinates = torch.arange(first, min(first + width, size), device=state.x.device)
        return coordinates.expand(len(state.x), -1)
