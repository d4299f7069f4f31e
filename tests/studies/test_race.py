"""What a study finds in energies that are large, NaN or infinite."""

from __future__ import annotations

from pathlib import Path

import pytest
from lightning_fabric import Fabric
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.energies import Energy
from ebmlab.samplers import Gibbs, Sampler
from ebmlab.studies import Contender, Study
from ebmlab.studies.race import Result


class Shifted(Energy):
    """Independent spins, in float64, with a constant added to the energy."""

    def __init__(self, offset: float) -> None:
        super().__init__()
        self.domain = Spin(6)
        self.offset = offset

    def forward(self, x: Tensor) -> Tensor:
        return x.double().sum(1) * 0.25 + self.offset


def run(folder: Path, energy: Energy, sampler: Sampler, **settings: int) -> Result:
    study = Study({"t": energy}, {"A": Contender(sampler)}, **{"num_chains": 4, "num_steps": 200, **settings})
    study.check()
    (result,) = study.run(Fabric(accelerator="cpu", devices=1), folder, lambda results: None)
    return result


def test_a_constant_in_the_energy_changes_no_statistic(tmp_path: Path) -> None:
    """2^30 + 0.25 is exact in float64, and float32 rounds it to 2^30."""
    near, far = (run(tmp_path / str(offset), Shifted(offset), Gibbs()) for offset in (0.0, 2.0**30))
    assert far.row["ess_energy"] == pytest.approx(near.row["ess_energy"])
    assert far.row["r_hat"] == pytest.approx(near.row["r_hat"])
    assert far.curves["mean energy"][-1] == near.curves["mean energy"][-1] + 2.0**30
