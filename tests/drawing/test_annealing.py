"""Pictures of annealing say what they draw."""

from __future__ import annotations

import math

import pytest

from ebmlab.drawing.annealing import Likelihood, draw_likelihood


@pytest.mark.parametrize("trusted", [[True], [False], [True, False]])
def test_the_legend_names_what_is_drawn_and_nothing_else(trusted: list[bool]) -> None:
    points = [Likelihood(10 * i, -9.0, math.nan, -8.0, trust) for i, trust in enumerate(trusted)]
    (axes,) = draw_likelihood(points).axes
    legend = axes.get_legend()
    assert legend is not None
    named = {"validation data": True, "validation data, not trusted": False}
    said = [text.get_text() for text in legend.get_texts()]
    assert said == [*(name for name, trust in named.items() if trust in trusted), "training data"]
    for line in axes.get_lines():
        if line.get_label() in said:  # a line of one point shows by its marker alone
            assert len(line.get_xydata()) and line.get_marker() not in ("", "None", None)
