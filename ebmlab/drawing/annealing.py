"""What annealed chains say of log Z one by one, how many of them are effective, and the likelihood along training."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from ebmlab.drawing.figures import new_figure
from ebmlab.evaluation.log_z import LogZ

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

FORWARD, BACKWARD = "#1f77b4", "#d62728"


class Likelihood(NamedTuple):
    """Mean log-likelihoods after a number of training steps, in nats.

    Attributes:
        step: the number of training steps.
        held_out: of the validation data, with log Z from forward chains.
        lower: the same from backward chains; NaN without them.
        train: of training data.
        trusted: whether they are to be believed.
    """

    step: int
    held_out: float
    lower: float
    train: float
    trusted: bool


def draw_likelihood(points: Sequence[Likelihood]) -> Figure:
    """Draws the likelihood of validation and training data along training; crosses are not to be trusted.

    The band lies between what forward and backward chains say of the validation data.
    """
    figure = new_figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    steps, held_out, lower = ([getattr(p, name) for p in points] for name in ("step", "held_out", "lower"))
    axes.fill_between(steps, held_out, lower, color=FORWARD, alpha=0.2, linewidth=0)
    axes.plot(steps, held_out, color=FORWARD)
    for trusted, marker, label in ((True, "o", "validation data"), (False, "x", "validation data, not trusted")):
        if chosen := [p for p in points if p.trusted is trusted]:
            axes.plot([p.step for p in chosen], [p.held_out for p in chosen], marker, color=FORWARD, label=label)
    axes.plot(steps, [p.train for p in points], ".--", color=BACKWARD, linewidth=1, label="training data")
    axes.set(xlabel="training steps", ylabel="mean log-likelihood (nats)")
    axes.grid(alpha=0.3)
    axes.legend(fontsize=8, frameon=False)
    return figure


def draw_annealing(found: LogZ) -> Figure:
    """Draws a histogram of the chains' log-weights, and the effective number of chains along the path.

    The log-weight of one forward chain is on average below log Z, that of a backward chain above. Where the two sets
    overlap, the estimates can be believed; a gap between them is what no error bar shows.

    Args:
        found: of `log_z` or `ais`.
    """
    figure = new_figure(figsize=(10.0, 3.6), layout="constrained")
    weights, path = figure.subplots(1, 2)
    for result, name, colour in ((found, "forward", FORWARD), (found.backward, "backward", BACKWARD)):
        if result is not None:
            _weights(weights, result, name, colour)
            _path(path, result, name, colour)
    weights.set(xlabel="log Z by one chain (nats)", ylabel="chains", title="log-weights, and the estimates")
    path.set(xlabel="inverse temperature", ylabel="effective chains", title="effective chains along the path")
    path.set_yscale("log")
    path.set_ylim(0.9, 1.1 * found.log_weights.numel())
    for axes in (weights, path):
        axes.grid(alpha=0.3)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(fontsize=8, frameon=False, loc="upper center", bbox_to_anchor=(0.5, -0.15), ncols=2)
    return figure


def _weights(axes: Axes, result: LogZ, name: str, colour: str) -> None:
    log_w = result.log_weights.flatten().cpu()
    log_w = log_w[log_w.isfinite()]
    if not len(log_w):
        return
    axes.hist((-log_w if result.reverse else log_w).numpy(), bins=40, color=colour, alpha=0.5)
    axes.axvline(result.log_z, color=colour, label=f"{name}: {result.log_z:.5g}, {result.ess:.3g} of {log_w.numel()}")


def _path(axes: Axes, result: LogZ, name: str, colour: str) -> None:
    if result.path is not None:
        beta, ess = result.path.T.cpu().numpy()
        axes.plot(beta, ess, color=colour, label=name, linewidth=1.2)
