#!/usr/bin/env bash
# tensorflow-probability 0.25.0 on jax 0.4.38, experimental.mcmc.sample_sequential_monte_carlo; the nightly build of 27
#   October 2026 does the same.
# Guess: log_marginal_likelihood is the log evidence of prior and likelihood, within its noise of 0.03.
# Saw: the last inverse temperature is searched for up to 2, and set to 1 only after the evidence was added up with it. The
#   particles have the posterior law, and the evidence is off by more than 1, too low or too high, in each of many runs.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" \
    tensorflow-probability==0.25.0 jax==0.4.38 jaxlib==0.4.38 numpy==2.2.6 scipy==1.17.1
PYTHONPATH=$folder python3 -W ignore - <<'PYTHON'
import jax
import numpy as np
from tensorflow_probability.substrates import jax as tfp


def normal(centre, width):
    """A normal law in three dimensions."""
    return tfp.distributions.MultivariateNormalDiag(np.full(3, centre, np.float32), np.full(3, width, np.float32))


def errors(width):
    """Found less exact: log evidence, mean and variance of the posterior, for a likelihood of this width around 1."""
    prior, likelihood = normal(0, 2), normal(1, width)
    _, states, results = tfp.experimental.mcmc.sample_sequential_monte_carlo(
        prior.log_prob, likelihood.log_prob, prior.sample(5000, seed=jax.random.key(0)), seed=jax.random.key(1)
    )
    variance = 1 / (1 / 4 + 1 / width**2)
    evidence = results.log_marginal_likelihood - normal(0, (4 + width**2) ** 0.5).log_prob(np.ones(3, np.float32))
    return float(evidence), float(states.mean() - variance / width**2), float(states.var() / variance - 1)


wrong, right = [], []
for width in (2.0, 0.5, 0.1):
    evidence, mean, variance = errors(width)
    wrong.append(evidence), right.append(max(abs(mean), abs(variance)))
    print(f"likelihood of width {width}: log evidence is off by {evidence:.2f}, the mean by {mean:.3f}, the variance by {variance:.1%}")
low, middle, high = wrong
raise SystemExit(0 if low < -0.5 and middle < -0.5 and high > 0.5 and max(right) < 0.1 else "the behaviour has changed")
PYTHON
