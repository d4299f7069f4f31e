"""Each measure of a study against a value computed by hand."""

from __future__ import annotations

import math
from typing import Any

import pytest
import torch
from helpers_errors import refused
from helpers_finite import Exact
from torch import Tensor

from ebmlab.domains import Binary, Domain, Ordinal, Real, Spin
from ebmlab.energies import RBM, Energy, Ising
from ebmlab.errors import UserError
from ebmlab.evaluation import log_mmd
from ebmlab.samplers import BlockGibbs
from ebmlab.studies import Histogram2D, Images, LawDistance, LogMMD, MeanError
from ebmlab.studies.measures import Measure
from ebmlab.studies.targets import BinaryNetPosterior, ModeGrid, Rows
from ebmlab.studies.targets.prediction import Prediction


def ising() -> Ising:
    return Ising.lattice(2, 0.3, field=0.2).double()


def feed(measure: Measure, energy: Energy, batches: list[Tensor]) -> Any:
    measure.prepare(energy)
    fresh = measure.fresh()
    for x in batches:
        fresh.update(x)
    return fresh


def test_law_distance_counts_every_state_of_every_chain() -> None:
    energy = ising()
    exact = Exact(energy)
    here = exact.states[:1]  # chains that never leave one state
    measure = feed(LawDistance(), energy, [here.expand(5, 4), here.expand(5, 4)])
    assert measure.value() == pytest.approx(2 * (1 - float(exact.probabilities[0])))
    counts = (exact.probabilities * 1e5).round().long()
    measure = feed(LawDistance(), energy, [exact.states.repeat_interleave(counts, 0)])
    assert measure.summary()["l1_law"] < 1e-3


def test_mean_error_is_the_root_mean_square_over_coordinates_of_each_chain() -> None:
    energy = ising()
    truth = Exact(energy).mean()
    a, b = torch.ones(1, 4, dtype=torch.float64), -torch.ones(1, 4, dtype=torch.float64)
    measure = feed(MeanError(), energy, [torch.cat([a, a]), torch.cat([a, b])])
    expected = [(mean - truth).square().mean().sqrt() for mean in (torch.ones(4), torch.zeros(4))]
    assert measure.value() == pytest.approx(float(sum(expected)) / 2)


def test_predictions_are_those_of_networks_with_test_rows() -> None:
    with pytest.raises(UserError, match="Prediction needs a BinaryNetPosterior, not a Ising"):
        Prediction().prepare(ising())
    for rest in (None, torch.zeros(0)):
        energy = BinaryNetPosterior(Rows(torch.rand(9, 3), torch.rand(9), test_y=rest), hidden_dim=2)
        with pytest.raises(UserError, match="needs test rows"):
            Prediction().prepare(energy)


def test_log_mmd_is_that_of_the_last_states_to_the_reference() -> None:
    torch.manual_seed(0)
    energy = RBM(6, 4)
    measure = LogMMD(BlockGibbs(), num_chains=100, num_steps=5)
    measure.prepare(energy)
    torch.manual_seed(measure.seed)
    reference, _ = BlockGibbs().sample(energy, energy.domain.random(100), 5)
    fresh = measure.fresh()
    fresh.update(torch.zeros(10, 6))
    x = energy.domain.random(40)
    fresh.update(x)
    assert fresh.value() == float(log_mmd(x, reference, domain=energy.domain))


def test_histogram_counts_modes_by_chain_and_together() -> None:
    energy = ModeGrid()
    modes = energy.modes
    between = (modes[0] + modes[6]) / 2  # between two diagonal neighbours
    first, second = torch.stack([modes[0], modes[1]]), torch.stack([modes[2], between])
    measure = feed(Histogram2D(), energy, [first, second])
    assert measure.value() == 1.5  # chain 0 visits two modes, chain 1 one mode and a state between modes
    assert measure.summary()["modes_together"] == 3 and measure.summary()["tv_blocks"] > 0.8
    n = 200_000
    density = energy.density().double()
    cells = torch.multinomial(density.flatten(), n, replacement=True)
    exact = torch.stack([cells // density.shape[0], cells % density.shape[0]], 1).float()
    good = feed(Histogram2D(), energy, [exact])
    assert good.summary()["modes_together"] == 25 and good.summary()["tv_blocks"] < 0.05
    assert good.picture().shape == good.truth().shape and float(good.picture().max()) <= 1


def test_states_at_the_edge_of_a_histogram_count_in_its_blocks() -> None:
    """21 states a side are no multiple of a block's 11: a chain in the far corner misses the only mode."""
    energy = ModeGrid(side=1, num_values=21, spacing=4.0, variance=1.0)
    corner = torch.full((2, 2), 20.0)
    assert feed(Histogram2D(), energy, [corner]).summary()["tv_blocks"] > 0.5


class Free(Energy):
    def __init__(self, domain: Domain) -> None:
        super().__init__()
        self.domain = domain


def test_images_show_the_last_states_of_bits_and_spins() -> None:
    x = torch.tensor([[-1.0, 1, 1, 1, 1, 1], [1, 1, 1, 1, 1, -1]])
    measure = feed(Images((2, 3)), Free(Spin(6)), [x.flip(0), x])
    picture = measure.picture()
    assert picture.shape[0] in (1, 3) and {0.0, 0.5, 1.0} >= set(picture.unique().tolist())
    assert measure.value is not None and measure.label == ""


@pytest.mark.parametrize(
    ("domain", "value", "grey"),
    [(Spin(4), -1.0, 0.0), (Spin(4), 1.0, 1.0), (Binary(4), 1.0, 1.0), (Ordinal(4, 5), 2.0, 0.5), (Real(4), 7.0, 0.0)],
)
def test_constant_images_have_the_grey_of_their_value(domain: Domain, value: float, grey: float) -> None:
    picture = feed(Images((2, 2)), Free(domain), [torch.full((1, 4), value)]).picture()
    assert picture[0, 1:-1, 1:-1].unique().tolist() == [grey]


def test_images_of_real_numbers_reach_from_black_to_white() -> None:
    picture = feed(Images((2, 2)), Free(Real(4)), [torch.tensor([[270.0, 280, 290, 290]])]).picture()
    assert picture[0, 1:-1, 1:-1].tolist() == [[0.0, 0.5], [1.0, 1.0]]


@pytest.mark.parametrize("shape", [(2, 4, 2), (16,), (2, 2, 2, 2), (-4, -4)])
def test_images_of_no_colours_are_refused(shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="must be height and width, or 1 or 3 channels, height and width"):
        Images(shape)
    assert feed(Images((3, 2, 2)), Free(Spin(12)), [torch.ones(5, 12)]).picture().shape[0] == 3


def test_copies_see_only_their_own_states() -> None:
    energy = ising()
    measure = MeanError()
    measure.prepare(energy)
    a, b = measure.fresh(), measure.fresh()
    a.update(torch.ones(3, 4))
    b.update(-torch.ones(3, 4))
    assert a.value() != b.value() and math.isfinite(a.value())


@pytest.mark.parametrize(
    ("measure", "energy", "message"),
    [
        (Histogram2D(), Ising.lattice(2, 0.1), "Histogram2D shows a ModeGrid, not a Ising"),
        (Images((2, 2)), RBM(6, 2), r"a state of Binary\(6\) has 6 numbers, an image \(2, 2\) has 4"),
        (MeanError(), RBM(40, 40), r"2\^40 terms, too many"),
    ],
)
def test_unsuitable_targets_are_one_line(measure: Measure, energy: Energy, message: str) -> None:
    with refused(message):
        measure.prepare(energy)
    assert isinstance(energy.domain, Spin | Binary)
