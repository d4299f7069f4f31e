#!/usr/bin/env bash
# pints 0.6.1, DifferentialEvolutionMCMC.
# Guess: with the recommended number of chains, 1.5 times the number of dimensions, each chain has the law of the model.
# Saw: a normal law of variance 1 in 4 dimensions has 0.84 by 6 chains, and one in 10 dimensions 0.95 by 15. Proposals of all
#   chains are made from the present states of the others, and all chains then move at once. Chains that move one after the
#   other keep 1, and so do halves that move in turn, as by the DEMove of emcee 3.1.6.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" pints==0.6.1 emcee==3.1.6 numpy==2.4.6
PYTHONPATH=$folder python3 - <<'PYTHON'
import emcee
import numpy as np
import pints


def log_density(x):
    return -0.5 * (x**2).sum(-1)


def variance_pints(chains, dimensions, steps):
    """The mean square of all coordinates of chains that start in the law."""
    np.random.seed(0)
    sampler = pints.DifferentialEvolutionMCMC(chains, np.random.normal(size=(chains, dimensions)))
    squares = []
    for _ in range(steps):
        states, _, _ = sampler.tell(log_density(np.array(sampler.ask())))
        squares.append((states**2).mean())
    return float(np.mean(squares[steps // 20 :]))


def variance_emcee(chains, dimensions, steps):
    """The same by emcee, which needs twice as many chains as dimensions."""
    np.random.seed(0)
    sampler = emcee.EnsembleSampler(chains, dimensions, log_density, moves=emcee.moves.DEMove(), vectorize=True)
    sampler.run_mcmc(np.random.normal(size=(chains, dimensions)), steps)
    return float((sampler.get_chain(discard=steps // 20) ** 2).mean())


few, more = variance_pints(6, 4, 20_000), variance_pints(15, 10, 20_000)
fair = variance_emcee(8, 4, 40_000)
print(f"variance 1 is found as {few:.3f} by 6 chains in 4 dimensions, {more:.3f} by 15 in 10, and {fair:.3f} by emcee, 8 in 4")
raise SystemExit(0 if few < 0.9 and more < 0.985 and abs(fair - 1) < 0.05 else "the behaviour has changed")
PYTHON
