"""`LowRankStart` for RBMs: does it help where data have few strong modes, as Bereux et al. (2025, ICLR) say?

    EBMLAB_DATA=... python papers/low_rank_start.py      # goes on where it stopped, prints the tables

Three data sets: two clusters of 200 bits of weights 0.8 and 0.2, along one direction; five clusters in a plane; images
of the digits 0 and 1. RBMs have 16 hidden units, so that log Z is an exact sum. They learn by PCD with 200 chains of 10
steps an update: from the data's means with small weights, as usual, and from the low-rank law with its own chains. The
chains are moved by block Gibbs, or by replica exchange of 5 temperatures. Of two rates of Adam the one with the better
final likelihood of validation data counts, for each seed.
"""

from __future__ import annotations

import argparse
import json
import statistics
from collections.abc import Callable
from itertools import product
from pathlib import Path

import torch
from kept import Result, run_missing
from torch import Tensor

from ebmlab.datamodules import MNIST
from ebmlab.energies import RBM
from ebmlab.evaluation import exact_log_z, exact_samples
from ebmlab.learners.low_rank import LowRank
from ebmlab.samplers import BlockGibbs, Sampler, Tempered

HIDDEN, CHAINS, STEPS, BATCH = 16, 200, 10, 200
LOOKS = (0, 100, 1000, 2000)
RATES = (0.001, 0.01)
STARTS = ("usual", "low rank")
SAMPLERS: dict[str, Callable[[], Sampler]] = {
    "block Gibbs": BlockGibbs,
    "tempered": lambda: Tempered(BlockGibbs(), num_temperatures=5),
}


def clusters(weights: list[float], angles: list[float], pull: float, seed: int) -> tuple[Tensor, Tensor, Tensor]:
    """5,000 + 1,000 + 1,000 states of 200 bits about patterns in the plane of two random signs."""
    generator = torch.Generator().manual_seed(seed)
    signs = torch.randint(0, 2, (2, 200), generator=generator).mul(2).sub(1).float()
    turns = torch.tensor(angles)
    logits = pull * torch.stack([turns.cos(), turns.sin()], 1) @ signs
    which = torch.multinomial(torch.tensor(weights), 7000, replacement=True, generator=generator)
    x = torch.bernoulli(logits.sigmoid()[which], generator=generator)
    return x[:5000], x[5000:6000], x[6000:]


def zeros_and_ones(seed: int) -> tuple[Tensor, Tensor, Tensor]:
    data = MNIST(batch_size=100, binarize=True)
    parts = []
    for split in ("train", "test"):
        x = data.to_states(data.raw(split)).flatten(1).float()
        parts.append(x[data.labels(split) < 2])
    order = torch.randperm(len(parts[0]), generator=torch.Generator().manual_seed(seed))
    return parts[0][order[1000:]], parts[0][order[:1000]], parts[1]


DATA = {
    "two clusters": (1, lambda seed: clusters([0.8, 0.2], [0.0, torch.pi], 2.0, seed)),
    "five clusters": (2, lambda seed: clusters([0.4, 0.25, 0.15, 0.12, 0.08], [0.0, 1.2, 2.5, 3.8, 5.0], 2.0, seed)),
    "MNIST, 0 and 1": (2, zeros_and_ones),
}


def usual(x: Tensor) -> tuple[RBM, Tensor]:
    rbm, mean = RBM(x.shape[1], HIDDEN), x.mean(0).clamp(0.5 / len(x), 1 - 0.5 / len(x))
    with torch.no_grad():
        rbm.W.normal_(0, 0.01)
        rbm.b_v.copy_(mean.logit())
        rbm.b_h.zero_()
    return rbm, torch.bernoulli(mean.expand(CHAINS, -1))


def score(rbm: RBM, x: Tensor, log_z: float) -> float:
    with torch.no_grad():
        return -float(rbm(x).double().mean()) - log_z


def job_name(*job: object) -> str:
    return "--".join(map(str, job))


def run(seed: int, name: str, start: str, sampler: str, rate: float) -> Result:
    """Log-likelihoods of test and validation data at each look, in nats."""
    rank, make = DATA[name]
    train, val, test = make(seed)
    torch.manual_seed(seed)
    if start == "usual":
        rbm, chains = usual(train)
    else:
        law = LowRank(train, None, rank=rank, num_hidden=HIDDEN, seed=seed)
        law.fit()
        rbm, chains = RBM(train.shape[1], HIDDEN), law.sample(CHAINS)
        law.write_(rbm)
    adam, found, moves = torch.optim.Adam(rbm.parameters(), lr=rate), {}, SAMPLERS[sampler]()
    for iteration in range(max(LOOKS) + 1):
        if iteration in LOOKS:
            log_z = float(exact_log_z(rbm))
            found |= {f"test {iteration}": score(rbm, test, log_z), f"val {iteration}": score(rbm, val, log_z)}
        chains = moves.last_states(rbm, chains, STEPS).detach()
        cold = chains if chains.dim() == 2 else chains[:, 0]
        adam.zero_grad()
        (rbm(train[torch.randint(len(train), (BATCH,))]).mean() - rbm(cold).mean()).backward()
        adam.step()
    with torch.no_grad():
        axis = torch.linalg.svd(train - train.mean(0), full_matrices=False)[2][0]
        cut = float((train @ axis).mean())
        for who, x in (("data", train), ("chains", cold), ("law", exact_samples(rbm, 2000))):
            found[f"share {who}"] = float((x @ axis > cut).float().mean())
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2])
    parser.add_argument("--folder", type=Path, default=Path("runs/low_rank_start"))
    given = parser.parse_args()
    torch.set_num_threads(1)
    grid = list(product(given.seeds, DATA, STARTS, SAMPLERS, RATES))
    jobs = {job_name(*job): job for job in grid}
    run_missing(given.folder, jobs, lambda job: run(*jobs[job]), "0/1")
    head = " | ".join(f"{n} updates" for n in LOOKS)
    print(f"\n| data | start | chains | rate | {head} |\n|{'---|' * (4 + len(LOOKS))}")
    for name, start, sampler in product(DATA, STARTS, SAMPLERS):
        best = [best_of(given.folder, name, start, sampler, seed) for seed in given.seeds]
        cells = [spread([found[f"test {n}"] for _, found in best]) for n in LOOKS]
        print(f"| {name} | {start} | {sampler} | {', '.join(f'{rate:g}' for rate, _ in best)} | {' | '.join(cells)} |")
    print("\n| data | start | chains | in the data | in the chains | in exact samples |\n|---|---|---|---|---|---|")
    for name, start, sampler in product(DATA, STARTS, SAMPLERS):
        best = [best_of(given.folder, name, start, sampler, seed) for seed in given.seeds]
        cells = [spread([found[f"share {who}"] for _, found in best]) for who in ("data", "chains", "law")]
        print(f"| {name} | {start} | {sampler} | {' | '.join(cells)} |")


def best_of(folder: Path, name: str, start: str, sampler: str, seed: int) -> tuple[float, Result]:
    """The rate with the best likelihood of validation data in the end, and what it found."""
    paths = {rate: folder / f"{job_name(seed, name, start, sampler, rate)}.json" for rate in RATES}
    found = [(rate, json.loads(path.read_text())) for rate, path in paths.items()]
    return max(found, key=lambda pair: pair[1][f"val {LOOKS[-1]}"])


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
