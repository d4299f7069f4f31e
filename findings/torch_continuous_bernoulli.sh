#!/usr/bin/env bash
# torch 2.14.1, distributions.ContinuousBernoulli, `variance` and `stddev` near a probability of a half.
# Guess: the variance is 1/12 to about a thousandth, since the class has a Taylor series for probabilities from 0.499 to 0.501.
# Saw: outside of the series two numbers are subtracted in float32, each 62,500 at 0.499. At 0.4985 and 0.499 the variance is
#   negative, and the deviation NaN; at 0.4979 it is three times too large, and at 0.49 one per cent too small. Samples have
#   the right one.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1
PYTHONPATH=$folder python3 -W ignore - <<'PYTHON'
import torch

torch.manual_seed(0)
found = {}
for probability in (0.49, 0.4979, 0.4985, 0.499, 0.4995):
    law = torch.distributions.ContinuousBernoulli(torch.tensor(probability))
    exact = torch.distributions.ContinuousBernoulli(torch.tensor(probability, dtype=torch.float64)).variance
    samples = law.sample((1_000_000,)).double().var()
    found[probability] = float(law.variance)
    print(f"{probability}: variance {found[probability]:.5f}, deviation {law.stddev:.4f};", end=" ")
    print(f"of samples {samples:.5f}, in float64 {exact:.5f}")
wrong = found[0.4979] > 0.2 and found[0.4985] < 0 and found[0.499] < 0 and abs(found[0.4995] - 1 / 12) < 1e-4
raise SystemExit(0 if wrong else "the behaviour has changed")
PYTHON
