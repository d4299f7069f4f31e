#!/usr/bin/env bash
# torch-fidelity 0.4.0 (its files alone; nothing of it is run).
# Guess: installing it changes nothing for a project whose tests lie in a folder `tests` without `__init__.py`.
# Saw: the wheel installs a package `tests` beside `torch_fidelity`. A package hides folders without `__init__.py`,
#   wherever they are on the path. A worker process that unpickles a function of the project's tests does not find it:
#   "No module named 'tests.work'".
set -euo pipefail
folder=$(mktemp -d) && trap 'rm -rf "$folder"' EXIT
python3 -m pip install --quiet --disable-pip-version-check --no-deps --target "$folder/site" torch-fidelity==0.4.0
mkdir -p "$folder/project/tests" "$folder/empty"
cat > "$folder/project/tests/work.py" <<'PYTHON'
def double(x):
    return 2 * x
PYTHON
cat > "$folder/project/run.py" <<'PYTHON'
import importlib.util
import multiprocessing
import sys

if __name__ == "__main__":
    spec = importlib.util.spec_from_file_location("tests.work", "tests/work.py")  # as pytest's importlib mode does
    work = sys.modules["tests.work"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(work)
    process = multiprocessing.get_context("spawn").Process(target=work.double, args=(1,))
    process.start()
    process.join()
    print("the worker ends with", process.exitcode)
    raise SystemExit(process.exitcode)
PYTHON
cd "$folder/project"
without=0 && PYTHONPATH=$folder/empty python3 run.py || without=$?
with=0 && PYTHONPATH=$folder/site python3 run.py 2> "$folder/errors" || with=$?
tail -n 1 "$folder/errors"
[ "$without" = 0 ] && [ "$with" = 1 ] && grep -q "No module named 'tests.work'" "$folder/errors" || { echo "the behaviour has changed"; exit 1; }
