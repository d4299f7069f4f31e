"""The columns of a study's table and the labels of its curves: each belongs to one measure or sampler."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping

from ebmlab.studies.measures import Measure

MEAN_ENERGY = "mean energy"
NAMES = ("target", "sampler", "exact")
MEASURED = (
    *("tuning_steps", "tuning_seconds", "steps", "evaluations_per_step", "seconds", "acceptance", "hops", "jump"),
    *("ess_energy", "ess_distance", "ess_mean", "ess_per_second", "ess_per_10k_evaluations", "r_hat"),
)
RESERVED = frozenset((*NAMES, *MEASURED))


def curve_labels(measures: Mapping[str, Measure]) -> dict[str, str]:
    """The labels of the curves, by measure. Those that are not a measure's alone end with its name."""
    count = Counter([MEAN_ENERGY, *(measure.label for measure in measures.values())])
    labels = {name: measure.label for name, measure in measures.items() if measure.label}
    return {name: label if count[label] == 1 else f"{label}, {name}" for name, label in labels.items()}


def columns(entries: Mapping[str, Mapping[str, float]], taken: Collection[str] = RESERVED) -> dict[str, float]:
    """The entries of several owners as one row of the table.

    Args:
        entries: of each owner, by column.
        taken: columns that others have.

    Returns:
        The entries by column. A column that is taken, or that several owners have, begins with the owner's name.
    """
    count = Counter([*taken, *(column for own in entries.values() for column in own)])
    return {
        column if count[column] == 1 else f"{owner}_{column}": value
        for owner, own in entries.items()
        for column, value in own.items()
    }
