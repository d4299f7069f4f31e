"""Table 1 of Liu et al. (2023): how well each estimator fits the seven two-dimensional sets in 32-bit Gray code.

    python papers/rm_synthetic.py               # trains what is missing, prints the tables, draws the heat maps
    python papers/rm_synthetic.py --part 0/2 & python papers/rm_synthetic.py --part 1/2
    python papers/rm_synthetic.py --bits 256 --seeds 0 --methods "RMwGGIS advanced" RMwRAND      # Figure 2
    python papers/rm_synthetic.py --beta 4      # scores what is there again, by samples of exp(-4 E)
    python papers/rm_synthetic.py --gain 5 --rate 1e-3 --weight_decay 0 --methods "RMwGGIS basic, bounded"

The last command has the settings of `configs/rm_*.yaml` with `--iterations 8000`, and nearly those of `rm_256bits.yaml`
with `--bits 256 --iterations 60000 --points 2000000`; the others those of the authors' program: Adam at 5e-4
(checkerboard and RMwRAND 1e-4), weight decay 1e-4, gradients clipped to norm 1, batch 128, s = 10, and 4,000 samples by
20 sweeps of Gibbs sampling from random bits; fewer iterations. MMD^2 is the U-statistic, by the paper's kernel d - H, H
the Hamming distance, which sees the bits' means alone, and by exp(-H / d). A perfect model has values around 0. Beyond
32 bits there are no samples, as no Gibbs chain gets anywhere, and the batch is 256. Results are kept in a folder, a
file for each run and one with its parameters. A run that was interrupted goes on from its last 500 iterations, and
counts the seconds after them alone.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Iterable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import matplotlib.pyplot as plt
import pytorch_lightning as pl
import torch
from kept import Result, cell, fit_on, run_missing

from ebmlab.callbacks import EnergyLandscape
from ebmlab.datamodules import GrayCode2D
from ebmlab.drawing.plane import highest_colour
from ebmlab.energies import MLP
from ebmlab.evaluation import hamming_mmd
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

SHAPES = ("2spirals", "8gaussians", "circles", "moons", "pinwheel", "swissroll", "checkerboard")
SAMPLES, SWEEPS, POINTS = 4000, 20, 100_000
ESTIMATORS = {
    "ratio matching": Exact("exponential"),
    "RMwGGIS basic": GradientGuided(10, False, objective="exponential"),
    "RMwGGIS advanced": GradientGuided(10, True, objective="exponential"),
    "RMwRAND": UniformSubset(10, "exponential"),
    "ratio matching, bounded": Exact("bounded"),
    "RMwGGIS basic, bounded": GradientGuided(10, False, objective="bounded"),
    "energy discrepancy": EnergyDiscrepancy(32, 0.1),
}
METHODS = (*ESTIMATORS, "PCD, GWG")
EXTRAS = {  # run only when they are named
    "RMwRAND, bounded": UniformSubset(10, "bounded"),
    **{
        f"RMwGGIS basic, bounded, s = {size}": GradientGuided(size, False, objective="bounded")
        for size in (5, 20, 50, 100)
    },
}


class Settings(NamedTuple):
    """What the runs of one call share; None for the authors' rate."""

    bits: int
    iterations: int
    gain: float
    rate: float | None
    weight_decay: float
    points: int = POINTS

    def __str__(self) -> str:
        published = (self.gain, self.rate, self.weight_decay) == (1, None, 1e-4)
        name = f"{self.iterations}" + ("" if published else f"--{self.gain:g}-{self.rate}-{self.weight_decay:g}")
        return name + ("" if self.points == POINTS else f"--{self.points}")


def make_learner(method: str, shape: str, settings: Settings) -> Learner:
    published = 1e-4 if shape == "checkerboard" or method == "RMwRAND" else 5e-4
    lr = published if settings.rate is None else settings.rate
    adam = partial(torch.optim.Adam, lr=lr, weight_decay=settings.weight_decay)
    energy = MLP(settings.bits, gain=settings.gain)
    if method == "PCD, GWG":
        chains = ReplayBuffer(5000, reinitialize=0.05)
        return ContrastiveDivergence(energy, GWG(), start=chains, num_steps=20, optimizer=adam)
    return RatioMatching(energy, (ESTIMATORS | EXTRAS)[method], optimizer=adam)


