"""The comparison of Liu et al. (2023), Table 1, along its training: MMD^2 against CPU seconds.

    python papers/rm_lengths.py                                   # goes on where it stopped, prints the tables
    python papers/rm_lengths.py --lengths 1000 3000 10000 30000 60000 100000 --matmul_precision medium
    python papers/rm_lengths.py --shapes moons pinwheel --lengths 1000 5000 20000 --methods "RMwGGIS basic" RMwRAND
    python papers/rm_lengths.py --lengths 1000 3000 --methods "RMwGGIS basic, bounded, s = "{5,20,50,100}

The settings of `rm_synthetic.py` without its options, which are the authors' but for the iterations (100,000 there).
Each method trains on from one of `--lengths` to the next, and is scored there: MMD^2 (U-statistic) between 4,000
samples, by 20 sweeps of Gibbs sampling from random bits, and 4,000 data, by exp(-H / d) first, since d - H sees the
means of the bits alone. The minimum of the exponential form is the data's law to the power 1/4, and that of its
advanced estimator is flatter still (docs/appendix/rmwggis.md), so that samples of exp(-4 E), and of exp(-7 E), are
scored, too. With `--matmul_precision medium` models are trained by products in bfloat16, added up in
float32, which takes 0.6 of the time on a processor with AMX, and scored in float32. With `--compile_chains` the chains
of PCD are compiled. A run that was interrupted goes on from its last 500 iterations, and counts the seconds after them
alone. Draws the curves, as `mmd.png`, and the densities of the latest models, as `densities.png`, in its folder.
"""

from __future__ import annotations

import argparse
import json
import time
from itertools import product
from pathlib import Path

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, cell, fit_on, run_missing
from rm_synthetic import EXTRAS, METHODS, SHAPES, Settings, make_learner, score

from ebmlab.callbacks import Acceleration, EnergyLandscape
from ebmlab.datamodules import GrayCode2D
from ebmlab.drawing.plane import highest_colour
from ebmlab.learners import ContrastiveDivergence

BITS, BATCH = 32, 128
# the powers of exp(-E) that samples are drawn from, too
POWERS = {"ratio matching": (4,), "RMwGGIS basic": (4,), "RMwGGIS advanced": (4, 7), "RMwRAND": (4,)}


def train(method: str, shape: str, seed: int, iterations: int, precision: str, compiled: bool, folder: Path) -> Result:
    """Trains on to a number of iterations, and scores the model."""
    pl.seed_everything(seed)
    data = GrayCode2D(shape, BITS, seed=seed, batch_size=BATCH)
    learner = make_learner(method, shape, Settings(BITS, iterations, 1.0, None, 1e-4))
    if isinstance(learner, ContrastiveDivergence):
        learner.compile_chains = compiled
    begin = time.process_time()
    callbacks = [Acceleration(compile=False, matmul_precision=precision)]
    fit_on(learner, data, iterations, folder / f"{method}--{shape}--{seed}", 500, callbacks, gradient_clip_val=1.0)
    seconds, energy = time.process_time() - begin, learner.energy.eval().requires_grad_(False)
    result = {"seconds": seconds} | score(energy, data)
    trained = energy.rest[-1].weight.clone()
    for power in POWERS.get(method, ()):
        energy.rest[-1].weight.copy_(power * trained)  # the bias does not change the law
        result |= {f"{key}, exp(-{power} E)": value for key, value in score(energy, data).items()}
    return result


def curves(folder: Path, shapes: list[str], methods: list[str], lengths: list[int], seeds: list[int]) -> None:
    """MMD^2 by exp(-H / d), at least 1e-5, against the seconds of training: one line for each method and seed."""
    figure, axes = plt.subplots(len(shapes), figsize=(10, 5 * len(shapes)), layout="constrained", squeeze=False)
    for axis, shape in zip(axes.flat, shapes, strict=True):
        for colour, method in enumerate(methods):
            for seed in seeds:
                files = [folder / f"{method}--{shape}--{seed}--{length}.json" for length in lengths]
                results = [json.loads(file.read_text()) for file in files if file.exists()]
                seconds = torch.tensor([result["seconds"] for result in results]).cumsum(0)
                values = [max(result["exponential"], 1e-5) for result in results]
                axis.plot(seconds, values, f"C{colour}o-", label=method if seed == seeds[0] else None)
        axis.set(xscale="log", yscale="log", xlabel="CPU seconds of training", title=shape)
        axis.set_ylabel("MMD$^2$ by exp(-H / d)")
    figure.legend(*axes[0, 0].get_legend_handles_labels(), loc="outside right upper")
    figure.savefig(folder / "mmd.png", dpi=100)


