"""Table 3 of Liu et al. (2023): couplings of a 25x25 Ising model from 2,000 samples, by ratio matching and by PCD.

    python papers/rm_ising.py            # trains what is missing, then prints the table

Adam, batch 100 and l1 0.01 as in the paper; sigma = 0.25 there is a coupling of 0.5 here, and a learning rate of 1e-4
there one of 2e-4 here. PCD has 100 chains, all of which move in every iteration. RMSE is that of the paper's J, half of
ours, over all entries; an all-zero J scores 0.02. Every method trains for the same CPU seconds; the error is given at
the end and at its best on the way (every 20 iterations).
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing

from ebmlab.datamodules import IsingSamples
from ebmlab.energies import Ising
from ebmlab.evaluation import coupling_rmse
from ebmlab.learners import (
    ContrastiveDivergence,
    EnergyDiscrepancy,
    Exact,
    GradientGuided,
    Learner,
    RatioMatching,
    ReplayBuffer,
    UniformSubset,
)
from ebmlab.samplers import GWG, Gibbs

SIDE, COUPLING = 25, 0.5
ESTIMATORS = {
    "ratio matching": Exact("exponential"),
    "RMwGGIS advanced": GradientGuided(10, True, objective="exponential"),
    "RMwGGIS basic": GradientGuided(10, False, objective="exponential"),
    "ratio matching, bounded": Exact("bounded"),
    "RMwGGIS basic, bounded": GradientGuided(10, False, objective="bounded"),
    "RMwRAND, bounded": UniformSubset(10, "bounded"),
    "energy discrepancy": EnergyDiscrepancy(32, 0.02),
}
PCD = {f"PCD, {name} {steps}": (name, steps) for name in ("Gibbs", "GWG") for steps in (5, 25)}
METHODS = (*ESTIMATORS, *PCD)


def make_learner(method: str) -> Learner:
    adam = partial(torch.optim.Adam, lr=2e-4)
    energy = Ising.learnable(SIDE**2)
    if method in ESTIMATORS:
        return RatioMatching(energy, ESTIMATORS[method], l1=0.01, optimizer=adam)
    name, steps = PCD[method]
    sampler = GWG() if name == "GWG" else Gibbs(scan="random")
    return ContrastiveDivergence(energy, sampler, start=ReplayBuffer(100), num_steps=steps, l1=0.01, optimizer=adam)


class Watch(pl.Callback):
    """Records the error at every 20th iteration; ends the training when its CPU seconds are over."""

    def __init__(self, true: torch.Tensor, seconds: float) -> None:
        self.true, self.left = true, seconds
        self.errors: list[float] = []

    def on_train_batch_start(self, *_: object) -> None:
        self.begin = time.process_time()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        self.left -= time.process_time() - self.begin
        trainer.should_stop = self.left <= 0
        if trainer.should_stop or trainer.global_step % 20 == 0:
            self.errors.append(float(coupling_rmse(pl_module.energy, self.true)) / 2)


def run(method: str, seconds: float, seed: int) -> Result:
    """Trains one model."""
    pl.seed_everything(seed)
    data = IsingSamples(SIDE, COUPLING, seed=seed, root="runs/data")
    watch, learner = Watch(data.coupling_matrix(), seconds), make_learner(method)
    fit(learner, data, -1, callbacks=[watch], max_epochs=-1)
    return {"last": watch.errors[-1], "best": min(watch.errors), "iterations": learner.trainer.global_step}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--folder", type=Path, default=Path("runs/rm_ising"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {f"{m}--{seed}--{args.seconds:g}s": (m, args.seconds, seed) for seed in args.seeds for m in args.methods}
    run_missing(args.folder, jobs, lambda job: run(*jobs[job]), args.part)
    print("\n| method | RMSE, last | RMSE, best | iterations |\n|---|---|---|---|")
    for method in METHODS:
        cells = [cell(args.folder, f"{method}--*--{args.seconds:g}s", key) for key in ("last", "best", "iterations")]
        print(f"| {method} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()
