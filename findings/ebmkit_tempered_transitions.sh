#!/usr/bin/env bash
# ebmkit 0.16.0, ebm.samplers.TemperedTransitions around MALA or HMC.
# Guess: a way up and down the temperatures that is accepted or refused at its end leaves the law as it is (Neal 1996).
# Saw: it does not. A normal law of variance 1 ends with 0.88 around MALA and with 0.92 around HMC, which keep 1 alone and by
#   ParallelTempering. The way up moves at all temperatures but 1 and the way down at all but the hottest, so that the way back
#   has other moves than the way forth. With moves before each weight on the way down in place of after it, it keeps 1.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" ebmkit==0.16.0 torch==2.14.1
PYTHONPATH=$folder python3 -W ignore - <<'PYTHON'
import torch
from ebm.samplers import HMC, MALA, ParallelTempering, TemperedTransitions

CHAINS, DIMENSIONS, TEMPERATURES = 50_000, 2, (1.0, 2.0, 4.0)


def energy(x):
    return 0.5 * (x**2).sum(-1)


def variance(sampler):
    """The mean square of all coordinates of chains that start in the law, after 30 steps."""
    torch.manual_seed(0)
    return float((sampler.sample(energy, torch.randn(CHAINS, DIMENSIONS), steps=30) ** 2).mean())


found = {}
for base in (MALA(step_size=0.8), HMC(step_size=0.8, leapfrog_steps=3)):
    name = type(base).__name__
    samplers = base, ParallelTempering(base, TEMPERATURES), TemperedTransitions(base, TEMPERATURES, kernel_steps=1)
    found[name] = [variance(sampler) for sampler in samplers]
    print("{}: variance {:.4f} alone, {:.4f} in parallel tempering, {:.4f} in tempered transitions".format(name, *found[name]))
fair = all(abs(value - 1) < 0.02 for values in found.values() for value in values[:2])
raise SystemExit(0 if fair and all(values[2] < 0.95 for values in found.values()) else "the behaviour has changed")
PYTHON
