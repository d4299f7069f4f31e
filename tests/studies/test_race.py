"""What a study finds in energies that are large, NaN or infinite."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from helpers_grbm import Banana
from lightning_fabric import Fabric
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.io import progress
from ebmlab.samplers import DMALA, GWG, HMC, Gibbs, RandomWalk, Sampler
from ebmlab.studies import Contender, FromPoint, Study
from ebmlab.studies.race import Result


class Shifted(Energy):
    """Independent spins, in float64, with a constant added to the energy."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.domain = Spin(6)
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        return x.double().sum(1) * 0.25 + self.offset


class Top(Energy):
    """Four spins, with an energy of their own for the states with more than two spins up."""

    def __init__(self, top: float) -> None:
        super().__init__()
        self.domain = Spin(4)
        self.top = top

    def forward(self, x: Tensor) -> Tensor:
        return torch.where(x.sum(1) > 0, self.top, 0.1 * x.sum(1))


def run(folder: Path, energy: Energy, sampler: Sampler, **settings: Any) -> Result:
    study = Study({"t": energy}, {"A": Contender(sampler)}, **{"num_chains": 4, "num_steps": 200, **settings})
    study.check()
    (result,) = study.run(Fabric(accelerator="cpu", devices=1), folder, report=lambda results: None)
    return result


def test_a_constant_in_the_energy_changes_no_statistic(tmp_path: Path) -> None:
    """2^30 + 0.25 is exact in float64, and float32 rounds it to 2^30."""
    near, far = (run(tmp_path / str(offset), Shifted(offset), Gibbs()) for offset in (0.0, 2.0**30))
    assert far.row["ess_energy"] == pytest.approx(near.row["ess_energy"])
    assert far.row["r_hat"] == pytest.approx(near.row["r_hat"])
    assert far.curves["mean energy"][-1] == near.curves["mean energy"][-1] + 2.0**30


@pytest.mark.parametrize("sampler", [Gibbs(), DMALA(1.0), GWG(), RandomWalk()], ids=lambda s: type(s).__name__)
def test_a_nan_that_is_never_accepted_stops_the_study(tmp_path: Path, sampler: Sampler) -> None:
    with pytest.raises(UserError, match=r"t: A: an acceptance is NaN after \d+ steps: the energy or"):
        run(tmp_path, Top(math.nan), sampler, start=FromPoint(0))


def test_trajectories_that_diverge_are_no_fault_of_the_target(tmp_path: Path) -> None:
    result = run(tmp_path, Banana(2), HMC(0.7, 10), num_steps=100)
    assert 0 < result.row["acceptance"] < 1


@pytest.mark.parametrize(("start", "acceptance_known"), [(0, True), (1, False)])
def test_forbidden_states_are_no_fault_of_the_target(tmp_path: Path, start: int, acceptance_known: bool) -> None:
    """A move between two of them is infinity minus infinity: its acceptance is NaN, and the chain goes on."""
    energy = Top(math.inf)
    row = run(tmp_path, energy, RandomWalk(), start=FromPoint(start)).row
    assert math.isfinite(row["acceptance"]) is acceptance_known


def test_it_says_how_far_it_is_without_a_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(progress, "PATIENCE", -1.0)
    run(tmp_path, Shifted(0.0), Gibbs(), num_steps=4, burn_in=3, record_every=2)
    assert "A, step 1 of 7, 0 s left\n" in capsys.readouterr().err
