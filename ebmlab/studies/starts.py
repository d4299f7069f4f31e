"""Where the chains of a study start: the same states for every sampler."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.domains import Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError


class Start:
    """Gives the chains their first states."""

    def draw(self, energy: Energy, n: int) -> Tensor:
        """First states, `(n, *event)`."""
        raise NotImplementedError


class FromReference(Start):
    """Independent draws from the domain's reference law: uniform on a finite domain."""

    def draw(self, energy: Energy, n: int) -> Tensor:
        return energy.domain.random(n)


class FromPoint(Start):
    """One given state for all chains.

    Args:
        x: the state in index form: one number for all coordinates, or one per coordinate.
    """

    def __init__(self, x: int | Sequence[int]) -> None:
        self.x = x

    def draw(self, energy: Energy, n: int) -> Tensor:
        domain = energy.domain
        if not isinstance(domain, Finite):
            raise UserError(f"FromPoint starts on finite domains, {type(energy).__name__} lives on {domain}")
        index = torch.as_tensor(self.x)
        if index.dim() and index.numel() != domain.size:
            raise UserError(f"FromPoint: {index.numel()} numbers given, but a state of {domain} has {domain.size}")
        if not ((index >= 0) & (index < domain.num_values)).all():
            raise UserError(f"FromPoint: {self.x} is outside {domain}: indices go from 0 to {domain.num_values - 1}")
        index = index.expand(domain.size).reshape(domain.shape)
        return domain.from_index(index.expand(n, *domain.shape).contiguous())


class FromMode(Start):
    """All chains at one mode: the lowest state that greedy descent reaches from several random ones.

    Args:
        num_starts: random states to descend from, one coordinate at a time, the steepest first.
    """

    def __init__(self, num_starts: int = 16) -> None:
        if num_starts < 1:
            raise UserError(f"FromMode: num_starts is {num_starts}, but must be at least 1")
        self.num_starts = num_starts

    @torch.no_grad()
    def draw(self, energy: Energy, n: int) -> Tensor:
        domain = energy.domain
        if not isinstance(domain, Finite):
            raise UserError(f"FromMode starts on finite domains, {type(energy).__name__} lives on {domain}")
        x = domain.random(self.num_starts, device=energy.device)
        while True:
            differences = energy.value_differences(x).flatten(1)
            steepest, move = differences.min(1)
            if not (steepest < 0).any():
                break
            index = domain.to_index(x).flatten(1)
            coordinate, value = move // domain.num_values, move % domain.num_values
            changed = index.scatter(1, coordinate.unsqueeze(1), value.unsqueeze(1))
            index = torch.where((steepest < 0).unsqueeze(1), changed, index)
            x = domain.from_index(index.view(-1, *domain.shape))
        lowest = energy(x).argmin()
        return x[lowest].expand(n, *domain.event_shape).contiguous()
