"""What graphs the model has learnt to draw."""

from __future__ import annotations

import math
from importlib.util import find_spec

import numpy as np
import pytorch_lightning as pl
import torch
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from torch import Tensor

from callbacks.chains import chain_length, check_length, noise, require_chains
from callbacks.graph_mmd import graph_data
from callbacks.images import DPI, log_image
from callbacks.periodic import PeriodicEvaluation
from ebmlab.energies.graphs import adjacency
from ebmlab.errors import UserError

CELL = 1.6  # inches
GAP = 0.4  # between the sides, and above them for their titles


class GraphGrid(PeriodicEvaluation):
    """Runs fresh chains from the same noise each time and shows the graphs where they end, in `samples/graphs`.

    Generated graphs stand beside as many training graphs, the same each time; nodes without edges are left out. On
    rank 0. Needs networkx, which finds the layouts: `pip install ebmlab[graphs]`.

    Args:
        num_samples: chains, and graphs of the data (as many as there are, if fewer).
        num_steps: steps of each chain; default as in training.
        every_n_epochs: see `PeriodicEvaluation`, like the rest.
        at_start: also before the first step.
        seed: of the noise and the chains, and of the choice of training graphs.
    """

    def __init__(
        self,
        num_samples: int = 16,
        num_steps: int | None = None,
        every_n_epochs: int = 1,
        at_start: bool = True,
        seed: int = 0,
    ) -> None:
        super().__init__(every_n_epochs, at_start, seed)
        check_length(self, num_steps)
        if num_samples < 1:
            raise UserError(f"GraphGrid: num_samples is {num_samples}, but must be at least 1")
        self.num_samples = num_samples
        self.num_steps = num_steps

    @property
    def state_key(self) -> str:
        return self._generate_state_key(num_samples=self.num_samples, num_steps=self.num_steps, seed=self.seed)

    def check(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        graph_data(trainer, self)
        require_chains(pl_module, self)
        if find_spec("networkx") is None:
            raise UserError('GraphGrid lays graphs out with networkx: pip install "ebmlab[graphs]", or remove it')

    def evaluate(self, trainer: pl.Trainer, pl_module: pl.LightningModule) -> None:
        data, learner = graph_data(trainer, self), require_chains(pl_module, self)
        if not trainer.is_global_zero:
            return
        n, num_steps = self.limit(trainer, self.num_samples, chain_length(learner, self.num_steps))
        samples = learner.draw(noise(learner, n), num_steps)
        raw: Tensor = data.raw("train")
        chosen = torch.randperm(len(raw), generator=torch.Generator().manual_seed(self.seed))[:n]
        sides = {f"samples after {num_steps} steps": samples, "data": data.normalize(raw[chosen])}
        matrices = {title: adjacency(x.cpu(), data.num_nodes) for title, x in sides.items()}
        log_image(trainer, "samples/graphs", draw_graphs(matrices))


def draw_graphs(sides: dict[str, Tensor]) -> Figure:
    """Sets of graphs side by side under their titles, each `(B, n, n)`, in a square grid."""
    columns = math.ceil(math.sqrt(max(map(len, sides.values()))))
    rows = math.ceil(max(map(len, sides.values())) / columns)
    width, height = len(sides) * (columns * CELL + GAP) - GAP, rows * CELL + GAP
    figure = Figure(figsize=(width, height), dpi=DPI)
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
    """Draws a graph in the unit square of its column and row, the number of its nodes above it."""
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
    """Places of the nodes in [-1, 1], `(n, 2)`: as far apart as there are steps between them (Kamada & Kawai, 1989).

    Nodes with no path between them are put further apart than the middles of two parts that touch.
    """
    import networkx as nx

    graph = nx.from_numpy_array(matrix)
    distances = {i: dict(lengths) for i, lengths in nx.all_pairs_shortest_path_length(graph)}
    apart = 2 + max(max(lengths.values()) for lengths in distances.values()) / 2
    complete = {i: {j: distances[i].get(j, apart) for j in graph} for i in graph}
    places = nx.kamada_kawai_layout(graph, dist=complete)
    return np.array([places[i] for i in graph])
