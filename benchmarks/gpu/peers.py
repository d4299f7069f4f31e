"""The peers on the same card: thrml, JAX, rbms and adabmDCA beside ours, in turn and in one process.

`TRITON_INTERPRET=1 python -m benchmarks.gpu.peers --device cpu` runs them in tiny sizes, our kernels on Triton's
interpreter: times say nothing there. Install the peers by `pip install -e ".[bench]" "jax[cuda12]"`; the last line says
which of them are missing.
"""

from __future__ import annotations

import argparse
import os
import warnings
from collections.abc import Callable, Iterator, Sequence

import torch
from torch import Tensor

from benchmarks import packages
from benchmarks.cases.gibbs import COUPLING
from benchmarks.cases.potts import family
from benchmarks.gpu.fused import sparse_graph, wait
from benchmarks.harness import OURS, Contestant, Make, Race, ratios, run_race
from ebmlab.energies import RBM, Energy, Ising
from ebmlab.engine import Replayed
from ebmlab.fused import Fused, SignedGraph
from ebmlab.graphs import Edges
from ebmlab.samplers import BlockGibbs, ChromaticGibbs, GibbsSweep, Sampler


def ours(sampler: Sampler, energy: Energy, x: Tensor, steps: int) -> dict[str, Make]:
    """Plain steps, and kernels in Triton; on a GPU both also as a CUDA graph."""

    def plain(each: Sampler) -> Contestant:
        return Contestant(lambda: each.last_states(energy, x, steps))

    def graph(each: Sampler) -> Contestant:
        replayed = Replayed()
        return Contestant(lambda: replayed(lambda y: (each._run(energy, y, steps),), x, energy, each))

    fused = Fused(sampler).to(x.device)
    makes = {OURS: lambda: plain(sampler), "ebmlab, fused": lambda: plain(fused)}
    if x.device.type == "cuda":
        makes |= {"ebmlab, replayed": lambda: graph(sampler), "ebmlab, fused, replayed": lambda: graph(fused)}
    return makes


def in_words(ising: Ising, x: Tensor, sweeps: int) -> Contestant:
    graph = SignedGraph(ising)
    words = graph.words(x)
    return Contestant(lambda: graph.sweep(words, sweeps))


def in_jax(make: Callable[[], Contestant], device: torch.device) -> Make:
    """A contestant that is made by JAX, if it uses the same device."""

    def made() -> Contestant:
        import jax

        if device.type == "cuda" and jax.default_backend() != "gpu":
            raise ImportError("JAX finds no GPU")
        return make()

    return made


def jax_gibbs(energy: RBM, x: Tensor, steps: int) -> Contestant:
    from benchmarks import in_jax as steps_in_jax

    step = steps_in_jax.block_gibbs(*(p.detach().cpu() for p in (energy.W, energy.b_v, energy.b_h)))
    return Contestant(steps_in_jax.runner(step, x.cpu().numpy(), steps))


def jax_checkerboard(side: int, x: Tensor, sweeps: int) -> Contestant:
    from benchmarks import in_jax as steps_in_jax

    lattice = x.view(-1, side, side).cpu().numpy()
    return Contestant(steps_in_jax.runner(steps_in_jax.checkerboard(side, COUPLING), lattice, sweeps))


def block_gibbs(device: torch.device, tiny: bool, chains: int) -> Race:
    visible, hidden, steps = (20, 10, 1) if tiny else (784, 500, 100)
    rbm = RBM(visible, hidden).to(device).requires_grad_(False)
    x = rbm.random(chains)
    peers = {
        "rbms": lambda: Contestant(packages.rbms_gibbs(rbm, x, steps)),
        "JAX": in_jax(lambda: jax_gibbs(rbm, x, steps), device),
    }
    title = f"Block Gibbs, RBM {visible}-{hidden}, {chains} chains"
    return Race(title, steps, ours(BlockGibbs(), rbm, x, steps) | peers)


