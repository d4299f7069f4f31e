"""Reheating: the beta of the highest specific heat, chains that get nowhere, and a search that is resumed."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch

from ebmlab.energies import Ising
from ebmlab.errors import UserError
from ebmlab.io.files import load, save
from ebmlab.problems import Geometric, Heat, Minimum, Reheated, Schedule, beta_range, frustrated_loops, minimise
from ebmlab.problems.chains import Words
from ebmlab.samplers import ChromaticGibbs
from ebmlab.samplers.multi_spin import MultiSpin


@pytest.mark.slow
def test_the_chains_go_back_to_the_peak_of_the_exact_specific_heat() -> None:
    torch.manual_seed(0)
    energy, schedule = Ising.lattice(4, 1.0, field=0.05), Reheated(Geometric(0.05, 5.0))
    energies = energy(energy.domain.enumerate().to(energy.dtype)).double()

    def specific_heat(beta: float) -> float:
        law = torch.softmax(-beta * energies, 0)
        return float(beta**2 * (law @ energies**2 - (law @ energies) ** 2))

    exact = max((0.05 * 1.01**k for k in range(460)), key=specific_heat)
    found = minimise(energy, ChromaticGibbs(), schedule, num_chains=200, num_steps=2000)
    assert found.heat is not None and found.heat.returns > 0 and found.steps == 2000
    assert schedule.beta(found.heat.peak) == pytest.approx(exact, rel=0.1)
    assert found.heat.height == pytest.approx(specific_heat(exact), rel=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("words", [True, False])
def test_chains_that_are_stuck_find_the_planted_state(words: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each alone. The descent is steep and ends far too cold, so that about a third of all chains are stuck."""
    monkeypatch.setattr(MultiSpin, "pays", lambda *_: words)
    planted = frustrated_loops(12, 110, seed=2)
    low, high = beta_range(planted.energy)
    plain = Geometric(low, 1e4 * high)

    def found(schedule: Schedule, seed: int) -> bool:
        torch.manual_seed(seed)
        best = minimise(planted.energy, ChromaticGibbs(), schedule, num_chains=1, num_steps=2500)
        assert isinstance(best.chains, Words) == words and (best.heat is None) == (schedule is plain)
        return float(best.energy) == planted.ground

    stuck = [seed for seed in range(18) if not found(plain, seed)]
    freed = [seed for seed in stuck if found(Reheated(plain), seed)]
    assert len(stuck) >= 3 and len(freed) >= 0.6 * len(stuck), (stuck, freed)


def looked(energies: torch.Tensor, lowest: list[float] | None = None) -> Heat:
    """What is known after looks at such energies `(looks, B)`, ten steps each, on the way from beta = 1 to 2."""
    heat, schedule = Heat(), Reheated(Geometric(1.0, 2.0))
    least = lowest or [-1.0] * len(energies)
    for k, (row, low) in enumerate(zip(energies, least, strict=True)):
        heat = heat.looked(schedule, row, progress=k / len(energies), lowest=low, steps=10)
    return heat


def test_what_stands_still_and_what_does_not() -> None:
    generator = torch.Generator().manual_seed(0)
    noise = torch.randn(60, 50, generator=generator, dtype=torch.float64)
    valleys = 30 * torch.randn(1, 50, generator=generator, dtype=torch.float64)
    calm = noise * torch.cat([torch.ones(40), torch.full((20,), 0.05)]).unsqueeze(1).double()
    frozen = looked(calm + valleys)
    assert frozen.height == pytest.approx(2 ** (2 * 35 / 60), rel=0.25), "valleys and the start add nothing"
    assert frozen.variance == pytest.approx(1, rel=0.15) and frozen.peak < 40 / 60
    assert frozen.stalled(100) and frozen.stalled(590) and not frozen.stalled(600)
    assert not looked(noise).stalled(100), "energies still move"
    assert not looked(calm, [-1.0] * 55 + [-2.0] * 5).stalled(100), "50 steps ago the best one improved"
    assert not looked(calm[:, :1] * 0 + 7).stalled(100), "nothing has ever moved"
    falling = looked(calm - 40 * torch.arange(60).unsqueeze(1))
    assert falling.height == pytest.approx(frozen.height), "a fall adds nothing"
    again = frozen.returned()
    assert (again.returns, again.looks, again.calm, again.peak) == (1, 0, 0, frozen.peak)


def searched(stop_at: int = 0, **options: Any) -> Minimum:
    torch.manual_seed(2)
    energy = Ising.lattice(4, 1.0, field=0.05)
    schedule = Reheated(Geometric(0.05, 5.0), patience=20)
    report = lambda found: found.steps == stop_at  # noqa: E731
    settings: dict[str, Any] = {"num_chains": 9, "num_steps": 600, "report": report}
    return minimise(energy, ChromaticGibbs(), schedule, **settings, **options)


@pytest.mark.parametrize("stop_at", [90, 480])
def test_a_stopped_search_goes_on_in_the_same_bits(stop_at: int, tmp_path: Path) -> None:
    whole, file = searched(), tmp_path / "search.pt"
    assert searched(stop_at, saved=file).steps == stop_at
    torch.rand(17)
    found = searched(saved=file)
    assert torch.equal(found.x, whole.x) and [look[1:] for look in found.curve] == [look[1:] for look in whole.curve]
    assert found.heat is not None and whole.heat is not None and whole.heat.returns > 1
    assert found.heat.returns == whole.heat.returns and found.heat.peak == whole.heat.peak
    kept = load(file)
    for name, value in (("height", math.nan), ("looks", -1), ("energies", torch.zeros(3, 4)), ("other", 1)):
        save(kept | {"heat": kept["heat"] | {name: value}}, file)
        with pytest.raises(UserError, match="damaged, or not the file of a search"):
            searched(saved=file)


@pytest.mark.slow
def test_the_last_descent_ends_cold_and_another_follows_in_time() -> None:
    betas: list[float] = []

    class Seen(Geometric):
        def beta(self, progress: float) -> float:
            betas.append(super().beta(progress))
            return betas[-1]

    torch.manual_seed(0)
    energy, schedule = Ising.lattice(4, 1.0, field=0.05), Reheated(Seen(0.05, 5.0), patience=20)
    minimise(energy, ChromaticGibbs(), schedule, num_chains=9, num_steps=600)
    assert betas[-1] == pytest.approx(5.0)
    timed = minimise(energy, ChromaticGibbs(), schedule, num_chains=9, num_steps=600, seconds=1.5)
    assert timed.stopped == "seconds" and timed.heat is not None and timed.heat.returns > 0


def test_no_patience() -> None:
    with pytest.raises(UserError, match="patience"):
        Reheated(Geometric(0.1, 1.0), patience=0)
