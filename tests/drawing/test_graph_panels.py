"""Graphs as nodes and lines."""

from __future__ import annotations

import sys

import numpy as np
import pytest
import torch
from matplotlib.collections import LineCollection

from ebmlab.drawing import graph_panels
from ebmlab.graphs import adjacency


def test_drawing_needs_no_pyplot_and_takes_odd_graphs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Graphs without nodes, with one edge, and of two components; five graphs leave a cell of the panel empty."""
    monkeypatch.delitem(sys.modules, "matplotlib.pyplot", raising=False)
    x = torch.zeros(5, 15)
    x[1, 0] = x[2, 0] = x[2, 14] = 1
    x[3:] = 1
    figure = graph_panels.draw_graphs({"a": adjacency(x, 6), "b": adjacency(x[:2], 6)})
    assert "matplotlib.pyplot" not in sys.modules
    left, right = figure.get_axes()
    assert [t.get_text() for t in figure.texts] == ["a", "b"]
    assert [t.get_text() for t in left.texts] == ["no nodes", "2 nodes", "4 nodes", "6 nodes", "6 nodes"]
    assert [t.get_text() for t in right.texts] == ["no nodes", "2 nodes"]
    lines = [c for c in left.collections if isinstance(c, LineCollection)]
    assert [len(c.get_segments()) for c in lines] == [1, 2, 15, 15]
    dots = [np.asarray(c.get_offsets()) for c in left.collections if not isinstance(c, LineCollection)]
    assert [len(d) for d in dots] == [2, 4, 6, 6]
    for i, d in enumerate(dots, start=1):  # three columns, from left to right and top to bottom
        assert (np.floor(d) == [i % 3, i // 3]).all()


def test_edges_end_at_their_nodes() -> None:
    """A path of 3: the middle node lies between the ends."""
    places = graph_panels._layout(np.array([[0, 1, 0], [1, 0, 1], [0, 1, 0]]))
    assert places.shape == (3, 2)
    assert np.linalg.norm(places[0] - places[2]) > 1.5 * np.linalg.norm(places[0] - places[1])
