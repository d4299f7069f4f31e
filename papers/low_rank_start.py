"""`LowRankStart` for RBMs: does it help where data have few strong modes, as Bereux et al. (2025, ICLR) say?

    EBMLAB_DATA=... python papers/low_rank_start.py      # goes on where it stopped, prints the tables

Three data sets: two clusters of 200 bits of weights 0.8 and 0.2, along one direction; five clusters in a plane; images
of the digits 0 and 1. RBMs have 16 hidden units, so that log Z is an exact sum. They learn by PCD with 200 chains of 10
steps of block Gibbs an update, and plain gradient descent at 0.01: from the data's means with small weights, as usual,
and from the low-rank law with its own chains.
"""

from __future__ import annotations

import argparse
import json
import statistics
from itertools import product
from pathlib import Path

import torch
from kept import Result, run_missing
from torch import Tensor

from ebmlab.datamodules import MNIST
from ebmlab.energies import RBM
from ebmlab.evaluation import exact_log_z, exact_samples
from ebmlab.learners.low_rank import LowRank
from ebmlab.samplers import BlockGibbs

HIDDEN, CHAINS, STEPS, BATCH = 16, 200, 10, 200
LOOKS = (0, 100, 300, 1000)
RATE = 0.01
STARTS = ("usual", "low rank")


def clusters(weights: list[float], angles: list[float], pull: float, seed: int) -> tuple[Tensor, Tensor]:
    """5,000 states to train on and 2,000 to test, of 200 bits about patterns in the plane of two random signs."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (2, 200), generator=generator).mul(2).sub(1).float()
    turns = torch.tensor(angles)
    logits = pull * torch.stack([turns.cos(), turns.sin()], 1) @ signs
    which = torch.multinomial(torch.tensor(weights), 7000, replacement=True, generator=generator)
    x = torch.bernoulli(logits.sigmoid()[which], generator=generator)
    return x[:5000], x[5000:]


def zeros_and_ones(seed: int) -> tuple[Tensor, Tensor]:
    data = MNIST(batch_size=100, binarize=True)
    parts = []
    for split in ("train", "test"):
        x = data.to_states(data.raw(split)).flatten(1).float()
        parts.append(x[data.labels(split) < 2])
    return parts[0], parts[1]


DATA = {
    "two clusters": (1, lambda seed: clusters([0.8, 0.2], [0.0, torch.pi], 2.0, seed)),
    "five clusters": (2, lambda seed: clusters([0.4, 0.25, 0.15, 0.12, 0.08], [0.0, 1.2, 2.5, 3.8, 5.0], 2.0, seed)),
    "MNIST, 0 and 1": (2, zeros_and_ones),
}


def score(rbm: RBM, x: Tensor, log_z: float) -> float:
    with torch.no_grad():
        return -float(rbm(x).double().mean()) - log_z


def job_name(*job: object) -> str:
    return "--".join(map(str, job))


def run(seed: int, name: str, start: str) -> Result:
    """Log-likelihoods of test data at each look, in nats, and shares of states on one side of the first direction."""
    rank, make = DATA[name]
    train, test = make(seed)
    torch.manual_seed(seed)
    rbm, mean = RBM(train.shape[1], HIDDEN), train.mean(0)
    if start == "usual":
        rbm.set_base(mean)
        chains = torch.bernoulli(mean.expand(CHAINS, -1))
    else:
        law = LowRank(train, None, rank=rank, num_hidden=HIDDEN, seed=seed)
        law.fit()
        law.write_(rbm)
        chains = law.sample(CHAINS)
    descent, found, sampler = torch.optim.SGD(rbm.parameters(), lr=RATE), {}, BlockGibbs()
    for iteration in range(max(LOOKS) + 1):
        if iteration in LOOKS:
            log_z = float(exact_log_z(rbm))
            found[f"test {iteration}"] = score(rbm, test, log_z)
        chains = sampler.last_states(rbm, chains, STEPS).detach()
        descent.zero_grad()
        (rbm(train[torch.randint(len(train), (BATCH,))]).mean() - rbm(chains).mean()).backward()
        descent.step()
    with torch.no_grad():
        axis = torch.linalg.svd(train - train.mean(0), full_matrices=False)[2][0]
        cut = float((train @ axis).mean())
        for who, x in (("data", train), ("chains", chains), ("law", exact_samples(rbm, 2000))):
            found[f"share {who}"] = float((x @ axis > cut).float().mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/low_rank_start"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    grid = list(product(given.seeds, DATA, STARTS))
    jobs = {job_name(*job): job for job in grid}
    run_missing(given.folder, jobs, lambda job: run(*jobs[job]), "0/1")
    head = " | ".join(f"{n} updates" for n in LOOKS)
    print(f"\n| data | start | {head} |\n|{'---|' * (2 + len(LOOKS))}")
    for name, start in product(DATA, STARTS):
        found = results(given.folder, name, start, given.seeds)
        cells = [spread([each[f"test {n}"] for each in found]) for n in LOOKS]
        print(f"| {name} | {start} | {' | '.join(cells)} |")
    print("\n| data | start | chains | exact samples |\n|---|---|---|---|")
    for name, start in product(DATA, STARTS):
        found = results(given.folder, name, start, given.seeds)
        errors = [[abs(each[f"share {who}"] - each["share data"]) for each in found] for who in ("chains", "law")]
        cells = [spread(of_all) for of_all in errors]
        print(f"| {name} | {start} | {' | '.join(cells)} |")


def results(folder: Path, name: str, start: str, seeds: list[int]) -> list[Result]:
    return [json.loads((folder / f"{job_name(seed, name, start)}.json").read_text()) for seed in seeds]


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
