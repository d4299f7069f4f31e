"""Predicted contacts beside those of a structure."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from ebmlab.drawing.figures import DPI, new_figure
from ebmlab.evaluation.contacts import LONG_RANGE, ContactPrediction

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HIT, MISS, THERE = "#1f77b4", "#d62728", "0.8"


def draw_contacts(found: ContactPrediction, title: str = "") -> Figure:
    """Draws the map of contacts and the curve of precision side by side.

    In the map, grey are the contacts of the structure. Above the diagonal the best L pairs are blue where they are
    contacts, and red where they are none. Hatched sites have no residue in the structure.

    Args:
        found: scores and distances.
        title: of the figure.
    """
    figure = new_figure(figsize=(12.0, 5.8), dpi=DPI, layout="constrained")
    figure.suptitle(title)
    left, right = figure.subplots(1, 2)
    _draw_map(left, found)
    _draw_precision(right, found)
    return figure


def _draw_map(axes: Axes, found: ContactPrediction) -> None:
    size = len(found.scores)
    distances = found.distances.numpy()
    apart = (found.positions.unsqueeze(0) - found.positions.unsqueeze(1)).abs().numpy() >= found.min_separation
    with np.errstate(invalid="ignore"):
        there = np.argwhere((distances < found.threshold) & apart)
    dot = max(1.5, 340.0 / size)
    x, y = there.T + 1
    near = f"closer than {found.threshold:g} Å"
    axes.scatter(x, y, s=dot**2, marker="s", color=THERE, linewidths=0, label=near)
    best = found.ranked()[:size]
    is_contact = found.distances[best[:, 0], best[:, 1]] < found.threshold
    for pairs, colour, label in ((best[is_contact], HIT, "contact"), (best[~is_contact], MISS, "no contact")):
        i, j = (pairs + 1).T.numpy()
        axes.scatter(i, j, s=(1.3 * dot) ** 2, color=colour, linewidths=0, label=f"predicted, {label}")
    for site in (found.positions < 0).nonzero().flatten().tolist():
        axes.axvspan(site + 0.5, site + 1.5, color="0.95", zorder=0)
        axes.axhspan(site + 0.5, site + 1.5, color="0.95", zorder=0)
    axes.plot([0, size + 1], [0, size + 1], color="0.6", linewidth=0.7)
    axes.set(xlim=(0, size + 1), ylim=(0, size + 1), xlabel="site", ylabel="site", aspect="equal")
    axes.set_title(f"best {len(best)} pairs above the diagonal", fontsize=10)
    axes.legend(fontsize=8, loc="lower right", markerscale=2)


def _draw_precision(axes: Axes, found: ContactPrediction) -> None:
    size = len(found.scores)
    for separation, label, colour in ((None, "all", HIT), (LONG_RANGE, f"{LONG_RANGE} or more apart", "#2ca02c")):
        curve = found.curve(separation)[: 3 * size].numpy()
        axes.plot(np.arange(1, len(curve) + 1), curve, color=colour, label=label)
    for part in (1, 2, 5):
        axes.axvline(size / part, color="0.85", linewidth=1, zorder=0)
        axes.text(size / part, 1.02, "L" if part == 1 else f"L/{part}", ha="center", fontsize=8)
    axes.axhline(found.precision(size**2), color="0.5", linestyle=":", label="pairs at random")
    axes.set(xscale="log", ylim=(0, 1.06), xlabel="number of pairs", ylabel="share of contacts")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=9, loc="lower left")
