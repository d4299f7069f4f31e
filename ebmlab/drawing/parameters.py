"""Parameters: coupling matrices, and how variances have moved."""

from __future__ import annotations

from matplotlib.figure import Figure
from torch import Tensor

from ebmlab.drawing.figures import DPI


def draw_matrices(matrices: dict[str, Tensor]) -> Figure:
    """Matrices `(d, d)` side by side under their titles; white is zero, and the first one's largest entry full colour.

    At least a pixel an entry, where that fits on a screen.
    """
    first = next(iter(matrices.values()))
    limit = float(first.abs().max()) or 1.0
    height = min(10.0, max(4.6, len(first) / DPI + 0.8))
    figure = Figure(figsize=(len(matrices) * height + 0.9, height), dpi=DPI, layout="compressed")
    panels = figure.subplots(1, len(matrices), squeeze=False)[0]
    for axes, (title, matrix) in zip(panels, matrices.items(), strict=True):
        picture = axes.imshow(matrix.float().numpy(), cmap="bwr", vmin=-limit, vmax=limit)
        axes.set_title(title)
    beyond = max(float(matrix.abs().max()) for matrix in matrices.values()) > limit
    figure.colorbar(picture, ax=list(panels), shrink=0.85, extend="both" if beyond else "neither")
    return figure


def draw_log_variance(history: list[list[float]]) -> Figure:
    """Mean, smallest and largest log variance against the step.

    Args:
        history: rows of step, mean, smallest and largest.
    """
    steps, mean, low, high = zip(*history, strict=True)
    figure = Figure(figsize=(7, 4), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    marker = "o" if len(steps) < 30 else None
    axes.fill_between(steps, low, high, alpha=0.2, label="smallest to largest")
    axes.plot(steps, mean, marker=marker, markersize=3, label="mean")
    axes.set(xlabel="step", ylabel=r"$\log\,\sigma^2$", title="log variance of the visible units")
    axes.grid(alpha=0.3)
    axes.legend(loc="best", frameon=False)
    return figure
