"""With exact negatives the gradient of contrastive divergence is the likelihood's."""

from __future__ import annotations

import pytest
import torch
from helpers_grbm import ExactGRBM, make_grbm
from helpers_learner import Fake, Z, gradient, likelihood_gradient, make_learner, z_scores
from helpers_tier import cases
from torch import Tensor

from ebmlab.energies import GRBM
from ebmlab.learners import FromData
from ebmlab.samplers import MALA, ULA, BlockGibbs, GibbsLangevin, Sampler

pytestmark = [  # Lightning advises against saving modules as hyper-parameters; the learner does so on purpose
    pytest.mark.filterwarnings("ignore:.*does not have many workers"),
]


EXACT = [BlockGibbs(), MALA(0.5), GibbsLangevin(0.5, 3, adjust_from=0)]


def test_gradient_with_exact_expectations_is_the_likelihoods() -> None:
    """No Monte Carlo: negatives are 400,000 midpoint quantiles of p(v), hidden units are summed out."""
    grbm = make_grbm(1)
    levels = (torch.arange(400_000, dtype=torch.float64) + 0.5) / 400_000
    quantiles = ExactGRBM(grbm).quantiles(levels)[:, None]
    learner, _ = make_learner(grbm, Fake(lambda k, x: (quantiles, None)), density="marginal")
    data = torch.tensor([[-1.5], [0.2], [0.9], [4.0]], dtype=torch.float64)
    torch.testing.assert_close(gradient(learner, data), likelihood_gradient(grbm, data), rtol=0, atol=2e-4)


@pytest.mark.parametrize("density", ["joint", "marginal"])
@pytest.mark.parametrize("with_hidden", [True, False])
def test_gradient_with_exact_draws_is_the_likelihoods(density: str, with_hidden: bool) -> None:
    """Data and negatives 400,000 each; h drawn (Eq. 13) or summed out (Eq. 18), by the sampler or by the learner."""
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    data = torch.tensor([[-1.5, 0.3], [0.2, 2.0], [0.9, -0.7], [3.0, 1.0]], dtype=torch.float64)

    def draw(k: int, x: Tensor) -> tuple[Tensor, Tensor | None]:
        v, h = exact.sample(10_000)
        return v, h if with_hidden else None

    expected = likelihood_gradient(grbm, data)
    learner, _ = make_learner(grbm, Fake(draw), density=density)
    assert z_scores(learner, lambda: data.repeat(2500, 1), expected).abs().max() < Z
    biased, _ = make_learner(grbm, Fake(lambda k, x: (draw(k, x)[0] + 0.03, None)), density=density)
    assert z_scores(biased, lambda: data.repeat(2500, 1), expected).abs().max() > 2 * Z, "the test has no power"


@pytest.mark.parametrize("density", ["joint", "marginal"])
@cases("sampler", EXACT, fast=[0, 2])
def test_a_model_that_fits_its_data_has_zero_gradient(sampler: Sampler, density: str) -> None:
    """Chains of an exact sampler start at exact data: the expected gradient is 0, whichever states are averaged."""
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    learner, _ = make_learner(grbm, sampler, start=FromData(), num_steps=3, burn_in=1, density=density)
    assert z_scores(learner, lambda: exact.sample(3000)[0], 0.0).abs().max() < Z


def test_a_biased_sampler_gives_a_fitting_model_a_gradient() -> None:
    torch.manual_seed(0)
    grbm = make_grbm(2)
    exact = ExactGRBM(grbm)
    learner, _ = make_learner(grbm, ULA(0.5), start=FromData(), num_steps=3, burn_in=1)
    assert z_scores(learner, lambda: exact.sample(5000)[0], 0.0).abs().max() > 2 * Z


@cases("density", ["joint", "marginal"], fast=[0])
def test_training_raises_the_exact_likelihood(density: str) -> None:
    """Training comes within 0.02 nats of the likelihood of the data's own law, by the exact log Z."""
    torch.manual_seed(0)
    data = ExactGRBM(make_grbm(1)).sample(2000)[0]
    grbm = GRBM(1, 3).double()

    def log_likelihood(model: GRBM) -> float:
        with torch.no_grad():
            return float((-model(data)).mean() - ExactGRBM(model).log_z)

    learner, _ = make_learner(grbm, BlockGibbs(), num_steps=10, burn_in=5, density=density)
    optimizer = torch.optim.Adam(grbm.parameters(), lr=0.03)
    start, best = log_likelihood(grbm), log_likelihood(make_grbm(1))
    for _ in range(180):
        optimizer.zero_grad()
        learner.training_step(data[torch.randint(2000, (200,))], 0).backward()
        optimizer.step()
    assert start < best - 0.1
    assert log_likelihood(grbm) > best - 0.02
