"""Algorithm 1 of the any-scale balanced samplers: which settings it finds, and that they help."""

from __future__ import annotations

import copy
from typing import Any

import pytest
import torch
from helpers_finite import Quadratic

from ebmlab.domains import Ordinal
from ebmlab.samplers.any_scale import VARIANTS, AnyScale
from ebmlab.samplers.tuners.any_scale_search import DIAGONALS, AnyScaleTuner
from ebmlab.samplers.tuners.pattern_search import PatternSearch


@pytest.mark.slow
@pytest.mark.parametrize("variant", [v for v in VARIANTS if v != "edges"])  # edges take the couplings
def test_the_tuner_finds_the_curvature(variant: Any) -> None:
    torch.manual_seed(0)
    W = -torch.tensor([[0.4, 0.2, -0.1], [0.2, 0.5, 0.1], [-0.1, 0.1, 0.3]], dtype=torch.float64)
    domain = Ordinal(3, 12)
    energy = Quadratic(domain, W, 5.0)
    sampler = AnyScale(variant)
    before = copy.deepcopy(dict(sampler.named_buffers()))
    x = domain.random(60)
    tuned, last = AnyScaleTuner(PatternSearch(window=5)).tune(sampler, energy, x, 480)
    assert isinstance(tuned, AnyScale) and tuned is not sampler and last.shape == x.shape
    assert all(torch.equal(before[k], v) for k, v in sampler.named_buffers())
    if variant == "first":
        assert tuned.curvature is None
    else:
        assert tuned.curvature is not None and tuned.curvature.dtype == x.dtype
        truth = W.diagonal() if variant == "diagonal" else W
        torch.testing.assert_close(tuned.curvature.double(), truth, rtol=1e-3, atol=1e-3)
    if variant in DIAGONALS:  # the curvature is exact, so that alpha is near 1, as in the paper
        assert tuned.sample(energy, last, 50)[1].acceptance.mean() > 0.8


@pytest.mark.slow
def test_it_tunes_in_inference_mode() -> None:
    domain = Ordinal(3, 4)
    energy = Quadratic(domain, -torch.eye(3, dtype=torch.float64), 5.0)
    with torch.inference_mode():
        tuned, _ = AnyScaleTuner(PatternSearch(window=2)).tune(AnyScale("max"), energy, domain.random(20), 400)
    assert isinstance(tuned, AnyScale) and tuned.curvature is not None


def test_an_earlier_curvature_does_not_matter() -> None:
    """A sampler that comes with a curvature is tuned as if it had none."""
    W = -torch.tensor([[0.5, 0.2], [0.2, 0.4]])
    energy, found = Quadratic(Ordinal(2, 8), W, 3.0), []
    for sampler in (AnyScale("trace"), AnyScale("trace", curvature=5 * torch.eye(2), diagonal=torch.ones(2))):
        torch.manual_seed(0)
        tuned, x = AnyScaleTuner(PatternSearch(window=2)).tune(sampler, energy, energy.domain.random(20), 60)
        found.append([x, *dict(tuned.named_buffers()).values()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


@pytest.mark.slow
def test_curvature_gives_longer_jumps_where_coordinates_are_coupled() -> None:
    """The rotated Gaussian of Sec. 5.2, condition number 10, in 20 dimensions."""
    torch.manual_seed(0)
    rotation, _ = torch.linalg.qr(torch.randn(20, 20))
    energy = Quadratic(Ordinal(20, 21), -(rotation * torch.linspace(0.1, 1, 20)) @ rotation.T, 10.0)
    jumps = {}
    for variant in ("first", "trace"):
        x = torch.full((50, 20), 10.0)
        sampler, x = AnyScaleTuner(PatternSearch(window=5)).tune(AnyScale(variant), energy, x, 900)
        path = torch.stack([state.x for state, _ in sampler.chain(energy, x, 30)])
        jumps[variant] = float(path.diff(dim=0).square().sum(2).mean())
    assert jumps["trace"] > 1.2 * jumps["first"]
