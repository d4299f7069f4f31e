"""Time and memory of ratio matching and RMwGGIS against the number of bits (Liu et al. 2023, Table 5).

    python benchmarks/ratio_matching_cost.py                 # of each method, its implementations alternate
    python benchmarks/ratio_matching_cost.py --memory        # one iteration in a fresh process each

2spirals in Gray code, MLP with 3 layers of 256 units, batch 256, Adam, the exponential objective, s = 10, advanced.
The straightforward implementation follows the authors' program: a swish with a slope to learn, one for all layers; a
copy of the batch for each neighbour, all copies in one batch, and in RMwGGIS copies of an x whose gradient is on
record. The swish decides part of the time, so it is timed with torch's own too, which is one pass and has no slope.
The vectorised implementation has that one and writes all neighbours at once, from an x that is not on record.
"""

from __future__ import annotations

import argparse
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable

import torch
from torch import Tensor, nn

from ebmlab.datamodules import GrayCode2D
from ebmlab.energies import MLP, Energy
from ebmlab.learners import Exact, GradientGuided

Loss = Callable[[Energy, Tensor], Tensor]
METHODS = ["ratio matching", "RMwGGIS"]
SAMPLES, HIDDEN = 10, 256


class Swish(nn.Module):
    """x sigmoid(b x) with a parameter b."""

    def __init__(self) -> None:
        super().__init__()
        self.slope = nn.Parameter(torch.ones(()))

    def forward(self, x: Tensor) -> Tensor:
        return x * torch.sigmoid(self.slope * x)


def network(dims: int, swish: nn.Module) -> nn.Module:
    """The network of `MLP`, from torch's modules."""
    hidden = [module for _ in range(2) for module in (nn.Linear(HIDDEN, HIDDEN), swish)]
    return nn.Sequential(nn.Linear(dims, HIDDEN), swish, *hidden, nn.Linear(HIDDEN, 1), nn.Flatten(0))


NETWORKS: dict[str, Callable[[int], nn.Module]] = {
    "straightforward": lambda dims: network(dims, Swish()),
    "straightforward with torch's swish": lambda dims: network(dims, nn.SiLU()),
    "vectorised": lambda dims: network(dims, nn.SiLU()),
    "ebmlab": lambda dims: MLP(dims, HIDDEN),
}


def plain_ratio_matching(energy: Energy, x: Tensor) -> Tensor:
    return _from_copies(energy, x, energy(x), torch.arange(x.shape[1]).expand(len(x), -1))


def plain_gradient_guided(energy: Energy, x: Tensor) -> Tensor:
    x = x.clone().requires_grad_()
    here = energy(x)
    (grad,) = torch.autograd.grad(here.sum(), x, create_graph=True)
    proposal = (2 * (2 * x - 1) * grad).softmax(1)
    return _from_copies(energy, x, here, proposal.multinomial(SAMPLES, replacement=True))


def _from_copies(energy: Energy, x: Tensor, here: Tensor, index: Tensor) -> Tensor:
    copies, rows = [], torch.arange(len(x))
    for i in index.T:
        copy = x.clone()
        copy[rows, i] = 1 - copy[rows, i]
        copies.append(copy)
    energies = energy(torch.cat(copies)).view(len(copies), len(x))
    return (2 * (here - energies)).exp().sum(0).mean()


def vectorised_ratio_matching(energy: Energy, x: Tensor) -> Tensor:
    return _at_once(energy, x, torch.arange(x.shape[1]).expand(len(x), -1))


def vectorised_gradient_guided(energy: Energy, x: Tensor) -> Tensor:
    y = x.clone().requires_grad_()
    (grad,) = torch.autograd.grad(energy(y).sum(), y)
    proposal = (2 * (2 * x - 1) * grad).softmax(1)
    return _at_once(energy, x, proposal.multinomial(SAMPLES, replacement=True))


def _at_once(energy: Energy, x: Tensor, index: Tensor) -> Tensor:
    neighbours = x.unsqueeze(1).repeat(1, index.shape[1], 1)
    neighbours.scatter_(2, index.unsqueeze(2), 1 - x.gather(1, index).unsqueeze(2))
    energies = energy(neighbours.flatten(0, 1)).view(index.shape)
    return (2 * (energy(x).unsqueeze(1) - energies)).exp().sum(1).mean()


