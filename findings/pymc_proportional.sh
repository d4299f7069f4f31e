#!/usr/bin/env bash
# pymc 5.28.5, CategoricalGibbsMetropolis(proposal="proportional") for one categorical variable.
# Guess: the "Metropolized Gibbs Sampler" of Liu (1996), which its docstring names, has the law of the model, as the
#   default proposal has.
# Saw: it samples another law. Liu's ratio is (1 - p(now)) / (1 - p(proposed)), and the second p is taken after it was divided
#   by 1 - p(now). Of 0.7, 0.2, 0.1 come 0.53, 0.35, 0.12. With two categories the ratio is divided by 0, or by a rounding
#   error, and of 0.7, 0.3 come 0 and 1.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" pymc==5.28.5
PYTHONPATH=$folder PYTENSOR_FLAGS=base_compiledir=$folder/compiled python3 -W ignore - <<'PYTHON'
import logging

import numpy as np
import pymc as pm

logging.getLogger("pymc").setLevel(logging.ERROR)


def frequencies(law, proposal, draws=20_000):
    with pm.Model():
        step = pm.CategoricalGibbsMetropolis([pm.Categorical("x", law)], proposal=proposal)
        quiet = {"progressbar": False, "compute_convergence_checks": False}
        trace = pm.sample(draws, tune=100, chains=1, step=step, random_seed=1, **quiet)
    return np.bincount(trace.posterior["x"].values.ravel().astype(int), minlength=len(law)) / draws


def off(law, proposal):
    """Total variation between the law and the frequencies of a chain."""
    found = frequencies(law, proposal)
    print(f"law {law}, proposal {proposal}: {found.round(3)}", flush=True)
    return abs(found - law).sum() / 2


three = [off([0.7, 0.2, 0.1], proposal) for proposal in ("uniform", "proportional")]
two = [off([0.7, 0.3], proposal) for proposal in ("uniform", "proportional")]
as_stated = three[0] < 0.02 and three[1] > 0.1 and two[0] < 0.02 and two[1] > 0.29
raise SystemExit(0 if as_stated else "the behaviour has changed")
PYTHON
