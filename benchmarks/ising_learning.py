"""Figure 5 of Zhang et al. (2022): couplings of a 25x25 Ising model by persistent CD, over iterations and CPU seconds.

    python benchmarks/ising_learning.py        # trains what is missing, then draws ising_learning.png in its folder

2,000 samples, batch and buffer 256, l1 0.01; sigma = 0.25 there is a coupling of 0.5 here, Adam's 1e-3 there 2e-3 here,
and steps of 0.1 (DULA) and 0.15 (DMALA) there are 0.4 and 0.6 on spins. RMSE is that of the
paper's J, half of ours, over all entries.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, fit, run_missing

from ebmlab.datamodules import IsingSamples
from ebmlab.energies import Ising
from ebmlab.evaluation import coupling_rmse
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, DULA, GWG, Gibbs

SIDE, COUPLING, POINTS = 25, 0.5, 40
SAMPLERS = {
    "Gibbs": partial(Gibbs, scan="random"),
    "GWG": GWG,
    "DULA": partial(DULA, 0.4),
    "DMALA": partial(DMALA, 0.6),
}


class Watch(pl.Callback):
    """Records the error and the seconds of training at some iterations."""

    def __init__(self, true: torch.Tensor, iterations: int) -> None:
        self.true, self.every = true, max(1, iterations // POINTS)
        self.curve: dict[str, float] = {}
        self.seconds = 0.0

    def on_train_batch_start(self, *_: object) -> None:
        self.begin = time.process_time()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        self.seconds += time.process_time() - self.begin
        if trainer.global_step % self.every == 0:
            step = trainer.global_step
            self.curve[f"rmse {step}"] = float(coupling_rmse(pl_module.energy, self.true)) / 2
            self.curve[f"seconds {step}"] = self.seconds


def run(name: str, num_steps: int, seed: int, iterations: int) -> Result:
    """Learns the couplings with one sampler."""
    pl.seed_everything(seed)
    data = IsingSamples(SIDE, COUPLING, seed=seed, batch_size=256, root="runs/data")
    watch = Watch(data.coupling_matrix(), iterations)
    adam = partial(torch.optim.Adam, lr=2e-3)
    energy = Ising.learnable(SIDE**2)
    learner = ContrastiveDivergence(energy, SAMPLERS[name](), ReplayBuffer(256), num_steps, l1=0.01, optimizer=adam)
    fit(learner, data, iterations, callbacks=[watch])
    return watch.curve


def draw(folder: Path, jobs: dict[str, tuple[str, int, int, int]]) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    print("\n| sampler | steps | best log RMSE | last | CPU seconds |\n|---|---|---|---|---|")
    for job, (name, num_steps, *_) in jobs.items():
        curve = json.loads((folder / f"{job}.json").read_text())
        steps = sorted(int(key.split()[1]) for key in curve if key.startswith("rmse"))
        rmse = torch.tensor([curve[f"rmse {k}"] for k in steps]).log()
        seconds = [curve[f"seconds {k}"] for k in steps]
        for axis, x in zip(axes, (steps, seconds), strict=True):
            axis.plot(x, rmse, label=f"{name}, {num_steps} steps")
        print(f"| {name} | {num_steps} | {rmse.min():.2f} | {rmse[-1]:.2f} | {seconds[-1]:.0f} |")
    axes[0].set(xlabel="iterations", ylabel="log RMSE of the couplings")
    axes[1].set(xlabel="CPU seconds of training")
    axes[1].legend()
    figure.savefig(folder / "ising_learning.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=2000)
    parser.add_argument("--steps", type=int, nargs="+", default=[5], help="of each chain in an iteration")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path, default=Path("runs/ising_learning"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {
        f"{name}--{steps}--{args.seed}--{args.iterations}": (name, steps, args.seed, args.iterations)
        for steps in args.steps
        for name in SAMPLERS
    }
    run_missing(args.folder, jobs, lambda job: run(*jobs[job]), args.part)
    draw(args.folder, {job: jobs[job] for job in jobs if (args.folder / f"{job}.json").exists()})


if __name__ == "__main__":
    main()
