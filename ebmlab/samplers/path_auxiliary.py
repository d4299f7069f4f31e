"""The path auxiliary sampler."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.samplers.paths import Path, PathSampler


class PathAuxiliary(PathSampler):
    """The path auxiliary sampler in its fast version (Sun et al. 2022, Path Auxiliary Proposal for MCMC, PAFS).

    A path changes L different coordinates, L uniform on 1, ..., 2 max_length - 1 (or as many as there are). Each move
    is drawn from the first-order law at x, restricted to the coordinates not yet visited. The reverse path starts at y
    with no restriction and visits the coordinates in the opposite order: its first move undoes the last.

    Args:
        max_length: the mean of L.
    """

    def __init__(self, max_length: int = 5) -> None:
        super().__init__()
        if max_length < 1:
            raise UserError(f"PathAuxiliary: max_length is {max_length}, but must be at least 1")
        self.max_length = max_length

    def draw(self, log_moves: Tensor) -> Path:
        # the Gumbel trick: a coordinate scores by its best value, and the highest scores in order are draws without
        # replacement
        uniform = torch.rand_like(log_moves).clamp(min=torch.finfo(log_moves.dtype).tiny)
        score, value = (log_moves - uniform.log().neg().log()).max(-1)
        longest = 2 * self.max_length - 1
        coordinates = score.topk(min(longest, score.shape[1])).indices
        length = 1 + (torch.rand_like(score[:, 0]) * longest).floor()
        taken = torch.arange(coordinates.shape[1], device=score.device) < length.unsqueeze(1)
        return Path(coordinates, value.gather(1, coordinates), taken)

    def log_path(self, log_moves: Tensor, path: Path) -> Tensor:
        weight = log_moves.logsumexp(-1)
        listed = weight.gather(1, path.coordinates)
        others = weight.scatter(1, path.coordinates, -torch.inf).logsumexp(1, keepdim=True)
        # of the coordinates not yet visited before each move; it normalises that move's law
        unvisited = torch.cat([others, listed.flip(1)], 1).logcumsumexp(1)[:, 1:].flip(1)
        assert path.taken is not None
        return torch.where(path.taken, path.gather(log_moves) - unvisited, 0).sum(1)

    def follow(self, index: Tensor, path: Path) -> tuple[Tensor, Path]:
        i, v, taken = path
        assert taken is not None
        old = index.gather(1, i)
        place = torch.arange(i.shape[1], device=i.device)
        opposite = torch.where(taken, taken.sum(1, keepdim=True) - 1 - place, place)
        reverse = Path(i.gather(1, opposite), torch.where(taken, old, v).gather(1, opposite), taken)
        return index.scatter(1, i, torch.where(taken, v, old)), reverse
