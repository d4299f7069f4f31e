"""Minimal samplers in JAX: many steps in one compiled scan, the energy and the gradient at x carried along."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array, lax, random
from torch import Tensor

Energy = Callable[[Array], Array]
Step = Callable[[Array, Any], Any]


def rbm(W: Tensor, b_v: Tensor, b_h: Tensor) -> Energy:
    """The marginal energy of an RBM, `(B, V)` to `(B,)`."""
    w, v, h = (jnp.asarray(t.detach().numpy()) for t in (W, b_v, b_h))
    return lambda x: -(x @ v) - jax.nn.softplus(x @ w + h).sum(1)


def chain(step: Step, steps: int) -> Callable[[Array, Any], Any]:
    """`steps` steps as one compiled function of a key and the state."""

    def run(key: Array, state: Any) -> Any:
        return lax.scan(lambda s, k: (step(k, s), None), state, random.split(key, steps))[0]

    return jax.jit(run)


def value_and_grad(energy: Energy, x: Array) -> tuple[Array, Array]:
    value, pull = jax.vjp(energy, x)
    return value, pull(jnp.ones_like(value))[0]


def start(energy: Energy, x: Any) -> tuple[Array, Array, Array]:
    """The state of `dmala`, `gwg` and `langevin`: x, the energy and the gradient."""
    x = jnp.asarray(x)
    return (x, *value_and_grad(energy, x))


def dmala(energy: Energy, step_size: float, balance: float = 0.5) -> Step:
    def logits(x: Array, grad: Array) -> Array:
        return balance * grad * (2 * x - 1) - 1 / (2 * step_size)

    def step(key: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, value, grad = state
        draw, decide = random.split(key)
        forth = logits(x, grad)
        flips = random.uniform(draw, x.shape) < jax.nn.sigmoid(forth)
        y = jnp.where(flips, 1 - x, x)
        value_y, grad_y = value_and_grad(energy, y)
        back = logits(y, grad_y)
        log_q = (flips * (back - forth) - jax.nn.softplus(back) + jax.nn.softplus(forth)).sum(1)
        return _choose(decide, value - value_y + log_q, (y, value_y, grad_y), state)

    return step


def gwg(energy: Energy) -> Step:
    def log_law(x: Array, grad: Array) -> Array:
        return jax.nn.log_softmax(grad * (2 * x - 1) / 2, axis=1)

    def step(key: Array, state: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        x, value, grad = state
        draw, decide = random.split(key)
        forth, rows = log_law(x, grad), jnp.arange(len(x))
        i = random.categorical(draw, forth)
        y = x.at[rows, i].set(1 - x[rows, i])
        value_y, grad_y = value_and_grad(energy, y)
        log_q = log_law(y, grad_y)[rows, i] - forth[rows, i]
        return _choose(decide, value - value_y + log_q, (y, value_y, grad_y), state)

    return step


def _choose(key: Array, log_ratio: Array, new: Any, old: Any) -> Any:
    accepted = jnp.log(random.uniform(key, log_ratio.shape)) < log_ratio
    return jax.tree.map(lambda a, b: jnp.where(accepted.reshape(-1, *[1] * (a.ndim - 1)), a, b), new, old)


def block_gibbs(W: Tensor, b_v: Tensor, b_h: Tensor) -> Step:
    """A step v, h, v of an RBM."""
    w, v, h = (jnp.asarray(t.detach().numpy()) for t in (W, b_v, b_h))

    def step(key: Array, x: Array) -> Array:
        first, second = random.split(key)
        hidden = random.bernoulli(first, jax.nn.sigmoid(x @ w + h)).astype(x.dtype)
        return random.bernoulli(second, jax.nn.sigmoid(hidden @ w.T + v)).astype(x.dtype)

    return step


def checkerboard(side: int, coupling: float) -> Step:
    """A sweep over a periodic square lattice of spins `(B, side, side)`, one colour after the other."""
    black = jnp.indices((side, side)).sum(0) % 2 == 0

    def step(key: Array, x: Array) -> Array:
        for colour, draw in zip((black, ~black), random.split(key), strict=True):
            pull = sum(jnp.roll(x, shift, axis) for shift in (-1, 1) for axis in (1, 2))
            up = random.uniform(draw, x.shape) < jax.nn.sigmoid(2 * coupling * pull)
            x = jnp.where(colour, jnp.where(up, 1.0, -1.0), x)
        return x

    return step


def glass(right: Tensor, below: Tensor) -> Step:
    """As `checkerboard`, with a coupling `(side, side)` to each site's neighbour on the right, and to that below."""
    black = jnp.indices(right.shape).sum(0) % 2 == 0
    bonds = [(jnp.asarray(right.numpy()), 2), (jnp.asarray(below.numpy()), 1)]

    def step(key: Array, x: Array) -> Array:
        for colour, draw in zip((black, ~black), random.split(key), strict=True):
            pull = sum(j * jnp.roll(x, -1, axis) + jnp.roll(j * x, 1, axis) for j, axis in bonds)
            up = random.uniform(draw, x.shape) < jax.nn.sigmoid(2 * pull)
            x = jnp.where(colour, jnp.where(up, 1.0, -1.0), x)
        return x

    return step


def langevin(gradient: Callable[[Array], Array], step_size: float) -> Step:
    """From x to x - step_size gradient(x) + sqrt(2 step_size) noise."""

    def step(key: Array, x: Array) -> Array:
        return x - step_size * gradient(x) + (2 * step_size) ** 0.5 * random.normal(key, x.shape)

    return step


def runner(step: Step, state: Any, steps: int, seed: int = 0) -> Callable[[], Any]:
    """A function that runs the compiled chain with a new key and waits for the result."""
    run, keys = chain(step, steps), iter(range(seed, 2**31))
    return partial(_wait, run, keys, state)


def _wait(run: Callable[[Array, Any], Any], keys: Any, state: Any) -> Any:
    return jax.block_until_ready(run(random.key(next(keys)), state))
