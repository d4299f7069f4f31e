"""The path auxiliary sampler (Sun et al. 2022)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import cast

import torch
from torch import Tensor

from ebmlab.domains import Binary, Categorical, Finite, Ordinal, Spin
from ebmlab.energies import Energy, PerChain
from ebmlab.native import uniform
from ebmlab.samplers.blocks import place, values_at
from ebmlab.samplers.kernel import Kernel
from ebmlab.samplers.metropolis import decide
from ebmlab.samplers.numbers import Number
from ebmlab.samplers.proposals import Draw, Path, Proposal, factorised, first_order_moves
from ebmlab.samplers.sampler import Sampler
from ebmlab.samplers.state import EnergyState, Info
from ebmlab.settings import require_count


def start(
    energy: Energy, x: Tensor, settings: Sequence[Number], longest: int, known: PerChain | None = None
) -> EnergyState:
    """E(x), and the law of the paths there, whose moves follow the softmax of -grad E(x) . (y - x) / 2."""
    at, domain = energy.evaluate(x, known), cast(Finite, energy.domain)
    if domain.num_values == 1:  # no move exists
        law: Proposal = factorised(domain, x, at.grad, stiffness=1.0)
    else:
        law = DistinctMoves(domain, x, first_order_moves(domain, x, at.grad), longest)
    return EnergyState(x=x, energy=at.energy, proposal=law, known=at.known)


def step(energy: Energy, state: EnergyState, settings: Sequence[Number], longest: int) -> tuple[EnergyState, Info]:
    """Draws a path from x to y, and accepts with min(1, p(y) q(path back | y) / (p(x) q(path | x)))."""
    assert state.proposal is not None
    draw = state.proposal.sample()
    new = start(energy, draw.y, settings, longest)
    log_ratio = state.energy - new.energy + state.proposal.log_ratio(draw, new.proposal)
    return decide(energy, log_ratio, new=new, old=state)


class PathAuxiliary(Sampler):
    """The path auxiliary sampler in its fast version (Sun et al. 2022, Path Auxiliary Proposal for MCMC, PAFS).

    A path changes L different coordinates. L is uniform on 1, ..., 2 max_length - 1; if L exceeds the number of
    coordinates, all of them change. Each move is drawn from the first-order law at x, restricted to the coordinates not
    yet visited. The reverse path starts at y with no restriction and visits the coordinates in the opposite order: its
    first move undoes the last.

    Args:
        max_length: the mean of L.

    Example:
        >>> from ebmlab.energies import Ising
        >>> from ebmlab.samplers import PathAuxiliary
        >>> ising = Ising.lattice(3, 0.2)
        >>> x, info = PathAuxiliary(max_length=2).sample(ising, ising.domain.random(4), num_steps=10)
        >>> x.shape
        torch.Size([4, 9])
    """

    domains = (Binary, Spin, Ordinal, Categorical)
    exact = True

    def __init__(self, max_length: int = 5) -> None:
        super().__init__()
        require_count("PathAuxiliary", max_length=max_length)
        self.max_length = max_length

    def kernel_on(self, energy: Energy) -> Kernel:
        return Kernel(start, step, options=(2 * self.max_length - 1,))


class DistinctMoves(Proposal):
    """Paths whose moves change different coordinates; the length of a path is uniform on 1, ..., longest.

    Args:
        domain: where x lives.
        x: `(B, *event)`.
        log_moves: log-probability of each move, `(B, size, num_values - 1)`.
        longest: largest length. A path with a length above the number of coordinates changes all of them.
    """

    def __init__(self, domain: Finite, x: Tensor, log_moves: Tensor, longest: int) -> None:
        self.domain, self.x, self.log_moves, self.longest = domain, x, log_moves, longest

    def sample(self) -> Draw:
        return self.follow(self.draw())

    def draw(self) -> Path:
        """Draws a path by the Gumbel trick.

        The score of a coordinate is the score of its best shift. The coordinates in order of falling score are draws
        without replacement.
        """
        drawn = uniform(self.log_moves)
        drawn.clamp_(min=torch.finfo(drawn.dtype).tiny)
        score, best = (self.log_moves - drawn.log().neg().log()).max(-1)
        coordinates = score.topk(min(self.longest, score.shape[1])).indices
        length = 1 + (uniform(score[:, 0]) * self.longest).floor()
        taken = torch.arange(coordinates.shape[1], device=score.device) < length.unsqueeze(1)
        return Path(coordinates, 1 + best.gather(1, coordinates), taken)

    def log_prob(self, move: Path) -> Tensor:
        """Log q(path | x), `(B,)`, without the probability of its length, which is the same for the reverse path."""
        weight = self.log_moves.logsumexp(-1)
        listed = weight.gather(1, move.coordinates)
        others = weight.scatter(1, move.coordinates, -torch.inf).logsumexp(1, keepdim=True)
        # log of the total weight of the coordinates not visited before each move: the normaliser of that move
        unvisited = torch.cat([others, listed.flip(1)], 1).logcumsumexp(1)[:, 1:].flip(1)
        assert move.taken is not None
        return torch.where(move.taken, move.gather(self.log_moves) - unvisited, 0).sum(1)

    def follow(self, path: Path) -> Draw:
        """Makes the `Draw` of a path, with the state it leads to and the reverse path."""
        i, s, taken = path
        assert taken is not None
        values = self.domain.num_values
        index = (values_at(self.domain, self.x, i) + torch.where(taken, s, 0)) % values
        length = taken.sum(1)
        position = torch.arange(i.shape[1], device=i.device)
        opposite = torch.where(taken, length.unsqueeze(1) - 1 - position, position)
        back = torch.where(taken, values - s, s)
        reverse = Path(i.gather(1, opposite), back.gather(1, opposite), taken)
        y = place(self.domain, self.x, i, index.unsqueeze(1))
        return Draw(y, self.log_prob(path), reverse=reverse)
