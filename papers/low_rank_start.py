"""A low-rank start for RBMs, as fastrbm's (Bereux et al. 2025, ICLR): does it help where data have few strong modes?

    EBMLAB_DATA=... python papers/low_rank_start.py      # goes on where it stopped, prints the table

The weights of an RBM are first confined to the d leading directions of the data, W = U A. Energies then depend on a
state through m = U'v and the base law alone, so that the likelihood is an integral over d numbers. The law of m under
the base is a saddle-point approximation on a grid, and A, the biases and a linear tilt climb the likelihood by Adam.
fastrbm does the same with a convex relaxation, the restricted Coulomb machine; here the RBM itself is fitted.

Three data sets: two clusters of 200 bits of weights 0.8 and 0.2, along one direction; five clusters in a plane; images
of the digits 0 and 1. RBMs have 16 hidden units, so that log Z is an exact sum. From each start they learn by PCD-10
with 200 chains: from the data's means with small weights, as usual, and from the low-rank law with its own chains. Of
two rates the one with the best final likelihood of validation data counts, for each start and seed.
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
from torch.nn.functional import softplus

from ebmlab.datamodules import MNIST
from ebmlab.energies import RBM
from ebmlab.evaluation import exact_log_z, exact_samples
from ebmlab.samplers import BlockGibbs

HIDDEN, CHAINS, STEPS, BATCH = 16, 200, 10, 200
LOOKS = (0, 100, 1000, 5000)
RATES = (0.001, 0.01)
STARTS = ("usual", "low rank")


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


class LowRank:
    """The law exp(theta.v + sum_j softplus(A_j.m + b_j) + c.m) of bits v with m = U'v.

    Args:
        x: data, `(B, N)`.
        rank: directions d.
        cells: of the grid.
    """

    def __init__(self, x: Tensor, rank: int, cells: int = 2500) -> None:
        mean = x.double().mean(0).clamp(0.5 / len(x), 1 - 0.5 / len(x))
        self.theta = mean.logit()
        self.axes = torch.linalg.svd(x.double() - x.double().mean(0), full_matrices=False)[2][:rank].T
        m = x.double() @ self.axes
        self.data = m
        margin = (m.amax(0) - m.amin(0)) / 8
        ends = torch.stack([m.amin(0) - margin, m.amax(0) + margin], 1).tolist()
        lines = [torch.linspace(a, b, round(cells ** (1 / rank))).double() for a, b in ends]
        self.grid = torch.cartesian_prod(*lines).view(-1, rank)
        self.dual, self.log_base = self.saddle(self.grid)
        self.log_cell = sum(float((line[1] - line[0]).log()) for line in lines)
        self.a = (torch.randn(HIDDEN, rank).double() / m.std(0)).requires_grad_()
        self.b = (-(self.a.detach() * m[torch.randint(len(m), (HIDDEN,))]).sum(1)).requires_grad_()
        self.c = torch.zeros(rank).double().requires_grad_()

    def saddle(self, m: Tensor) -> tuple[Tensor, Tensor]:
        """The tilts `(G, d)` under which the base has mean m, and the log-density of m under the base, `(G,)`.

        Daniels (1954): log p(m) = K(t) - t.m - log det(2 pi K''(t)) / 2, with K'(t) = m.
        """
        t = torch.zeros_like(m)
        for _ in range(40):
            p = (self.theta + t @ self.axes.T).sigmoid()
            miss = m - p @ self.axes
            bend = torch.einsum("gn,na,nb->gab", p * (1 - p), self.axes, self.axes)
            move = torch.linalg.solve(bend + 1e-9 * torch.eye(m.shape[1]).double(), miss)
            t = t + move / (move @ self.axes.T).abs().amax(1, keepdim=True).clamp(min=1)
        p = (self.theta + t @ self.axes.T).sigmoid()
        bend = torch.einsum("gn,na,nb->gab", p * (1 - p), self.axes, self.axes)
        rise = softplus(self.theta + t @ self.axes.T).sum(1) - softplus(self.theta).sum()
        log_density = rise - (t * m).sum(1) - torch.logdet(2 * torch.pi * bend) / 2
        there = (m - p @ self.axes).abs().amax(1) < 1e-6
        return t, log_density.masked_fill(~there, -torch.inf)

    def gain(self, m: Tensor) -> Tensor:
        """The logarithm of the law's density over the base's, up to a constant, at `(B, d)`."""
        return softplus(m @ self.a.T + self.b).sum(1) + m @ self.c

    def log_cells(self) -> Tensor:
        return self.log_base + self.gain(self.grid) + self.log_cell

    def fit(self, iterations: int = 2000) -> None:
        adam = torch.optim.Adam([self.a, self.b, self.c], lr=0.03)
        for _ in range(iterations):
            adam.zero_grad()
            (self.log_cells().logsumexp(0) - self.gain(self.data).mean()).backward()
            adam.step()

    @torch.no_grad()
    def rbm(self) -> RBM:
        rbm = RBM(len(self.theta), HIDDEN)
        rbm.W.copy_(self.axes @ self.a.T)
        rbm.b_v.copy_(self.theta + self.axes @ self.c)
        rbm.b_h.copy_(self.b)
        return rbm

    @torch.no_grad()
    def sample(self, n: int) -> Tensor:
        which = torch.multinomial(self.log_cells().softmax(0), n, replacement=True)
        return torch.bernoulli((self.theta + self.dual[which] @ self.axes.T).sigmoid()).float()


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


def run(name: str, start: str, rate: float, seed: int) -> Result:
    """Log-likelihoods of test and validation data at each look, in nats."""
    rank, make = DATA[name]
    train, val, test = make(seed)
    torch.manual_seed(seed)
    if start == "usual":
        rbm, chains = usual(train)
    else:
        law = LowRank(train, rank)
        law.fit()
        rbm, chains = law.rbm(), law.sample(CHAINS)
    adam, found, sampler = torch.optim.Adam(rbm.parameters(), lr=rate), {}, BlockGibbs()
    for iteration in range(max(LOOKS) + 1):
        if iteration in LOOKS:
            log_z = float(exact_log_z(rbm))
            found |= {f"test {iteration}": score(rbm, test, log_z), f"val {iteration}": score(rbm, val, log_z)}
        chains = sampler.last_states(rbm, chains, STEPS).detach()
        adam.zero_grad()
        (rbm(train[torch.randint(len(train), (BATCH,))]).mean() - rbm(chains).mean()).backward()
        adam.step()
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
    jobs = {
        f"{name}--{start}--{rate}--{seed}": (name, start, rate, seed)
        for seed, name, start, rate in product(given.seeds, DATA, STARTS, RATES)
    }
    run_missing(given.folder, jobs, lambda job: run(*jobs[job]), "0/1")
    print(f"\n| data | start | rate | {' | '.join(f'{n} updates' for n in LOOKS)} |\n|{'---|' * (3 + len(LOOKS))}")
    for name, start in product(DATA, STARTS):
        best = [best_of(given.folder, name, start, seed) for seed in given.seeds]
        cells = [spread([found[f"test {n}"] for _, found in best]) for n in LOOKS]
        print(f"| {name} | {start} | {', '.join(f'{rate:g}' for rate, _ in best)} | {' | '.join(cells)} |")
    print("\n| data | start | in the data | chains | exact samples |\n|---|---|---|---|---|")
    for name, start in product(DATA, STARTS):
        best = [best_of(given.folder, name, start, seed) for seed in given.seeds]
        cells = [spread([found[f"share {who}"] for _, found in best]) for who in ("data", "chains", "law")]
        print(f"| {name} | {start} | {' | '.join(cells)} |")


def best_of(folder: Path, name: str, start: str, seed: int) -> tuple[float, Result]:
    """The rate with the best likelihood of validation data in the end, and what it found."""
    found = [(rate, json.loads((folder / f"{name}--{start}--{rate}--{seed}.json").read_text())) for rate in RATES]
    return max(found, key=lambda pair: pair[1][f"val {LOOKS[-1]}"])


def spread(values: list[float]) -> str:
    return f"{statistics.mean(values):.2f} ({min(values):.2f} to {max(values):.2f})"


if __name__ == "__main__":
    main()
