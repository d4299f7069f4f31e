"""Gibbs with gradients."""

from __future__ import annotations

import torch
from torch import Tensor

from ebmlab.errors import UserError
from ebmlab.noise import categorical
from ebmlab.samplers.paths import Path, PathSampler


class GWG(PathSampler):
    """Gibbs with gradients: moves drawn independently from the first-order law at x (Grathwohl et al. 2021, Alg. 1).

    A coordinate that is drawn more than once takes the value drawn first. Going back, every draw of that coordinate has
    its old and its new value swapped: the first then restores the old one, none proposes the value that the coordinate
    has, and swapping again gives the draws that led here.

    Args:
        num_flips: X, how many moves are drawn a step (App. D.2).
    """

    def __init__(self, num_flips: int = 1) -> None:
        super().__init__()
        if num_flips < 1:
            raise UserError(f"GWG: num_flips is {num_flips}, but must be at least 1")
        self.num_flips = num_flips

    def draw(self, log_moves: Tensor) -> Path:
        draws = categorical(log_moves.flatten(1).unsqueeze(1).expand(-1, self.num_flips, -1))
        num_values = log_moves.shape[-1]
        return Path(draws // num_values, draws % num_values)

    def log_path(self, log_moves: Tensor, path: Path) -> Tensor:
        return path.gather(log_moves).sum(1)

    def follow(self, index: Tensor, path: Path) -> tuple[Tensor, Path]:
        i, v, _ = path
        first = (i.unsqueeze(2) == i.unsqueeze(1)).byte().argmax(2)  # of the draws of the same coordinate, (B, X)
        old, new = index.gather(1, i), v.gather(1, first)
        return index.scatter(1, i, new), Path(i, torch.where(v == new, old, v))
