"""Graphs as nodes and lines (needs networkx, which computes the layouts)."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

CELL = 1.6  # inches
GAP = 0.4  # between the sides, and above them for their titles


def draw_graphs(sides: dict[str, Tensor]) -> Figure:
    """Draws sets of graphs side by side under their titles, each set in a square grid.

    Args:
        sides: adjacency matrices `(B, n, n)`, by title.
    """
    from matplotlib.lines import Line2D  # here, because it loads matplotlib

    columns = math.ceil(math.sqrt(max(map(len, sides.values()))))
    rows = math.ceil(max(map(len, sides.values())) / columns)
    width, height = len(sides) * (columns * CELL + GAP) - GAP, rows * CELL + GAP
    figure = new_figure(figsize=(width, height), dpi=DPI)
    for k, (title, matrices) in enumerate(sides.items()):
        left = k * (columns * CELL + GAP)
        if k > 0:
            figure.add_artist(Line2D([(left - GAP / 2) / width] * 2, [0.03, 0.97], color="0.85", linewidth=1))
        axes = figure.add_axes((left / width, 0, columns * CELL / width, 1 - GAP / height))
        axes.set(xlim=(0, columns), ylim=(rows, 0))
        axes.set_axis_off()
        figure.text((left + columns * CELL / 2) / width, 1 - GAP / 2 / height, title, ha="center", va="center")
        for i, matrix in enumerate((matrices != 0).numpy()):
            _draw(axes, matrix, i % columns, i // columns)
    return figure


def _draw(axes: Axes, matrix: np.ndarray, column: int, row: int) -> None:
    """Draws a graph, and its number of nodes above it, in the unit square of its column and row."""
    from matplotlib.collections import LineCollection  # here, because it loads matplotlib

    nodes = np.flatnonzero(matrix.any(1))
    axes.text(column + 0.5, row + 0.07, f"{len(nodes) or 'no'} nodes", fontsize=8, ha="center", va="center")
    if len(nodes) == 0:
        return
    matrix = matrix[np.ix_(nodes, nodes)]
    places = np.array([column + 0.5, row + 0.56]) + 0.38 * _layout(matrix)
    ends = places[np.argwhere(np.triu(matrix))]  # (edges, 2, 2)
    axes.add_collection(LineCollection(list(ends), colors="0.55", linewidths=0.8, zorder=1))
    axes.scatter(places[:, 0], places[:, 1], s=24, color="tab:blue", edgecolors="white", linewidths=0.6, zorder=2)


def _layout(matrix: np.ndarray) -> np.ndarray:
    """Positions of the nodes in [-1, 1], `(n, 2)`, at distances close to the lengths of paths (Kamada & Kawai, 1989).

    Nodes without a path between them get a distance at which components do not overlap.
    """
    import networkx as nx

    graph = nx.from_numpy_array(matrix)
    distances = {i: dict(lengths) for i, lengths in nx.all_pairs_shortest_path_length(graph)}
    apart = 2 + max(max(lengths.values()) for lengths in distances.values()) / 2
    complete = {i: {j: distances[i].get(j, apart) for j in graph} for i in graph}
    places = nx.kamada_kawai_layout(graph, dist=complete)
    return np.array([places[i] for i in graph])
