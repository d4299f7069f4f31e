"""How replicas travel between temperatures: rejections, the barrier, and the walks of one chain's replicas."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ebmlab.drawing.figures import new_figure
from ebmlab.evaluation.replica_exchange import ExchangeReport

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = 300  # steps of the walks


def draw_exchange(report: ExchangeReport) -> Figure:
    """Draws the rejection rates of neighbours, the barrier up to each place, and the walks of one chain's replicas.

    Equal rejections are best. A steep barrier shows where the law changes quickly, as at a phase transition. Replicas
    that stay on one side of a place never make a round trip.

    Args:
        report: of `exchange_report`.
    """
    figure = new_figure(figsize=(12.0, 3.6), layout="constrained")
    rates, barrier, walks = figure.subplots(1, 3)
    places, last = report.places.numpy(), len(report.places) - 1
    rates.plot((places[1:] + places[:-1]) / 2, report.rejections.numpy(), "o-", color="#1f77b4")
    rates.axhline(report.barrier / last, color="gray", linestyle="--", linewidth=1, label="if all were equal")
    rates.set(ylim=(0, 1), ylabel="rejected swaps", title="between neighbours")
    rates.legend(fontsize=8, frameon=False)
    barrier.plot(places, report.cumulative_barrier.numpy(), "o-", color="#d62728")
    barrier.set(
        ylabel="communication barrier", title=f"{report.barrier:.3g} in all; {report.suggested} places suggested"
    )
    for axes in (rates, barrier):
        axes.set_xlabel("inverse temperature" if places[0] == 1 else "place")
        axes.grid(alpha=0.3)
    for k, walk in enumerate(report.rungs[-SHOWN:].T):
        walks.plot(walk.numpy(), linewidth=1.6 if k == 0 else 0.5, color="#d62728" if k == 0 else "#c0c0c0", zorder=-k)
    walks.set(
        xlabel="step",
        ylabel="place (0: coldest)",
        yticks=range(0, last + 1, max(1, last // 8)),
        title=f"replicas: {report.round_trip_rate:.2g} round trips a round",
    )
    return figure
