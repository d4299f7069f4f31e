#!/usr/bin/env bash
# dimod 0.12.23, BinaryQuadraticModel(linear, quadratic, offset, vartype).
# Guess: variables have the order of the dictionary of linear biases, which names all of them and comes first.
# Saw: those in the quadratic dictionary come first, in its order, so that columns of sample arrays, `variables` and
#   to_numpy_vectors(sort_labels=False) are permuted. By default to_numpy_vectors sorts the labels instead.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" dimod==0.12.23
PYTHONPATH=$folder python3 - <<'PYTHON'
import dimod

problem = dimod.BQM({"a": 1.0, "b": 2.0, "c": 3.0}, {("c", "b"): 1.0}, 0.0, "SPIN")
print("linear biases of a, b, c in this order; variables:", list(problem.variables))
print("the state (1, 1, -1) of a, b, c:", problem.energy({"a": 1, "b": 1, "c": -1}))
print("the same numbers along the variables:", problem.energy(dict(zip(problem.variables, (1, 1, -1)))))
raise SystemExit(0 if list(problem.variables) == ["c", "b", "a"] else "the behaviour has changed")
PYTHON
