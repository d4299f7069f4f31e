#!/usr/bin/env bash
# peapods 0.2.0, replica cluster moves (overlap_cluster_build_mode) of a spin glass, with a Gibbs sweep between them.
# Guess: all three kinds that are not marked as experimental leave the law of each replica as it is.
# Saw: "houdayer" and "jorg" do. With "cmr" (Chayes, Machta, Redner) and one cluster a move, which is the default ("wolff"),
#   the mean energy of a spin is -0.78 at temperature 1, where the law has -0.84; with all clusters ("sw") it is right.
#   The package counts energies upside down, which this script turns round.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" peapods==0.2.0 numpy
PYTHONPATH=$folder python3 - <<'PYTHON'
import itertools

import numpy as np
from peapods import Ising

J = np.random.default_rng(0).normal(size=(4, 4, 2))
x = np.array(list(itertools.product([-1.0, 1.0], repeat=16))).reshape(-1, 4, 4)
bonds = (J[..., 0] * x * np.roll(x, -1, 1) + J[..., 1] * x * np.roll(x, -1, 2)).sum((1, 2))
weights = np.exp(bonds - bonds.max())
exact = -(weights * bonds).sum() / weights.sum() / 16


def mean_energy(**moves):
    model = Ising((4, 4), couplings=J, temperatures=np.array([1.0]), n_replicas=32)
    return -float(np.ravel(model.sample(20_000, sweep_mode="gibbs", **moves)["energies"])[0])


found = {"sweeps alone": mean_energy()}
for kind, clusters in itertools.product(("houdayer", "jorg", "cmr"), ("wolff", "sw")):
    moves = {"overlap_cluster_build_mode": kind, "overlap_cluster_mode": clusters}
    found[f"{kind}, {clusters}"] = mean_energy(overlap_cluster_update_interval=1, **moves)
print(f"exact {exact:.4f}; " + "; ".join(f"{name} {energy:.4f}" for name, energy in found.items()))
wrong = {name for name, energy in found.items() if abs(energy - exact) > 0.02}
raise SystemExit(0 if wrong == {"cmr, wolff"} else "the behaviour has changed")
PYTHON
