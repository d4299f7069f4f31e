"""Distances between sets of states, each against a library or a loop that shares no code with it."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
import scipy.stats
import torch
from helpers_errors import refused
from sklearn.neighbors import NearestNeighbors
from torchmetrics.functional.classification import multiclass_calibration_error
from torchmetrics.image.kid import poly_mmd

from ebmlab.errors import UserError
from ebmlab.evaluation import (
    calibration_error,
    classifier_test,
    energy_distance,
    kernel_distance,
    precision_recall,
    sliced_wasserstein,
)
from ebmlab.evaluation.classifier_two_sample import fisher

TWO_SETS = [classifier_test, energy_distance, precision_recall, sliced_wasserstein]


@pytest.fixture(autouse=True)
def _seed():
    torch.manual_seed(0)


def skewed(n, d):
    return torch.rand(n, d, dtype=torch.float64).log().neg()


def test_energy_distance_is_scipys_on_a_line():
    x, y = skewed(40, 1), skewed(31, 1) + 0.3
    expected = scipy.stats.energy_distance(x.flatten(), y.flatten()) ** 2
    assert energy_distance(x, y).item() == pytest.approx(expected, rel=1e-10)


def test_energy_distance_is_that_of_a_loop_in_space():
    x, y = skewed(9, 6).view(9, 2, 3), skewed(7, 6).view(7, 2, 3)

    def mean(a, b):
        return np.mean([np.linalg.norm((p - q).numpy()) for p, q in itertools.product(a, b)])

    assert energy_distance(x, y).item() == pytest.approx(2 * mean(x, y) - mean(x, x) - mean(y, y), rel=1e-7)


@pytest.mark.parametrize(("n", "m"), [(40, 40), (40, 31), (3, 100), (1, 1)])
def test_sliced_wasserstein_is_scipys_on_a_line(n, m):
    x, y = skewed(n, 1), skewed(m, 1) + 0.3
    expected = scipy.stats.wasserstein_distance(x.flatten(), y.flatten())
    assert sliced_wasserstein(x, y, order=1).item() == pytest.approx(expected, rel=1e-10)


def test_sliced_wasserstein_of_order_2_is_that_of_repeated_points():
    x, y = skewed(6, 1), skewed(4, 1) + 0.3
    same_x, same_y = np.sort(np.repeat(x.numpy(), 2)), np.sort(np.repeat(y.numpy(), 3))
    expected = np.sqrt(np.mean((same_x - same_y) ** 2))
    assert sliced_wasserstein(x, y).item() == pytest.approx(expected, rel=1e-10)


def test_sliced_wasserstein_of_a_translation_is_its_length_over_the_root_of_d():
    """W_2 of a projection is |t'u|, and the mean of (t'u)^2 over directions is |t|^2 / d."""
    x = skewed(30, 5)
    t = torch.tensor([3.0, 0.0, 4.0, 0.0, 0.0])
    distance = sliced_wasserstein(x, x + t, num_projections=20000).item()
    assert distance == pytest.approx(5 / 5**0.5, rel=0.02)


def test_kernel_distance_is_torchmetrics_biased_estimate_without_its_bias():
    x, y = skewed(50, 8), skewed(50, 8) * 1.1
    k = [(a @ b.T / 8 + 1) ** 3 for a, b in ((x, x), (x, y), (y, y))]
    assert kernel_distance(x, y).item() == pytest.approx(poly_mmd(x, y).item(), rel=1e-10)
    loops = [sum(m[i, j].item() for i in range(50) for j in range(50) if i != j) / (50 * 49) for m in (k[0], k[2])]
    assert kernel_distance(x, y).item() == pytest.approx(sum(loops) - 2 * k[1].mean().item(), rel=1e-10)


def test_kernel_distance_has_no_bias():
    values = torch.stack([kernel_distance(torch.randn(5, 2), torch.randn(8, 2)) for _ in range(1000)])
    assert abs(values.mean()) < 4 * values.std() / 1000**0.5
    assert (values < 0).any()


@pytest.mark.parametrize("k", [1, 3, 5])
def test_precision_and_recall_are_those_of_nearest_neighbours(k):
    data, samples = skewed(60, 3).numpy(), (1.4 * skewed(50, 3)).numpy()

    def share(x, centres):
        radii = NearestNeighbors(n_neighbors=k + 1).fit(centres).kneighbors(centres)[0][:, -1]
        return np.mean([any(np.linalg.norm(p - c) <= r for c, r in zip(centres, radii, strict=True)) for p in x])

    found = precision_recall(torch.tensor(data), torch.tensor(samples), neighbours=k)
    assert found.precision == pytest.approx(share(samples, data)) and found.recall == pytest.approx(
        share(data, samples)
    )
    assert 0.5 < found.precision < 1 and found.recall > 0.5


def test_a_lost_mode_costs_recall_and_noise_costs_precision():
    a, b = torch.randn(200, 2), torch.randn(200, 2) + 30
    both = torch.cat([a, b])
    assert precision_recall(both, torch.randn(200, 2)).recall < 0.5 < 0.9 < precision_recall(both, a).precision
    assert precision_recall(a, torch.cat([torch.randn(200, 2), b])).precision < 0.52


def test_states_on_bits_lie_on_the_border_of_balls_and_count():
    """Equal distances must be equal: each of the 2^4 states has its 4 neighbours at distance 1."""
    x = torch.tensor(list(itertools.product([0.0, 1.0], repeat=4)))
    assert precision_recall(x, x + 1000.25, neighbours=1).recall == 0.0
    even, odd = x[x.sum(1) % 2 == 0], x[x.sum(1) % 2 == 1]
    assert precision_recall(even, odd, neighbours=1) == (1.0, 1.0)  # radius 2^(1/2), distance 1


def test_calibration_error_is_torchmetrics():
    logits, labels = 2 * torch.randn(500, 4), torch.randint(4, (500,))
    found = calibration_error(logits.softmax(1), labels)
    assert found.item() == pytest.approx(multiclass_calibration_error(logits, labels, 4).item(), abs=1e-6)


def test_calibration_error_of_certain_answers_is_their_error_rate():
    probabilities = torch.eye(2)[torch.tensor([0, 0, 0, 1])]
    assert calibration_error(probabilities, torch.tensor([0, 1, 0, 1])).item() == 0.25


def test_p_values_are_fishers():
    tables = (0, 0, 5), (3, 5, 5), (5, 5, 5), (10, 12, 20), (4, 12, 8), (40, 60, 50), (50, 100, 50)
    for found, answers, size in tables:
        table = [[found, answers - found], [size - found, size - answers + found]]
        expected = scipy.stats.fisher_exact(table, alternative="greater").pvalue
        assert fisher(found, answers, size) == pytest.approx(expected, rel=1e-9)


@pytest.mark.slow
def test_the_classifier_test_keeps_its_level_and_has_power():
    same = [classifier_test(torch.randn(60, 2), torch.randn(70, 2), num_steps=5).p_value for _ in range(100)]
    rejected = sum(p <= 0.1 for p in same)
    assert 1 <= rejected <= 19  # at most 10 on average; 20 have a chance below 1 %
    curved = torch.randn(400, 2)
    other = torch.stack([curved[:, 0], curved[:, 0].abs() + 0.5 * torch.randn(400)], 1)
    found = classifier_test(torch.randn(400, 2), other)
    assert found.p_value < 1e-6 and found.accuracy > 0.65
    with torch.inference_mode():
        x, y = torch.randn(2, 20, 2)
        assert 0 <= classifier_test(x, y, num_steps=2).p_value <= 1


def test_a_coordinate_that_training_has_not_seen_change_decides_nothing():
    """One state has another number in the second coordinate. In half of the cases it is held out."""
    x, y = torch.tensor([-5.0, 0.0]).repeat(8, 1), torch.tensor([5.0, 0.0]).repeat(8, 1)
    x[0, 1] = 1e6
    for seed in range(6):
        torch.manual_seed(seed)
        assert classifier_test(x, y, num_steps=40).accuracy == 1.0


@pytest.mark.parametrize("function", [energy_distance, precision_recall, sliced_wasserstein])
def test_a_large_offset_costs_no_digits(function):
    """float32 states at 1e5 with a spread of 1: what float32 holds of them is compared in float64."""
    x, y = (torch.randn(100, 4) * scale + 1e5 for scale in (1.0, 1.2))
    torch.manual_seed(1)
    found = function(x, y)
    torch.manual_seed(1)
    exact = function(x.double() - 1e5, y.double() - 1e5)
    assert torch.allclose(torch.as_tensor(found), torch.as_tensor(exact), rtol=1e-9)


@pytest.mark.parametrize("function", TWO_SETS)
def test_nan_is_never_masked(function):
    x = torch.randn(10, 3)
    for bad in (torch.nan, torch.inf):
        broken = x.clone()
        broken[7, 1] = bad
        with pytest.raises(UserError, match=r"1 of 10 states of the second set are not finite .* first is number 7"):
            function(x, broken)


@pytest.mark.parametrize("function", [*TWO_SETS, kernel_distance])
def test_sets_that_do_not_fit_are_one_line(function):
    for x, y in (((5, 3), (5, 2)), ((0, 3), (5, 3)), ((5,), (5,)), ((5, 0), (5, 0))):
        with refused("compares two sets"):
            function(torch.zeros(x), torch.zeros(y))


def test_bad_arguments_are_one_line():
    x = torch.randn(10, 3)
    for call in (
        lambda: sliced_wasserstein(x, x, order=0),
        lambda: sliced_wasserstein(x, x, num_projections=0),
        lambda: precision_recall(x, x, neighbours=0),
        lambda: precision_recall(x, x, neighbours=10),
        lambda: classifier_test(x, x, hidden=0),
        lambda: kernel_distance(x / 0, x),
        lambda: calibration_error(x, torch.zeros(10)),
        lambda: calibration_error(x.softmax(1), torch.zeros(9)),
        lambda: calibration_error(x.softmax(1), torch.zeros(10), num_bins=0),
        lambda: calibration_error(torch.full((2, 2), torch.nan), torch.zeros(2)),
    ):
        with pytest.raises(UserError, match=r"^[^\n]+$"):
            call()