LOSSES: dict[str, Loss] = {
    "ratio matching, straightforward": plain_ratio_matching,
    "ratio matching, straightforward with torch's swish": plain_ratio_matching,
    "ratio matching, vectorised": vectorised_ratio_matching,
    "ratio matching, ebmlab": Exact("exponential").loss,
    "RMwGGIS, straightforward": plain_gradient_guided,
    "RMwGGIS, straightforward with torch's swish": plain_gradient_guided,
    "RMwGGIS, vectorised": vectorised_gradient_guided,
    "RMwGGIS, ebmlab": GradientGuided(SAMPLES, True, objective="exponential").loss,
}


class Iteration:
    """Runs iterations of training on new batches."""

    def __init__(self, name: str, dims: int, batch_size: int, spirals: bool = True) -> None:
        torch.manual_seed(0)
        self.loss = LOSSES[name]
        self.energy = NETWORKS[name.split(", ")[1]](dims)
        self.optimizer = torch.optim.Adam(self.energy.parameters(), lr=1e-4, fused=True)
        self.data = torch.empty(10, batch_size, dims).bernoulli_()
        if spirals:
            data = GrayCode2D("2spirals", dims, num_samples=10 * batch_size)
            self.data = data.to_states(data.raw("train")).view(10, batch_size, dims)
        self.count = 0

    def __call__(self) -> float:
        """Runs one iteration; returns its seconds."""
        begin = time.perf_counter()
        self.optimizer.zero_grad()
        self.loss(self.energy, self.data[self.count % 10]).backward()
        self.optimizer.step()
        self.count += 1
        return time.perf_counter() - begin


def time_all(method: str, dims: int, batch_size: int, rounds: int) -> None:
    """Prints the time of an iteration of each implementation, and the peers' times over ebmlab's."""
    iterations = {name: Iteration(name, dims, batch_size) for name in LOSSES if name.startswith(method)}
    seconds: dict[str, list[float]] = {name: [] for name in iterations}
    repeats = 10 if method == "RMwGGIS" else 1
    for iteration in iterations.values():
        iteration()
    for _ in range(rounds):
        for name, iteration in iterations.items():
            seconds[name].append(sum(iteration() for _ in range(repeats)) / repeats)
    for name, values in seconds.items():
        middle = statistics.median(values) * 1000
        print(f"| {dims} | {name} | {middle:.1f} | {min(values) * 1000:.1f} to {max(values) * 1000:.1f} |", flush=True)
    ours = seconds.pop(f"{method}, ebmlab")
    for peer, values in seconds.items():
        ratios = [theirs / mine for theirs, mine in zip(values, ours, strict=True)]
        middle, low, high = statistics.median(ratios), min(ratios), max(ratios)
        print(f"| {dims} | {peer} / ebmlab | {middle:.1f} | {low:.1f} to {high:.1f} |", flush=True)


def memory_of(name: str, dims: int, batch_size: int) -> None:
    """Prints how much an iteration raises this process's peak resident memory, in MiB."""
    iteration = Iteration(name, dims, batch_size, spirals=False)  # drawing spirals takes more memory
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    iteration()
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--dims", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024, 2048])
    parser.add_argument("--methods", nargs="+", choices=METHODS, default=METHODS)
    parser.add_argument("--batch_size", type=int, default=256)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--of", choices=LOSSES, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.of:
        memory_of(args.of, args.dims[0], args.batch_size)
        return
    print("| bits | implementation | MiB |" if args.memory else "| bits | implementation | ms | range |")
    print("|---|---|---|" if args.memory else "|---|---|---|---|")
    for dims in args.dims:
        if not args.memory:
            for method in args.methods:
                time_all(method, dims, args.batch_size, args.rounds)
            continue
        for name in (name for name in LOSSES if name.startswith(tuple(args.methods))):
            command = [
                sys.executable,
                __file__,
                "--of",
                name,
                "--dims",
                str(dims),
                "--batch_size",
                str(args.batch_size),
            ]
            done = subprocess.run(command, check=True, capture_output=True, text=True)
            print(f"| {dims} | {name} | {done.stdout.strip()} |", flush=True)


if __name__ == "__main__":
    main()
