"""Pictures of mixed tables: which panels show what."""

from __future__ import annotations

import torch

from ebmlab.data.interface import Table
from ebmlab.drawing.table import draw_table


def test_panels_show_shares_densities_and_points() -> None:
    classes = torch.tensor([0.0, 0.0, 0.0, 2.0])
    numbers = torch.tensor([1.0, 2.0, 3.0, 4.0])
    rows = Table(torch.stack([classes, numbers], 1), ("kind", "height"), (3, 0))
    other = Table(rows.values + torch.tensor([0.0, 1.0]), rows.names, rows.classes)
    figure = draw_table({"data": rows, "samples": other})
    shares, hidden, points, density = figure.axes
    assert [bar.get_height() for bar in shares.patches[:3]] == [0.75, 0.0, 0.25]
    assert not hidden.axison and len(density.patches) == 2
    places = torch.tensor(points.collections[0].get_offsets().data)
    assert torch.allclose(places[:, 1], numbers.double())
    assert (places[:, 0] - classes).abs().max() < 0.3  # spread out around the class
    assert len(places[:, 0].unique()) == 4
    assert [text.get_text() for text in figure.legends[0].texts] == ["data", "samples"]


def test_six_columns_at_most_are_drawn() -> None:
    wide = Table(torch.randn(20, 9), tuple("abcdefghi"), (0,) * 9)
    assert len(draw_table({"samples": wide}).axes) == 36
