"""Persistent contrastive divergence of a perceptron on 32 bits, as on the two-dimensional sets of Liu et al. (2023)."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks import published
from benchmarks.cases.rbm import training
from benchmarks.cases.targets import bits
from benchmarks.floors import floor
from benchmarks.harness import Contestant, Race, race
from ebmlab.energies import MLP
from ebmlab.learners import ReplayBuffer
from ebmlab.samplers import GWG

BITS, HIDDEN, BATCH, STEPS = 32, 256, 128, 40
ADAM = partial(torch.optim.Adam, lr=1e-4)


def energy() -> MLP:
    torch.manual_seed(0)
    return MLP(BITS, HIDDEN)


@race("mlp-pcd")
def pcd() -> Race:
    x = bits(BATCH, BITS)

    def ours(compile_chains: bool) -> Contestant:
        settings = {"start": ReplayBuffer(BATCH), "num_steps": STEPS, "optimizer": ADAM}
        return training(energy(), GWG(), [x], **settings, compile_chains=compile_chains)

    def plain() -> Contestant:
        net, held = energy(), {"chains": x}
        optimizer = ADAM(net.parameters())

        def log_prob(y: Tensor) -> Tensor:
            return -net.rest(y @ net.W + net.b).squeeze(1)

        def run() -> None:
            y = held["chains"]
            for _ in range(STEPS):
                y = published.gwg(log_prob, y).detach()
            held["chains"] = y
            optimizer.zero_grad()
            (log_prob(y).mean() - log_prob(x).mean()).backward()
            optimizer.step()

        return Contestant(run)

    def least() -> Contestant:
        """Forward and backward passes, one more than steps, and the gradient of the parameters at two batches."""
        chains = [(BATCH, BITS, HIDDEN), (BATCH, HIDDEN, BITS), *[(BATCH, HIDDEN, HIDDEN)] * 4] * (STEPS + 1)
        learning = [(BITS, BATCH, HIDDEN), *[(HIDDEN, BATCH, HIDDEN)] * 2] * 2
        return floor([*chains, *learning], uniforms=2 * STEPS * BATCH)

    return Race(
        f"PCD with {STEPS} steps of GWG, MLP of 3 x {HIDDEN} units on {BITS} bits, batch {BATCH}",
        1,
        {
            "ebmlab": lambda: ours(False),
            "ebmlab, compiled": lambda: ours(True),
            "published": plain,
            "floor": least,
        },
    )
