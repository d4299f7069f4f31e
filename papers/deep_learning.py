"""Deep EBMs on dynamically binarised MNIST by persistent CD with DMALA and with ACS, as they train longer.

    EBMLAB_DATA=... python papers/deep_learning.py        # goes on where it stopped, then prints the table

A ResNet with 16 channels over the law of the data's means, as in `configs/ebm_dynamic_mnist_small.yaml`, but all of the
50 chains move in every iteration, 10 steps. With a buffer of 1,000 each moves once in 20, and the model gets mass where
no chain has been. Adam, averaged weights.

After each of `--lengths` iterations the likelihood of the test images is estimated by replica exchange between `RUNGS`
temperatures, from the model to the law of the data's means. Half of the chains begin at test images and half at the
means; a number is to be trusted where both find the same log Z (`exchange_log_z`). CPU seconds are those of training
since the length before, and of the estimate.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit_on, run_missing
from pytorch_lightning.callbacks import EMAWeightAveraging

from ebmlab.callbacks import DataMean
from ebmlab.datamodules import MNIST
from ebmlab.energies import Bernoulli, ResNet
from ebmlab.evaluation import exchange_log_z
from ebmlab.io.files import whole
from ebmlab.learners import ContrastiveDivergence, PersistentACS, ReplayBuffer
from ebmlab.samplers import DMALA, TrajectoryTempered

SAMPLERS = {
    "DMALA": partial(DMALA, 0.15),
    "ACS": partial(PersistentACS, balance_max=0.8, cycle_length=20, tune_every=100, tuning_steps=100),
}
CHAINS = 50  # of training, each of which moves in every iteration
REPLICAS, RUNGS = 20, 12  # of the estimate: chains from each end, and temperatures below 1


def train(name: str, seed: int, rate: float, iterations: int, folder: Path) -> Result:
    """Trains on to a number of iterations; keeps the averaged weights."""
    pl.seed_everything(seed)
    optimizer = partial(torch.optim.Adam, lr=rate)
    warm = partial(torch.optim.lr_scheduler.LinearLR, start_factor=0.01, total_iters=200)
    learner = ContrastiveDivergence(
        ResNet((1, 28, 28), channels=16),
        SAMPLERS[name](),
        start=ReplayBuffer(CHAINS, init="mean"),
        num_steps=10,
        optimizer=optimizer,
        lr_scheduler=warm,
        lr_interval="step",
    )
    begin = time.process_time()
    data = MNIST(batch_size=50, binarize="dynamic", seed=seed)
    callbacks = [DataMean(), EMAWeightAveraging(decay=0.99)]
    fit_on(learner, data, iterations, folder / f"{name}--{seed}--{rate:g}", 250, callbacks, gradient_clip_val=10.0)
    with whole(folder / f"{name}--{seed}--{rate:g}--{iterations}.pt") as temporary:
        torch.save(learner.energy.state_dict(), temporary)
    return {"seconds": time.process_time() - begin}


@torch.no_grad()
def likelihood(file: Path, seed: int, steps: int) -> Result:
    """The test images' log-likelihood, and whether chains from both ends agree on it."""
    energy = ResNet((1, 28, 28), channels=16).eval().requires_grad_(False)
    energy.load_state_dict(torch.load(file))
    torch.manual_seed(seed)
    data = MNIST(binarize="dynamic")
    x = data.to_states(data.raw("test"))
    base = Bernoulli(data.to_states(data.raw("train")).mean(0))
    value = -torch.cat([energy(part) for part in x.split(1000)]).double().mean().item()
    begin = time.process_time()
    few = x[torch.randperm(len(x))[:REPLICAS]]
    found = exchange_log_z(
        energy,
        TrajectoryTempered(DMALA(0.15), []),
        base=base,
        x=few,
        num_steps=steps,
        num_rungs=RUNGS,
        schedule="adaptive",
        progress=True,
    )
    return {
        "likelihood": value - found.log_z,
        "error": found.std_error,
        "gap": found.gap,
        "gap_error": found.gap_error,
        "swaps": float(found.swap_rates.min()),
        "trusted": float(found.trusted),
        "estimate": time.process_time() - begin,
    }


COLUMNS = {
    "log-likelihood": "likelihood",
    "standard error": "error",
    "gap of both starts": "gap",
    "its standard error": "gap_error",
    "smallest swap rate": "swaps",
    "trusted": "trusted",
    "CPU seconds of training": "seconds",
    "of the estimate": "estimate",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--lengths", type=int, nargs="+", default=[750, 3000, 6000], help="iterations, multiples of 250"
    )
    parser.add_argument("--rate", type=float, default=3e-4, help="of Adam, after the first 200 iterations")
    parser.add_argument("--steps", type=int, default=3000, help="of each replica, for the likelihood")
    parser.add_argument("--seeds", type=int, nargs="+", default=[0, 1, 2])
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--folder", type=Path, default=Path("runs/deep_learning"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    runs = [(name, seed, length) for length in args.lengths for seed in args.seeds for name in args.samplers]
    models = {f"{name}--{seed}--{args.rate:g}--{length}": (name, seed, length) for name, seed, length in runs}

    def training(model: str) -> Result:
        name, seed, length = models[model]
        return train(name, seed, args.rate, length, args.folder)

    def estimate(key: str) -> Result:
        model = key.removesuffix(f"--{args.steps}")
        return likelihood(args.folder / f"{model}.pt", models[model][1], args.steps)

    run_missing(args.folder, models, training, args.part)
    run_missing(args.folder, [f"{model}--{args.steps}" for model in models], estimate, args.part)
    print(f"\n| sampler, iterations | {' | '.join(COLUMNS)} |\n|{'---|' * (len(COLUMNS) + 1)}")
    for name in args.samplers:
        for length in args.lengths:
            model = f"{name}--*--{args.rate:g}--{length}"
            cells = [
                cell(args.folder, model if key == "seconds" else f"{model}--{args.steps}", key, digits=4)
                for key in COLUMNS.values()
            ]
            print(f"| {name}, {length} | {' | '.join(cells)} |")


if __name__ == "__main__":
    main()
