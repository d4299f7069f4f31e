"""Curves of several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from ebmlab.drawing.figures import new_figure
from ebmlab.drawing.race_plots import COLOURS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

Point = tuple[int, float, bool]


def curves(metrics: Mapping[str, Mapping[str, Sequence[Point]]]) -> Figure:
    """Draws one panel for each metric, with a curve for each run, or a dot where no run has more than one point.

    Args:
        metrics: by metric and run the points: the step, the value, and whether it is to be trusted. Points that are not
            are crosses beside the curve.
    """
    columns = min(3, len(metrics))
    lines = math.ceil(len(metrics) / columns)
    figure = new_figure(figsize=(4.2 * columns, 3.2 * lines), layout="constrained")
    runs = list(dict.fromkeys(run for by_run in metrics.values() for run in by_run))
    for i, (metric, by_run) in enumerate(metrics.items()):
        axes = figure.add_subplot(lines, columns, i + 1, title=metric)
        axes.grid(alpha=0.3)
        if all(len(points) <= 1 for points in by_run.values()):
            _dots(axes, by_run, [COLOURS[runs.index(run) % len(COLOURS)] for run in by_run])
            continue
        for run, points in by_run.items():
            colour = COLOURS[runs.index(run) % len(COLOURS)]
            good = [(step, value) for step, value, trusted in points if trusted and math.isfinite(value)]
            doubtful = [(step, value) for step, value, trusted in points if not trusted and math.isfinite(value)]
            axes.plot(*zip(*good, strict=True) if good else ([], []), marker=".", color=colour, label=run)
            if doubtful:
                axes.plot(*zip(*doubtful, strict=True), "x", color=colour, label=f"{run}, not trusted")
        axes.set_xlabel("step")
        axes.legend(fontsize=7)
    return figure


def _dots(axes: Axes, by_run: Mapping[str, Sequence[Point]], colours: Sequence[str]) -> None:
    """A line for each run, the first on top, with a dot at its value; a cross if it is not to be trusted."""
    from matplotlib.ticker import MaxNLocator  # here, because it loads matplotlib

    for place, (points, colour) in enumerate(zip(by_run.values(), colours, strict=True)):
        for _, value, trusted in points:
            if math.isfinite(value):
                axes.plot(value, place, "o" if trusted else "x", color=colour)
    axes.set_yticks(range(len(by_run)), list(by_run), fontsize=7)
    axes.set_ylim(len(by_run) - 0.5, -0.5)
    axes.xaxis.set_major_locator(MaxNLocator(4))
    axes.set_xlabel("the only value")
