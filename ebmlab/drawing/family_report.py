"""Natural sequences and samples of a model of a family in one picture."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from ebmlab.drawing.figures import DPI, new_figure
from ebmlab.evaluation.families import SHOWN, FamilyComparison, correlation

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

NATURAL, HELD_OUT, SAMPLES = "#1f77b4", "#2ca02c", "#d62728"
COLOURS = {"training": NATURAL, "held out": HELD_OUT, "samples": SAMPLES}


def draw_family(
    found: FamilyComparison, energies: dict[str, Tensor], distances: dict[str, Tensor], title: str = ""
) -> Figure:
    """Draws statistics of one, two and three sites, principal components, energies, and distances to the data.

    Args:
        found: of `evaluation.compare_families`.
        energies: `(N,)` of natural sequences and samples, by name.
        distances: shares of sites that differ from the nearest sequence of the training data, `(N,)`, by name.
        title: of the figure.
    """
    figure = new_figure(figsize=(13.0, 8.4), dpi=DPI, layout="constrained")
    figure.suptitle(title)
    panels = figure.subplots(2, 3)
    kinds = (
        ("one site", found.sites),
        ("two sites, connected", found.pairs),
        ("three sites, connected", found.triples),
    )
    for axes, (name, pairs) in zip(panels[0], kinds, strict=True):
        _draw_statistics(axes, name, pairs)
    axes = panels[1, 0]
    axes.scatter(*found.pca_data.T.numpy(), s=4, color=NATURAL, alpha=0.4, linewidths=0, label="natural")
    axes.scatter(*found.pca_samples.T.numpy(), s=4, color=SAMPLES, alpha=0.4, linewidths=0, label="samples")
    axes.set(xlabel="component 1", ylabel="component 2", title="principal components")
    axes.legend(fontsize=8, markerscale=3)
    _draw_shares(panels[1, 1], energies, "energy")
    _draw_shares(panels[1, 2], distances, "share of sites unlike the nearest training sequence")
    return figure


def _draw_statistics(axes: Axes, name: str, pairs: Tensor) -> None:
    step = max(1, len(pairs) // SHOWN)
    x, y = pairs[::step].T.numpy()
    axes.plot(x, y, ".", color=NATURAL, markersize=2, alpha=0.4)
    ends = [float(pairs.min()), float(pairs.max())] if len(pairs) else [0.0, 1.0]
    axes.plot(ends, ends, color="0.4", linewidth=0.8)
    axes.set(xlabel="data", ylabel="samples")
    axes.set_title(f"{name}: correlation {correlation(pairs):.3f}", fontsize=10)
    axes.locator_params(axis="x", nbins=5)


def _draw_shares(axes: Axes, sets: dict[str, Tensor], label: str) -> None:
    finite = {name: x[x.isfinite()].double() for name, x in sets.items()}
    together = torch.cat(list(finite.values()))
    if not len(together):
        return
    bins = np.linspace(float(together.min()), float(together.max()) + 1e-9, 41).tolist()
    for name, x in finite.items():
        weights = np.full(len(x), 1 / max(1, len(x)))
        colour = COLOURS.get(name, NATURAL)
        axes.hist(x.numpy(), bins, weights=weights, histtype="step", color=colour, label=name)
    axes.set(xlabel=label, ylabel="share")
    axes.legend(fontsize=8)
