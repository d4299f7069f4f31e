"""The comparison of Liu et al. (2023), Table 1, along its training: MMD^2 against CPU seconds on one shape.

    python benchmarks/rm_lengths.py                                   # goes on where it stopped, prints the tables
    python benchmarks/rm_lengths.py --lengths 1000 3000 10000 30000 100000
    python benchmarks/rm_lengths.py --lengths 1000 3000 --methods "RMwGGIS basic, bounded, s = "{5,20,50,100}

The settings of `rm_synthetic.py` without its options, which are the authors' but for the iterations (100,000 there).
Each method trains on from one of `--lengths` to the next, and is scored there: MMD^2 (U-statistic) between 4,000
samples, by 20 sweeps of Gibbs sampling from random bits, and 4,000 data, by exp(-H / d) first, since d - H sees the
means of the bits alone. The minimum of the exponential form is the data's law to the power 1/4, so that its models are
scored by samples of exp(-4 E), too. A run that was interrupted goes on from its last 500 iterations, and counts the
seconds after them alone. Draws the curves, as `mmd.png` in its folder.
"""

from __future__ import annotations

import argparse
import json
import time
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, cell, fit_on, run_missing
from rm_synthetic import METHODS, SHAPES, SIZES, Settings, make_learner, score

from ebmlab.datamodules import GrayCode2D

BITS, BATCH = 32, 128
EXPONENTIAL = ("ratio matching", "RMwGGIS basic", "RMwGGIS advanced", "RMwRAND")


def train(method: str, shape: str, seed: int, iterations: int, folder: Path) -> Result:
    """Trains on to a number of iterations, and scores the model."""
    pl.seed_everything(seed)
    data = GrayCode2D(shape, BITS, seed=seed, batch_size=BATCH)
    learner = make_learner(method, shape, Settings(BITS, iterations, 1.0, None, 1e-4))
    begin = time.process_time()
    fit_on(learner, data, iterations, folder / f"{method}--{shape}--{seed}", 500, gradient_clip_val=1.0)
    seconds, energy = time.process_time() - begin, learner.energy.eval().requires_grad_(False)
    result = {"seconds": seconds} | score(energy, data)
    if method in EXPONENTIAL:
        energy.rest[-1].weight.mul_(4)  # the bias does not change the law
        result |= {f"{key}, exp(-4 E)": value for key, value in score(energy, data).items()}
    return result


def curves(folder: Path, shape: str, methods: list[str], lengths: list[int], seeds: list[int]) -> None:
    """MMD^2 by exp(-H / d) against the seconds of training, one line for each method and seed."""
    figure, axis = plt.subplots(figsize=(10, 5), layout="constrained")
    for colour, method in enumerate(methods):
        for seed in seeds:
            files = [folder / f"{method}--{shape}--{seed}--{length}.json" for length in lengths]
            results = [json.loads(file.read_text()) for file in files if file.exists()]
            seconds = torch.tensor([result["seconds"] for result in results]).cumsum(0)
            values = [max(result["exponential"], 1e-6) for result in results]
            axis.plot(seconds, values, f"C{colour}o-", label=method if seed == seeds[0] else None)
    axis.set(xscale="log", yscale="log", xlabel="CPU seconds of training", ylabel="MMD$^2$ by exp(-H / d)", title=shape)
    figure.legend(loc="outside right upper")
    figure.savefig(folder / "mmd.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1000, 3000, 10_000], help="multiples of 500")
    parser.add_argument("--shape", choices=SHAPES, default="2spirals")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *SIZES], default=list(METHODS))
    parser.add_argument("--folder", type=Path, default=Path("runs/rm_lengths"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {
        f"{method}--{args.shape}--{seed}--{length}": (method, args.shape, seed, length)
        for length in sorted(args.lengths)
        for seed in args.seeds
        for method in args.methods
    }
    run_missing(args.folder, jobs, lambda job: train(*jobs[job], args.folder), args.part)
    keys = ["exponential", "linear"]
    for key in (*keys, *(f"{key}, exp(-4 E)" for key in keys), "seconds"):
        head = " | ".join(f"{length:,}" for length in args.lengths)
        print(f"\n{key}\n\n| method | {head} |\n|{'---|' * (len(args.lengths) + 1)}")
        for method in args.methods:
            cells = [cell(args.folder, f"{method}--{args.shape}--*--{length}", key) for length in args.lengths]
            print(f"| {method} | {' | '.join(cells)} |")
    curves(args.folder, args.shape, args.methods, args.lengths, args.seeds)


if __name__ == "__main__":
    main()
