"""Histograms of sets near each other and far apart."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.drawing.figures import figure_png
from ebmlab.drawing.histograms import NUM_BINS, draw_histograms


def normal(n: int, mean: float, std: float) -> Tensor:
    return mean + std * torch.randn(n, generator=torch.Generator().manual_seed(0))


def heights(figure: Figure) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    axes = figure.axes[0]
    return {patch.get_label(): (patch.get_data().values, patch.get_data().edges) for patch in axes.patches}


@pytest.mark.parametrize("far", [0.0, 1e5])
def test_counts_are_those_of_the_numbers(far: float) -> None:
    sets = {"data": normal(1000, -868, 20), "fashion": normal(500, -700, 60), "noise": normal(800, -600 + far, 30)}
    figure = draw_histograms(sets, "energy", "title")
    shown = heights(figure)
    assert list(shown) == list(sets) and figure_png(figure)[1:4] == b"PNG"
    for name, x in sets.items():
        values, edges = shown[name]
        assert len(values) == NUM_BINS and (np.diff(edges) > 0).all() and values.max() == 1
        counts = np.histogram(x.double().clip(edges[0], edges[-1]), edges)[0]
        np.testing.assert_allclose(values, counts / counts.max(), atol=0.02)
        assert (values > 0.1).sum() > (0 if name == "noise" and far else 5), "more than a spike"
    assert figure.axes[0].get_xscale() == ("function" if far else "linear")
    assert ("compressed" in figure.axes[0].get_xlabel()) == bool(far)


def test_numbers_that_are_not_finite_are_left_out() -> None:
    mixed = torch.tensor([1.0, 2.0, torch.nan, torch.inf])
    assert list(heights(draw_histograms({"a": mixed, "b": mixed * torch.nan}, "energy"))) == ["a"]
    assert [text.get_text() for text in draw_histograms({"a": mixed[2:]}, "e").axes[0].texts] == ["no finite numbers"]
    figure_png(draw_histograms({"a": torch.ones(5)}, "energy"))
