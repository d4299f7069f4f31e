from __future__ import annotations

import sys
from types import SimpleNamespace

import numpy as np
import pytest
import torch
from scipy import linalg
from torch import nn
from torchmetrics.image.fid import FrechetInceptionDistance

from ebmlab.errors import UserError
from ebmlab.evaluation import frechet_distance, inception
from ebmlab.evaluation.frechet import distance_of_moments, moments
from ebmlab.evaluation.inception import inception_extractor
from ebmlab.evaluation.metrics import FrechetDistance


class Features(nn.Module):
    num_features = 5

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(3)
        self.linear = nn.Linear(12, 5)

    def forward(self, images):
        assert images.dtype == torch.float32
        return self.linear(images.flatten(1)).tanh()


def reference(x: np.ndarray, y: np.ndarray) -> float:
    """By numpy and scipy."""
    mean = np.square(x.mean(0) - y.mean(0)).sum()
    a, b = np.cov(x, rowvar=False), np.cov(y, rowvar=False)
    return float(mean + np.trace(a) + np.trace(b) - 2 * np.trace(linalg.sqrtm(a @ b)).real)


@pytest.fixture
def images():
    torch.manual_seed(0)
    return torch.rand(300, 3, 2, 2), 0.2 + 0.7 * torch.rand(200, 3, 2, 2)


def test_both_ways_agree_with_scipy_and_torchmetrics(images):
    extractor = Features().requires_grad_(False)
    x, y = (extractor(i) for i in images)
    expected = reference(x.double().numpy(), y.double().numpy())
    assert expected > 0.01
    assert frechet_distance(x, y).item() == pytest.approx(expected, rel=1e-6)
    for metric in (
        FrechetDistance(extractor),
        FrechetInceptionDistance(extractor, normalize=True),
    ):
        for batch in images[0].split(70):
            metric.update(batch, real=True)
        for batch in images[1].split(50):
            metric.update(batch, real=False)
        assert metric.compute().item() == pytest.approx(expected, rel=1e-5)


def test_moments_of_fewer_samples_than_features():
    torch.manual_seed(0)
    x, y = torch.randn(3, 6).double() + 100, torch.randn(4, 6).double() + 100
    assert distance_of_moments(moments(x), moments(y)).item() == pytest.approx(frechet_distance(x, y).item(), rel=1e-5)
    with pytest.raises(UserError, match="compares two sets of 2 or more features, got 3 and 1"):
        distance_of_moments(moments(x), moments(y[:1]))


def test_features_that_are_not_finite_are_one_line():
    x, y = torch.randn(9, 3), torch.randn(9, 3)
    y[4, 1] = torch.nan
    for distance in (lambda: frechet_distance(x, y), lambda: distance_of_moments(moments(x), moments(y))):
        with pytest.raises(UserError, match="the features hold NaN or infinity"):
            distance()


def test_ranks_add_up(images):
    """Two ranks with half the data each, summed as torchmetrics' `sum` reduction sums them."""
    extractor = Features().requires_grad_(False)
    whole, total = FrechetDistance(extractor), FrechetDistance(extractor)
    parts = [FrechetDistance(extractor) for _ in range(2)]
    for real, data in zip((True, False), images, strict=True):
        whole.update(data, real=real)
        total.update(data[:2], real=real)
        for rank, part in enumerate(parts):
            part.update(data[rank::2], real=real)
    states = [name for name in whole._defaults]
    assert all(whole._reductions[name].__name__ == "dim_zero_sum" for name in states)
    for name in states:
        setattr(total, name, sum(getattr(part, name) for part in parts))
    assert total.compute().item() == pytest.approx(whole.compute().item(), rel=1e-9)


def test_identical_sets_have_distance_zero(images):
    extractor = Features().requires_grad_(False)
    x = extractor(images[0])
    assert abs(frechet_distance(x, x).item()) < 1e-10
    metric = FrechetDistance(extractor)
    for real in (True, False):
        metric.update(images[0], real=real)
    assert 0 <= metric.compute().item() < 1e-6


def test_a_shift_counts_its_square():
    torch.manual_seed(0)
    x = torch.randn(100, 4)
    assert frechet_distance(x, x + torch.tensor([3.0, 0, 4, 0])).item() == pytest.approx(25, rel=1e-5)


def test_fewer_samples_than_features():
    torch.manual_seed(0)
    x, y = torch.randn(3, 6).double(), torch.randn(4, 6).double()
    assert frechet_distance(x, y).item() == pytest.approx(reference(x.numpy(), y.numpy()), rel=1e-5)


def test_reset_keeps_the_real_images(images):
    metric = FrechetDistance(Features().requires_grad_(False))
    metric.update(images[0], real=True)
    metric.update(images[1], real=False)
    first = metric.compute()
    metric.reset()
    metric.update(images[1], real=False)
    assert metric.compute() == first


def test_inception_without_torch_fidelity(monkeypatch):
    monkeypatch.setitem(sys.modules, "torch_fidelity", None)
    with pytest.raises(UserError, match=r"pip install 'ebmlab\[fid\]'"):
        inception_extractor()


def test_inception_without_its_weights(monkeypatch):
    def fail():
        raise OSError("no route to host")

    monkeypatch.setitem(sys.modules, "torch_fidelity", SimpleNamespace(__spec__=True))
    monkeypatch.setattr(inception, "Inception", fail)
    with pytest.raises(UserError, match=r'no route to host.*use extractor "classifier"'):
        inception_extractor()


def test_inception_gets_rgb_bytes(monkeypatch):
    seen = []

    class Network(nn.Module):
        def forward(self, x):
            seen.append(x)
            return torch.zeros(len(x), 2048)

    monkeypatch.setattr(inception, "FrechetInceptionDistance", lambda feature: type("M", (), {"inception": Network()}))
    assert inception.Inception()(torch.tensor([[[[0.0, 0.5, 1.0]]]])).shape == (1, 2048)
    assert seen[0].dtype == torch.uint8
    assert seen[0].tolist() == [[[[0, 128, 255]]] * 3]


@pytest.mark.parametrize("shape", [(1, 3), (0, 3), (5, 4), (5,)])
def test_sets_without_a_covariance_or_of_other_features(shape):
    with pytest.raises(UserError, match="frechet_distance compares two sets of 2 or more features"):
        frechet_distance(torch.randn(10, 3), torch.zeros(shape))
