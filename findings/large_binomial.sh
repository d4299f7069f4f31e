#!/usr/bin/env bash
# torch 2.14.1, distributions.Binomial(total_count, probs).sample(), and jax 0.10.2, random.binomial, with their float32.
# Guess: a count of about 100 is an exact float32, so that samples have the binomial law whatever the number of trials.
# Saw: beyond 20 million trials they have another, and nothing says so. A mean of 100 in 1e8 trials comes with 1.2 times the
#   variance (jax 1.4), one of 1000 in 1e10 trials with 2.6 times (2.8) and a quarter of a deviation too low. Both accept proposals
#   by the number of trials times the logarithm of a ratio close to 1, which float32 rounds to steps of 6e-8. float64 is right.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 jax==0.10.2
PYTHONPATH=$folder python3 -W ignore - <<'PYTHON'
import jax
import numpy as np
import torch

SAMPLES = 200_000


def sample_torch(trials, probability, dtype):
    torch.manual_seed(0)
    law = torch.distributions.Binomial(torch.tensor(trials, dtype=dtype), torch.tensor(probability, dtype=dtype))
    return law.sample((SAMPLES,)).double().numpy()


def sample_jax(trials, probability):
    draw = jax.random.binomial(jax.random.key(0), np.float32(trials), np.float32(probability), shape=(SAMPLES,))
    return np.asarray(draw, dtype=np.float64)


found = {}
for trials, mean in ((1e7, 100), (1e8, 100), (1e9, 100), (1e10, 1000)):
    expected = trials * float(np.float32(mean / trials))
    samplers = {
        "torch in float64": sample_torch(trials, expected / trials, torch.float64),
        "torch": sample_torch(trials, expected / trials, torch.float32),
        "jax": sample_jax(trials, expected / trials),
    }
    for name, samples in samplers.items():
        found[name, trials] = samples.var() / (expected * (1 - expected / trials))
        shift = (samples.mean() - expected) / expected**0.5
        print(f"{name}, {trials:.0e} trials, mean {mean}: {shift:+.3f} deviations off, variance {found[name, trials]:.3f} of the law's")
fair = all(abs(found["torch in float64", trials] - 1) < 0.02 for trials in (1e7, 1e8, 1e9, 1e10))
wrong = all(found[name, 1e8] > 1.1 and found[name, 1e10] > 2 for name in ("torch", "jax"))
raise SystemExit(0 if fair and wrong else "the behaviour has changed")
PYTHON
