#!/usr/bin/env bash
# torch 2.14.1: programs kept by `aot_compile`, `save_compiled_function` and `torch.compiler.load_compiled_function`.
# Guess: a number of a module or a class that was compiled in is guarded after loading, too. If it has changed in the
#   meantime, `guard_check` is False, as it is in the process that has compiled the program.
# Saw: loading makes the guards anew from what it finds. The new number passes its own guard, and the program calculates
#   with the old one: 2 in place of 14, without a word. Later changes in the same process are noticed.
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --target "$folder" torch==2.14.1 numpy==2.4.6
cat > "$folder/scaled.py" <<'PYTHON'
import os

import torch

FACTOR = float(os.environ["FACTOR"])


class Scaled(torch.nn.Module):
    factor = FACTOR

    def forward(self, x):
        return FACTOR * x + self.factor * x
PYTHON
cat > "$folder/run.py" <<'PYTHON'
import sys

import scaled
import torch


BY_ADDRESS = {"MODULE_MATCH", "FUNCTION_MATCH", "CLASS_MATCH", "CLOSURE_MATCH", "ID_MATCH"}  # cannot be kept


def evaluate(module, x):
    return module(x)


module, x, path = scaled.Scaled(), torch.ones(()), sys.argv[1] + "/program"
with torch.no_grad():
    if len(sys.argv) == 2:
        options = {"guard_filter_fn": lambda guards: [guard.guard_type not in BY_ADDRESS for guard in guards]}
        program = torch.compile(evaluate, fullgraph=True, options=options).aot_compile(((module, x), {}))
        program.save_compiled_function(path)
        scaled.FACTOR = 7.0
        print("where it was compiled, its guards say", program.guard_check(module, x), "of another number")
        raise SystemExit
    with open(path, "rb") as file:
        program = torch.compiler.load_compiled_function(file, f_globals=evaluate.__globals__)
    passes, found, right = program.guard_check(module, x), float(program(module, x)), float(module(x))
    print(f"loaded beside another number, they say {passes}; it gives {found:g}, where {right:g} is right")
    scaled.FACTOR = 3.0
    print("and of a number that changes then:", program.guard_check(module, x))
raise SystemExit(0 if passes and found != right else "the behaviour has changed")
PYTHON
export PYTHONPATH=$folder TORCHINDUCTOR_CACHE_DIR=$folder/cache
FACTOR=1 python3 -W ignore "$folder/run.py" "$folder"
FACTOR=7 python3 -W ignore "$folder/run.py" "$folder" load
