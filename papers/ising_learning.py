"""Figure 5 of Zhang et al. (2022): couplings of a 25x25 Ising model by persistent CD, over iterations and CPU seconds.

    python papers/ising_learning.py        # trains what is missing, then draws ising_learning.png in its folder
    python papers/ising_learning.py --samplers DMALA --iterations 15000 --seeds 0 1 2
    python papers/ising_learning.py --samplers GWG DULA DMALA --steps 5 10 20 50 100 --iterations 500    # Figure 5c

2,000 samples, batch and buffer 256, l1 0.01; sigma = 0.25 there is a coupling of 0.5 here, Adam's 1e-3 there 2e-3 here,
and steps of 0.1 (DULA) and 0.15 (DMALA) there are 0.4 and 0.6 on spins. RMSE is that of the
paper's J, half of ours, over all entries. More iterations train on from those of an earlier call.
"""

from __future__ import annotations

import argparse
import json
import time
from functools import partial
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, fit_on, run_missing
from study_seeds import cell

from ebmlab.datamodules import IsingSamples
from ebmlab.energies import Ising
from ebmlab.evaluation import coupling_rmse
from ebmlab.learners import ContrastiveDivergence, ReplayBuffer
from ebmlab.samplers import DMALA, DULA, GWG, Gibbs

SIDE, COUPLING, EVERY = 25, 0.5, 125
SAMPLERS = {
    "Gibbs": partial(Gibbs, scan="random"),
    "GWG": GWG,
    "DULA": partial(DULA, 0.4),
    "DMALA": partial(DMALA, 0.6),
}


class Watch(pl.Callback):
    """Records the error and the seconds of training every so many iterations, over all calls."""

    def __init__(self, true: torch.Tensor) -> None:
        self.true = true
        self.curve: Result = {}
        self.seconds = 0.0

    def state_dict(self) -> dict[str, Any]:
        return {"curve": self.curve, "seconds": self.seconds}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        self.curve, self.seconds = state_dict["curve"], state_dict["seconds"]

    def on_train_batch_start(self, *_: object) -> None:
        self.begin = time.process_time()

    def on_train_batch_end(self, trainer: pl.Trainer, pl_module: pl.LightningModule, *_: object) -> None:
        self.seconds += time.process_time() - self.begin
        if trainer.global_step % EVERY == 0:
            step = trainer.global_step
            self.curve[f"rmse {step}"] = float(coupling_rmse(pl_module.energy, self.true)) / 2
            self.curve[f"seconds {step}"] = self.seconds


def run(name: str, num_steps: int, seed: int, iterations: int, folder: Path) -> Result:
    """Learns the couplings with one sampler, from where an earlier call ended."""
    pl.seed_everything(seed)
    data = IsingSamples(SIDE, COUPLING, seed=seed, batch_size=256, root="runs/data")
    watch = Watch(data.coupling_matrix())
    adam = partial(torch.optim.Adam, lr=2e-3)
    energy = Ising.learnable(SIDE**2)
    learner = ContrastiveDivergence(
        energy, SAMPLERS[name](), start=ReplayBuffer(256), num_steps=num_steps, l1=0.01, optimizer=adam
    )
    fit_on(learner, data, iterations, folder / f"{name}--{num_steps}--{seed}", EVERY, [watch])
    return watch.curve


def draw(folder: Path, jobs: dict[str, tuple[str, int, int, int]]) -> None:
    """Prints a row for each sampler and number of steps, over its seeds, and draws the curve of each training."""
    figure, axes = plt.subplots(1, 2, figsize=(11, 4), sharey=True, layout="constrained")
    rows: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for job, (name, num_steps, *_) in jobs.items():
        curve = json.loads((folder / f"{job}.json").read_text())
        steps = sorted(int(key.split()[1]) for key in curve if key.startswith("rmse"))
        rmse = torch.tensor([curve[f"rmse {k}"] for k in steps]).log()
        seconds = [curve[f"seconds {k}"] for k in steps]
        row = rows.setdefault((name, num_steps), [])
        for axis, x in zip(axes, (steps, seconds), strict=True):
            label = None if row else f"{name}, {num_steps} steps"
            axis.plot(x, rmse, f"C{list(rows).index((name, num_steps))}", label=label)
        row.append((float(rmse.min()), float(rmse[-1]), seconds[-1]))
    print("\n| sampler | steps | seeds | best log RMSE | last | CPU seconds |\n|---|---|---|---|---|---|")
    for (name, num_steps), row in rows.items():
        best, last, taken = zip(*row, strict=True)
        print(f"| {name} | {num_steps} | {len(row)} | {cell(best)} | {cell(last)} | {cell(taken)} |")
    axes[0].set(xlabel="iterations", ylabel="log RMSE of the couplings")
    axes[1].set(xlabel="CPU seconds of training")
    axes[1].legend()
    figure.savefig(folder / "ising_learning.png", dpi=120)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--iterations", type=int, default=2000, help=f"a multiple of {EVERY}")
    parser.add_argument("--steps", type=int, nargs="+", default=[5], help="of each chain in an iteration")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--folder", type=Path, default=Path("runs/ising_learning"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    if args.iterations < EVERY or args.iterations % EVERY:
        parser.error(f"--iterations is {args.iterations}, but must be a multiple of {EVERY}")
    jobs = {
        f"{name}--{steps}--{seed}--{args.iterations}": (name, steps, seed, args.iterations)
        for seed in args.seeds
        for steps in args.steps
        for name in args.samplers
    }
    run_missing(args.folder, jobs, lambda job: run(*jobs[job], args.folder), args.part)
    draw(args.folder, {job: jobs[job] for job in jobs if (args.folder / f"{job}.json").exists()})


if __name__ == "__main__":
    main()