def potts_sweep(device: torch.device, tiny: bool) -> Race:
    sites, values, chains, sweeps = (5, 3, 4, 1) if tiny else (141, 21, 1000, 2)
    potts = family(sites, values).to(device).requires_grad_(False)
    x = potts.random(chains)
    peers = {"adabmDCA": lambda: Contestant(packages.adabmdca_sweeps(potts, x, sweeps))}
    title = f"Gibbs sweep, Potts model of {sites} sites and {values} values, {chains} chains"
    return Race(title, sweeps, ours(GibbsSweep(), potts, x, sweeps) | peers, updates=sites * chains)


def checkerboard(device: torch.device, tiny: bool) -> Race:
    side, chains, sweeps = (4, 32, 1) if tiny else (100, 1024, 10)
    lattice = Ising.lattice(side, COUPLING).to(device)
    x = lattice.random(chains)
    others = {
        "ebmlab, one bit a spin": lambda: in_words(lattice, x, sweeps),
        "thrml": in_jax(lambda: Contestant(packages.thrml_lattice(side, COUPLING, chains, sweeps)), device),
        "JAX": in_jax(lambda: jax_checkerboard(side, x, sweeps), device),
    }
    entries = ours(ChromaticGibbs(), lattice, x, sweeps) | others
    return Race(f"Checkerboard, {side} x {side}, {chains} chains", sweeps, entries, updates=side**2 * chains)


def sparse(device: torch.device, tiny: bool) -> Race:
    """The last one, for thrml takes most of a minute before its first sweep."""
    size, degree, chains, sweeps = (20, 2, 32, 1) if tiny else (5000, 15, 1024, 10)
    a, b = sparse_graph(size, degree)
    graph = Ising(Edges.joining(size, a, b, COUPLING)).to(device)
    x, edges = graph.random(chains), torch.stack([a, b], 1)
    others = {
        "ebmlab, one bit a spin": lambda: in_words(graph, x, sweeps),
        "thrml": in_jax(
            lambda: Contestant(packages.thrml_graph(edges, graph.colours, COUPLING, chains, sweeps)), device
        ),
    }
    title = f"Sparse graph, {len(a)} edges on {size} sites, {chains} chains"
    entries = ours(ChromaticGibbs(), graph, x, sweeps) | others
    return Race(title, sweeps, entries, updates=size * chains)


def races(device: torch.device, tiny: bool) -> Iterator[Race]:
    for chains in (2,) if tiny else (100, 10_000):
        yield block_gibbs(device, tiny, chains)
    for make in (potts_sweep, checkerboard, sparse):
        yield make(device, tiny)


def waited(make: Make, device: torch.device) -> Make:
    """The contestant with the time that the device needs."""

    def made() -> Contestant:
        run = make().run
        return Contestant(lambda: (run(), wait(device)))

    return made


def report(race: Race, device: torch.device, rounds: int) -> list[str]:
    """Prints a row for each contestant that ran, and returns why the others did not."""
    race.entries = {name: waited(make, device) for name, make in race.entries.items()}
    results = run_race(race, rounds)
    print(f"\n| {race.title} | ms a step | its time over that of ebmlab | updates a ns |\n|---|---|---|---|")
    for name, times in results.items():
        if not times.missing:
            over = sorted(ratios(results, name))[rounds // 2]
            updates = f"{race.updates / times.median * 1e-9:.3g}" if race.updates else "-"
            print(f"| {name} | {1e3 * times.median:.3g} | {over:.3g} | {updates} |", flush=True)
    return [f"{name} ({times.missing})" for name, times in results.items() if times.missing]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--rounds", type=int, default=3)
    options = parser.parse_args(arguments)
    device = torch.device(options.device)
    os.environ["XLA_PYTHON_CLIENT_PREALLOCATE"] = "false"  # JAX would take most of the memory of the card
    warnings.filterwarnings("ignore")
    torch.manual_seed(0)
    missing: list[str] = []
    for race in races(device, device.type == "cpu"):
        missing += report(race, device, options.rounds)
    print(f"\nmissing: {'; '.join(dict.fromkeys(missing)) or 'none'}")


if __name__ == "__main__":
    main()
