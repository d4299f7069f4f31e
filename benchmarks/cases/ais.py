"""A temperature of AIS with 500 chains, RBM of 784 and 500 units."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import pairwise

import torch

from benchmarks import packages, published
from benchmarks.cases.targets import HIDDEN, VISIBLE, bits, log_prob, rbm
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Make, Race, race
from ebmlab.evaluation import ais
from ebmlab.samplers import DMALA, GWG, BlockGibbs

CHAINS, TEMPERATURES, STEP_SIZE = 500, 24, 0.2
SAMPLERS = {"dmala": DMALA(STEP_SIZE), "gwg": GWG(), "block-gibbs": BlockGibbs()}


def plain(step: Callable[[published.LogProb, torch.Tensor], torch.Tensor]) -> Contestant:
    f, x = log_prob(rbm()), bits(CHAINS)
    base = lambda y: torch.zeros(len(y)) + 0 * y.sum(1)  # noqa: E731  (uniform; autograd wants to see y)

    def run() -> None:
        y, log_w = x, torch.zeros(CHAINS, dtype=torch.float64)
        for old, new in pairwise(torch.linspace(0, 1, TEMPERATURES + 1).tolist()):
            increment, y = published.annealing_step(f, base, step, y, old, new)
            log_w += increment

    return Contestant(run)


@race("ais", *SAMPLERS)
def annealing(name: str) -> Race:
    energy, sampler = rbm(), SAMPLERS[name]
    layers = [(CHAINS, VISIBLE, HIDDEN), (CHAINS, HIDDEN, VISIBLE)]
    draws = {"dmala": VISIBLE, "gwg": 1, "block-gibbs": VISIBLE + HIDDEN}[name]
    peers: dict[str, dict[str, Make]] = {
        "dmala": {"published": lambda: plain(partial(published.dmala, step_size=STEP_SIZE))},
        "gwg": {
            "published": lambda: plain(published.gwg),
            "ebmkit": lambda: Contestant(packages.ebmkit_ais(energy, "GibbsWithGradients", CHAINS, TEMPERATURES)),
        },
        "block-gibbs": {"rbms": lambda: Contestant(packages.rbms_ais(energy, CHAINS, TEMPERATURES))},
    }
    compiled: dict[str, Make] = {}
    if name != "block-gibbs":
        compiled["ebmlab, compiled"] = lambda: Contestant(
            lambda: ais(energy, sampler, num_chains=CHAINS, num_temperatures=TEMPERATURES, compile=True)
        )
    entries: dict[str, Make] = {
        "ebmlab": lambda: Contestant(lambda: ais(energy, sampler, num_chains=CHAINS, num_temperatures=TEMPERATURES)),
        **compiled,
        **peers[name],
        "floor": lambda: floor(layers, uniforms=CHAINS * draws, times=TEMPERATURES),
    }
    return Race(
        f"AIS with {type(sampler).__name__}, RBM 784-500, {CHAINS} chains, a temperature", TEMPERATURES, entries
    )
