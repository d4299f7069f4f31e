"""Milliseconds that one step of each kernel takes, and one temperature of AIS, of this tree or of two trees in turn.

    python benchmarks/kernels.py                                   # this tree
    python benchmarks/kernels.py --against ../before --rounds 10   # both trees in turn
    python benchmarks/kernels.py --only DMALA "AIS GWG" --chains 100

RBM 784-500 with weights from N(0, 0.05^2) and GRBM 784-256, float32, one thread. With `--against` each tree runs this
very file in a process of its own; every number is measured in one process and at once in the other, so that a machine
that others use slows both alike, and time is the process's own, not the clock's. The table has the least time of each
tree and the median of the ratios of all pairs.
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

CHAINS = (1, 100, 1000)
AIS_CHAINS = 500
SECONDS = 0.1  # of one measurement


def energies() -> dict[str, Any]:
    from ebmlab.energies import GRBM, RBM

    torch.manual_seed(0)
    rbm, grbm = RBM(784, 500), GRBM(784, 256)
    with torch.no_grad():
        rbm.W.normal_(0, 0.05)
    return {"RBM": rbm.requires_grad_(False), "GRBM": grbm.requires_grad_(False)}


def curved() -> Any:
    """AB-trace with a curvature of rank 20 and a diagonal that makes it positive."""
    from ebmlab.samplers import AnyScale

    torch.manual_seed(1)
    a = torch.randn(784, 20) / 40
    return AnyScale("trace", 0.2, balance=0.5, curvature=a @ a.T, diagonal=torch.full((784,), 0.1))


def kernels() -> dict[str, tuple[str, Callable[[], Any]]]:
    from ebmlab import samplers as s

    return {
        "DULA": ("RBM", lambda: s.DULA(0.2)),
        "DMALA": ("RBM", lambda: s.DMALA(0.2)),
        "ACS": ("RBM", lambda: s.ACS(5.0, 0.2, cycle_length=20)),
        "AB-1st": ("RBM", lambda: s.AnyScale("first", 0.2, balance=0.5)),
        "AB-trace": ("RBM", curved),
        "GWG": ("RBM", lambda: s.GWG()),
        "GWG 5": ("RBM", lambda: s.GWG(5)),
        "PAS": ("RBM", lambda: s.PathAuxiliary(5)),
        "RandomWalk": ("RBM", lambda: s.RandomWalk(5)),
        "RelaxedMALA": ("RBM", lambda: s.RelaxedMALA(0.01)),
        "block Gibbs": ("RBM", lambda: s.BlockGibbs()),
        "Langevin": ("GRBM", lambda: s.MALA(0.01)),
        "GibbsLangevin": ("GRBM", lambda: s.GibbsLangevin(0.1, adjust_from=0)),
    }


def milliseconds(work: Callable[[], object]) -> float:
    """Milliseconds of one call after warm-up: the smallest of four averages."""
    work()
    begin = time.process_time()
    work()
    calls = max(1, int(SECONDS / 4 / (time.process_time() - begin)))
    least = float("inf")
    for _ in range(4):
        start = time.process_time()
        for _ in range(calls):
            work()
        least = min(least, (time.process_time() - start) / calls)
    return 1e3 * least


def step_time(make: Callable[[], Any], energy: Any, chains: int) -> float:
    sampler = make()
    torch.manual_seed(2)
    at = {"state": sampler.init(energy, energy.domain.random(chains), 10**6)}

    def work() -> None:
        at["state"], _ = sampler.step(energy, at["state"])

    return milliseconds(work)


def ais_time(make: Callable[[], Any], energy: Any) -> float:
    """Milliseconds per temperature of AIS."""
    from ebmlab.evaluation import ais

    temperatures = 10
    torch.manual_seed(2)
    return (
        milliseconds(lambda: ais(energy, make(), num_chains=AIS_CHAINS, num_temperatures=temperatures)) / temperatures
    )


@torch.no_grad()
def measure(key: str, targets: dict[str, Any]) -> float:
    """The time of a case such as `DMALA | 100` or `AIS DMALA | 500`."""
    name, chains = key.split(" | ")
    target, make = kernels()[name.removeprefix("AIS ")]
    if name.startswith("AIS "):
        return ais_time(make, targets[target])
    return step_time(make, targets[target], int(chains))


def keys(options: argparse.Namespace) -> list[str]:
    names = [(name, n) for name in kernels() for n in options.chains]
    names += [(f"AIS {name}", AIS_CHAINS) for name in ("DMALA", "GWG", "PAS", "ACS", "block Gibbs")]
    return [f"{name} | {n}" for name, n in names if not options.only or name in options.only]


class Worker:
    """A process that measures in one tree."""

    def __init__(self, tree: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
        command = [sys.executable, __file__, "--serve"]
        pipe = subprocess.PIPE
        self.process = subprocess.Popen(command, cwd=tree, env=environment, stdin=pipe, stdout=pipe, text=True)

    def measure(self, key: str) -> float:
        assert self.process.stdin is not None and self.process.stdout is not None
        self.process.stdin.write(f"{key}\n")
        self.process.stdin.flush()
        return float(self.process.stdout.readline())


def compare(options: argparse.Namespace) -> None:
    before, after = Worker(options.against), Worker(Path(__file__).parents[1])
    print("| kernel | chains | before, ms | after, ms | after / before |\n|---|---|---|---|---|")
    for key in keys(options):
        pairs = []
        for k in range(options.rounds):
            first, second = (before, after) if k % 2 else (after, before)
            one, two = first.measure(key), second.measure(key)
            pairs.append((one, two) if k % 2 else (two, one))
        ratio = statistics.median(b / a for a, b in pairs)
        least = [min(times) for times in zip(*pairs, strict=True)]
        print(f"| {key} | {least[0]:.3f} | {least[1]:.3f} | {ratio:.2f} |", flush=True)
    for worker in (before, after):
        worker.process.terminate()


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--chains", type=int, nargs="+", default=list(CHAINS))
    parser.add_argument("--only", nargs="+", default=[], help="names of kernels; `AIS DMALA` is AIS with DMALA")
    parser.add_argument("--serve", action="store_true", help="measure what the lines of stdin ask for")
    options = parser.parse_args()
    torch.set_num_threads(1)
    if options.against:
        compare(options)
        return
    targets = energies()
    if options.serve:
        for line in sys.stdin:
            print(measure(line.strip(), targets), flush=True)
        return
    print("| kernel | chains | ms |\n|---|---|---|")
    for key in keys(options):
        print(f"| {key} | {measure(key, targets):.3f} |")


if __name__ == "__main__":
    main()
