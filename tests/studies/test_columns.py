"""Columns and curves whose names several measures or samplers ask for."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest
import torch
from lightning_fabric import Fabric

from ebmlab.drawing.race_plots import write_target
from ebmlab.energies import Ising
from ebmlab.samplers import Gibbs, RandomWalk
from ebmlab.studies import Contender, LogMMD, Study
from ebmlab.studies.measures import Measure
from ebmlab.studies.race import Result
from ebmlab.studies.report import markdown, write_tables


class Own(RandomWalk):
    """A sampler with settings whose names are columns of every table."""

    def __init__(self) -> None:
        super().__init__()
        for name, value in {"target": 0.5, "steps": 7.0, "tuning_steps": 9.0, "r_hat": 3.0}.items():
            self.register_buffer(name, torch.tensor(value))


class Clash(Measure):
    """A measure whose curve and columns have names of the study's own."""

    label = "mean energy"

    def value(self) -> float:
        return 1e6

    def summary(self) -> dict[str, float]:
        return {"sampler": -1.0, "steps": -1.0}


def run(folder: Path, sampler: Contender, **measures: Measure) -> Result:
    study = Study({"ising": Ising.lattice(2, 0.2)}, {"A": sampler}, num_chains=3, num_steps=3, measures=measures)
    study.check()
    (result,) = study.run(Fabric(accelerator="cpu", devices=1), folder, report=lambda results: None)
    return result


def line(result: Result, folder: Path) -> dict[str, str]:
    write_tables([result], folder)
    with (folder / "table.csv").open(newline="") as file:
        (found,) = csv.DictReader(file)
    return found


def test_a_samplers_settings_do_not_replace_columns(tmp_path: Path) -> None:
    found = line(run(tmp_path, Contender(Own())), tmp_path)
    assert (found["target"], found["sampler"], found["steps"]) == ("ising", "A", "3")
    assert (found["sampler_target"], found["sampler_steps"]) == ("0.5", "7.0")
    assert "tuning_steps" not in found and "r_hat" not in found  # nothing was tuned, and 3 steps have no R-hat


def test_names_win_in_tables_of_results_from_earlier_versions(tmp_path: Path) -> None:
    old = Result("ising", "A", exact=True, row={"target": 0.5, "acceptance": 1.0})
    assert line(old, tmp_path) == {"target": "ising", "sampler": "A", "exact": "True", "acceptance": "1.0"}


def test_a_measures_columns_and_curve_do_not_replace_the_studys(tmp_path: Path) -> None:
    result = run(tmp_path, Contender(Gibbs()), own=Clash())
    assert result.row["steps"] == 3 and result.row["own_steps"] == result.row["own_sampler"] == -1
    assert set(result.curves) == {"mean energy", "mean energy, own"} and max(result.curves["mean energy"]) < 1e6


@pytest.mark.slow
def test_two_measures_of_one_kind(tmp_path: Path) -> None:
    result = run(
        tmp_path, Contender(Gibbs()), short=LogMMD(Gibbs(), 5, num_steps=1), long=LogMMD(Gibbs(), 50, num_steps=1)
    )
    assert result.row["short_log_mmd"] != result.row["long_log_mmd"] and "log_mmd" not in result.row
    files = [path.name for path in write_target([result], tmp_path, set())]
    assert files == ["log_MMD_short-ising.png", "log_MMD_long-ising.png", "mean_energy-ising.png"]


def test_a_bar_in_a_name_does_not_break_the_table() -> None:
    assert markdown(["target", "sampler"], [["t", "a|b"]]).splitlines()[2] == "| t      | a\\|b    |"
