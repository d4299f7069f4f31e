"""Fused kernels beside plain and replayed steps: steps a second on an RBM, spin updates a nanosecond on graphs.

`python -m benchmarks.gpu.fused --device cpu` runs them on Triton's interpreter in tiny sizes, where times say nothing.
"""

from __future__ import annotations

import argparse
import itertools
import os
import time
from collections.abc import Callable

import torch
from torch import Tensor


def seconds(call: Callable[[], object], device: torch.device, rounds: int) -> float:
    """The least of some rounds, after one that is not counted."""
    times = []
    for _ in range(rounds + 1):
        wait(device)
        begin = time.perf_counter()
        call()
        wait(device)
        times.append(time.perf_counter() - begin)
    return min(times[1:])


def wait(device: torch.device) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def sparse_graph(size: int, degree: int = 15) -> tuple[Tensor, Tensor]:
    """The ends of some size * degree / 2 edges between sites that are near each other, as in D-Wave's Pegasus."""
    generator = torch.Generator().manual_seed(0)
    a = torch.arange(size).repeat_interleave(degree // 2 + 1)
    b = (a + torch.randint(1, 200, a.shape, generator=generator)) % size
    pairs = torch.stack([torch.minimum(a, b), torch.maximum(a, b)], 1).unique(dim=0)
    return pairs[:, 0], pairs[:, 1]


def on_rbms(device: torch.device, tiny: bool) -> None:
    from ebmlab.energies import RBM
    from ebmlab.engine import Replayed
    from ebmlab.fused import Fused
    from ebmlab.samplers import DMALA, BlockGibbs

    print("\n| sampler, chains, products | plain steps per second | replayed | fused | fused and replayed |")
    print("|---|---|---|---|---|")
    visible, hidden, steps = (20, 10, 1) if tiny else (784, 500, 100)
    rbm = RBM(visible, hidden).to(device).requires_grad_(False)
    for sampler, precision in itertools.product((DMALA(0.2), BlockGibbs()), ("highest", "high")):
        torch.set_float32_matmul_precision(precision)
        for chains in (1, 100, 10_000)[: 1 if tiny else 3]:
            x, cells = rbm.random(chains), []
            for each in (sampler.to(device), Fused(sampler).to(device)):
                rates = [steps / seconds(lambda e=each, x=x: e.last_states(rbm, x, steps), device, 3)]
                if device.type == "cuda":
                    replayed = Replayed()
                    call = lambda x, e=each: (e._run(rbm, x, steps),)  # noqa: E731
                    rates.append(steps / seconds(lambda r=replayed, c=call, x=x, e=each: r(c, x, rbm, e), device, 3))
                cells += [f"{rate:.0f}" for rate in rates] + ["-"] * (2 - len(rates))
            print(f"| {type(sampler).__name__}, {chains}, {precision} | {' | '.join(cells)} |", flush=True)
    torch.set_float32_matmul_precision("highest")


def on_graphs(device: torch.device, tiny: bool) -> None:
    from ebmlab.energies import Ising
    from ebmlab.fused import Fused, SignedGraph, SquareLattice
    from ebmlab.graphs import Edges
    from ebmlab.samplers import ChromaticGibbs

    print("\n| sweeps | spin updates per nanosecond |\n|---|---|")
    side, sweeps = (64, 1) if tiny else (10_048, 20)
    lattice = SquareLattice(side, 0.44)
    words = lattice.random(device)
    took = seconds(lambda: lattice.sweep(words, num_sweeps=sweeps), device, 3)
    print(
        f"| square lattice of {side} x {side}, one bit a spin | {side * side * sweeps / took * 1e-9:.3g} |", flush=True
    )
    size, chains, sweeps = (500, 32, 1) if tiny else (5000, 1024, 10)
    a, b = sparse_graph(size)
    ising = Ising(Edges.joining(size, a, b, 0.3)).to(device)
    x = ising.random(chains)
    for name, sampler in (("plain", ChromaticGibbs()), ("fused", Fused(ChromaticGibbs()))):
        took = seconds(lambda s=sampler: s.last_states(ising, x, sweeps), device, 3)
        rate = size * chains * sweeps / took * 1e-9
        print(f"| {len(a)} edges on {size} sites, {chains} chains, {name} | {rate:.3g} |", flush=True)
    graph = SignedGraph(ising)
    words = graph.words(x)
    took = seconds(lambda: graph.sweep(words, num_sweeps=sweeps), device, 3)
    rate = size * chains * sweeps / took * 1e-9
    print(f"| the same, one bit a spin | {rate:.3g} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda")
    device = torch.device(parser.parse_args().device)
    if device.type == "cpu":
        os.environ["TRITON_INTERPRET"] = "1"
    torch.manual_seed(0)
    on_rbms(device, device.type == "cpu")
    on_graphs(device, device.type == "cpu")


if __name__ == "__main__":
    main()
