"""What every proposal offers."""

from __future__ import annotations

from typing import Any, NamedTuple

from torch import Tensor

from ebmlab.energies.evaluation import PerChain


class Draw(NamedTuple):
    """One draw from q( . | x).

    Attributes:
        y: where it leads, `(B, *event)`.
        log_prob: log q of the move that was drawn, `(B,)`.
        reverse: the move by which the proposal at y comes back to x, as its `log_prob` takes it.
        hops: coordinates in which y differs from x, `(B,)`, where the draw knows them.

    Example:
        >>> import torch
        >>> draw = Draw(y=torch.ones(2, 3), log_prob=torch.zeros(2), reverse=torch.zeros(2, 3))
        >>> draw.hops is None
        True
    """

    y: Tensor
    log_prob: Tensor
    reverse: Any
    hops: Tensor | None = None


class Proposal(PerChain):
    """q( . | x), a law over moves away from the states x of all chains.

    A move is whatever says how to get from x to y. For most proposals it is y itself; a proposal that draws a path of
    changes has paths as its moves, and a two-valued one the bits that flip. The Metropolis step asks the proposal at y
    for the probability of the reverse move, so that different moves to the same y need no summing over.

    Proposals are values: nothing in them changes after they have been made, and `where` merges two chain by chain.

    Example:
        >>> import torch
        >>> from ebmlab.domains import Binary
        >>> from ebmlab.samplers.proposals import factorised
        >>> x = torch.zeros(2, 3)
        >>> q = factorised(Binary(3), x, drift=torch.zeros_like(x), stiffness=torch.tensor(0.0))
        >>> q.log_prob(q.move_to(torch.ones(2, 3))).exp()
        tensor([0.1250, 0.1250])
    """

    def sample(self) -> Draw:
        """One draw for each chain."""
        raise NotImplementedError

    def log_prob(self, move: Any) -> Tensor:
        """Log q(move | x), `(B,)`; minus infinity where the move cannot be drawn."""
        raise NotImplementedError

    def move_to(self, y: Tensor) -> Any:
        """The move from x to y `(B, *event)`, where there is only one."""
        return y
