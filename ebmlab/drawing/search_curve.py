"""The best value of a search against the time, and the values that all chains have reached."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_search(curve: Sequence[tuple[float, float]], values: Tensor, title: str, unit: str) -> Figure:
    """Draws the curve, and beside it a histogram of the chains' best values on the same axis.

    Args:
        curve: `(seconds, best value so far)`.
        values: of the best solution of each chain, `(B,)`.
        title: of the figure.
        unit: what a value counts.
    """
    from matplotlib.ticker import MaxNLocator  # here, because it loads matplotlib

    figure = new_figure(figsize=(8, 4), dpi=DPI, layout="constrained")
    left, right = figure.subplots(1, 2, sharey=True, width_ratios=(3, 1))
    seconds, best = zip(*curve, strict=True)
    left.step(seconds, best, where="post", color="C0")
    left.set(xlabel="seconds", ylabel=unit, xscale="log" if seconds[-1] > 10 * seconds[0] else "linear")
    low, high = float(values.min()), float(values.max())
    shown = [value for value in best if min(low, high) <= value <= max(low, high)]
    margin = 0.05 * (high - low) or 0.5
    left.set_ylim(min([low, *shown]) - margin, max([high, *shown]) + margin)
    width = max(1.0, (high - low) / 40)  # whole numbers have a bar each
    bins = [low - 0.5 + k * width for k in range(int((high - low) / width) + 2)]
    right.hist(values.numpy(), bins=bins, orientation="horizontal", color="C1")
    right.set(xlabel="chains")
    right.xaxis.set_major_locator(MaxNLocator(integer=True, nbins=3))
    figure.suptitle(title)
    return figure
