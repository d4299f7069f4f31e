#!/usr/bin/env bash
# dimod 0.12.23, dimod.serialization.coo.
# Guess: what Python takes for a number is read, another line is an error, and a bias that is written comes back.
# Saw: lines whose number has an exponent (1e3) or ends in a dot (2.) are skipped without a word, so that the problem has
#   fewer couplings. The writer has six decimals: a bias of 1e-7 becomes 0.000000. Offsets are not written at all.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" dimod==0.12.23
PYTHONPATH=$folder python3 - <<'PYTHON'
import dimod
from dimod.serialization import coo

read = coo.loads("0 1 1e3\n0 2 2.\n0 3 -1\n", vartype="SPIN")
print("three couplings given, read:", dict(read.quadratic))
problem = dimod.BQM({}, {(0, 1): 1e-7}, 3.0, "SPIN")
again = coo.loads(coo.dumps(problem), vartype="SPIN")
print("written:", repr(coo.dumps(problem)), "read again:", dict(again.quadratic), again.offset)
as_stated = read.num_interactions == 1 and set(again.quadratic.values()) == {0.0} and again.offset == 0
raise SystemExit(0 if as_stated else "the behaviour has changed")
PYTHON
