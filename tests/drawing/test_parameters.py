"""Coupling matrices as pictures."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.backends.backend_agg import FigureCanvasAgg

from ebmlab.drawing.parameters import draw_matrices
from ebmlab.graphs import lattice


@pytest.mark.parametrize("side", [3, 25])
def test_zero_is_white_and_every_entry_has_a_pixel(side: int) -> None:
    true = lattice(side, 0.5)
    figure = draw_matrices({"true": true, "learnt": -2 * true})
    FigureCanvasAgg(figure).draw()
    left, right = figure.get_axes()[:2]
    for axes, entry in ((left, 0.5), (right, -1.0)):
        assert min(axes.get_window_extent().size) >= len(true)
        (image,) = axes.images
        white, full = image.to_rgba(np.array([0.0, entry]), bytes=True)[:, :3]
        assert white.min() >= 253
        assert full.tolist() == ([255, 0, 0] if entry > 0 else [0, 0, 255])
