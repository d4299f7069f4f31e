"""Random numbers as samplers draw them, and sums of log(1 + exp(x)): beside torch, NumPy and JAX."""

from __future__ import annotations

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

    return Race(
        f"{count:,} normal numbers",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(lambda: [normal(like) for _ in range(REPEATS)]),
            "plain torch": lambda: Contestant(lambda: [torch.randn_like(like) for _ in range(REPEATS)]),
            "NumPy": by_numpy,
            "JAX": lambda: in_jax("normal", count),
        },
    )


@race("bits", 78_400)
def bits(count: int) -> Race:
    logits = torch.randn(count)
    odds = logits.numpy()
    generator = np.random.Generator(np.random.SFC64(0))

    def by_numpy() -> Any:
        return generator.random(count, np.float32) < 1 / (1 + np.exp(-odds))

    return Race(
        f"{count:,} bits of given logits",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(lambda: [bernoulli(logits) for _ in range(REPEATS)]),
            "plain torch": lambda: Contestant(lambda: [logits.sigmoid().bernoulli() for _ in range(REPEATS)]),
            "NumPy": lambda: Contestant(lambda: [by_numpy() for _ in range(REPEATS)]),
            "JAX": lambda: in_jax("bernoulli", logits),
        },
    )


@race("softplus", 100)
def sums_of_softplus(rows: int) -> Race:
    x = torch.randn(rows, 784)

    @torch.no_grad()
    def ours() -> None:
        for _ in range(REPEATS):
            sum_softplus(x)

    return Race(
        f"Sums of log(1 + exp(x)) along {rows} rows of 784 numbers",
        REPEATS,
        {
            "ebmlab": lambda: Contestant(ours),
            "plain torch": lambda: Contestant(lambda: [softplus(x).sum(1) for _ in range(REPEATS)]),
            "JAX": lambda: in_jax("softplus", x),
        },
    )


def in_jax(what: str, given: Any) -> Contestant:
    """One after the other, each of which waits for the one before, as the steps of a chain do."""
    import jax
    import jax.numpy as jnp

    if what == "softplus":
        x = jnp.asarray(given.numpy())
        sums = jax.jit(lambda x: jax.nn.softplus(x).sum(1))
        return Contestant(lambda: [sums(x).block_until_ready() for _ in range(REPEATS)])
    if what == "normal":
        draw = jax.jit(lambda key: jax.random.normal(key, (given,)))
    else:
        logits = jnp.asarray(given.numpy())
        draw = jax.jit(lambda key: jax.random.bernoulli(key, jax.nn.sigmoid(logits)))
    keys = jax.random.split(jax.random.key(0), REPEATS)
    return Contestant(lambda: [draw(key).block_until_ready() for key in keys])
