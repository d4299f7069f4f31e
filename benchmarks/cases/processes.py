"""Two processes at once, one thread each, as two runs beside each other or two ranks of one run."""

from __future__ import annotations

import multiprocessing
import os
from contextlib import suppress
from functools import partial
from multiprocessing.connection import Connection

import torch

from benchmarks import published
from benchmarks.cases.binary import STEP_SIZE, gradient_floor
from benchmarks.cases.targets import VISIBLE, bits, log_prob, rbm, repeating, sampling
from benchmarks.harness import Contestant, Race, race
from ebmlab.samplers import DMALA

CHAINS, STEPS = 100, 50


def contestant(name: str) -> Contestant:
    """What each of the two processes runs."""
    if name == "ebmlab":
        return sampling(DMALA(STEP_SIZE), rbm(), bits(CHAINS), STEPS)
    if name == "published":
        return repeating(partial(published.dmala, log_prob(rbm()), step_size=STEP_SIZE), bits(CHAINS), STEPS)
    return gradient_floor(CHAINS, STEPS, CHAINS * VISIBLE)


def serve(pipe: Connection, name: str, number: int) -> None:
    """Runs a contestant once for each message, on a core of its own if there are two."""
    if hasattr(os, "sched_setaffinity"):
        cores = sorted(os.sched_getaffinity(0))
        os.sched_setaffinity(0, {cores[number % len(cores)]})
    torch.set_num_threads(1)
    mine = contestant(name)
    with suppress(EOFError):  # the race is over
        while pipe.recv():
            mine.run()
            pipe.send(True)


def twice(name: str) -> Contestant:
    """Two processes that start a run at once; it has ended when both have."""
    spawn, pipes = multiprocessing.get_context("spawn"), []
    for number in range(2):
        here, there = spawn.Pipe()
        spawn.Process(target=serve, args=(there, name, number), daemon=True).start()
        pipes.append(here)

    def run() -> None:
        for pipe in pipes:
            pipe.send(True)
        for pipe in pipes:
            pipe.recv()

    return Contestant(run)


@race("two-processes")
def two_processes() -> Race:
    return Race(
        f"DMALA, RBM 784-500, {CHAINS} chains in each of two processes",
        STEPS,
        {name: partial(twice, name) for name in ("ebmlab", "published", "floor")},
    )
