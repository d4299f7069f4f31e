"""Histograms of several sets of numbers in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NUM_BINS = 72
TAIL = 0.005  # share of each set that may lie beyond each end of the axis
FAR = 5  # the axis is bent if the sets span more than this multiple of the first set's range
FIRST = "#1f77b4"
OTHERS = ("#d62728", "#ff7f0e", "#2ca02c", "#9467bd", "#8c564b", "#e377c2", "#17becf", "#bcbd22", "#7f7f7f")


def draw_histograms(values: dict[str, Tensor], label: str, title: str = "") -> Figure:
    """Draws the first set filled and the others as lines, in common bins, each set's fullest bin at height 1.

    Numbers beyond the axis are counted in its first or last bin. Sets that lie far apart would be spikes on a linear
    axis. The axis is then logarithmic away from the first set.

    Args:
        values: one-dimensional sets by name; numbers that are not finite are left out.
        label: of the axis.
        title: of the figure.
    """
    sets = {name: x.detach().double().cpu() for name, x in values.items()}
    sets = {name: x[x.isfinite()] for name, x in sets.items() if x.isfinite().any()}
    figure = new_figure(figsize=(10.0, 4.2), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.set(xlabel=label, ylabel="relative frequency", title=title)
    if not sets:
        axes.text(0.5, 0.5, "no finite numbers", ha="center")
        return figure
    bins = _bins(axes, list(sets.values()))
    inner = bins[1:-1].contiguous()
    for name, x in sets.items():
        counts = torch.bincount(torch.bucketize(x, inner), minlength=NUM_BINS)
        first = name == next(iter(values))
        colour = FIRST if first else OTHERS[(list(values).index(name) - 1) % len(OTHERS)]
        alpha = 0.55 if first else 1.0
        axes.stairs((counts / counts.max()).numpy(), bins.numpy(), fill=first, color=colour, alpha=alpha, label=name)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1.0, 1.0))
    return figure


def _bins(axes: Axes, sets: list[Tensor]) -> Tensor:
    """The edges of common bins, `(NUM_BINS + 1,)`, equally wide on the axis; bends the axis if that is needed."""
    tails = torch.tensor([TAIL, 1 - TAIL], dtype=torch.float64)
    ends = torch.stack([x.quantile(tails) for x in sets])
    low, high = float(ends[:, 0].min()), float(ends[:, 1].max())
    if low == high:
        low, high = low - 0.5, high + 0.5
    centre, unit = float(sets[0].median()), float(ends[0, 1] - ends[0, 0]) / 2
    if not 0 < 2 * FAR * unit < high - low:
        return torch.linspace(low, high, NUM_BINS + 1, dtype=torch.float64)

    def bend(x: ArrayLike) -> Any:
        return np.arcsinh((np.asarray(x) - centre) / unit)

    def unbend(u: ArrayLike) -> Any:
        return centre + unit * np.sinh(u)

    bins = unbend(np.linspace(bend(low), bend(high), NUM_BINS + 1))
    axes.set_xscale("function", functions=(bend, unbend))
    ticks = [float(f"{edge:.2g}") for edge in bins[:: NUM_BINS // 6]]
    axes.set_xticks(ticks, [f"{tick:g}" for tick in ticks])
    axes.set_xlabel(f"{axes.get_xlabel()} (axis compressed away from the first set)")
    return torch.from_numpy(bins)
