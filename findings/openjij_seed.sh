#!/usr/bin/env bash
# openjij 0.12.2, SASampler.sample_ising(..., num_reads=500, seed=1).
# Guess: the seed makes 500 different reads reproducible.
# Saw: every read starts from the seed again, and all 500 are one and the same state. Without a seed they differ.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" openjij==0.12.2
PYTHONPATH=$folder python3 - <<'PYTHON'
import numpy as np
from openjij import SASampler

couplings = {(i, j): 0.1 for i in range(30) for j in range(i)}
distinct = {}
for name, more in (("seed=1", {"seed": 1}), ("no seed", {})):
    drawn = SASampler().sample_ising({}, couplings, num_reads=500, beta_min=0.1, beta_max=0.1, **more)
    distinct[name] = len(np.unique(drawn.record.sample, axis=0))
print("different states among 500 reads:", distinct)
raise SystemExit(0 if distinct["seed=1"] == 1 and distinct["no seed"] > 400 else "the behaviour has changed")
PYTHON
