"""Random streams of their own: what is drawn here neither reads nor moves the global generator."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

from ebmlab.numerics.noise import uniform_numbers


def stream(*key: str | int) -> torch.Generator:
    """A generator that is a pure function of `key`, such as `("shuffle", seed, epoch)`.

    The key is hashed. Neighbouring integers as seeds (seed + epoch, seed + split) would make epoch 1 of seed 0 equal to
    epoch 0 of seed 1.
    """
    digest = hashlib.blake2b(repr(key).encode(), digest_size=4).digest()  # torch's generator reads 32 bits
    return torch.Generator().manual_seed(int.from_bytes(digest, "big"))


def draw_bits(x: Tensor, generator: torch.Generator) -> Tensor:
    """Draws bits: each entry of `x` is the probability of a 1. Entries 0 and 1 stay unchanged."""
    return (uniform_numbers(*x.shape, generator=generator).to(x.device) < x).float()


def draw_alike(x: Tensor) -> Tensor:
    """Draws bits of samples `(N, ...)`, whose entries are the probabilities of a 1; equal samples get equal bits.

    Each sample has a random stream of its own, which its numbers, as float32, decide.
    """
    x = x.float() + 0  # turns -0 into 0
    noise, generator = torch.empty_like(x, device="cpu"), torch.Generator()
    for row, its in zip(x.cpu().flatten(1).contiguous().numpy(), noise, strict=True):
        digest = hashlib.blake2b(row, key=b"binarize", digest_size=4).digest()
        generator.manual_seed(int.from_bytes(digest, "big"))
        its.copy_(uniform_numbers(*its.shape, generator=generator))
    return (noise.to(x.device) < x).float()


@contextmanager
def own_numbers(seed: int, device: torch.device | None = None) -> Iterator[torch.Generator]:
    """Runs its body with random numbers of its own on the CPU, and restores the global generator afterwards.

    The generators of GPUs stay as they are: `torch.manual_seed` would seed them, too, and nothing would restore them.
    That of `device`, if it is one of CUDA's, is seeded and restored like the CPU's.
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


def generator_states(device: torch.device) -> dict[str, Tensor]:
    """The states of the global generators that chains on a device draw from, by the kind of device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type != "cpu":
        states[device.type] = torch.get_device_module(device).get_rng_state(device)
    return states
