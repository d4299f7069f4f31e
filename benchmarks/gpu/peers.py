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


def races(device: torch.device, tiny: bool) -> Iterator[Race]:
    visible, hidden, steps = (20, 10, 1) if tiny else (784, 500, 100)
    rbm = RBM(visible, hidden).to(device).requires_grad_(False)
    for chains in (2,) if tiny else (100, 10_000):
        x = rbm.random(chains)
        yield Race(
            f"Block Gibbs, RBM {visible}-{hidden}, {chains} chains",
            steps,
            ours(BlockGibbs(), rbm, x, steps)
            | {
                "rbms": lambda x=x: Contestant(packages.rbms_gibbs(rbm, x, steps)),
                "JAX": in_jax(lambda x=x: jax_gibbs(rbm, x, steps), device),
            },
        )
    side, chains, sweeps = (4, 32, 1) if tiny else (100, 1024, 10)
    lattice = Ising.lattice(side, COUPLING).to(device)
    x = lattice.random(chains)
    yield Race(
        f"Checkerboard, {side} x {side}, {chains} chains",
        sweeps,
        ours(ChromaticGibbs(), lattice, x, sweeps)
        | {
            "ebmlab, one bit a spin": lambda: in_words(lattice, x, sweeps),
            "thrml": in_jax(lambda: Contestant(packages.thrml_lattice(side, COUPLING, chains, sweeps)), device),
            "JAX": in_jax(lambda: jax_checkerboard(side, x, sweeps), device),
        },
        updates=side**2 * chains,
    )
    size = 20 if tiny else 5000
    a, b = sparse_graph(size, degree=2 if tiny else 15)
    graph = Ising(Edges.joining(size, a, b, COUPLING)).to(device)
    y = graph.random(chains)
    thrml = lambda: packages.thrml_graph(torch.stack([a, b], 1), graph.colours, COUPLING, chains, sweeps)  # noqa: E731
    yield Race(
        f"Sparse graph, {len(a)} edges on {size} sites, {chains} chains",
        sweeps,
        ours(ChromaticGibbs(), graph, y, sweeps)
        | {
            "ebmlab, one bit a spin": lambda: in_words(graph, y, sweeps),
            "thrml": in_jax(lambda: Contestant(thrml()), device),
        },
        updates=size * chains,
    )
    sites, values, chains, sweeps = (5, 3, 4, 1) if tiny else (141, 21, 1000, 2)
    potts = family(sites, values).to(device).requires_grad_(False)
    z = potts.random(chains)
    yield Race(
        f"Gibbs sweep, Potts model of {sites} sites and {values} values, {chains} chains",
        sweeps,
        ours(GibbsSweep(), potts, z, sweeps)
        | {"adabmDCA": lambda: Contestant(packages.adabmdca_sweeps(potts, z, sweeps))},
        updates=sites * chains,
    )


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
