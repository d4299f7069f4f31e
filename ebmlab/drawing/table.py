"""Rows of numbers and classes: each column by itself, and all pairs of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from ebmlab.data.interface import Table
from ebmlab.drawing.figures import DPI, new_figure
from ebmlab.drawing.histograms import OTHERS

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 2.0  # inches
LARGEST = 6  # columns that are shown, the first ones
PRIMES = (2, 3, 5, 7, 11, 13)  # one for each of them
NUM_BINS = 30
SHOWN = 1000  # points of each set in a pair of columns
SPREAD = 0.28  # by how much classes are spread out, so that points do not hide each other


def draw_table(tables: dict[str, Table]) -> Figure:
    """Draws a square of panels: a column's histogram on the diagonal, and below it the pairs of columns as points.

    Classes are spread out a little around their numbers. Of tables with more than six columns the first six are drawn.

    Args:
        tables: sets of rows with the same columns, by title; the first is drawn in grey.
    """
    first = next(iter(tables.values()))
    size = min(len(first.names), LARGEST)
    figure = new_figure(figsize=(size * CELL + 0.6, size * CELL + 0.6), dpi=DPI, layout="constrained")
    grid = figure.subplots(size, size, squeeze=False)
    colours = dict(zip(tables, ("0.6", *OTHERS), strict=False)) if len(tables) > 1 else dict.fromkeys(tables, OTHERS[0])
    columns = {title: table.values.detach().double().cpu().T for title, table in tables.items()}
    spread = {title: _spread(rows[:size, :SHOWN], first.classes[:size]) for title, rows in columns.items()}
    for i, j in ((i, j) for i in range(size) for j in range(size)):
        axes = grid[i, j]
        if j > i:
            axes.set_axis_off()
        elif i == j:
            _histogram(axes, {title: rows[i] for title, rows in columns.items()}, first.classes[i], colours)
        else:
            for title, rows in spread.items():
                axes.scatter(rows[j], rows[i], s=4, color=colours[title], alpha=0.5, linewidths=0)
            _mark(axes, first.classes[j], first.classes[i])
        axes.tick_params(labelsize=7, labelbottom=i == size - 1, labelleft=j == 0 and i > 0)
        if i == size - 1:
            axes.set_xlabel(first.names[j], fontsize=9)
        if j == 0 and i > 0:
            axes.set_ylabel(first.names[i], fontsize=9)
    handles = [grid[0, 0].scatter([], [], s=30, color=colours[title], label=title) for title in tables]
    figure.legend(handles=handles, loc="upper right", frameon=False, fontsize=10)
    return figure


def _histogram(axes: Axes, sets: dict[str, Tensor], classes: int, colours: dict[str, str]) -> None:
    """Shares of the classes, or the density of numbers in common bins."""
    axes.set_yticks([])
    if classes:
        width = 0.8 / len(sets)
        for k, (title, x) in enumerate(sets.items()):
            shares = torch.bincount(x.long().clamp(0, classes - 1), minlength=classes) / len(x)
            places = torch.arange(classes) + (k - (len(sets) - 1) / 2) * width
            axes.bar(places.numpy(), shares.numpy(), width, color=colours[title])
        _mark(axes, classes, 0)
        return
    whole = torch.cat(list(sets.values()))
    low, high = (float(q) for q in whole[whole.isfinite()].quantile(torch.tensor([0.002, 0.998]).double()))
    edges = torch.linspace(low, high if high > low else low + 1, NUM_BINS + 1, dtype=torch.float64)
    for k, (title, x) in enumerate(sets.items()):
        counts = torch.histogram(x, edges).hist / max(1, len(x))
        axes.stairs(counts.numpy(), edges.numpy(), fill=k == 0 and len(sets) > 1, color=colours[title], linewidth=1.5)


def _spread(rows: Tensor, classes: tuple[int, ...]) -> Tensor:
    """Columns `(c, n)` with classes at places of their own around their numbers, evenly, without random numbers."""
    steps = torch.tensor(PRIMES, dtype=rows.dtype)[: len(rows), None].sqrt()  # without common multiples
    places = (steps * torch.arange(rows.shape[1], dtype=rows.dtype)).remainder(1) * 2 - 1
    finite = torch.tensor(classes).unsqueeze(1) > 0
    return torch.where(finite, rows + SPREAD * places, rows)


def _mark(axes: Axes, horizontal: int, vertical: int) -> None:
    """Ticks at the classes' numbers, in axes that show all of them."""
    if horizontal:
        axes.set_xticks(range(horizontal) if horizontal <= 12 else [0, horizontal - 1])
        axes.set_xlim(-0.5, horizontal - 0.5)
    if vertical:
        axes.set_yticks(range(vertical) if vertical <= 12 else [0, vertical - 1])
        axes.set_ylim(-0.5, vertical - 0.5)
