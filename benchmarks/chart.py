"""Draws docs/pictures/performance.png: ten races of docs/appendix/races.md that a reader knows by name.

python -m benchmarks.chart
"""

from __future__ import annotations

import re
import statistics
from itertools import cycle
from pathlib import Path

from matplotlib.figure import Figure

from ebmlab.drawing.figures import figure_png

DOCS = Path(__file__).parents[1] / "docs"
RACES = {
    "dmala-1": "DMALA on an RBM, 1 chain",
    "dmala-100": "DMALA on an RBM, 100 chains",
    "gwg-100": "GWG on an RBM, 100 chains",
    "block-gibbs-100": "Block Gibbs on an RBM, 100 chains",
    "ais-dmala": "AIS of an RBM by DMALA",
    "checkerboard-100": "Ising lattice of 100 x 100, a sweep",
    "langevin-autograd": "Langevin on a double well, autograd",
    "rbm-epoch-trainer": "an epoch of an RBM in the Trainer",
    "grbm-plain": "an iteration of a GRBM",
    "resnet-pcd": "an iteration of a deep EBM",
}
COLOURS = {"published": "#d62728", "JAX": "#ff7f0e", "plain torch": "#7f7f7f", "NumPy": "#2ca02c"}
OTHERS = "#1f77b4"


def read(page: str) -> dict[str, tuple[float | None, dict[str, float]]]:
    """The share of compiled steps and each peer's time over ours, by race, of the table named short."""
    table = page.partition("<!-- short -->")[2].partition("<!-- end of short -->")[0]
    found = {}
    for line in table.splitlines()[3:]:
        name, _, compiled, peers = (cell.strip() for cell in line.strip().strip("|").split("|"))
        times = {who: float(time) for who, time in re.findall(r"(.+?) \**([\d.]+)\**(?:, |$)", peers)}
        found[name.strip("`")] = (float(compiled) if compiled else None, times)
    return found


def drawn(races: dict[str, tuple[float | None, dict[str, float]]]) -> Figure:
    """A line for each race; a dot for each contestant at its time over ours."""
    figure = Figure(figsize=(8.4, 5.2), layout="constrained", dpi=110)
    axes = figure.subplots()
    for row, name in enumerate(reversed(RACES)):
        compiled, peers = races[name]
        axes.plot(1, row, "o", color="black", markersize=8, zorder=3)
        if compiled is not None:
            axes.plot(compiled, row, "o", color="white", markeredgecolor="black", markersize=8, zorder=3)
        for who, time in peers.items():
            axes.plot(time, row, "o", color=COLOURS.get(who, OTHERS), markersize=7)
        for group, below in zip(_close(peers), cycle((False, True))):
            place = statistics.fmean(peers[who] for who in group)
            offset = (0, -13 if below else 7)
            axes.annotate(", ".join(group), (place, row), offset, textcoords="offset points", ha="center", fontsize=7)
    axes.axvline(1, color="black", linewidth=0.8)
    axes.set_yticks(range(len(RACES)), list(reversed(RACES.values())))
    axes.set_xscale("log")
    ticks = (0.5, 1, 2, 5, 10)
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.minorticks_off()
    axes.set_ylim(-0.7, len(RACES) - 0.4)
    axes.set_xlabel("time over ebmlab's, to the right is slower  (black: ebmlab; white: ebmlab, compiled)")
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="x", color="#dddddd")
    return figure


def _close(peers: dict[str, float]) -> list[list[str]]:
    """The peers by their times, those together whose dots would touch."""
    groups: list[list[str]] = []
    for who in sorted(peers, key=peers.__getitem__):
        if groups and peers[who] < 1.06 * peers[groups[-1][-1]]:
            groups[-1].append(who)
        else:
            groups.append([who])
    return groups


def main() -> None:
    page = (DOCS / "appendix" / "races.md").read_text()
    (DOCS / "pictures" / "performance.png").write_bytes(figure_png(drawn(read(page))))


if __name__ == "__main__":
    main()
