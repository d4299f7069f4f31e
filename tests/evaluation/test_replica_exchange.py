"""The report on replica exchange: rejections by enumeration, the barrier by quadrature, round trips by a loop."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from helpers_finite import rbms
from torch import Tensor

from ebmlab.domains import Spin
from ebmlab.drawing.replica_exchange import draw_exchange
from ebmlab.energies import Energy
from ebmlab.errors import UserError
from ebmlab.evaluation import RoundTrips, exchange_report
from ebmlab.samplers import Gibbs, Tempered, TrajectoryTempered
from ebmlab.samplers.tuners import EqualRejection
from ebmlab.testing import Rugged

INDEPENDENT = Gibbs(block_size=4)  # on four coordinates: every step is a fresh draw


def target() -> Energy:
    return Rugged(Spin(4), "cubic", scale=1.5)


def barrier_by_quadrature(energy: Energy, hottest: float, points: int = 2001) -> float:
    """The integral over beta of half the mean |E(X) - E(X')|, X and X' independent at beta (Syed et al. 2022)."""
    values = energy(energy.domain.enumerate().double())  # type: ignore[attr-defined]
    betas = torch.linspace(hottest, 1, points, dtype=torch.float64)
    p = (-betas.unsqueeze(1) * values).softmax(1)
    apart = (values.unsqueeze(1) - values).abs()
    return float(torch.trapezoid(torch.einsum("bi,ij,bj->b", p, apart, p) / 2, betas))


def exact_rejections(energies: list[Tensor], laws: list[Tensor]) -> Tensor:
    """One minus the mean of min(1, exp(E_k(x) + E_l(y) - E_k(y) - E_l(x))) over independent x at k and y at l."""
    rates = []
    for (here, p), (there, q) in zip(
        zip(energies, laws, strict=True), list(zip(energies, laws, strict=True))[1:], strict=False
    ):
        rise = here - there
        rates.append(1 - p @ (rise.unsqueeze(1) - rise).clamp(max=0).exp() @ q)
    return torch.stack(rates)


def tempered_rejections(energy: Energy, betas: Tensor) -> Tensor:
    values = energy(energy.domain.enumerate().double())  # type: ignore[attr-defined]
    scaled = [float(b) * values for b in betas]
    return exact_rejections(scaled, [(-v).softmax(0) for v in scaled])


def test_rejections_and_barrier_of_a_long_ladder() -> None:
    torch.manual_seed(0)
    energy = target()
    betas = torch.linspace(1, 0.1, 16)
    report = exchange_report(
        energy, Tempered(INDEPENDENT, betas.tolist()), x=energy.domain.random(150).double(), num_steps=24, burn_in=3
    )
    assert report.rounds == 24 and report.num_chains == 150
    torch.testing.assert_close(report.rejections, tempered_rejections(energy, betas), rtol=0, atol=0.02)
    exact = barrier_by_quadrature(energy, 0.1)
    assert report.barrier == pytest.approx(exact, rel=0.03) and exact > 0.9
    assert report.suggested == pytest.approx(1 + 2 * exact, abs=1)
    torch.testing.assert_close(float(report.cumulative_barrier[-1]), report.barrier)


@pytest.mark.slow
def test_the_rate_of_round_trips_is_that_of_the_theory() -> None:
    """1 / (2 + 2 sum of r / (1 - r)) with fresh draws at each rung (Syed et al. 2022, Theorem 1)."""
    torch.manual_seed(0)
    energy, betas = target(), torch.tensor([1.0, 0.6, 0.3, 0.1])
    x = energy.domain.random(40)  # type: ignore[attr-defined]
    report = exchange_report(energy, Tempered(INDEPENDENT, betas.tolist()), x=x.double(), num_steps=300, burn_in=3)
    r = tempered_rejections(energy, betas)
    assert report.round_trip_rate == pytest.approx(float(1 / (2 + 2 * (r / (1 - r)).sum())), rel=0.06)
    assert report.round_trip_rate < report.best_rate


def test_stages_of_a_training_are_reported_too() -> None:
    torch.manual_seed(0)
    path = rbms(4, 3)
    sampler = TrajectoryTempered(INDEPENDENT, path[1:])
    report = exchange_report(path[0], sampler, x=path[0].domain.random(400).double(), num_steps=40, burn_in=3)  # type: ignore[attr-defined]
    states = path[0].domain.enumerate().double()  # type: ignore[attr-defined]
    energies = [each(states) for each in path]
    expected = exact_rejections(energies, [(-e).softmax(0) for e in energies])
    torch.testing.assert_close(report.rejections, expected, rtol=0, atol=0.02)
    assert report.places.tolist() == [0, 1, 2] and report.round_trips > 0


def counted(history: list[list[int]]) -> int:
    """Round trips of one chain by the definition: cold end, later hot end, later cold end."""
    count = 0
    for label in range(len(history[0])):
        wanted, trips = "cold", -1
        for labels in history:
            if wanted == "cold" and labels[0] == label:
                trips, wanted = trips + 1, "hot"
            elif wanted == "hot" and labels[-1] == label:
                wanted = "cold"
        count += max(trips, 0)
    return count


@pytest.mark.parametrize("rungs", [2, 3, 5])
def test_round_trips_are_those_of_a_loop(rungs: int) -> None:
    generator = torch.Generator().manual_seed(rungs)
    labels = torch.arange(rungs).repeat(7, 1)
    histories = [[row.tolist()] for row in labels]
    trips = RoundTrips(labels)
    for k in range(400):
        for chain in range(7):
            for place in range(k % min(2, rungs - 1), rungs - 1, 2):
                if torch.rand((), generator=generator) < 0.7:
                    labels[chain, place : place + 2] = labels[chain, place : place + 2].flip(0).clone()
            histories[chain].append(labels[chain].tolist())
        trips.see(labels)
    assert trips.count == sum(map(counted, histories)) > 20


@pytest.mark.parametrize("stages", [False, True])
def test_labels_go_where_the_states_go(stages: bool) -> None:
    """A kernel that does not move: the state of a label is then the one that it began with."""
    torch.manual_seed(0)
    energy = target()
    kernel = Gibbs(block_size=1)
    sampler = (
        TrajectoryTempered(kernel, [Rugged(Spin(4), "cubic", scale=s) for s in (1.0, 0.5)])
        if stages
        else (Tempered(kernel, [1.0, 0.6, 0.3]))
    )
    x = torch.stack([energy.domain.random(50).double() for _ in range(3)], 1)  # type: ignore[attr-defined]
    state = sampler.init(energy, x)
    for _ in range(6):
        if isinstance(sampler, Tempered):
            state = sampler._swap(energy, state)
        else:
            state = sampler.swap(sampler.path(energy), state)
    assert (state.labels != torch.arange(3)).any()
    expected = x.gather(1, state.labels.unsqueeze(2).expand_as(x))
    assert torch.equal(state.kept, expected)


def test_the_ladder_finds_itself() -> None:
    torch.manual_seed(0)
    energy = target()
    x = energy.domain.random(200).double()  # type: ignore[attr-defined]
    start = Tempered(INDEPENDENT, [1.0, 0.9, 0.85])
    tuned, _ = EqualRejection(hottest=0.1).tune(start, energy, x, 124)
    assert isinstance(tuned, Tempered) and start.betas.tolist() == pytest.approx([1.0, 0.9, 0.85])
    rates = tempered_rejections(energy, tuned.betas)
    assert float(rates.max() - rates.min()) < 0.06
    assert len(tuned.betas) == pytest.approx(1 + 2 * barrier_by_quadrature(energy, 0.1), abs=1)
    assert float(rates.mean()) == pytest.approx(0.5, abs=0.12)
    fixed, _ = EqualRejection(num_temperatures=6).tune(start, energy, x, 62)
    rates = tempered_rejections(energy, fixed.betas)
    assert len(fixed.betas) == 6 and float(rates.max() - rates.min()) < 0.06
    assert float(fixed.betas[-1]) == pytest.approx(0.85)


def test_the_picture_shows_the_report() -> None:
    torch.manual_seed(0)
    energy = target()
    x = energy.domain.random(5)  # type: ignore[attr-defined]
    report = exchange_report(energy, Tempered(INDEPENDENT, [1.0, 0.5, 0.2]), x=x.double(), num_steps=20)
    rates, barrier, walks = draw_exchange(report).axes
    assert rates.lines[0].get_ydata() == pytest.approx(report.rejections.tolist())
    assert barrier.lines[0].get_ydata() == pytest.approx([0.0, *report.rejections.cumsum(0).tolist()])
    assert [line.get_ydata().tolist() for line in walks.lines] == report.rungs.T.tolist()


def test_one_place_is_refused() -> None:
    energy = target()
    x = energy.domain.random(2)  # type: ignore[attr-defined]
    with pytest.raises(UserError, match="two places or more"):
        exchange_report(energy, Tempered(Gibbs(), [1.0]), x=x)
    with pytest.raises(UserError, match="at least 62"):
        EqualRejection().tune(Tempered(Gibbs()), energy, x, 61)
    EqualRejection().check(Tempered(Gibbs(), [1.0, 0.5], swap_every=3), 186)
    with pytest.raises(UserError, match="num_steps is 185, but 5 stages take at least 186"):
        EqualRejection().check(Tempered(Gibbs(), [1.0, 0.5], swap_every=3), 185)
    with pytest.raises(UserError, match="swaps need at least two"):
        EqualRejection().check(Tempered(Gibbs(), [1.0]))
    for hottest in (0.0, 1.0, 1.5):
        with pytest.raises(UserError, match=f"hottest is {hottest}"):
            EqualRejection(hottest=hottest)
    for number in (1, 201):
        with pytest.raises(UserError, match=f"num_temperatures is {number}, but must be from 2 to 200"):
            EqualRejection(num_temperatures=number)
    assert [EqualRejection(num_temperatures=number).num_temperatures for number in (2, 200)] == [2, 200]


def test_each_stage_takes_twice_as_many_steps_and_the_last_the_rest() -> None:
    stages: list[int] = []

    class Recorded(Tempered):
        def start(self, *given: Any) -> Any:
            stages.append(0)
            return super().start(*given)

        def step(self, *given: Any) -> Any:
            stages[-1] += 1
            return super().step(*given)

    energy = target()
    x = energy.domain.random(5).double()  # type: ignore[attr-defined]
    EqualRejection(num_temperatures=3).tune(Recorded(INDEPENDENT, [1.0, 0.5, 0.2]), energy, x, 65)
    assert stages == [2, 4, 8, 16, 35, 0]
