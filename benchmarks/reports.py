"""What the report of a chain costs: processor seconds of `Sampler.sample` over those of `Sampler.last_states`.

    python -m benchmarks.reports                       # all samplers, 1, 100 and 10,000 chains, one thread
    python -m benchmarks.reports --only DMALA --chains 100 --again
    python -m benchmarks.reports --compiled --chains 100
    python -m benchmarks.reports page                  # writes the kept rows into docs/appendix/races.md

Both run in turn in one process, from equal random states. A ratio is the median over rounds. Rows are kept in `--rows`,
and one that is there is not made again without `--again`.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import torch

from benchmarks.cases.langevin import ClosedForm
from benchmarks.cases.potts import family
from benchmarks.cases.targets import rbm
from benchmarks.kept_rows import KeptRows, Row
from benchmarks.tables import put
from ebmlab.domains import Binary, Real
from ebmlab.energies import GRBM, RBM, Energy, Ising, ProductMLP
from ebmlab.errors import UserError
from ebmlab.numerics.allocator import keep_freed_memory
from ebmlab.product import Product
from ebmlab.samplers import (
    ACS,
    DLMC,
    DMALA,
    DULA,
    GWG,
    HMC,
    MALA,
    NUTS,
    ULA,
    Alternate,
    AnyScale,
    BlockGibbs,
    ChromaticGibbs,
    ChromaticMetropolis,
    DiscreteHAMS,
    DiscreteSVGD,
    Gibbs,
    GibbsLangevin,
    GibbsSweep,
    HammingBall,
    LocallyBalanced,
    PathAuxiliary,
    RandomWalk,
    RegularisedLangevin,
    RelaxedMALA,
    Sampler,
    SwendsenWang,
    Tempered,
    TrajectoryTempered,
    UnderdampedLangevin,
    Wolff,
)

ROWS, PAGE = Path("benchmarks/rows/reports.jsonl"), Path("docs/appendix/races.md")
TURN, ROUNDS = 0.1, 9  # processor seconds of a turn, about, and turns of each of the two
STEPS = 4, 800  # of a run, at least and at most
COUNTS = 1, 100, 10_000


def lattice() -> Ising:
    return Ising.lattice(20, 0.3)


def units() -> RBM:
    return RBM(64, 32)


def mixed() -> ProductMLP:
    return ProductMLP(Product(bits=Binary(8), place=Real(2)), hidden_dim=32)


RACES: dict[str, tuple[Callable[[], Sampler], Callable[[], Energy], int]] = {
    "ACS, RBM 784-500": (lambda: ACS(5.0, 0.2), rbm, 100),
    "Alternate, ProductMLP": (lambda: Alternate(bits=DMALA(0.5), place=MALA(0.1)), mixed, 10_000),
    "AnyScale, RBM 784-500": (lambda: AnyScale("first", 0.2), rbm, 100),
    "BlockGibbs, RBM 784-500": (BlockGibbs, rbm, 10_000),
    "BlockGibbs, RBM 64-32": (BlockGibbs, units, 10_000),
    "BlockGibbs, GRBM 64-32": (BlockGibbs, lambda: GRBM(64, 32), 10_000),
    "ChromaticGibbs, Ising 20 x 20": (ChromaticGibbs, lattice, 10_000),
    "ChromaticMetropolis, Ising 20 x 20": (ChromaticMetropolis, lattice, 10_000),
    "DLMC, RBM 784-500": (lambda: DLMC(0.5), rbm, 100),
    "DMALA, RBM 784-500": (lambda: DMALA(0.2), rbm, 10_000),
    "DMALA, RBM 64-32": (lambda: DMALA(0.2), units, 10_000),
    "DULA, RBM 784-500": (lambda: DULA(0.2), rbm, 100),
    "DiscreteHAMS, RBM 784-500": (lambda: DiscreteHAMS(0.9), rbm, 100),
    "DiscreteSVGD, RBM 64-32": (lambda: DiscreteSVGD(0.1), units, 100),
    "GWG, RBM 784-500": (GWG, rbm, 100),
    "Gibbs, RBM 64-32": (Gibbs, units, 10_000),
    "Gibbs, Ising 20 x 20": (Gibbs, lattice, 10_000),
    "GibbsLangevin, GRBM 64-32": (lambda: GibbsLangevin(0.05), lambda: GRBM(64, 32), 10_000),
    "GibbsLangevin adjusted, GRBM 64-32": (lambda: GibbsLangevin(0.05, adjust_from=0), lambda: GRBM(64, 32), 10_000),
    "GibbsSweep, Potts 141 x 21": (GibbsSweep, family, 100),
    "HMC, 2-D": (lambda: HMC(0.1), ClosedForm, 10_000),
    "HammingBall, RBM 64-32": (lambda: HammingBall(4, 1), units, 10_000),
    "LocallyBalanced, RBM 64-32": (LocallyBalanced, units, 100),
    "MALA, 2-D": (lambda: MALA(0.05), ClosedForm, 10_000),
    "MALA, GRBM 64-32": (lambda: MALA(0.05), lambda: GRBM(64, 32), 10_000),
    "NUTS, 2-D": (lambda: NUTS(0.5, max_depth=5), ClosedForm, 10_000),
    "PathAuxiliary, RBM 784-500": (lambda: PathAuxiliary(3), rbm, 100),
    "RandomWalk, RBM 64-32": (RandomWalk, units, 10_000),
    "RegularisedLangevin, RBM 784-500": (lambda: RegularisedLangevin(0.9), rbm, 100),
    "RelaxedMALA, RBM 64-32": (lambda: RelaxedMALA(0.1), units, 10_000),
    "SwendsenWang, Ising 20 x 20": (SwendsenWang, lattice, 100),
    "Tempered DMALA, RBM 64-32": (lambda: Tempered(DMALA(0.2), num_temperatures=4), units, 10_000),
    "TrajectoryTempered BlockGibbs, RBM 64-32": (lambda: TrajectoryTempered(BlockGibbs(), [units()]), units, 10_000),
    "ULA, 2-D": (lambda: ULA(0.01), ClosedForm, 10_000),
    "ULA, GRBM 64-32": (lambda: ULA(0.01), lambda: GRBM(64, 32), 10_000),
    "UnderdampedLangevin, 2-D": (lambda: UnderdampedLangevin(0.1), ClosedForm, 10_000),
    "UnderdampedLangevin adjusted, 2-D": (lambda: UnderdampedLangevin(0.1, adjusted=True), ClosedForm, 10_000),
    "Wolff, Ising 20 x 20": (Wolff, lattice, 100),
}
"""Name, sampler, energy, and the largest number of chains that is raced."""


def measured(sampler: Sampler, energy: Energy, chains: int, compile: bool, rounds: int) -> Row:
    """Milliseconds of a step with and without its report, and their ratios round by round."""
    torch.manual_seed(0)
    x = energy.random(chains)
    runs = [
        lambda steps: sampler.sample(energy, x, steps, compile=compile),
        lambda steps: sampler.last_states(energy, x, steps, compile=compile),
    ]

    def seconds(run: Callable[[int], object], steps: int) -> float:
        torch.manual_seed(1)
        begin = time.process_time()
        run(steps)
        return time.process_time() - begin

    for run in runs:
        seconds(run, STEPS[0])
    steps = int(min(max(TURN / (seconds(runs[1], STEPS[0]) / STEPS[0]), STEPS[0]), STEPS[1]))
    times: list[list[float]] = [[], []]
    for k in range(rounds):
        for i in (0, 1) if k % 2 == 0 else (1, 0):
            times[i].append(1e3 * seconds(runs[i], steps) / steps)
    ratios = sorted(a / b for a, b in zip(*times, strict=True))
    return {"steps": steps, "ms": [statistics.median(t) for t in times], "ratios": ratios}


def table(kept: KeptRows) -> str:
    """The median and the range of each ratio, a sampler and an energy a row."""
    kinds = [(chains, compiled) for compiled in (False, True) for chains in COUNTS]
    found = {(row["who"], row["chains"], row["compiled"]): row for row in kept.of("reports")}
    kinds = [kind for kind in kinds if any((who, *kind) in found for who in RACES)]
    titles = [f"{chains:,} {'chain' if chains == 1 else 'chains'}{', compiled' * c}" for chains, c in kinds]
    lines = [f"| sampler and energy | {' | '.join(titles)} |", "|---" * (1 + len(kinds)) + "|"]
    for who in RACES:
        rows = [found.get((who, *kind)) for kind in kinds]
        cells = [f"{statistics.median(r['ratios']):.2f}" if r else "" for r in rows]
        lines.append(f"| {who} | {' | '.join(cells)} |")
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("page", nargs="?", choices=["page"], help="write the table and measure nothing")
    parser.add_argument("--only", nargs="+", default=[], metavar="WORD", help="samplers whose names begin with one")
    parser.add_argument("--chains", type=int, nargs="+", default=COUNTS)
    parser.add_argument("--compiled", action="store_true", help="as programs, those samplers that can be compiled")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--again", action="store_true", help="measure also what is there")
    parser.add_argument("--rows", type=Path, default=ROWS)
    options = parser.parse_args()
    kept = KeptRows(options.rows)
    if options.page:
        PAGE.write_text(put(PAGE.read_text(), "reports", table(kept)))
        return
    torch.set_num_threads(1)
    keep_freed_memory()  # as the command line does
    for who, (make, energy, most) in RACES.items():
        for chains in options.chains:
            key = f"{who}, {chains}, {options.compiled}"
            wanted = not options.only or who.startswith(tuple(options.only))
            if not wanted or chains > most or (key in kept and not options.again):
                continue
            try:
                row = measured(make(), energy(), chains, options.compiled, options.rounds)
            except UserError as error:
                print(f"{key}: {error}", flush=True)
                continue
            print(f"{key}: {statistics.median(row['ratios']):.3f} of {row['ms'][1]:.3g} ms", flush=True)
            kept.add(key, {"table": "reports", "who": who, "chains": chains, "compiled": options.compiled} | row)


if __name__ == "__main__":
    main()
