"""Random numbers as samplers draw them, and sums of log(1 + exp(x)): beside torch, NumPy and JAX."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from torch.nn.functional import softplus

from benchmarks.harness import Contestant, Race, race
from ebmlab.native import bernoulli, normal, sum_softplus

REPEATS = 50


@race("normals", 20_000, 400_000)
def normals(count: int) -> Race:
    like, out = torch.empty(count), np.empty(count, np.float32)
    generator = np.random.Generator(np.random.SFC64(0))

    def by_numpy() -> Contestant:
        return Contestant(lambda: [generator.standard_normal(dtype=np.float32, out=out) for _ in range(REPEATS)])

    def jax_normals() -> Contestant:
        import jax

        return in_jax(lambda key, size: jax.random.normal(key, (size,)), count)

    return Race(
        f"{count:,} normal numbers",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(lambda: [normal(like) for _ in range(REPEATS)]),
            "plain torch": lambda: Contestant(lambda: [torch.randn_like(like) for _ in range(REPEATS)]),
            "NumPy": by_numpy,
            "JAX": jax_normals,
        },
    )


@race("bits", 78_400)
def bits(count: int) -> Race:
    logits = torch.randn(count)
    odds = logits.numpy()
    generator = np.random.Generator(np.random.SFC64(0))

    def by_numpy() -> Any:
        return generator.random(count, np.float32) < 1 / (1 + np.exp(-odds))

    def jax_bits() -> Contestant:
        import jax

        return in_jax(lambda key, logits: jax.random.bernoulli(key, jax.nn.sigmoid(logits)), jax.numpy.asarray(odds))

    return Race(
        f"{count:,} bits of given logits",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(lambda: [bernoulli(logits) for _ in range(REPEATS)]),
            "plain torch": lambda: Contestant(lambda: [logits.sigmoid().bernoulli() for _ in range(REPEATS)]),
            "NumPy": lambda: Contestant(lambda: [by_numpy() for _ in range(REPEATS)]),
            "JAX": jax_bits,
        },
    )


@race("softplus", 100)
def sums_of_softplus(rows: int) -> Race:
    x = torch.randn(rows, 784)

    @torch.no_grad()
    def ours() -> None:
        for _ in range(REPEATS):
            sum_softplus(x)

    def jax_sums() -> Contestant:
        import jax

        return in_jax(lambda key, x: jax.nn.softplus(x).sum(1), jax.numpy.asarray(x.numpy()))

    return Race(
        f"Sums of log(1 + exp(x)) along {rows} rows of 784 numbers",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(ours),
            "plain torch": lambda: Contestant(lambda: [softplus(x).sum(1) for _ in range(REPEATS)]),
            "JAX": jax_sums,
        },
    )


def in_jax(function: Callable[[Any, Any], Any], given: Any) -> Contestant:
    """A function of a key and an argument, compiled; each call waits for the one before, as the steps of a chain do."""
    import jax

    compiled = jax.jit(function, static_argnums=1 if isinstance(given, int) else ())
    keys = jax.random.split(jax.random.key(0), REPEATS)
    return Contestant(lambda: [compiled(key, given).block_until_ready() for key in keys])
