"""Figures of points in the plane and of functions on it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure
from ebmlab.errors import how_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 0.95  # share of the mass whose density is within the range of colours


class Surface(NamedTuple):
    """A function on the plane, by its values at `evaluation.quadrature.cell_centres`.

    Attributes:
        title: stands above it.
        values: `(resolution, resolution)`, 0 or more; the row index is y.
        top: the value at which the colours end.
        colours: matplotlib's name of the colour map.
    """

    title: str
    values: Tensor
    top: float
    colours: str = "viridis"


def draw_surfaces(surfaces: list[Surface], extent: float) -> Figure:
    """Shows functions on the plane side by side, each with its colour bar.

    Args:
        surfaces: the functions.
        extent: the window is [-extent, extent] in both directions.
    """
    return _surfaces(surfaces, extent, 0)


def draw_surfaces_and_points(
    surfaces: list[Surface], extent: float, samples: Tensor, data: Tensor, title: str, names: tuple[str, str] = ("", "")
) -> Figure:
    """Shows functions on the plane, and beside them samples over data, with the number of samples outside the window.

    Args:
        surfaces: the functions.
        extent: the window is [-extent, extent] in both directions.
        samples: points `(N, 2)`.
        data: points `(M, 2)`.
        title: stands above the points.
        names: of the two coordinates, with what was done to them.
    """
    figure = _surfaces(surfaces, extent, 1)
    for axes in figure.axes[: len(surfaces) + 1]:
        axes.set_xlabel(names[0])
    figure.axes[0].set_ylabel(names[1])
    axes = figure.axes[len(surfaces)]
    outside = int((samples.abs() > extent).any(1).sum())
    label = f"samples ({outside} outside)" if outside else "samples"
    for name, points, colour, alpha in (("data", data, "0.6", 1.0), (label, samples, "tab:red", 0.6)):
        axes.scatter(
            points[:, 0].numpy(), points[:, 1].numpy(), s=4, color=colour, alpha=alpha, linewidths=0, label=name
        )
    axes.set(title=title, xlim=(-extent, extent), ylim=(-extent, extent), aspect="equal")
    axes.legend(loc="upper right", markerscale=3, framealpha=0.9)
    return figure


def _surfaces(surfaces: list[Surface], extent: float, places: int) -> Figure:
    """The surfaces, and `places` empty axes to their right."""
    columns = len(surfaces) + places
    figure = new_figure(figsize=(4.45 * len(surfaces) + 4.1 * places, 4.4), dpi=DPI, layout="constrained")
    row = figure.subplots(1, columns, sharex=True, sharey=True, squeeze=False)[0]
    for axes, (title, values, top, colours) in zip(row, surfaces, strict=False):
        window = (-extent, extent, -extent, extent)
        picture = axes.imshow(values.numpy(), cmap=colours, vmin=0, vmax=top, origin="lower", extent=window)
        beyond = "max" if float(values.max()) > top else "neither"
        figure.colorbar(picture, ax=axes, shrink=0.78, extend=beyond)
        axes.set_title(title)
    return figure


def draw_points(points: Tensor, extent: float) -> Figure:
    """Points `(N, 2)` alone, in the window from -extent to extent."""
    figure = new_figure(figsize=(6, 6), dpi=DPI, layout="constrained")
    axes = figure.add_subplot()
    axes.scatter(points[:, 0].numpy(), points[:, 1].numpy(), s=9, color="tab:red", linewidths=0, alpha=0.6)
    window = (-extent, extent)
    axes.set(xlim=window, ylim=window, aspect="equal", title=how_many(len(points), "sample"))
    return figure


def highest_colour(density: Tensor) -> float:
    """The density that 95 % of the mass does not exceed. With it as `top`, a few sharp peaks do not darken the rest."""
    levels = density.flatten().sort().values
    mass = levels.cumsum(0)
    return float(levels[min(int((mass < SHOWN * mass[-1]).sum()), len(levels) - 1)])
