#!/usr/bin/env bash
# dimod 0.12.23, PolyFixedVariableComposite over any sampler of polynomials.
# Guess: samples with some variables fixed carry their energies by the polynomial, as those of all other composites do.
# Saw: the constant of the polynomial is counted twice, so that all energies are off by it. Without a constant they are right.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" dimod==0.12.23
PYTHONPATH=$folder python3 - <<'PYTHON'
import dimod

found = {}
for constant in (0.0, 3.0):
    polynomial = dimod.BinaryPolynomial({"abc": -1.0, "a": 0.5, (): constant}, "SPIN")
    solver = dimod.ExactPolySolver()
    plain = solver.sample_poly(polynomial).data()
    fixed = dimod.PolyFixedVariableComposite(solver).sample_poly(polynomial, fixed_variables={"a": 1}).data()
    off = [{float(x.energy - polynomial.energy(x.sample)) for x in samples} for samples in (plain, fixed)]
    found[constant] = off
    print(f"constant {constant}: energies are off by {off[0]} from the solver, and by {off[1]} with a = 1 fixed")
raise SystemExit(0 if found == {0.0: [{0.0}, {0.0}], 3.0: [{0.0}, {3.0}]} else "the behaviour has changed")
PYTHON
