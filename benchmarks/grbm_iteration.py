"""One training iteration of a GRBM by modified CD: ebmlab beside a straightforward implementation of Alg. 2 and 3.

    python benchmarks/grbm_iteration.py                     # GRBM(784, 4096), batch 512, CD-10 x 10 inner steps
    python benchmarks/grbm_iteration.py --memory            # peak memory of a fresh process, for several K

The straightforward one simulates the inner Langevin steps, recomputes W h in each, keeps all states and differentiates
their energy. Both run in this process, alternating; the table shows the median and the range over the rounds.
"""

from __future__ import annotations

import argparse
import math
import platform
import resource
import statistics
import subprocess
import sys
import time

import torch
from torch import Tensor

from ebmlab.energies import GRBM
from ebmlab.learners import ContrastiveDivergence
from ebmlab.samplers import GibbsLangevin

STEP_SIZE = 0.039


def straightforward(energy: GRBM, data: Tensor, cd_steps: int, num_inner_steps: int) -> None:
    """Liao et al. 2022, Alg. 2 inside Alg. 3, line by line."""
    with torch.no_grad():
        h_data = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(data)))
        v = torch.randn_like(data)
        h = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(v)))
        states = []
        alpha = STEP_SIZE * float(energy.variance.mean())
        for _ in range(cd_steps):
            for k in range(num_inner_steps):
                alpha_k = alpha * (1 + math.cos(math.pi * k / num_inner_steps)) / 2
                grad = (v - energy.mu - h @ energy.W.T) / energy.variance
                v = v - alpha_k * grad + math.sqrt(2 * alpha_k) * torch.randn_like(v)
            h = torch.bernoulli(torch.sigmoid(energy.hidden_given_visible(v)))
            states.append((v, h))
    v, h = (torch.cat(parts) for parts in zip(*states, strict=True))
    (energy.joint_energy(data, h_data).mean() - energy.joint_energy(v, h).mean()).backward()


def ours(energy: GRBM, data: Tensor, cd_steps: int, num_inner_steps: int) -> None:
    """The learner's training step without the trainer."""
    sampler = GibbsLangevin(STEP_SIZE, num_inner_steps)
    learner = ContrastiveDivergence(energy, sampler, num_steps=cd_steps, burn_in=0, density="joint")
    learner.log = learner.log_dict = lambda *_, **__: None  # type: ignore[method-assign,assignment]
    learner.training_step(data, 0).backward()


def products(energy: GRBM, data: Tensor, cd_steps: int, num_inner_steps: int) -> None:
    """The matrix products that the closed form needs: v W, h W' and v' h in each step."""
    with torch.no_grad():
        h, total = data @ energy.W, torch.zeros_like(energy.W)
        for _ in range(cd_steps):
            v = h @ energy.W.T
            h = v @ energy.W
            total.addmm_(v.T, h, alpha=1e-9)


def timed(function: object, *args: object) -> float:
    start = time.perf_counter()
    function(*args)  # type: ignore[operator]
    return time.perf_counter() - start


def compare(options: argparse.Namespace) -> None:
    energy = GRBM(options.visible, options.hidden)
    data = torch.randn(options.batch, options.visible)
    contenders = {"straightforward": straightforward, "ebmlab": ours, "(matrix products alone)": products}
    times: dict[str, list[float]] = {name: [] for name in contenders}
    for round_ in range(options.rounds + 1):
        for name, function in contenders.items():
            energy.zero_grad()
            seconds = timed(function, energy, data, options.cd_steps, options.num_inner_steps)
            if round_:  # the first round is a warm-up
                times[name].append(seconds)
    print(
        f"GRBM({options.visible}, {options.hidden}), batch {options.batch}, "
        f"CD-{options.cd_steps} x {options.num_inner_steps} inner steps"
    )
    print(
        f"torch {torch.__version__}, {torch.get_num_threads()} threads, {platform.machine()}, {options.rounds} rounds"
    )
    for name, values in times.items():
        print(f"{name:<25} {statistics.median(values):7.3f} s   ({min(values):.3f} to {max(values):.3f})")
    ratios = [a / b for a, b in zip(times["straightforward"], times["ebmlab"], strict=True)]
    print(f"{'ratio':<25} {statistics.median(ratios):7.2f}     ({min(ratios):.2f} to {max(ratios):.2f})")


def memory(options: argparse.Namespace) -> None:
    print(f"{'CD steps':<10} {'straightforward':>18} {'ebmlab':>12}   peak resident memory, MiB")
    for cd_steps in (1, 10, 30):
        row = []
        for name in ("straightforward", "ours"):
            command = [sys.executable, __file__, "--one", name, "--cd_steps", str(cd_steps)]
            row.append(float(subprocess.run(command, capture_output=True, text=True, check=True).stdout))
        print(f"{cd_steps:<10} {row[0]:>18.0f} {row[1]:>12.0f}")


def one(options: argparse.Namespace) -> None:
    energy, data = GRBM(options.visible, options.hidden), torch.randn(options.batch, options.visible)
    globals()[options.one](energy, data, options.cd_steps, 1)
    print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--visible", type=int, default=784)
    parser.add_argument("--hidden", type=int, default=4096)
    parser.add_argument("--batch", type=int, default=512)
    parser.add_argument("--cd_steps", type=int, default=10)
    parser.add_argument("--num_inner_steps", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--memory", action="store_true")
    parser.add_argument("--one", choices=["straightforward", "ours"])
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.one:
        one(options)
    elif options.memory:
        memory(options)
    else:
        compare(options)


if __name__ == "__main__":
    main()
