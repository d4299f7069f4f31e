"""Work before sampling and training: adaptation, and data that are computed."""

from __future__ import annotations

import torch

from benchmarks import published
from benchmarks.cases.targets import HIDDEN, VISIBLE, bits, rbm, sampling
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from ebmlab.datamodules import GrayCode2D
from ebmlab.samplers import ACS, AnyScale, Sampler
from ebmlab.samplers.tuners import ACSTuner, AnyScaleTuner, Tuner

CHAINS, STEPS, POINTS, BITS = 100, 200, 1_000, 2_048


def tuning(title: str, search: Tuner, sampler: Sampler) -> Race:
    """A tuner, and as many steps of the sampler that it tunes."""
    energy, x = rbm(), bits(CHAINS)
    layers = [(CHAINS, VISIBLE, HIDDEN), (CHAINS, HIDDEN, VISIBLE)]
    return Race(
        f"{title}, {STEPS} steps, RBM 784-500, {CHAINS} chains, a step",
        STEPS,
        {
            "ebmlab": lambda: Contestant(lambda: search.tune(sampler, energy, x, STEPS)),
            "ebmlab, the same steps untuned": lambda: sampling(sampler, energy, x, STEPS),
            "floor": lambda: floor(layers, uniforms=CHAINS * VISIBLE, times=STEPS),
        },
    )


@race("tuner", "acs", "ab-first", "ab-trace")
def tuner(name: str) -> Race:
    if name == "acs":
        return tuning("ACS's tuner", ACSTuner(), ACS())
    return tuning(f"{name}'s tuner", AnyScaleTuner(), AnyScale(name.removeprefix("ab-")))  # type: ignore[arg-type]


@race("gray-code")
def gray_code() -> Race:
    """Points of 2spirals as bits."""
    data = GrayCode2D("2spirals", BITS, num_samples=POINTS)
    points = data.sample(POINTS, torch.Generator().manual_seed(0))
    return Race(
        f"GrayCode2D, {POINTS:,} points, {BITS:,} bits",
        1,
        {
            "ebmlab": lambda: Contestant(lambda: data.encode(points)),
            "published": lambda: Contestant(lambda: published.gray_code(points, BITS)),
            "floor": lambda: Contestant(lambda: torch.empty(POINTS, BITS).fill_(1)),
        },
    )
