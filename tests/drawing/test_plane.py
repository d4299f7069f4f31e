"""Functions of the plane and points in it."""

from __future__ import annotations

import pytest
import torch

from ebmlab.drawing.plane import Surface, draw_surfaces, highest_colour


def test_the_highest_colour_is_a_density_that_most_of_the_mass_does_not_exceed() -> None:
    assert highest_colour(torch.full((5, 5), 0.2)) == pytest.approx(0.2)
    assert highest_colour(torch.tensor([[1.0, 1.0], [0.0, 1e-9]])) == 1
    flat_with_a_peak = torch.cat([torch.full((99,), 1.0), torch.tensor([4.0])])
    assert highest_colour(flat_with_a_peak) == 1
    assert highest_colour(torch.tensor([0.01, 9.0])) == 9


def test_a_colour_bar_is_pointed_where_values_lie_beyond_it() -> None:
    values = torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    for top, extend in ((3.0, "neither"), (2.5, "max")):
        figure = draw_surfaces([Surface("a", values, top)], extent=1.0)
        (image,) = figure.axes[0].images
        assert image.colorbar is not None and image.colorbar.extend == extend
        assert image.origin == "lower" and tuple(image.get_extent()) == (-1, 1, -1, 1)
