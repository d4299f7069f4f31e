"""One table of several runs of a study that differ in their seeds: the mean of each number and its range.

    python -m ebmlab sample --config configs/sampling/ising_ba400.yaml --seed 1 --name 1    # and for the other seeds
    python papers/study_seeds.py runs/ising_ba400/0 runs/ising_ba400/1 runs/ising_ba400/2
    python papers/study_seeds.py runs/rbm_mode/0 runs/rbm_mode/1 runs/rbm_mode/2 --below "log MMD" -4 -5

Numbers are those of `table.csv`. The ESS are per 10,000 evaluations. A run that lacks a target or a sampler is left out
of its mean. With `--below` also the first recorded step of each run at which a curve is below a level.
"""

from __future__ import annotations

import argparse
import csv
import statistics
from collections.abc import Sequence
from pathlib import Path

from ebmlab.io.files import load
from ebmlab.studies.report import markdown, number

COLUMNS = ("tuning_steps", "tuning_seconds", "step_size", "balance", "acceptance", "hops", "r_hat")
ESS = {"ess_distance": "ESS of the distance", "ess_energy": "ESS of the energy"}

Key = tuple[str, str]  # target and sampler


def read(folder: Path) -> list[dict[str, str]]:
    """The rows of a run's table, with the ESS per 10,000 evaluations."""
    with (folder / "table.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    for row in rows:
        chains_times_evaluations = float(row["ess_distance"]) / float(row["ess_per_10k_evaluations"])
        for name in ESS:
            row[name] = str(float(row[name]) / chains_times_evaluations)
    return rows


def measures(rows: list[dict[str, str]]) -> list[str]:
    """The columns of the study's own measures, such as `log_mmd`."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    return [name for name in names[names.index("r_hat") + 1 :] if name not in COLUMNS]


def first_below(folder: Path, curve: str, level: float) -> dict[Key, int | None]:
    """The first recorded step at which each sampler's curve is below a level; None if there is none."""
    found: dict[Key, int | None] = {}
    for file in sorted(folder.glob("results/*.pt")):
        result = load(file)
        if curve not in result["curves"]:
            raise SystemExit(f"{file} has no curve {curve}, but {', '.join(result['curves'])}")
        points = zip(result["steps"], result["curves"][curve], strict=True)
        found[result["target"], result["sampler"]] = next((step for step, value in points if value < level), None)
    return found


def cell(values: Sequence[float]) -> str:
    """The mean, and the range unless it rounds to one number."""
    if not values:
        return "-"
    low, high = number(min(values)), number(max(values))
    return number(statistics.mean(values)) + (f" ({low} to {high})" if low != high else "")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", type=Path, nargs="+", help="run folders of the study")
    parser.add_argument("--below", nargs="+", metavar=("CURVE", "LEVEL"), default=[], help="a curve, and levels")
    args = parser.parse_args()
    rows = [row for folder in args.folders for row in read(folder)]
    curve, levels = " ".join(args.below[:1]), [float(level) for level in args.below[1:]]
    steps = [[first_below(folder, curve, level) for folder in args.folders] for level in levels]
    names = [*COLUMNS, *ESS, *measures(rows)]
    table = []
    for key in dict.fromkeys((row["target"], row["sampler"]) for row in rows):
        mine = [row for row in rows if (row["target"], row["sampler"]) == key]
        cells = [cell([float(row[name]) for row in mine if row.get(name)]) for name in names]
        cells += [", ".join(str(run[key] or "-") for run in runs if key in run) for runs in steps]
        table.append([*key, str(len(mine)), *cells])
    header = ["target", "sampler", "seeds", *(ESS.get(name, name.replace("_", " ")) for name in names)]
    print(markdown([*header, *(f"{curve} below {level:g} from step" for level in levels)], table))


if __name__ == "__main__":
    main()
