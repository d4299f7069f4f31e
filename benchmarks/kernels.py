"""Milliseconds that one step of each kernel takes, and one temperature of AIS, of this tree or of two trees in turn.

    python benchmarks/kernels.py                                  # this tree
    python benchmarks/kernels.py --against ../before --rounds 5   # both trees alternately, medians and their ratio
    python benchmarks/kernels.py --only DMALA GWG --chains 100

RBM 784-500 with weights from N(0, 0.05^2) and GRBM 784-256, float32, one thread. With `--against`, both trees run this
very file in fresh processes, one after the other, so that a machine that others use slows both alike.
"""

from __future__ import annotations

import argparse
import json
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
SECONDS = 0.4  # of one measurement


def energies() -> dict[str, Any]:
    from ebmlab.energies import GRBM, RBM

    torch.manual_seed(0)
    rbm, grbm = RBM(784, 500), GRBM(784, 256)
    with torch.no_grad():
        rbm.W.normal_(0, 0.05)
    return {"RBM": rbm.requires_grad_(False), "GRBM": grbm.requires_grad_(False)}


def curved() -> Any:
    """AB-trace with a curvature of rank 20, made positive by its diagonal."""
    from ebmlab.samplers import AnyScale

    torch.manual_seed(1)
    a = torch.randn(784, 20) / 40
    return AnyScale("trace", 0.2, 0.5, a @ a.T, torch.full((784,), 0.1))


def kernels() -> dict[str, tuple[str, Callable[[], Any]]]:
    from ebmlab import samplers as s

    return {
        "DULA": ("RBM", lambda: s.DULA(0.2)),
        "DMALA": ("RBM", lambda: s.DMALA(0.2)),
        "ACS": ("RBM", lambda: s.ACS(5.0, 0.2, 20)),
        "AB-1st": ("RBM", lambda: s.AnyScale("first", 0.2, 0.5)),
        "AB-trace": ("RBM", curved),
        "GWG": ("RBM", lambda: s.GWG()),
        "GWG 5": ("RBM", lambda: s.GWG(5)),
        "PAS": ("RBM", lambda: s.PathAuxiliary(5)),
        "RandomWalk": ("RBM", lambda: s.RandomWalk(5)),
        "RelaxedMALA": ("RBM", lambda: s.RelaxedMALA(0.01)),
        "block Gibbs": ("RBM", lambda: s.BlockGibbs()),
        "Langevin": ("GRBM", lambda: s.Langevin(0.01, adjust_from=0)),
        "GibbsLangevin": ("GRBM", lambda: s.GibbsLangevin(0.1, adjust_from=0)),
    }


def milliseconds(work: Callable[[], None]) -> float:
    """Of one call: the least of several averages, after warm-up."""
    begin, warm = time.perf_counter(), 0
    while warm < 3 or time.perf_counter() - begin < SECONDS / 4:
        work()
        warm += 1
    calls = max(1, int(SECONDS / 4 / ((time.perf_counter() - begin) / warm)))
    least = float("inf")
    for _ in range(4):
        start = time.perf_counter()
        for _ in range(calls):
            work()
        least = min(least, (time.perf_counter() - start) / calls)
    return 1e3 * least


def step_time(make: Callable[[], Any], energy: Any, chains: int) -> float:
    sampler = make()
    torch.manual_seed(2)
    at = {"state": sampler.init(energy, energy.domain.random(chains), 10**6)}

    def work() -> None:
        at["state"], _ = sampler.step(energy, at["state"])

    return milliseconds(work)


def ais_time(make: Callable[[], Any], energy: Any) -> float:
    """Per temperature."""
    from ebmlab.evaluation import ais

    temperatures = 20
    torch.manual_seed(2)
    return milliseconds(lambda: ais(energy, make(), AIS_CHAINS, temperatures) and None) / temperatures


@torch.no_grad()
def measure(chains: list[int], only: list[str]) -> dict[str, float]:
    targets, result = energies(), {}
    for name, (target, make) in kernels().items():
        if only and name not in only:
            continue
        for n in chains:
            result[f"{name} | {n}"] = step_time(make, targets[target], n)
    for name in ("DMALA", "GWG", "PAS", "ACS", "block Gibbs"):
        if not only or f"AIS {name}" in only:
            result[f"AIS {name} | {AIS_CHAINS}"] = ais_time(kernels()[name][1], targets["RBM"])
    return result


def run(tree: Path, options: argparse.Namespace) -> dict[str, float]:
    command = [sys.executable, __file__, "--json", "--chains", *map(str, options.chains)]
    command += ["--only", *options.only] if options.only else []
    environment = {**os.environ, "PYTHONPATH": str(tree.resolve()), "OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, cwd=tree, env=environment, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def compare(options: argparse.Namespace) -> None:
    trees = {"before": options.against, "after": Path(__file__).parents[1]}
    seen: dict[str, dict[str, list[float]]] = {}
    for _ in range(options.rounds):
        for name, tree in trees.items():
            for key, value in run(tree, options).items():
                seen.setdefault(key, {}).setdefault(name, []).append(value)
    print("| kernel | chains | before, ms | after, ms | after / before |\n|---|---|---|---|---|")
    for key, values in seen.items():
        before, after = (statistics.median(values[name]) for name in trees)
        print(f"| {key} | {before:.3f} | {after:.3f} | {after / before:.2f} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--against", type=Path, help="another checkout of this repository")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--chains", type=int, nargs="+", default=list(CHAINS))
    parser.add_argument("--only", nargs="+", default=[], help="names of kernels; `AIS DMALA` is AIS with DMALA")
    parser.add_argument("--json", action="store_true", help="one line for a program")
    options = parser.parse_args()
    if options.against:
        compare(options)
        return
    torch.set_num_threads(1)
    result = measure(options.chains, options.only)
    if options.json:
        print(json.dumps(result))
        return
    print("| kernel | chains | ms |\n|---|---|---|")
    for key, value in result.items():
        print(f"| {key} | {value:.3f} |")


if __name__ == "__main__":
    main()
