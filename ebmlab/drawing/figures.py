"""Matplotlib figures as PNG files, and figures of images side by side."""

from __future__ import annotations

import io
import math
from typing import TYPE_CHECKING, Any

from torch import Tensor

from ebmlab.drawing.tiles import MIN_WIDTH, enlarge, rgb

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DPI = 100


def new_figure(**settings: Any) -> Figure:
    """A figure with matplotlib's settings, which loads matplotlib."""
    from matplotlib.figure import Figure

    return Figure(**settings)


def figure_png(figure: Figure) -> bytes:
    """A figure as the bytes of a PNG file, at the figure's resolution."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg  # here, because it loads matplotlib

    FigureCanvasAgg(figure)
    buffer = io.BytesIO()
    figure.savefig(buffer, format="png", dpi=figure.dpi)
    return buffer.getvalue()


def panels(pictures: dict[str, Tensor], gap: int = 24, min_width: int = MIN_WIDTH) -> Figure:
    """Shows images side by side under their titles, enlarged by a whole number.

    Args:
        pictures: images `(C, H, W)` in [0, 1], by title.
        gap: pixels between them.
        min_width: smallest width of all images together, in pixels.
    """
    width = sum(p.shape[2] for p in pictures.values()) + 1
    factor = max(1, math.ceil(min_width / width))
    large = {title: enlarge(p.detach().cpu().clamp(0, 1), factor) for title, p in pictures.items()}
    top = 34
    total_width = sum(p.shape[2] for p in large.values()) + gap * (len(large) + 1)
    total_height = max(p.shape[1] for p in large.values()) + gap + top
    figure = new_figure(
        figsize=((total_width + 1e-6) / DPI, (total_height + 1e-6) / DPI), dpi=DPI
    )  # the canvas rounds down
    left = gap
    for title, picture in large.items():
        _, height, width = picture.shape
        box = (left / total_width, 1 - (top + height) / total_height, width / total_width, height / total_height)
        axes = figure.add_axes(box)
        axes.imshow(rgb(picture), interpolation="none", aspect="auto")
        axes.set_axis_off()
        figure.text(
            (left + width / 2) / total_width, 1 - 17 / total_height, title, ha="center", va="center", fontsize=11
        )
        left += width + gap
    return figure
