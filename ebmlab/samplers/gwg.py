"""Gibbs with gradients (Grathwohl et al. 2021)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.numerics.noise import categorical
from ebmlab.samplers.blocks import place, values_at
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Draw, Path, Proposal, factorised, first_order_moves
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_count


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], num_flips: int, known: PerChain | None = None
) -> EnergyState:
    """E(x), and the law of the moves there: softmax over neighbours y of -grad E(x) . (y - x) / 2."""
    at, domain = energy.evaluate(x, known), cast(Finite, energy.domain)
    if domain.num_values == 1:  # no move exists
        law: Proposal = factorised(domain, x, at.grad, stiffness=1.0)
    else:
        log_moves = first_order_moves(domain, x, at.grad)
        if num_flips == 1 and isinstance(domain, Binary | Spin):
            law = OneFlip(domain, x, log_moves)
        else:
            law = IndependentMoves(domain, x, log_moves, num_flips)
    return EnergyState(x=x, energy=at.energy, proposal=law, known=at.known)


def step(energy: Energy, state: EnergyState, settings: Sequence[Number], num_flips: int) -> tuple[EnergyState, Info]:
    """Draws moves from the law at x, and accepts with min(1, p(y) q(back | y) / (p(x) q(moves | x))) (Alg. 1)."""
    assert state.proposal is not None
    draw = state.proposal.sample()
    new = start(energy, draw.y, settings, num_flips)
    log_ratio = state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)
    return decide(energy, log_ratio, new=new, old=state)


class GWG(Sampler):
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
    exact = True

    def __init__(self, num_flips: int = 1) -> None:
        super().__init__()
        require_count("GWG", num_flips=num_flips)
        self.num_flips = num_flips

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, options=(self.num_flips,))


class OneFlip(Proposal):
    """One flip of a coordinate with two values. Its moves are the coordinates; the way back is the same flip.

    Args:
        domain: where x lives.
        x: `(B, *event)`.
        log_moves: log-probability of each move, `(B, size, 1)`.
    """

    def __init__(self, domain: Binary | Spin, x: Tensor, log_moves: Tensor) -> None:
        self.domain, self.x, self.log_moves = domain, x, log_moves

    def sample(self) -> Draw:
        return self.follow(self.draw())

    def draw(self) -> Path:
        """Draws the coordinate, as a path of one move."""
        entries = categorical(self.log_moves.squeeze(2), 1)
        return Path(entries, torch.ones_like(entries))

    def log_prob(self, move: Path) -> Tensor:
        return self.log_moves.squeeze(2).gather(1, move.coordinates).squeeze(1)

    def follow(self, path: Path) -> Draw:
        """Makes the `Draw` of a path, with the state it leads to."""
        y = self.x.clone(memory_format=torch.contiguous_format)
        flat, i = y.view(len(y), -1), path.coordinates
        old = flat.gather(1, i)
        flat.scatter_(1, i, 1 - old if isinstance(self.domain, Binary) else -old)
        return Draw(y, lambda: self.log_prob(path), reverse=path)


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
        return Draw(y, self.log_prob(path), reverse=reverse)
