"""Curves of several runs side by side."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from matplotlib.figure import Figure

from ebmlab.drawing.race_plots import COLOURS

Point = tuple[int, float, bool]


def curves(metrics: Mapping[str, Mapping[str, Sequence[Point]]]) -> Figure:
    """Draws one panel for each metric, with a curve for each run.

    Args:
        metrics: by metric and run the points: the step, the value, and whether it is to be trusted. Points that are not
            are crosses beside the curve.
    """
    columns = min(3, len(metrics))
    lines = math.ceil(len(metrics) / columns)
    figure = Figure(figsize=(4.2 * columns, 3.2 * lines), layout="constrained")
    runs = list(dict.fromkeys(run for by_run in metrics.values() for run in by_run))
    for i, (metric, by_run) in enumerate(metrics.items()):
        axes = figure.add_subplot(lines, columns, i + 1)
        for run, points in by_run.items():
            colour = COLOURS[runs.index(run) % len(COLOURS)]
            good = [(step, value) for step, value, trusted in points if trusted and math.isfinite(value)]
            doubtful = [(step, value) for step, value, trusted in points if not trusted and math.isfinite(value)]
            axes.plot(*zip(*good, strict=True) if good else ([], []), marker=".", color=colour, label=run)
            if doubtful:
                axes.plot(*zip(*doubtful, strict=True), "x", color=colour, label=f"{run}, not trusted")
        axes.set_title(metric)
        axes.set_xlabel("step")
        axes.grid(alpha=0.3)
        axes.legend(fontsize=7)
    return figure
