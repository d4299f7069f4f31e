"""The base class of proposals."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from torch import Tensor

from ebmlab.energies import PerChain


class Draw:
    """One draw from q( . | x).

    Args:
        y: the proposed state, `(B, *event)`.
        log_prob: log q of the move that was drawn, `(B,)`, or a function that computes it when it is first read.
        reverse: the move from y back to x, in the form that `log_prob` of the proposal at y takes.

    Example:
        >>> import torch
        >>> draw = Draw(y=torch.ones(2, 3), log_prob=torch.zeros(2), reverse=torch.zeros(2, 3))
        >>> draw.y.shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        y: Tensor,
        log_prob: Tensor | Callable[[], Tensor],
        *,
        reverse: Any,
    ) -> None:
        self.y, self._log_prob, self.reverse = y, log_prob, reverse

    @property
    def log_prob(self) -> Tensor:
        """As in the arguments."""
        if not isinstance(self._log_prob, Tensor):
            self._log_prob = self._log_prob()
        return self._log_prob


class Proposal(PerChain):
    """A proposal q( . | x): for each chain a law over moves from its state x.

    A move determines how to get from x to y. For most proposals it is y itself. A proposal that draws a path of changes
    has paths as its moves, and a proposal on two values has the bits that flip. The Metropolis step uses the
    probability of the reverse move under the proposal at y. The probabilities of other moves to the same y are not
    needed.

    Proposals are never changed after they have been made; `where` merges two of them chain by chain.

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

    def log_ratio(self, draw: Draw, there: Any) -> Tensor:
        """Log of q(back | y) / q(move | x) for a draw from this proposal, `(B,)`; `there` is the proposal at y."""
        back: Tensor = there.log_prob(draw.reverse)
        return back - draw.log_prob

    def move_to(self, y: Tensor) -> Any:
        """The move from x to y `(B, *event)`, for proposals with only one such move."""
        return y
