"""Composed energies named in a study's YAML, nested ones included."""

from __future__ import annotations

import csv
import sys
from pathlib import Path

import pytest

from ebmlab.app.cli import main

ISING = "{class_path: ebmlab.energies.Ising.lattice, init_args: {side: 2, coupling: 0.2, field: 0.2}}"
STUDY = f"""
targets:
  product:
    class_path: ebmlab.energies.Sum
    init_args:
      energies: [{ISING}, {{class_path: ebmlab.energies.Scaled, init_args: {{energy: {ISING}, temperature: 2.0}}}}]
      weights: [1.0, 0.5]
  mixture: {{class_path: ebmlab.energies.Mixture, init_args: {{energies: [{ISING}, {ISING}]}}}}
  clamped: {{class_path: ebmlab.energies.Clamped, init_args: {{energy: {ISING}, x: [1, 0, 0, 0], mask: MASK}}}}
samplers: {{Gibbs: {{sampler: ebmlab.samplers.Gibbs}}}}
measures: {{law: {{class_path: ebmlab.studies.LawDistance}}}}
num_chains: 1000
num_steps: 40
"""


@pytest.fixture(autouse=True)
def _empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("EBMLAB_RUN_FOLDER", "")
    monkeypatch.setattr(sys, "argv", ["ebmlab"])
    monkeypatch.setattr(sys, "path", list(sys.path))


def run(mask: str) -> None:
    Path("study.yaml").write_text(STUDY.replace("MASK", mask))
    main(["sample", "--config", "study.yaml", "--wandb=disabled", "--accelerator=cpu", "--name=test"])


@pytest.mark.slow
def test_a_study_of_composed_energies() -> None:
    run("[true, false, false, false]")
    with Path("runs/study/test/table.csv").open(newline="") as file:
        rows = {row["target"]: row for row in csv.DictReader(file)}
    assert set(rows) == {"product", "mixture", "clamped"}
    assert all(float(row["l1_law"]) < 0.25 for row in rows.values())


def test_a_wrong_mask_is_reported_in_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as error:
        run("[true, false, false]")
    assert error.value.code == 2
    assert "mask has shape (3,); coordinates of Spin(4) have (4,)" in capsys.readouterr().err
