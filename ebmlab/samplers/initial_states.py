"""The initial states of chains, in training and in studies."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from ebmlab.data.numbers import as_numbers
from ebmlab.domains import Domain, Finite
from ebmlab.energies import Energy
from ebmlab.energies.evaluation import Merge
from ebmlab.errors import UserError
from ebmlab.io.rebuilding import Recorded
from ebmlab.settings import require_count


class Start(Recorded):
    """Gives chains their initial states and, in training, receives their last states.

    Example:
        >>> from ebmlab.domains import Binary
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.samplers.initial_states import FromNoise, Start
        >>> start: Start = FromNoise()
        >>> start.draw(RBM(4, 3), 5).shape
        torch.Size([5, 4])
    """

    def check(self, domain: Domain, num_chains: int) -> None:
        """Raises `UserError` unless that many chains on the domain can start; called before training."""

    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        """Initial states of chains.

        Args:
            energy: the energy that the chains will sample.
            n: number of chains.
            data: in training, the batch as states, `(n, *event)`; the chains take its dtype and device. In a study
                None; all processes of a study draw the same states on the CPU, in the energy's dtype.

        Returns:
            `(n, *event)`.
        """
        raise NotImplementedError

    def put_back(self, x: Tensor) -> None:
        """Receives the last states of the chains that `draw` started, in the same order.

        Args:
            x: `(B, *event)`, or `(B, K, *event)` with the K replicas of each chain.
        """

    def hidden(self) -> Tensor | None:
        """Hidden units `(n, H)` at the states that `draw` gave, where block Gibbs goes on; None draws them anew."""
        return None

    def keep_hidden(self, h: Tensor) -> None:
        """Receives hidden units `(B, H)` drawn at the states that were just put back."""


class FromData(Start):
    """Chains start at the data, as in plain contrastive divergence (Hinton, 2002).

    Example:
        >>> import torch
        >>> from ebmlab.energies import RBM
        >>> FromData().draw(RBM(3, 2), 1, data=torch.ones(1, 3))
        tensor([[1., 1., 1.]])
    """

    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        if data is None:
            raise UserError("FromData starts at the data of a training step, but there are no data here: use FromNoise")
        return data


class FromNoise(Start):
    """Chains start at independent draws from the domain's reference law: uniform if it is finite, N(0, I) on Real.

    In training this is modified contrastive divergence, in which chains start as they do in generation (Liao et al.
    2022, Alg. 3 and 4).

    Example:
        >>> from ebmlab.energies import GRBM
        >>> FromNoise().draw(GRBM(3, 2), 5).shape
        torch.Size([5, 3])
    """

    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        x = energy.domain.random(n, None if data is None else data.device)
        return x.to(energy.dtype if data is None else data.dtype)


class FromPoint(Start):
    """All chains start at one given state.

    Args:
        x: the state in index form: one number for all coordinates, or one per coordinate.

    Example:
        >>> from ebmlab.energies import RBM
        >>> FromPoint([0, 1, 0]).draw(RBM(3, 2), 1)
        tensor([[0., 1., 0.]])
    """

    def __init__(self, x: int | Sequence[int]) -> None:
        self.x = x

    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        domain = energy.domain
        if not isinstance(domain, Finite):
            raise UserError(f"FromPoint starts on finite domains, {type(energy).__name__} lives on {domain}")
        index = as_numbers(self.x, "FromPoint: x")
        if index.dim() and index.numel() != domain.size:
            raise UserError(f"FromPoint: {index.numel()} numbers given, but a state of {domain} has {domain.size}")
        if not ((index >= 0) & (index < domain.num_values)).all():
            raise UserError(f"FromPoint: {self.x} is outside {domain}: indices go from 0 to {domain.num_values - 1}")
        index = index.expand(domain.size).reshape(domain.shape)
        x = domain.from_index(index.expand(n, *domain.shape).contiguous())
        return x.to(energy.dtype) if data is None else x.to(data)


class FromMode(Start):
    """All chains start at one mode: the state of lowest energy that greedy descent reaches from several random states.

    Args:
        num_starts: number of random states. Each descent changes the coordinate that lowers the energy most, again and
            again.

    Example:
        >>> from ebmlab.energies import Ising
        >>> FromMode(num_starts=2).draw(Ising.lattice(3, 0.5, field=0.1), 1)
        tensor([[1., 1., 1., 1., 1., 1., 1., 1., 1.]])
    """

    def __init__(self, num_starts: int = 16) -> None:
        require_count("FromMode", num_starts=num_starts)
        self.num_starts = num_starts

    @torch.no_grad()
    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        domain = energy.domain
        if not isinstance(domain, Finite):
            raise UserError(f"FromMode starts on finite domains, {type(energy).__name__} lives on {domain}")
        x = domain.random(self.num_starts, device=energy.device).to(energy.dtype)
        value = energy(x)
        while True:
            index, move = domain.to_index(x).flatten(1), energy.value_differences(x).flatten(1).argmin(1)
            coordinate, new = move // domain.num_values, move % domain.num_values
            index = index.scatter(1, coordinate.unsqueeze(1), new.unsqueeze(1))
            y = domain.from_index(index.view(-1, *domain.shape)).to(x)
            value_y = energy(y)
            falls = value_y < value  # by rounding, a move and its reverse may both seem to lower the energy
            if not falls.any():
                break
            x, value = Merge(falls)(y, x), torch.where(falls, value_y, value)
        lowest = x[value.argmin()].expand(n, *domain.event_shape).contiguous()
        return lowest if data is None else lowest.to(data)
