#!/usr/bin/env bash
# emcee 3.1.6, moves.DESnookerMove, alone and as a fifth of the moves beside DEMove.
# Guess: a "move" satisfies detailed balance, as its page says, so that any mixture has the law of the model.
# Saw: the difference to another walker is divided by the root of its length, in place of its length, and the acceptance has
#   half the exponent. A normal law of variance 1 in 10 dimensions has 0.61 by this move, and 0.87 by the mixture of 0.8 and
#   0.2; DEMove keeps 1. The repository mends it (pull request 531, of 2024), and the newest release on the index does not.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" emcee==3.1.6 numpy==2.4.6
PYTHONPATH=$folder python3 - <<'PYTHON'
import emcee
import numpy as np

DIMENSIONS, WALKERS = 10, 40


def variance(moves):
    """The mean square of all coordinates of walkers that start in the law."""
    np.random.seed(0)
    log_density = lambda x: -0.5 * (x**2).sum(1)
    sampler = emcee.EnsembleSampler(WALKERS, DIMENSIONS, log_density, moves=moves, vectorize=True)
    sampler.run_mcmc(np.random.normal(size=(WALKERS, DIMENSIONS)), 4000)
    return float((sampler.get_chain(discard=500) ** 2).mean())


DE, Snooker = emcee.moves.DEMove, emcee.moves.DESnookerMove
alone, snooker, mixed = variance(DE()), variance(Snooker()), variance([(DE(), 0.8), (Snooker(), 0.2)])
print(f"variance 1 is found as {alone:.3f} by DEMove, {snooker:.3f} by DESnookerMove, {mixed:.3f} by 0.8 and 0.2 of them")
raise SystemExit(0 if abs(alone - 1) < 0.04 and snooker < 0.75 and mixed < 0.94 else "the behaviour has changed")
PYTHON
