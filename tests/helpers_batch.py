"""A chain's law must not depend on the other chains of its batch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from ebmlab.energies import Energy
from ebmlab.samplers import Sampler, State


def alone_and_together(
    sampler: Sampler,
    energy: Energy,
    x: Tensor,
    monkeypatch: pytest.MonkeyPatch,
    num_steps: int = 8,
    others: Tensor | None = None,
) -> int:
    """Asserts that two chains move as they do alone, with the same noise, and the first for any other chains too.

    A kernel may run n rows for each chain, chain by chain: of noise for n * B rows, each chain gets n rows.

    Args:
        sampler: moves the chains.
        energy: the target.
        x: initial states, `(B, *event)`.
        monkeypatch: replaces `rand_like` and `randn_like`.
        num_steps: steps of each run.
        others: initial states of the other chains in the last run, `(B, *event)`; by default x in another order.

    Returns:
        How often a run draws noise.
    """
    noise: dict[str, Any] = {}

    def feed(draw: Callable[..., Tensor]) -> Callable[[Tensor], Tensor]:
        def draw_like(like: Tensor) -> Tensor:
            generator = torch.Generator().manual_seed(noise["calls"])
            noise["calls"] += 1
            each = len(like) // noise["chains"]
            draws = draw(len(x), each, *like.shape[1:], dtype=like.dtype, generator=generator)
            return draws[noise["rows"]].flatten(0, 1)

        return draw_like

    monkeypatch.setattr(torch, "randn_like", feed(torch.randn))
    monkeypatch.setattr(torch, "rand_like", feed(torch.rand))

    def run(start: Tensor, rows: slice = slice(None)) -> list[Tensor]:
        torch.manual_seed(0)  # a scan begins at the same block
        noise.update(calls=0, rows=rows, chains=len(start[rows]))
        steps = [(state.x, info.acceptance) for state, info in sampler.chain(energy, start[rows], num_steps)]
        return [torch.stack(parts) for parts in zip(*steps, strict=True)]

    def check(states: list[Tensor], expected: list[Tensor]) -> None:
        torch.testing.assert_close(states, expected, rtol=0, atol=1e-10, equal_nan=True)

    together = run(x)
    assert (together[0][-1] != x).any() and noise["calls"] >= num_steps
    for i in (0, len(x) * 5 // 8):
        one = slice(i, i + 1)
        check(run(x, one), [part[:, one] for part in together])
    changed = run(torch.cat([x[:1], (x.flip(0) if others is None else others)[1:]]))
    check([part[:, :1] for part in changed], [part[:, :1] for part in together])
    return int(noise["calls"])


def repeats_itself(sampler: Sampler, energy: Energy, state: State) -> None:
    """Asserts that two steps from one state with one seed agree, and that all the state's attributes stay."""
    before = {name: (value, copied(value)) for name, value in vars(state).items()}
    found = []
    for _ in range(2):
        torch.manual_seed(7)
        new, info = sampler.step(energy, state)
        found.append((new.x, info.acceptance, info.hops))
    torch.testing.assert_close(*found, rtol=0, atol=0, equal_nan=True)
    assert vars(state).keys() == before.keys()
    for name, value in vars(state).items():
        assert value is before[name][0], name
        if isinstance(value, Tensor):
            torch.testing.assert_close(value, before[name][1], rtol=0, atol=0, equal_nan=True)


def copied(value: Any) -> Any:
    return value.clone() if isinstance(value, Tensor) else value
