"""Random streams of their own: what is drawn here neither reads nor moves the global generator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager

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
def own_numbers(seed: int) -> Iterator[torch.Generator]:
    """Runs its body with random numbers of its own on the CPU, and restores the global generator afterwards.

    The generators of GPUs stay as they are: `torch.manual_seed` would seed them, too, and nothing would restore them.

    Example:
        >>> state = torch.get_rng_state()
        >>> with own_numbers(1):
        ...     first = torch.rand(3)
        >>> with own_numbers(1):
        ...     again = torch.rand(3)
        >>> torch.equal(first, again), torch.equal(torch.get_rng_state(), state)
        (True, True)
    """
    with torch.random.fork_rng(devices=[]):
        yield torch.default_generator.manual_seed(seed)
