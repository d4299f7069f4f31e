"""Figures of parameters: coupling matrices, and variances over the training."""

from __future__ import annotations

from typing import TYPE_CHECKING

from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw_matrices(matrices: dict[str, Tensor]) -> Figure:
    """Draws matrices `(d, d)` side by side under their titles.

    White is zero, and the first matrix's largest entry has full colour. An entry takes at least one pixel as long as
    the figure fits on a screen.
    """
    first = next(iter(matrices.values()))
    limit = float(first.abs().max()) or 1.0
    height = min(10.0, max(4.6, len(first) / DPI + 0.8))
    figure = new_figure(figsize=(len(matrices) * height + 0.9, height), dpi=DPI, layout="compressed")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        picture = axes.imshow(matrix.float().numpy(), cmap="bwr", vmin=-limit, vmax=limit)
        axes.set_title(title)
    beyond = max(float(matrix.abs().max()) for matrix in matrices.values()) > limit
    figure.colorbar(picture, ax=list(panels), shrink=0.85, extend="both" if beyond else "neither")
    return figure


def draw_log_variance(history: list[list[float]]) -> Figure:
    """Draws the mean, smallest and largest log variance against the step.

    Args:
        history: rows of step, mean, smallest and largest.
    """
    steps, mean, low, high = zip(*history, strict=True)
    figure = new_figure(figsize=(7, 4), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    marker = "o" if len(steps) < 30 else None
    axes.fill_between(steps, low, high, alpha=0.2, label="smallest to largest")
    axes.plot(steps, mean, marker=marker, markersize=3, label="mean")
    axes.set(xlabel="step", ylabel=r"$\log\,\sigma^2$", title="log variance of the visible units")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", frameon=False)
    return figure
