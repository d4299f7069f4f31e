"""Gibbs with gradients (Grathwohl et al. 2021)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.blocks import place, values_at
from ebmlab.samplers.compiled import PureSteps
from ebmlab.samplers.metropolis import MetropolisSampler
from ebmlab.samplers.proposals import Draw, Path, Proposal, factorised, first_order_moves
from ebmlab.samplers.pure_steps import anneal_gwg, start_gwg, step_gwg
from ebmlab.samplers.state import GradientState, Info, Leg, State
from ebmlab.samplers.two_values import compilable, gwg_chain, written_out


class GWG(MetropolisSampler):
    """Gibbs with gradients: moves drawn independently from the first-order law at x (Grathwohl et al. 2021, Alg. 1).

    Args:
        num_flips: X, number of moves drawn in a step (App. D.2).

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import GWG
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = GWG(num_flips=2).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)

    def __init__(self, num_flips: int = 1) -> None:
        super().__init__()
        if num_flips < 1:
            raise UserError(f"GWG: num_flips is {num_flips}, but must be at least 1")
        self.num_flips = num_flips

    def proposal(self, energy: Energy, state: GradientState) -> Proposal:
        domain = cast(Finite, energy.domain)
        if domain.num_values == 1:  # no move exists
            return factorised(domain, state.x, state.grad, torch.ones(()))
        return IndependentMoves(domain, state.x, first_order_moves(domain, state.x, state.grad), self.num_flips)

    def pure_steps(self, energy: Energy) -> PureSteps | None:
        if not compilable(self, GWG, energy) or self.num_flips > 1:
            return None
        return PureSteps(start_gwg, step_gwg, anneal=anneal_gwg)

    def chain(self, energy: Energy, x: Tensor, num_steps: int, leg: Leg | None = None) -> Iterator[tuple[State, Info]]:
        self.check(energy)
        if not written_out(self, GWG, energy, x) or self.num_flips > 1:
            return super().chain(energy, x, num_steps, leg)
        return gwg_chain(energy, x, num_steps, leg)


class IndependentMoves(Proposal):
    """Paths of independently drawn moves.

    If a coordinate is drawn more than once, it takes the value of its first draw. The reverse path draws the same
    coordinates in the same order; in every draw the old and the new value of its coordinate are swapped. The first
    draw of a coordinate then restores the old value, and no draw proposes the value that the coordinate already has.
    Reversing the reverse path gives the original path.

    Args:
        domain: where x lives.
        x: `(B, *event)`.
        log_moves: log-probability of each move, `(B, size, num_values - 1)`.
        num_moves: number of moves drawn.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Binary
        >>> q = IndependentMoves(Binary(3), torch.zeros(2, 3), torch.zeros(2, 3, 1).log_softmax(1), num_moves=1)
        >>> q.sample().y.sum(1)
        tensor([1., 1.])
    """

    def __init__(self, domain: Finite, x: Tensor, log_moves: Tensor, num_moves: int) -> None:
        self.domain, self.x, self.log_moves, self.num_moves = domain, x, log_moves, num_moves

    def sample(self) -> Draw:
        return self.follow(self.draw())

    def draw(self) -> Path:
        """Draws a path."""
        entries, shifts = categorical(self.log_moves.flatten(1), self.num_moves), self.domain.num_values - 1
        return Path(entries // shifts, entries % shifts + 1)

    def log_prob(self, move: Path) -> Tensor:
        return move.gather(self.log_moves).sum(1)

    def follow(self, path: Path) -> Draw:
        """Makes the `Draw` of a path, with the state it leads to and the reverse path."""
        i, s, _ = path
        same = i.unsqueeze(2) == i.unsqueeze(1)
        first = same.byte().argmax(2) if self.num_moves > 1 else torch.zeros_like(i)  # the coordinate's first draw
        made = s.gather(1, first)
        index = (values_at(self.domain, self.x, i) + made) % self.domain.num_values
        y = place(self.domain, self.x, i, index.unsqueeze(1))
        reverse = Path(i, torch.where(s == made, -made, s - made) % self.domain.num_values)
        return Draw(y, self.log_prob(path), reverse)
