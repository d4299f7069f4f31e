"""Log Z from replica exchange, against enumeration."""

from __future__ import annotations

from typing import Any, cast

import pytest
import torch
from helpers_finite import rbms
from helpers_mutants import mutant
from helpers_tier import cases
from torch import Tensor

from ebmlab.domains import Binary
from ebmlab.energies import RBM, Base, Bernoulli, Energy, Ising, reference
from ebmlab.errors import UserError
from ebmlab.evaluation import exact_log_z, exact_samples, exchange_log_z
from ebmlab.evaluation.exchange import doubts_of
from ebmlab.samplers import DMALA, DULA, BlockGibbs, Gibbs, TrajectoryTempered


class Cubic(Energy):
    """An energy without hidden units that is not quadratic."""

    def __init__(self, scale: float) -> None:
        super().__init__()
        self.domain, self.scale = Binary(5), scale
        self.register_buffer("weights", torch.tensor([1.0, -2.0, 0.5, 1.5, -1.0], dtype=torch.float64))

    def forward(self, x: Tensor) -> Tensor:
        return self.scale * (x @ self.weights) ** 3


MEAN = torch.tensor([0.2, 0.7, 0.5, 0.4, 0.6, 0.3], dtype=torch.float64)
CASES: dict[str, tuple[list[Energy], Any, Base]] = {
    "RBMs": (rbms(6, 4), BlockGibbs(), Bernoulli(MEAN)),
    "RBMs by DMALA": (rbms(6, 4), DMALA(0.5), reference(Binary(6))),
    "cubic": ([Cubic(0.4), Cubic(0.2)], DMALA(1.0), reference(Binary(5))),
    "Ising without stages": ([Ising.lattice(3, 0.4).double()], Gibbs(), reference(Ising.lattice(3, 0.4).domain)),
}


def run(
    name: str,
    seed: int,
    chains: int = 40,
    num_steps: int = 60,
    how: Any = exchange_log_z,
    schedule: Any = "linear",
) -> tuple[Any, float]:
    """The result, and the error of its log Z."""
    path, kernel, base = CASES[name]
    torch.manual_seed(seed)
    x = exact_samples(path[0], chains)
    settings = {"num_steps": num_steps, "num_rungs": 3, "schedule": schedule}
    result = how(path[0], TrajectoryTempered(kernel, path[1:]), base=base.double(), x=x, **settings)
    return result, result.log_z - float(exact_log_z(path[0]))


@pytest.mark.parametrize("schedule", ["linear", "adaptive"])
@cases("name", list(CASES), fast=[0])
def test_log_z_is_that_of_enumeration(name: str, schedule: str) -> None:
    result, error = run(name, 0, chains=150, schedule=schedule)
    assert abs(error) < 4 * result.std_error < 0.25
    assert abs(result.gap) < 4 * result.gap_error
    assert result.trusted
    assert len(result.swap_rates) == len(CASES[name][0]) + 2


@pytest.mark.slow
def test_the_stated_error_is_the_error() -> None:
    results = [run("RBMs", seed, chains=20, num_steps=30) for seed in range(80)]
    z = torch.tensor([error / result.std_error for result, error in results])
    assert 0.75 < z.square().mean().sqrt() < 1.35  # 1 with a standard deviation of about 0.08
    gaps = torch.tensor([result.gap / result.gap_error for result, _ in results])
    assert 0.75 < gaps.square().mean().sqrt() < 1.35


MUTANTS = {
    "one direction alone": ("- torch.sigmoid(at_upper - d).sum(1)", "- torch.sigmoid(at_lower - d).sum(1)"),
    "no Z of the base law": ("bridges[-1].log_z + total", "total"),
    "energies of the wrong replicas": ("rise(one, other, replicas[k + 1])", "rise(one, other, replicas[k])"),
}


@pytest.mark.parametrize(("old", "new"), MUTANTS.values(), ids=MUTANTS)
def test_mutants_are_off(old: str, new: str) -> None:
    wrong = mutant(cast(Any, exchange_log_z), old, new)
    result, error = run("RBMs", 0, how=wrong)
    assert not abs(error) < 6 * result.std_error


def test_what_is_known_moves_with_the_states(monkeypatch: pytest.MonkeyPatch) -> None:
    """A mutant: after a swap, rungs of one path go on with what they knew of their old states."""
    wrong = mutant(TrajectoryTempered, "new.known", "replicas[at].known")
    monkeypatch.setattr(TrajectoryTempered, "swap", wrong.swap)
    result, error = run("cubic", 0, chains=150)
    assert not abs(error) < 6 * result.std_error


def test_chains_that_do_not_meet_are_not_trusted() -> None:
    """The data are in the mode of small mass, which nothing leaves."""
    energy = Ising.lattice(4, coupling=3.0, field=0.05)
    torch.manual_seed(0)
    path = TrajectoryTempered(Gibbs(), [])
    result = exchange_log_z(
        energy, path, base=reference(energy.domain), x=-torch.ones(20, 16), num_steps=40, num_rungs=1
    )
    assert not result.trusted
    assert "disagree by" in result.doubts[0]


def test_the_gap_tells() -> None:
    assert not doubts_of(0.9, torch.ones(2))
    assert len(doubts_of(torch.nan, torch.ones(2))) == len(doubts_of(0.9, torch.tensor([0.5, 0.01]))) == 1


def test_nan_stays_visible() -> None:
    rbm = RBM(4, 3)
    rbm.b_h.data.fill_(torch.nan)
    result = exchange_log_z(
        rbm, TrajectoryTempered(BlockGibbs(), []), base=reference(rbm.domain), x=rbm.random(4), num_steps=4
    )
    assert result.log_z != result.log_z and result.std_error != result.std_error and not result.trusted


WRONG: dict[str, tuple[dict[str, Any], str]] = {
    "steps": ({"num_steps": 1}, "num_steps is 1"),
    "num_rungs": ({"num_rungs": 0}, "num_rungs 0"),
    "states": ({"x": torch.zeros(1, 4)}, "x has 1 state;"),
    "values": ({"x": torch.full((4, 4), 0.5)}, "0 or 1"),
    "schedule": ({"schedule": "sigmoid"}, 'schedule is "sigmoid"'),
    "kernel": ({"sampler": TrajectoryTempered(DULA(0.1), [])}, "DULA is not"),
    "stage": ({"sampler": TrajectoryTempered(BlockGibbs(), [RBM(5, 3)])}, r"stage 0 lives on Binary\(5\)"),
}


@pytest.mark.parametrize(("change", "message"), WRONG.values(), ids=WRONG)
def test_wrong_input(change: dict[str, Any], message: str) -> None:
    rbm = RBM(4, 3)
    given = {"sampler": TrajectoryTempered(BlockGibbs(), []), "base": reference(rbm.domain), "x": torch.zeros(4, 4)}
    with pytest.raises(UserError, match=message):
        exchange_log_z(rbm, **{**given, **change})
