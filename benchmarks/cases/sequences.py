"""Weights of a family's sequences: how many others agree with each in more than 80% of the sites."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks import packages
from benchmarks.harness import Contestant, Race, race
from ebmlab.sequences import sequence_weights

SITES = 200


def relatives(size: int) -> Tensor:
    """Families of 50 whose members keep 90% of an ancestor, ancestors agreeing in a third of the sites, uint8."""
    generator = torch.Generator().manual_seed(0)
    changed = lambda x, rate: torch.where(  # noqa: E731
        torch.rand(x.shape, generator=generator) < rate, torch.randint(21, x.shape, generator=generator), x
    )
    ancestors = changed(torch.randint(21, (SITES,), generator=generator).expand(size // 50, SITES), 0.4)
    values = changed(ancestors.repeat_interleave(50, 0), 0.1)
    return values[torch.randperm(size, generator=generator)].to(torch.uint8)


def plain_weights(values: Tensor) -> Tensor:
    """One sequence after the other against all."""
    return 1 / torch.stack([((row == values).sum(1) > 0.8 * values.shape[1]).sum() for row in values])


@race("sequence-weights")
def weights() -> Race:
    values = relatives(4_000)
    return Race(
        f"Weights of {len(values):,} sequences of {SITES} sites",
        1,
        {
            "ebmlab": lambda: Contestant(partial(sequence_weights, values)),
            "plain torch": lambda: Contestant(partial(plain_weights, values)),
            "adabmDCA": lambda: Contestant(packages.adabmdca_weights(values)),
        },
        unit="s",
    )
