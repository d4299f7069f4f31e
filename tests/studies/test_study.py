"""How a study uses initial states, tuners and seeds."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from lightning_fabric import Fabric
from torch import Tensor

from ebmlab.energies import Energy, Ising
from ebmlab.errors import UserError
from ebmlab.samplers import DMALA, Gibbs, Sampler
from ebmlab.samplers.tuners import Tuner
from ebmlab.studies import Contender, FromPoint, Study
from ebmlab.studies.measures import Measure
from ebmlab.studies.race import Result, _points


class ToTheTop(Tuner):
    """Sets a tiny step size and returns states with all spins up."""

    def check(self, sampler: Sampler, num_steps: int | None = None) -> None:
        pass

    def tune(self, sampler: Sampler, energy: Energy, x: Tensor, num_steps: int) -> tuple[Sampler, Tensor]:
        return DMALA(1e-3), torch.ones_like(x)


class First(Measure):
    """The share of up spins in the first recorded state."""

    def __init__(self) -> None:
        self.seen: list[float] = []

    def fresh(self) -> Any:
        return First()

    def update(self, x: Tensor) -> None:
        self.seen.append(float((x == 1).float().mean()))

    def summary(self) -> dict[str, float]:
        return {"up": self.seen[0]}


def run(tmp_path: Path, **settings: Any) -> dict[str, Result]:
    contenders = settings.pop("samplers")
    energy = Ising.lattice(3, 0.2)
    study = Study({"ising": energy}, contenders, start=FromPoint(0), num_chains=4, num_steps=5, **settings)
    study.check()
    results = study.run(Fabric(accelerator="cpu", devices=1), tmp_path, report=lambda results: None)
    return {r.sampler: r for r in results}


@pytest.mark.parametrize(("restart", "up"), [(True, 0.0), (False, 1.0)])
def test_tuned_chains_start_again_or_go_on(tmp_path: Path, restart: bool, up: float) -> None:
    contenders = {"tuned": Contender(DMALA(1.0), ToTheTop())}
    results = run(tmp_path, samplers=contenders, measures={"first": First()}, restart=restart)
    assert results["tuned"].row["up"] == up
    assert results["tuned"].row["step_size"] == pytest.approx(1e-3) and results["tuned"].row["hops"] == 0
    assert float(contenders["tuned"].sampler.step_size) == 1.0  # the study's own sampler is not changed


def test_length_and_record_every_of_a_contender(tmp_path: Path) -> None:
    results = run(tmp_path, samplers={"a": Contender(Gibbs(), length=4.0), "b": Contender(Gibbs(), record_every=2)})
    assert results["a"].row["steps"] == 20 and results["b"].row["steps"] == 4
    assert results["a"].steps[-1] == 20 and len(results["a"].curves["mean energy"]) == len(results["a"].steps)


def test_a_sweep_over_what_no_sampler_has_is_refused() -> None:
    def check(sweep: str) -> None:
        contenders = {"a": Contender(DMALA(0.5)), "b": Contender(Gibbs())}
        Study({"ising": Ising.lattice(2, 0.2)}, contenders, sweep=sweep).check()

    check("step_size")
    check("acceptance")
    with pytest.raises(UserError, match=r"sweep is foo, but must be a setting that .* have: balance, step_size"):
        check("foo")


def test_time_limit(tmp_path: Path) -> None:
    results = run(tmp_path, samplers={"a": Contender(Gibbs(), length=1000.0)}, max_seconds=1e-6)
    assert results["a"].row["steps"] == 1


def test_grad_mode_is_left_as_it_was(tmp_path: Path) -> None:
    run(tmp_path, samplers={"a": Contender(Gibbs())})
    assert torch.is_grad_enabled()


def test_a_curve_of_one_point_has_its_last() -> None:
    assert _points(100, 1) == {100} and _points(100, 3) == {1, 10, 100}
