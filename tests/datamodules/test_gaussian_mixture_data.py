"""The mixture's density against a reference, and its points against the density."""

from __future__ import annotations

import pytest
import torch
from torch.distributions import Categorical, Independent, MixtureSameFamily, Normal

from ebmlab.datamodules import GaussianMixture
from ebmlab.errors import UserError

KINDS = {
    "isotropic": [[1.0, 1.0], [1.0, 1.0], [1.0, 1.0]],
    "anisotropic": [[1.25, 0.5], [1.25, 0.5], [0.5, 1.25]],
}


@pytest.mark.parametrize("kind", KINDS)
def test_log_density_is_that_of_the_mixture(kind: str) -> None:
    means = torch.tensor([[-5.0, -5.0], [5.0, -5.0], [0.0, 5.0]])
    components = Independent(Normal(means, torch.tensor(KINDS[kind])), 1)
    reference = MixtureSameFamily(Categorical(torch.ones(3)), components)
    x = 8 * torch.randn(200, 2, generator=torch.Generator().manual_seed(0))
    module = GaussianMixture(kind)
    torch.testing.assert_close(module.log_density(x), reference.log_prob(x), rtol=1e-5, atol=1e-5)
    assert module.log_density(x.double()).dtype == torch.float64


@pytest.mark.parametrize("kind", KINDS)
def test_points_follow_the_components(kind: str) -> None:
    module = GaussianMixture(kind, num_samples=30_000, seed=5)
    x, labels = module.raw("train"), module.labels("train")
    counts = labels.bincount(minlength=3).double()
    # 2 degrees of freedom: 18.4 has probability 1e-4.
    assert float(((counts - 10_000) ** 2 / 10_000).sum()) < 18.4
    z = (x - module.means[labels]) / torch.tensor(KINDS[kind])[labels]
    for k in range(3):
        part = z[labels == k].double()
        n = len(part)
        assert (part.mean(0) * n**0.5).abs().max() < 4.5
        assert ((part.var(0) - 1) * (n / 2) ** 0.5).abs().max() < 4.5
        assert abs(float((part[:, 0] * part[:, 1]).mean()) * n**0.5) < 4.5


def test_sample_uses_the_generator_it_is_given() -> None:
    module = GaussianMixture()
    one, two = (module.sample(10, torch.Generator().manual_seed(3)) for _ in range(2))
    assert torch.equal(one, two)
    torch.manual_seed(3)
    assert torch.equal(module.sample(10), one)


def test_seeds_and_splits_have_different_points() -> None:
    splits = [GaussianMixture(seed=s).raw(split) for s in range(4) for split in ("train", "val", "test")]
    assert len({tuple(x[0].tolist()) for x in splits}) == 12


def test_bad_options_are_named() -> None:
    with pytest.raises(UserError, match='kind is "round", but must be "isotropic" or "anisotropic"'):
        GaussianMixture("round")  # type: ignore[arg-type]
    with pytest.raises(UserError, match="num_samples is 0"):
        GaussianMixture(num_samples=0)