def run(method: str, shape: str, seed: int, settings: Settings, beta: float, weights: Path) -> Result:
    """Trains a model, unless its weights are kept, and scores samples of exp(-beta E)."""
    pl.seed_everything(seed)
    bits, seconds = settings.bits, {}
    batch = 128 if bits == 32 else 256
    data = GrayCode2D(shape, bits, num_samples=settings.points, batch_size=batch, seed=seed)
    learner = make_learner(method, shape, settings)
    if not weights.exists():
        begin = time.process_time()
        fit_on(learner, data, settings.iterations, weights.with_suffix(""), 500, gradient_clip_val=1.0)
        seconds = {"seconds": time.process_time() - begin}
        torch.save(learner.energy.state_dict(), weights)
    learner.energy.load_state_dict(torch.load(weights))
    energy = learner.energy.eval().requires_grad_(False)
    energy.rest[-1].weight.mul_(beta)  # the bias does not change the law
    return seconds | score(energy, data)


def score(energy: MLP, data: GrayCode2D) -> Result:
    """How far samples are from the data, and the exponential objective on data; beyond 32 bits the latter alone."""
    real = data.to_states(data.raw("train"))[torch.randperm(len(data.raw("train")))[:SAMPLES]]
    if real.shape[1] > 32:
        return {"objective": float(Exact("exponential").loss(energy, real[:100]))}
    samples, _ = Gibbs().sample(energy, energy.domain.random(SAMPLES), SWEEPS * real.shape[1])
    return {
        "linear": float(hamming_mmd(samples, real, kernel="linear", unbiased=True)),
        "exponential": float(hamming_mmd(samples, real, kernel="exponential", unbiased=True)),
        "objective": float(Exact("exponential").loss(energy, real)),
    }


def table(folder: Path, methods: Iterable[str], settings: Settings, key: str) -> str:
    """Mean and range over the seeds with results, one row per method."""
    lines = ["| method | " + " | ".join(SHAPES) + " |", "|---" * (len(SHAPES) + 1) + "|"]
    for method in methods:
        cells = [cell(folder, f"{method}--{shape}--*--{settings}", key) for shape in SHAPES]
        lines.append(f"| {method} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


@torch.no_grad()
def heat_maps(folder: Path, settings: Settings, seed: int, shapes: Sequence[str]) -> None:
    """Draws the models' densities in the plane, one row per method with results."""
    landscape = EnergyLandscape(num_samples=0)
    there = [m for m in (*METHODS, *EXTRAS) if any(folder.glob(f"{m}--*--{seed}--{settings}.pt"))]
    figure, axes = plt.subplots(
        len(there) + 1, len(shapes), figsize=(2 * len(shapes), 2 * len(there) + 2), layout="constrained", squeeze=False
    )
    for i, method in enumerate(["data", *there]):
        for axis, shape in zip(axes[i], shapes, strict=True):
            axis.set(xticks=[], yticks=[])
            axis.set_title(shape if i == 0 else "")
            axis.set_ylabel(method if shape == shapes[0] else "")
            data, path = GrayCode2D(shape, settings.bits), folder / f"{method}--{shape}--{seed}--{settings}.pt"
            if i == 0:
                density = landscape.data_density(data, torch.Generator().manual_seed(0))
            elif path.exists():
                learner = make_learner(method, shape, settings)
                learner.energy.load_state_dict(torch.load(path))
                density = landscape.model_density(learner, data)
            else:
                continue
            axis.imshow(density.numpy(), origin="lower", vmin=0, vmax=highest_colour(density))
    figure.savefig(folder / "heat_maps.png", dpi=80)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=1000)
    parser.add_argument("--bits", type=int, default=32)
    parser.add_argument("--gain", type=float, default=1.0, help="of the first layer's initial weights")
    parser.add_argument("--rate", type=float, help="of learning; by default the authors'")
    parser.add_argument("--weight_decay", type=float, default=1e-4)
    parser.add_argument("--points", type=int, default=POINTS, help="to train on")
    parser.add_argument("--beta", type=float, default=1.0, help="inverse temperature of the samples")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--methods", nargs="+", choices=[*METHODS, *EXTRAS], default=METHODS)
    parser.add_argument("--shapes", nargs="+", choices=SHAPES, default=SHAPES)
    parser.add_argument("--folder", type=Path, help="by default runs/rm_synthetic_<bits>")
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    folder = args.folder or Path(f"runs/rm_synthetic_{args.bits}")
    scored = folder if args.beta == 1 else folder / f"beta_{args.beta:g}"
    settings = Settings(args.bits, args.iterations, args.gain, args.rate, args.weight_decay, args.points)
    jobs = {
        f"{method}--{shape}--{seed}--{settings}": (method, shape, seed, settings, args.beta)
        for seed in args.seeds
        for shape in args.shapes
        for method in args.methods
    }
    run_missing(scored, jobs, lambda job: run(*jobs[job], folder / f"{job}.pt"), args.part)
    for key in ("linear", "exponential", "objective", "seconds") if args.bits == 32 else ("objective", "seconds"):
        print(f"\n{key}\n\n{table(scored, args.methods, settings, key)}")
    heat_maps(folder, settings, args.seeds[0], args.shapes)


if __name__ == "__main__":
    main()