@torch.no_grad()
def densities(folder: Path, shapes: list[str], methods: list[str], seed: int) -> None:
    """Draws the densities of data and latest models: exp(-E), and below it exp(-4 E) or exp(-7 E) of `POWERS`."""
    landscape = EnergyLandscape(num_samples=0)
    methods = [m for m in methods if any((folder / f"{m}--{shape}--{seed}" / "last.ckpt").exists() for shape in shapes)]
    rows = 1 + any(method in POWERS for method in methods)  # of a shape
    size = 2 * len(methods) + 2, 2.2 * rows * len(shapes)
    figure, axes = plt.subplots(rows * len(shapes), len(methods) + 1, figsize=size, layout="constrained", squeeze=False)
    for axis in axes.flat:
        axis.set_axis_off()
    shown = {}
    for shape, own in zip(shapes, axes[::rows], strict=True):
        data = GrayCode2D(shape, BITS)
        own[0].set_title("data", fontsize=9)
        shown[own[0]] = landscape.data_density(data, torch.Generator().manual_seed(0))
        for i, method in enumerate(methods, 1):
            file = folder / f"{method}--{shape}--{seed}" / "last.ckpt"
            if not file.exists():
                continue
            learner = make_learner(method, shape, Settings(BITS, 0, 1.0, None, 1e-4))
            kept = torch.load(file, weights_only=False)
            learner.load_state_dict(kept["state_dict"])
            own[i].set_title(f"{method}\n{kept['global_step']:,}", fontsize=9)
            shown[own[i]] = landscape.model_density(learner, data)
            if method in POWERS:
                power = POWERS[method][-1]
                learner.energy.rest[-1].weight.mul_(power)
                below = axes[rows * shapes.index(shape) + 1, i]
                below.set_title(f"exp(-{power} E)", fontsize=9)
                shown[below] = landscape.model_density(learner, data)
    for axis, density in shown.items():
        axis.imshow(density.numpy(), origin="lower", vmin=0, vmax=highest_colour(density))
    figure.savefig(folder / "densities.png", dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lengths", type=int, nargs="+", default=[1000, 3000, 10_000], help="multiples of 500")
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=["2spirals"])
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *EXTRAS], default=list(METHODS))
    parser.add_argument("--matmul_precision", choices=["highest", "medium"], default="highest")
    parser.add_argument("--compile_chains", action="store_true", help="of PCD")
    parser.add_argument("--folder", type=Path, help="by default runs/rm_lengths, and another for medium precision")
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    if any(length < 500 or length % 500 for length in args.lengths):
        parser.error(f"--lengths are {args.lengths}, but must be multiples of 500, after which checkpoints are written")
    folder = args.folder or Path("runs/rm_lengths" + ("_medium" if args.matmul_precision == "medium" else ""))
    jobs = {
        f"{method}--{shape}--{seed}--{length}": (method, shape, seed, length)
        for shape in args.shapes
        for length in sorted(args.lengths)
        for seed in args.seeds
        for method in args.methods
    }
    how = args.matmul_precision, args.compile_chains, folder
    run_missing(folder, jobs, lambda job: train(*jobs[job], *how), args.part)
    colder = [f"{key}, exp(-{power} E)" for power in (4, 7) for key in ("exponential", "linear")]
    for shape, key in product(args.shapes, ("exponential", "linear", *colder, "objective", "seconds")):
        head = " | ".join(f"{length:,}" for length in args.lengths)
        print(f"\n{shape}, {key}\n\n| method | {head} |\n|{'---|' * (len(args.lengths) + 1)}")
        for method in args.methods:
            cells = [cell(folder, f"{method}--{shape}--*--{length}", key) for length in args.lengths]
            print(f"| {method} | {' | '.join(cells)} |")
    curves(folder, args.shapes, args.methods, args.lengths, args.seeds)
    densities(folder, args.shapes, args.methods, args.seeds[0])


if __name__ == "__main__":
    main()
