"""One table of several runs of a study that differ in their seeds: the mean of each number and its range.

    python -m ebmlab sample --config configs/sampling/ising_ba400.yaml --seed 1 --name 1    # and for the other seeds
    python benchmarks/study_seeds.py runs/ising_ba400/0 runs/ising_ba400/1 runs/ising_ba400/2

Numbers are those of `table.csv`. The ESS are per 10,000 evaluations. A run that lacks a target or a sampler is left out
of its mean.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from pathlib import Path

from ebmlab.studies.report import markdown, number

COLUMNS = ("tuning_steps", "tuning_seconds", "step_size", "balance", "acceptance", "hops", "r_hat")
ESS = {"ess_distance": "ESS of the distance", "ess_energy": "ESS of the energy"}


def read(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's table, with the ESS per 10,000 evaluations."""
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        chains_times_evaluations = float(row["ess_distance"]) / float(row["ess_per_10k_evaluations"])
        for name in ESS:
            row[name] = str(float(row[name]) / chains_times_evaluations)
    return rows


def cell(values: list[float]) -> str:
    """The mean, and the range unless it rounds to one number."""
    if not values:
        return "-"
    low, high = number(min(values)), number(max(values))
    return number(statistics.mean(values)) + (f" ({low} to {high})" if low != high else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="run folders of the study")
    rows = [row for folder in parser.parse_args().folders for row in read(folder)]
    keys = list(dict.fromkeys((row["target"], row["sampler"]) for row in rows))
    table = []
    for target, sampler in keys:
        mine = [row for row in rows if (row["target"], row["sampler"]) == (target, sampler)]
        cells = [cell([float(row[name]) for row in mine if row.get(name)]) for name in (*COLUMNS, *ESS)]
        table.append([target, sampler, str(len(mine)), *cells])
    header = ["target", "sampler", "seeds", *(name.replace("_", " ") for name in COLUMNS), *ESS.values()]
    print(markdown(header, table))


if __name__ == "__main__":
    main()
