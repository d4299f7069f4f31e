"""A study's results as pictures."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

from ebmlab.drawing.figures import figure_png, new_figure, panels
from ebmlab.drawing.picture_names import SWEEP, picture_name
from ebmlab.io.files import write_whole

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOURS = ("#1f77b4", "#d62728", "#2ca02c", "#ff7f0e", "#9467bd", "#8c564b", "#17becf", "#e377c2", "#7f7f7f", "#bcbd22")
LINES = ("-", "--", ":")

Style = dict[str, dict[str, str]]


class Result(Protocol):
    """The attributes of `ebmlab.studies.race.Result` that are drawn; they are documented there."""

    target: str
    sampler: str
    exact: bool
    row: dict[str, float]
    steps: list[int]
    seconds: list[float]
    curves: dict[str, list[float]]
    pictures: dict[str, Tensor]
    truths: dict[str, Tensor]


def write_target(results: Sequence[Result], folder: Path, log_curves: set[str]) -> list[Path]:
    """Writes the curves and the samplers' pictures for one target; returns the files.

    Args:
        results: of the samplers on one target.
        folder: the pictures go into its subfolder `images`.
        log_curves: labels of the curves that get a logarithmic axis.
    """
    target, style, figures = results[0].target, _style(results), {}
    for label in dict.fromkeys(label for r in results for label in r.curves):
        mine = [r for r in results if r.curves.get(label)]
        if mine:
            figures[picture_name(label, target)] = _curves(mine, label, target, label in log_curves, style)
    for measure in dict.fromkeys(m for r in results for m in r.pictures):
        pictures: dict[str, Tensor] = {}
        for r in results:
            if measure in r.truths:
                pictures.setdefault("ground truth", r.truths[measure])
        pictures |= {r.sampler: r.pictures[measure] for r in results if measure in r.pictures}
        figures[picture_name(measure, target)] = panels(pictures, min_width=300 * len(pictures))
    return _save(figures, folder)


def write_overview(results: Sequence[Result], folder: Path, log_curves: set[str], sweep: str | None) -> list[Path]:
    """Writes the pictures of all targets together; returns the files.

    These are bars of the samplers' efficiency and, with `sweep`, the last values of the curves against that setting.
    """
    figures = {}
    if any("ess_per_second" in r.row for r in results):
        figures["efficiency"] = _bars(results, list(dict.fromkeys(r.target for r in results)), _style(results))
    for label in dict.fromkeys(label for r in results for label in r.curves) if sweep else ():
        figures[picture_name(label, SWEEP)] = _sweep(results, label, label in log_curves, str(sweep))
    return _save(figures, folder)


def _save(figures: dict[str, Figure], folder: Path) -> list[Path]:
    files = []
    for key, figure in figures.items():
        path = folder / "images" / f"{key}.png"
        write_whole(path, figure_png(figure))
        files.append(path)
    return files


def _style(results: Sequence[Result]) -> Style:
    """A colour and a kind of line for each sampler."""
    return {
        name: {"color": COLOURS[i % len(COLOURS)], "linestyle": LINES[i // len(COLOURS) % len(LINES)]}
        for i, name in enumerate(dict.fromkeys(r.sampler for r in results))
    }


def _curves(results: Sequence[Result], label: str, target: str, log: bool, style: Style) -> Figure:
    """One measure against steps and against seconds."""
    figure = new_figure(figsize=(13, 4.8), dpi=100, layout="constrained")
    for axes, across in zip(figure.subplots(1, 2), ("steps", "seconds"), strict=True):
        for r in results:
            axes.plot(getattr(r, across), r.curves[label], label=r.sampler, linewidth=1.6, **style[r.sampler])
        axes.set_xlabel({"steps": "steps", "seconds": "seconds of sampling"}[across])
        axes.set_ylabel(label)
        axes.set_xscale("log")
        if log:
            axes.set_yscale("log")
        axes.grid(alpha=0.3)
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", fontsize=8)
    figure.suptitle(target)
    return figure


def _sweep(results: Sequence[Result], label: str, log: bool, sweep: str) -> Figure:
    """The last value of a curve against a setting, one line for each target and kind of sampler."""
    figure = new_figure(figsize=(6, 4.5), dpi=100, layout="constrained")
    axes = figure.add_subplot()
    families = dict.fromkeys((r.target, r.sampler.split(" ")[0]) for r in results)
    for target, family in families:
        mine = [
            r
            for r in results
            if r.target == target and r.sampler.split(" ")[0] == family and sweep in r.row and r.curves.get(label)
        ]
        points = sorted((r.row[sweep], r.curves[label][-1]) for r in mine)
        if points:
            axes.plot(*zip(*points, strict=True), marker="o", label=f"{family}, {target}")
    axes.set_xlabel(sweep.replace("_", " "))
    axes.set_ylabel(label)
    if log:
        axes.set_yscale("log")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8)
    return figure


def _bars(results: Sequence[Result], targets: list[str], style: Style) -> Figure:
    """ESS per second and per evaluation of the exact samplers, one row of panels for each target.

    Full colour is the ESS of the distance, light colour that of the energy. They differ if chains stay in their modes.
    """
    figure = new_figure(figsize=(12, max(2.2, 0.4 * len(style) + 1.0) * len(targets)), dpi=100, layout="constrained")
    grid = figure.subplots(len(targets), 2, squeeze=False)
    columns = (("ess_per_second", "ESS per second"), ("ess_per_10k_evaluations", "ESS per 10,000 evaluations"))
    for row, target in zip(grid, targets, strict=True):
        mine = [r for r in results if r.target == target and r.exact][::-1]
        for axes, (key, title) in zip(row, columns, strict=True):
            colours, places = [style[r.sampler]["color"] for r in mine], range(len(mine))
            distance = [r.row.get(key, math.nan) for r in mine]
            energy = [
                d * r.row.get("ess_energy", math.nan) / r.row.get("ess_distance", math.nan)
                for d, r in zip(distance, mine, strict=True)
            ]
            axes.barh([i + 0.2 for i in places], distance, 0.4, color=colours, label="of the distance")
            axes.barh([i - 0.2 for i in places], energy, 0.4, color=colours, alpha=0.35, label="of the energy")
            axes.set_yticks(places, [r.sampler for r in mine])
            axes.set_xlabel(title)
            axes.legend(fontsize=8)
            axes.set_title(f"{target}, samplers that converge to the law", fontsize=10)
            axes.grid(alpha=0.3, axis="x")
    return figure
