"""The trials of a sweep: their scores in turn, and against each setting."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Any

from ebmlab.drawing.figures import new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_MARKS: dict[str, dict[str, Any]] = {
    "complete": {"marker": "o", "color": "#1f77b4", "s": 26},
    "pruned": {"marker": "x", "color": "#9aa0a8", "s": 26},
}


@dataclass(frozen=True)
class Trial:
    """One run of a sweep.

    Attributes:
        number: from 0.
        state: "complete", "pruned" or "fail".
        value: its score; of a pruned one the last that it had; None without any.
        settings: by name.
    """

    number: int
    state: str
    value: float | None
    settings: dict[str, Any]


def draw_sweep(trials: Sequence[Trial], objective: str, higher: bool, scales: Mapping[str, str]) -> Figure:
    """Draws the scores of the trials with the best so far, and a panel for each setting.

    Args:
        trials: those that have ended.
        objective: the score's name.
        higher: whether higher scores are better.
        scales: the axis of each setting: "linear", "log" or "choices".
    """
    from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter  # here, because it loads matplotlib

    columns = min(3, 1 + len(scales))
    lines = math.ceil((1 + len(scales)) / columns)
    figure = new_figure(figsize=(4.4 * columns, 3.4 * lines), layout="constrained")
    first = figure.add_subplot(lines, columns, 1)
    _scatter(first, trials, [trial.number for trial in trials])
    done = {trial.number: trial.value for trial in trials if trial.state == "complete" and trial.value is not None}
    if done:
        best = list(accumulate(done.values(), max if higher else min))
        first.step(list(done), best, where="post", color="#d62728", linewidth=1, label="best")
    first.set(xlabel="trial", ylabel=objective)
    first.xaxis.set_major_locator(MaxNLocator(integer=True))
    failed = sum(trial.state == "fail" for trial in trials)
    handles, _ = first.get_legend_handles_labels()  # given, for without any matplotlib would warn
    first.legend(handles=handles, fontsize=7, title=f"{failed} failed" if failed else None, title_fontsize=7)
    for place, (name, scale) in enumerate(scales.items(), start=2):
        axes = figure.add_subplot(lines, columns, place)
        values = [trial.settings.get(name) for trial in trials]
        if scale == "choices":
            names = {str(value): value for value in values}
            choices = sorted(names, key=lambda name: _order(names[name]))
            axes.set_xticks(range(len(choices)), _short(choices))
            axes.set_xlim(-0.5, len(choices) - 0.5)
            values = [choices.index(str(value)) for value in values]
        _scatter(axes, trials, values)
        if scale == "log":
            axes.set_xscale("log")
            low, high = axes.get_xlim()
            axes.xaxis.set_major_locator(LogLocator(subs=(1, 2, 5) if high < 50 * low else (1,), numticks=8))
            axes.xaxis.set_major_formatter("{x:g}")
            axes.xaxis.set_minor_formatter(NullFormatter())
        axes.set(xlabel=name, ylabel=objective)
    return figure


def _order(choice: Any) -> tuple[bool, Any]:
    """Numbers first, from small to large, then words by the alphabet."""
    number = isinstance(choice, (int, float))
    return not number, choice if number else str(choice)


def _short(names: list[str]) -> list[str]:
    """Classes without their modules, unless they would look the same."""
    short = [name.rpartition(".")[2] if name[:1].isalpha() else name for name in names]
    return short if len({*short}) == len(names) else names


def _scatter(axes: Axes, trials: Sequence[Trial], places: Sequence[Any]) -> None:
    for state, mark in _MARKS.items():
        shown = [(x, t.value) for x, t in zip(places, trials, strict=True) if t.state == state and t.value is not None]
        if shown:
            axes.scatter(*zip(*shown, strict=True), label=state, **mark)
    axes.grid(alpha=0.3)
