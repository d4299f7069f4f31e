"""Table 1 of Pynadath et al. (2024), MNIST: RBMs learnt by persistent CD with four samplers, equal budgets.

    EBMLAB_DATA=... python benchmarks/rbm_learning.py        # trains what is missing, then prints the table

500 hidden units, Adam 1e-3, 100 chains, 10 steps an iteration (a step of each sampler asks for one gradient, or one
pair of conditionals); DMALA 0.2, ACS with beta_max 0.9 and cycles of 8, as there. The test log-likelihood is
by AIS with block Gibbs: 100,000 temperatures as there, 100 chains (500 there). CPU seconds are those of training.
Trained weights are kept beside the results, so that another number of temperatures asks for the AIS alone.
"""

from __future__ import annotations

import argparse
import time
from functools import partial
from pathlib import Path

import pytorch_lightning as pl
import torch
from kept import Result, cell, fit, run_missing

from ebmlab.callbacks import DataMean
from ebmlab.datamodules import MNIST
from ebmlab.energies import RBM, Bernoulli
from ebmlab.evaluation import ais
from ebmlab.learners import ContrastiveDivergence, PersistentACS, ReplayBuffer
from ebmlab.samplers import DMALA, GWG, BlockGibbs

SAMPLERS = {
    "block Gibbs": BlockGibbs,
    "GWG": GWG,
    "DMALA": partial(DMALA, 0.2),
    "ACS": partial(PersistentACS, cycle_length=8, tune_every=50),
}
CHAINS = 100


def train(name: str, seed: int, iterations: int) -> tuple[RBM, float]:
    """Trains an RBM; returns it and the seconds of training."""
    pl.seed_everything(seed)
    data = MNIST(batch_size=100, binarize=True, seed=seed)
    chains = ReplayBuffer(100, initial="mean")
    adam = partial(torch.optim.Adam, lr=1e-3)
    energy = RBM(784, 500)
    learner = ContrastiveDivergence(energy, SAMPLERS[name](), chains, num_steps=10, optimizer=adam)
    begin = time.process_time()
    fit(learner, data, iterations, callbacks=[DataMean()])
    return energy, time.process_time() - begin


def run(name: str, seed: int, iterations: int, temperatures: int, folder: Path) -> Result:
    """Trains one RBM, unless its weights are kept, and estimates the likelihood of the test images."""
    weights = folder / f"{name}--{seed}--{iterations}.pt"
    if not weights.exists():
        energy, seconds = train(name, seed, iterations)
        torch.save({"seconds": seconds, **energy.state_dict()}, weights)
    kept = torch.load(weights)
    seconds = kept.pop("seconds")
    energy = RBM(784, 500).eval().requires_grad_(False)
    energy.load_state_dict(kept)
    data = MNIST(binarize=True)
    base = Bernoulli(data.to_states(data.raw("train")).flatten(1).mean(0))
    torch.manual_seed(seed)
    result = ais(energy, BlockGibbs(), CHAINS, temperatures, base)
    test = energy(data.to_states(data.raw("test")).flatten(1)).double().mean()
    return {
        "likelihood": -float(test) - result.log_z,
        "error": result.std_error,
        "ess": result.ess,
        "seconds": seconds,
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--iterations", type=int, default=12_000)
    parser.add_argument("--temperatures", type=int, default=100_000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[0])
    parser.add_argument("--samplers", nargs="+", choices=SAMPLERS, default=list(SAMPLERS))
    parser.add_argument("--folder", type=Path, default=Path("runs/rbm_learning"))
    parser.add_argument("--part", default="0/1", help="i/n: only every n-th of the runs, from the i-th")
    args = parser.parse_args()
    jobs = {
        f"{name}--{seed}--{args.iterations}--{args.temperatures}": (name, seed, args.iterations, args.temperatures)
        for seed in args.seeds
        for name in args.samplers
    }
    run_missing(args.folder, jobs, lambda job: run(*jobs[job], args.folder), args.part)
    print("\n| sampler | test log-likelihood | standard error | effective chains | CPU seconds of training |")
    print("|---|---|---|---|---|")
    for name in SAMPLERS:
        keys = ("likelihood", "error", "ess", "seconds")
        print(
            f"| {name} | "
            + " | ".join(cell(args.folder, f"{name}--*--{args.iterations}--{args.temperatures}", key) for key in keys)
            + " |"
        )


if __name__ == "__main__":
    main()
