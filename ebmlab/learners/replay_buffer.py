"""Persistent chains, which continue from one training step to another."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor

from ebmlab.domains import Binary, Domain, Finite
from ebmlab.energies import Energy
from ebmlab.errors import UserError, how_many
from ebmlab.numerics.noise import bits, uniform_numbers
from ebmlab.numerics.ranks import rank_and_world
from ebmlab.samplers.initial_states import Start
from ebmlab.settings import require_choice, require_count, require_inside

DRAWN = 2**26  # numbers of initial states that are drawn at a time


class ReplayBuffer(Start):
    """Starts chains where earlier ones ended: persistent contrastive divergence (Tieleman, 2008; Du & Mordatch, 2019).

    Each training step starts chains at the states of distinct slots and puts their last states back into the same
    slots. Every rank has its own slots, on its device; states of finite domains are stored as bytes. The slots are not
    a buffer of the module, because distributed training would overwrite those of all ranks by those of rank 0.
    `callbacks.RunState` saves the slots of all ranks in the checkpoint.

    A slot holds all replicas of a chain that `Tempered` moves; at first they are equal.

    Args:
        size: number of slots on all ranks together; at least one for each chain of a step.
        reinitialize: probability with which a chain starts at a new initial state instead of the state in its slot.
        init: law of the initial states. `noise` is the domain's reference law, `data` are states of the current batch.
            `mean` are independent bits with the data's means, which `callbacks.DataMean` computes.

    Attributes:
        mean: the data's mean, in the shape of an event; None until it has been set.

    Example:
        >>> import torch
        >>> from ebmlab.energies import RBM
        >>> from ebmlab.learners import ReplayBuffer
        >>> buffer, data = ReplayBuffer(size=100), torch.ones(8, 4)
        >>> x = buffer.draw(RBM(4, 3), 8, data)
        >>> buffer.put_back(x)  # after the sampler has moved them
        >>> buffer.slots.shape
        torch.Size([100, 4])
    """

    def __init__(
        self, size: int = 10_000, reinitialize: float = 0.0, *, init: Literal["noise", "data", "mean"] = "noise"
    ):
        require_count("ReplayBuffer", size=size)
        require_inside("ReplayBuffer", "[0, 1]", reinitialize=reinitialize)
        require_choice("ReplayBuffer", ("noise", "data", "mean"), init=init)
        self.size = size
        self.reinitialize = reinitialize
        self.init = init
        self.mean: Tensor | None = None
        self._slots: Tensor | None = None
        self._index: Tensor | slice | None = None
        self._hidden: Tensor | None = None

    def check(self, domain: Domain, num_chains: int) -> None:
        self._check_size(self._share(), num_chains)
        if self.init == "mean" and not isinstance(domain, Binary):
            raise UserError(f'ReplayBuffer: init "mean" draws bits, but the chains live on {domain}: use "noise"')

    @torch.no_grad()
    def draw(self, energy: Energy, n: int, data: Tensor | None = None) -> Tensor:
        if data is None:
            raise UserError("ReplayBuffer keeps the chains of training, but there are no data here: use FromNoise")
        slots = self._filled(data, energy.domain)
        self._check_size(len(slots), n)
        if n < len(slots) or self.reinitialize:
            self._hidden = None
        if n < len(slots):
            self._index = torch.randperm(len(slots), device=data.device)[:n]
            old = slots.index_select(0, self._index).to(data.dtype)
        else:
            self._index = slice(None)
            old = slots.to(data.dtype, copy=True)
        return self._renewed(old, energy.domain, data)

    @torch.no_grad()
    def move(self, energy: Energy, data: Tensor, *, step: Callable[[Tensor], Tensor], at_once: int) -> None:
        """Moves the chains of all slots, so many at a time.

        Args:
            energy: as in `draw`.
            data: as in `draw`.
            step: gives later states of chains from their present ones, `(n, *event)`.
            at_once: the largest n.

        Raises:
            UserError: a checkpoint has brought fewer chains than `size`.
        """
        if self._slots is None:
            self._slots = self._begun(data, energy.domain, at_once=at_once)
        slots, self._hidden = self._slots.to(data.device), None
        self._slots = slots
        self._check_size(len(slots), self._share())
        for part in torch.split(slots, at_once):
            part.copy_(step(self._renewed(part.to(data.dtype, copy=True), energy.domain, data)))

    def _renewed(self, old: Tensor, domain: Domain, data: Tensor) -> Tensor:
        """States of slots, some of them replaced by initial states."""
        if self.reinitialize == 0:
            return old
        n = len(old)
        anew = uniform_numbers(n, device=data.device) < self.reinitialize
        new = self._fresh(data, domain, n)
        if old.dim() > new.dim():
            new = new.unsqueeze(1)
        return torch.where(anew.view(-1, *[1] * (old.dim() - 1)), new, old)

    @torch.no_grad()
    def put_back(self, x: Tensor) -> None:
        assert self._slots is not None and self._index is not None
        self._hidden = None
        if x.dim() > self._slots.dim():
            self._slots = self._slots.unsqueeze(1).expand(-1, *x.shape[1:]).clone()
        self._slots[self._index] = x if isinstance(self._index, slice) else x.to(self._slots.dtype)

    def hidden(self) -> Tensor | None:
        """Hidden units of all slots, `(size / ranks, H)`: where every step moves all chains, they stay for the next."""
        return self._hidden

    def keep_hidden(self, h: Tensor) -> None:
        if isinstance(self._index, slice) and not self.reinitialize:
            self._hidden = h

    def restore_hidden(self, h: Tensor) -> None:
        """Takes the hidden units of all slots from a checkpoint, `(size / ranks, H)`."""
        self._hidden = h

    @property
    def slots(self) -> Tensor | None:
        """This rank's states `(size / ranks, *event)`, or replicas `(size / ranks, K, *event)`; None before use.

        They are int8 on finite domains of up to 128 values.
        """
        return self._slots

    @slots.setter
    def slots(self, states: Tensor | None) -> None:
        self._slots, self._index, self._hidden = states, None, None

    def fill(self, draw: Callable[[int], Tensor], domain: Domain) -> None:
        """Fills the slots with states that `draw(n)` gives, `(n, *event)`, before training, as `LowRankStart` does.

        All ranks draw the same numbers then. Each draws the states of all, and takes its own.
        """
        (rank, world), share = rank_and_world(), self._share()
        states = draw(world * share)[rank * share :][:share]
        self.slots = states.to(_smallest(domain, states.dtype))

    def cold(self, domain: Domain) -> Tensor | None:
        """The slots, or their first replicas, as states of a domain, `(size / ranks, *event)`; None before use."""
        replicas = self._slots is not None and self._slots.dim() > 1 + len(domain.event_shape)
        return self._slots[:, 0] if self._slots is not None and replicas else self._slots

    def _filled(self, x: Tensor, domain: Domain) -> Tensor:
        if self._slots is None:
            numbers = torch.Size(domain.event_shape).numel()
            at_once = max(1, DRAWN // numbers) if isinstance(domain, Finite) else self._share()
            self._slots = self._begun(x, domain, at_once=at_once)
        self._slots = self._slots.to(x.device)
        return self._slots

    def _begun(self, x: Tensor, domain: Domain, *, at_once: int) -> Tensor:
        """Initial states of all slots, drawn so many at a time: before they are bytes, they take several times that."""
        slots = x.new_empty(self._share(), *domain.event_shape, dtype=_smallest(domain, x.dtype))
        for part in torch.split(slots, at_once):
            part.copy_(self._fresh(x, domain, len(part)))
        return slots

    def _fresh(self, x: Tensor, domain: Domain, n: int) -> Tensor:
        if self.init == "data":
            return x[torch.randint(len(x), (n,), device=x.device)]
        if self.init == "mean":
            return self._from_mean(x, n)
        return domain.random(n, device=x.device).to(x.dtype)

    def _from_mean(self, x: Tensor, n: int) -> Tensor:
        if self.mean is None:
            raise UserError('ReplayBuffer: init "mean" needs the data\'s mean: add callbacks.DataMean')
        return bits(self.mean.to(x).view(x.shape[1:]).expand(n, *x.shape[1:]))

    def _share(self) -> int:
        """Slots of each rank."""
        return -(-self.size // rank_and_world()[1])

    def _check_size(self, slots: int, num_chains: int) -> None:
        if num_chains > slots:
            raise UserError(
                f"ReplayBuffer: size is {self.size}, {how_many(slots, 'slot')} on each rank, but a step runs "
                f"{how_many(num_chains, 'chain')}: make it larger, or the batch smaller"
            )


def _smallest(domain: Domain, dtype: torch.dtype) -> torch.dtype:
    """A small dtype that holds the states exactly."""
    if not isinstance(domain, Finite):
        return dtype
    return torch.int8 if domain.num_values <= 128 else torch.int32
