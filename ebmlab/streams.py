"""Random streams of their own: what is drawn here neither reads nor moves the global generator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch


def stream(*key: str | int) -> torch.Generator:
    """A generator that is a pure function of `key`, such as `("shuffle", seed, epoch)`.

    The key is hashed, because neighbouring integers as seeds (seed + epoch, seed + split) would make
    epoch 1 of seed 0 equal to epoch 0 of seed 1.

    Example:
        >>> torch.equal(torch.rand(3, generator=stream("a", 1)), torch.rand(3, generator=stream("a", 1)))
        True
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=4).digest()  # torch's generator reads 32 bits
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


@contextmanager
def own_numbers(seed: int, device: torch.device | None = None) -> Iterator[torch.Generator]:
    """Runs its body with random numbers of its own on the CPU, and restores the global generator afterwards.

    The generators of GPUs stay as they are: `torch.manual_seed` would seed them, too, and nothing would restore them.
    That of `device`, if it is one of CUDA's, is seeded and restored like the CPU's.

    Example:
        >>> state = torch.get_rng_state()
        >>> with own_numbers(1):
        ...     first = torch.rand(3)
        >>> with own_numbers(1):
        ...     again = torch.rand(3)
        >>> torch.equal(first, again), torch.equal(torch.get_rng_state(), state)
        (True, True)
    """
    others = [device] if device is not None and device.type == "cuda" else []
    with torch.random.fork_rng(others):
        for other in others:
            with torch.cuda.device(other):
                torch.cuda.manual_seed(seed)
        yield torch.default_generator.manual_seed(seed)


@contextmanager
def undisturbed(loader: Any, seed: int | None = None) -> Iterator[None]:
    """Runs its body, which iterates over a loader, and then restores the global generator and the loader's own ones.

    Args:
        loader: the `generator` of a DataLoader or of its sampler is restored; other iterables have none.
        seed: of all these generators in the body; None leaves them as they are.

    Example:
        >>> from torch.utils.data import DataLoader
        >>> loader = DataLoader(torch.arange(8), shuffle=True, generator=torch.Generator().manual_seed(0))
        >>> with undisturbed(loader):
        ...     seen = list(loader)
        >>> list(loader) == seen  # as if nobody had looked
        True
    """
    batches = getattr(loader, "batch_sampler", None)
    owners = (loader, getattr(loader, "sampler", None), batches, getattr(batches, "sampler", None))
    found = [getattr(owner, "generator", None) for owner in owners]
    states = [(g, g.get_state()) for g in found if isinstance(g, torch.Generator)]
    try:
        with torch.random.fork_rng(devices=[]):
            if seed is not None:
                for generator in (torch.default_generator, *(g for g, _ in states)):
                    generator.manual_seed(seed)
            yield
    finally:
        for generator, state in states:
            generator.set_state(state)
