"""The Hamming ball sampler (Titsias & Yau, 2017)."""

from __future__ import annotations

from dataclasses import replace
from typing import cast

import torch

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.samplers.blocks import MAX_CONFIGURATIONS, ball, ball_size, random_block, redraw, uniform_index
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import Info, State
from ebmlab.settings import require_count


class HammingBall(Sampler):
    """Redraws a random block of coordinates in a Hamming ball around an auxiliary block u (Titsias & Yau 2017).

    One step draws u uniformly from the ball of the given radius around x_block. Then it draws x_block from p(x_block |
    all others) restricted to the ball around u. All balls have the same size, so that p stays invariant. Each state of
    the ball counts as one evaluation. With a radius of 1, `energy.value_differences` at u is used, which is much
    cheaper for structured energies.

    Args:
        block_size: coordinates per block (the X of HB-X-Y); a domain with fewer coordinates is one block.
        radius: how many coordinates of a block may differ from u (the Y of HB-X-Y).

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import HammingBall
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = HammingBall(block_size=4, radius=1).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    keeps_values = False
    exact = True

    def __init__(self, block_size: int = 10, radius: int = 1) -> None:
        super().__init__()
        require_count("HammingBall", block_size=block_size, radius=radius)
        self.block_size = block_size
        self.radius = radius

    def check(self, energy: Energy) -> None:
        super().check(energy)
        domain = cast(Finite, energy.domain)
        width = min(self.block_size, domain.size)
        count = ball_size(domain.num_values, width, self.radius)
        if count > MAX_CONFIGURATIONS:
            raise UserError(
                f"HammingBall: a ball of radius {self.radius} in {width} coordinates of {domain} has {count} "
                f"configurations, too many to enumerate (at most {MAX_CONFIGURATIONS}); take a smaller block_size or "
                "radius"
            )

    @torch.no_grad()
    def step(self, energy: Energy, state: State) -> tuple[State, Info]:
        domain, x = cast(Finite, energy.domain), state.x
        block = random_block(domain, x, min(self.block_size, domain.size))
        shifts = ball(domain.num_values, block.shape[1], self.radius, x.device)
        u = shifts[uniform_index(x.new_empty(len(x)), len(shifts))]  # u as a shift from x_block
        y, info = redraw(energy, x, block, shifts, away=u)
        return replace(state, x=y, step=state.step + 1), info
